//! An agent that says what a test tells it to, over real gRPC.

use std::sync::{Arc, Mutex};

use futures_util::{Stream, StreamExt as _, stream};
use pko_proto::runs::{
    AttachRequest, AttachResponse, CancelRequest, CancelResponse, GetRequest, GetResponse, ListRequest, ListResponse,
    OutputChunk, Run, StartRequest, StartResponse, State,
    attach_response::What,
    runs_server::{Runs, RunsServer},
};
use tokio::sync::Notify;
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// The runs that the agent knows of, and what it was asked.
#[derive(Default)]
pub struct Agent {
    pub runs: Mutex<Vec<Run>>,
    pub outputs: Mutex<Vec<OutputChunk>>,
    pub tokens: Mutex<Vec<String>>,
    pub attached: Mutex<usize>,
    ended: Notify,
}

impl Agent {
    /// Serves at a free port of this machine, until the test ends.
    pub async fn serve() -> (Arc<Self>, String) {
        let agent = Arc::new(Self::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = RunsServer::new(Served(Arc::clone(&agent)));
        tokio::spawn(Server::builder().serve_with_incoming(service, TcpIncoming::from(listener)));
        (agent, address)
    }

    pub fn begin(&self, run_id: &str) {
        let run = Run { run_id: run_id.to_owned(), state: State::Running.into(), ..Run::default() };
        self.runs.lock().unwrap().push(run);
    }

    /// Ends a run well.
    pub fn end(&self, run_id: &str) {
        for run in self.runs.lock().unwrap().iter_mut().filter(|run| run.run_id == run_id) {
            run.set_state(State::Succeeded);
        }
        self.ended.notify_waiters();
    }

    fn find(&self, run_id: &str) -> Option<Run> {
        self.runs.lock().unwrap().iter().find(|run| run.run_id == run_id).cloned()
    }
}

struct Served(Arc<Agent>);

impl Served {
    fn admit<T>(&self, request: Request<T>) -> T {
        let token = request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        self.0.tokens.lock().unwrap().extend(token);
        request.into_inner()
    }

    fn find(&self, run_id: &str) -> Result<Run, Status> {
        self.0.find(run_id).ok_or_else(|| Status::not_found("no such run"))
    }
}

#[tonic::async_trait]
impl Runs for Served {
    type AttachStream = std::pin::Pin<Box<dyn Stream<Item = Result<AttachResponse, Status>> + Send>>;

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartResponse>, Status> {
        let run_id = self.admit(request).run_id;
        if self.0.find(&run_id).is_none() {
            self.0.begin(&run_id);
        }
        Ok(Response::new(StartResponse { run: Some(self.find(&run_id)?) }))
    }

    async fn attach(&self, request: Request<AttachRequest>) -> Result<Response<Self::AttachStream>, Status> {
        let request = self.admit(request);
        self.find(&request.run_id)?;
        *self.0.attached.lock().unwrap() += 1;
        let (agent, said) = (Arc::clone(&self.0), |what| Ok(AttachResponse { seq: 1, what: Some(what) }));
        let end = async move {
            loop {
                let ended = agent.ended.notified();
                let run = agent.find(&request.run_id).unwrap_or_default();
                if run.state() != State::Running {
                    let mut all = vec![said(What::Ended(run))];
                    if request.outputs {
                        all.extend(agent.outputs.lock().unwrap().iter().cloned().map(What::Output).map(said));
                    }
                    return stream::iter(all);
                }
                ended.await;
            }
        };
        Ok(Response::new(stream::once(end).flatten().boxed()))
    }

    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetResponse>, Status> {
        let run_id = self.admit(request).run_id;
        Ok(Response::new(GetResponse { run: Some(self.find(&run_id)?) }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        self.admit(request);
        Ok(Response::new(ListResponse { runs: self.0.runs.lock().unwrap().clone() }))
    }

    async fn cancel(&self, _: Request<CancelRequest>) -> Result<Response<CancelResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }
}
