//! Whether the agent takes calls, for probes and clients: yes, until it is told to stop.

use pko_proto::{
    agent::automation_service_server::SERVICE_NAME as AUTOMATION,
    health::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server::Health},
    runs::runs_server::SERVICE_NAME as RUNS,
};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

#[derive(Clone, Debug)]
pub(crate) struct HealthService(pub(crate) watch::Receiver<bool>);

fn known(service: &str) -> bool {
    ["", AUTOMATION, RUNS].contains(&service)
}

fn answer(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

fn status(serving: bool) -> ServingStatus {
    if serving { ServingStatus::Serving } else { ServingStatus::NotServing }
}

#[async_trait]
impl Health for HealthService {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if !known(&service) {
            return Err(Status::not_found(format!("there is no service {service:?}")));
        }
        Ok(Response::new(answer(status(*self.0.borrow()))))
    }

    type WatchStream = ReceiverStream<Result<HealthCheckResponse, Status>>;

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let known = known(&request.into_inner().service);
        let (sender, receiver) = mpsc::channel(1);
        let mut serving = self.0.clone();
        tokio::spawn(async move {
            loop {
                let now = *serving.borrow_and_update();
                let told = if known { status(now) } else { ServingStatus::ServiceUnknown };
                if sender.send(Ok(answer(told))).await.is_err() {
                    return;
                }
                tokio::select! {
                    changed = serving.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
