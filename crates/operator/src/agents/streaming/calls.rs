//! PKO's calls to the agent of one pod, each with its own token. Except for the version they take as long as they take: a
//! pod that is gone is noticed by the connection.

use std::sync::Arc;

use pko_core::seen::PodRef;
use pko_proto::agent::{
    AddEnvironmentsRequest, ConfigItem, DestroyRequest, DestroyStream, InstallRequest, PreviewRequest, PreviewStream,
    PulumiVersionRequest, RefreshRequest, RefreshStream, SelectStackRequest, SetAllConfigRequest, UpRequest, UpStream,
    automation_service_client::AutomationServiceClient,
};
use tonic::{Request, Response, Status, Streaming};

use super::Paced;
use crate::agents::lines::{Lines, in_time};

type Client = AutomationServiceClient<Paced>;

#[derive(Debug)]
pub(in crate::agents) struct Calls {
    lines: Arc<Lines>,
    namespace: String,
    pod: PodRef,
}

impl Calls {
    pub(in crate::agents) fn new(lines: Arc<Lines>, namespace: &str, pod: &PodRef) -> Self {
        Self { lines, namespace: namespace.to_owned(), pod: pod.clone() }
    }

    pub(super) fn pod(&self) -> &PodRef {
        &self.pod
    }

    /// The version of the CLI, which the agent knows without asking.
    pub(in crate::agents) async fn version(&self) -> Result<String, Status> {
        let call = self
            .call(PulumiVersionRequest {}, |mut client, request| async move { client.pulumi_version(request).await });
        Ok(in_time(call).await?.version)
    }

    pub(super) async fn install(&self) -> Result<(), Status> {
        self.call(InstallRequest {}, |mut client, request| async move { client.install(request).await }).await?;
        Ok(())
    }

    /// What is called next is about that stack.
    pub(super) async fn select_stack(&self, message: SelectStackRequest) -> Result<(), Status> {
        self.call(message, |mut client, request| async move { client.select_stack(request).await }).await?;
        Ok(())
    }

    pub(super) async fn set_config(&self, config: Vec<ConfigItem>) -> Result<(), Status> {
        let message = SetAllConfigRequest { config };
        self.call(message, |mut client, request| async move { client.set_all_config(request).await }).await?;
        Ok(())
    }

    pub(super) async fn add_environments(&self, environment: Vec<String>) -> Result<(), Status> {
        let message = AddEnvironmentsRequest { environment };
        self.call(message, |mut client, request| async move { client.add_environments(request).await }).await?;
        Ok(())
    }

    pub(super) async fn preview(&self, options: PreviewRequest) -> Result<Streaming<PreviewStream>, Status> {
        self.call(options, |mut client, request| async move { client.preview(request).await }).await
    }

    pub(super) async fn up(&self, options: UpRequest) -> Result<Streaming<UpStream>, Status> {
        self.call(options, |mut client, request| async move { client.up(request).await }).await
    }

    pub(super) async fn refresh(&self, options: RefreshRequest) -> Result<Streaming<RefreshStream>, Status> {
        self.call(options, |mut client, request| async move { client.refresh(request).await }).await
    }

    pub(super) async fn destroy(&self, options: DestroyRequest) -> Result<Streaming<DestroyStream>, Status> {
        self.call(options, |mut client, request| async move { client.destroy(request).await }).await
    }

    async fn call<M, A, F>(&self, message: M, make: impl FnOnce(Client, Request<M>) -> F) -> Result<A, Status>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let request = self.lines.request(&self.namespace, &self.pod, message).await;
        let request = request.map_err(|failure| Status::unavailable(failure.to_string()))?;
        let answer = make(self.lines.automation(&self.pod), request).await;
        self.lines.heard(&self.namespace, &self.pod, answer).map(Response::into_inner)
    }
}
