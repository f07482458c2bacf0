//! An agent that has PKO's calls and not Runs, over real gRPC. It says what a test tells it to.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::{Stream, StreamExt as _, stream};
use pko_proto::agent::{
    AddEnvironmentsRequest, AddEnvironmentsResult, DestroyRequest, DestroyResult, DestroyStream, InfoRequest,
    InfoResult, InstallRequest, InstallResult, PreviewRequest, PreviewResult, PreviewStream, PulumiVersionRequest,
    PulumiVersionResult, RefreshRequest, RefreshResult, RefreshStream, SelectStackRequest, SelectStackResult,
    SetAllConfigRequest, SetAllConfigResult, UpRequest, UpResult, UpStream, WhoAmIRequest, WhoAmIResult,
    automation_service_server::{AutomationService, AutomationServiceServer},
    destroy_stream, preview_stream, refresh_stream, up_stream,
};
use prost_types::Struct;
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle};
use tonic::{
    Request, Response, Status,
    transport::{Server, server::TcpIncoming},
};

/// What happens in a stream, in order. Its end is the stream's.
#[derive(Clone, Debug)]
pub enum Step {
    Event(Struct),
    /// Until the test lets it go on.
    Wait,
    Result(Box<UpResult>),
    Fail(Status),
}

#[derive(Debug)]
pub struct PkoAgent {
    /// Each call with what it was about.
    pub calls: Mutex<Vec<String>>,
    pub tokens: Mutex<Vec<String>>,
    /// How calls end that do not end well, by their names.
    pub failures: Mutex<HashMap<&'static str, Status>>,
    /// What the operations to come will do.
    pub script: Mutex<VecDeque<Vec<Step>>>,
    /// Streams that were dropped before their end.
    pub canceled: AtomicUsize,
    pub version: Mutex<String>,
    /// Calls that wait until the test lets them go on.
    pub slow: Mutex<Vec<&'static str>>,
    pub go: Semaphore,
}

impl PkoAgent {
    /// Serves at a free port of this machine, until the test ends.
    pub async fn serve() -> (Arc<Self>, String) {
        let agent = Arc::new(Self {
            calls: Mutex::default(),
            tokens: Mutex::default(),
            failures: Mutex::default(),
            script: Mutex::default(),
            canceled: AtomicUsize::default(),
            version: Mutex::new("3.259.0".to_owned()),
            slow: Mutex::default(),
            go: Semaphore::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let service = AutomationServiceServer::new(Served(Arc::clone(&agent)));
        let server = Server::builder().http2_max_header_list_size(16 << 20);
        tokio::spawn(server.serve_with_incoming(service, TcpIncoming::from(listener)));
        (agent, address)
    }

    pub fn does(&self, steps: impl IntoIterator<Item = Step>) {
        self.script.lock().unwrap().push_back(steps.into_iter().collect());
    }

    pub fn fails(&self, call: &'static str, status: Status) {
        self.failures.lock().unwrap().insert(call, status);
    }

    /// The calls so far, without those for the version.
    pub fn called(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().filter(|call| *call != "version").cloned().collect()
    }
}

/// A way to an agent that a test can cut: until the task is aborted.
pub async fn wire_to(address: String) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap().to_string();
    let wire = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        while let Ok((mut near, _)) = listener.accept().await {
            let address = address.clone();
            connections.spawn(async move {
                let mut far = tokio::net::TcpStream::connect(address).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (here, wire)
}

struct Served(Arc<PkoAgent>);

type Said<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Tells whether a stream came to its end.
struct Watched(Arc<PkoAgent>, bool);

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.1 {
            self.0.canceled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Served {
    async fn admit<T>(
        &self,
        request: Request<T>,
        name: &'static str,
        about: impl Fn(&T) -> String,
    ) -> Result<(), Status> {
        let token = request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        self.0.tokens.lock().unwrap().extend(token);
        let call = format!("{name} {}", about(request.get_ref()));
        self.0.calls.lock().unwrap().push(call.trim_end().to_owned());
        let slow = self.0.slow.lock().unwrap().contains(&name);
        if slow {
            self.0.go.acquire().await.unwrap().forget();
        }
        self.0.failures.lock().unwrap().get(name).map_or(Ok(()), |status| Err(status.clone()))
    }

    fn operate<T: Send + 'static>(
        &self,
        event: impl Fn(Struct) -> T + Send + 'static,
        result: impl Fn(UpResult) -> T + Send + 'static,
    ) -> Response<Said<T>> {
        let steps = self.0.script.lock().unwrap().pop_front().unwrap_or_default();
        let watched = Watched(Arc::clone(&self.0), false);
        let said = stream::unfold((steps.into_iter(), watched, event, result), |mut state| async move {
            loop {
                let (steps, watched, event, result) = &mut state;
                let said = match steps.next() {
                    None => {
                        watched.1 = true;
                        return None;
                    }
                    Some(Step::Wait) => {
                        watched.0.go.acquire().await.unwrap().forget();
                        continue;
                    }
                    Some(Step::Event(said)) => Ok(event(said)),
                    Some(Step::Result(said)) => {
                        watched.1 = true;
                        Ok(result(*said))
                    }
                    Some(Step::Fail(status)) => {
                        watched.1 = true;
                        Err(status)
                    }
                };
                return Some((said, state));
            }
        });
        Response::new(said.boxed())
    }
}

fn nothing<T>(_: &T) -> String {
    String::new()
}

#[tonic::async_trait]
impl AutomationService for Served {
    type PreviewStream = Said<PreviewStream>;
    type RefreshStream = Said<RefreshStream>;
    type UpStream = Said<UpStream>;
    type DestroyStream = Said<DestroyStream>;

    async fn who_am_i(&self, _: Request<WhoAmIRequest>) -> Result<Response<WhoAmIResult>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn info(&self, _: Request<InfoRequest>) -> Result<Response<InfoResult>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn pulumi_version(
        &self,
        request: Request<PulumiVersionRequest>,
    ) -> Result<Response<PulumiVersionResult>, Status> {
        self.admit(request, "version", nothing).await?;
        Ok(Response::new(PulumiVersionResult { version: self.0.version.lock().unwrap().clone() }))
    }

    async fn install(&self, request: Request<InstallRequest>) -> Result<Response<InstallResult>, Status> {
        self.admit(request, "install", nothing).await?;
        Ok(Response::new(InstallResult {}))
    }

    async fn select_stack(&self, request: Request<SelectStackRequest>) -> Result<Response<SelectStackResult>, Status> {
        self.admit(request, "select", |message| {
            format!("{} {:?} {:?}", message.stack_name, message.create, message.secrets_provider)
        })
        .await?;
        Ok(Response::new(SelectStackResult::default()))
    }

    async fn set_all_config(
        &self,
        request: Request<SetAllConfigRequest>,
    ) -> Result<Response<SetAllConfigResult>, Status> {
        self.admit(request, "config", |message| {
            message.config.iter().map(|item| item.key.clone()).collect::<Vec<_>>().join(" ")
        })
        .await?;
        Ok(Response::new(SetAllConfigResult {}))
    }

    async fn add_environments(
        &self,
        request: Request<AddEnvironmentsRequest>,
    ) -> Result<Response<AddEnvironmentsResult>, Status> {
        self.admit(request, "environments", |message| message.environment.join(" ")).await?;
        Ok(Response::new(AddEnvironmentsResult {}))
    }

    async fn preview(&self, request: Request<PreviewRequest>) -> Result<Response<Self::PreviewStream>, Status> {
        use preview_stream::Response::{Event, Result};
        self.admit(request, "preview", nothing).await?;
        let result = |UpResult { stdout, permalink, project_info, .. }| {
            Result(PreviewResult { stdout, permalink, project_info, ..PreviewResult::default() })
        };
        Ok(self.operate(
            |event| PreviewStream { response: Some(Event(event)) },
            move |said| PreviewStream { response: Some(result(said)) },
        ))
    }

    async fn refresh(&self, request: Request<RefreshRequest>) -> Result<Response<Self::RefreshStream>, Status> {
        use refresh_stream::Response::{Event, Result};
        self.admit(request, "refresh", nothing).await?;
        let result = |UpResult { summary, permalink, .. }| {
            Result(RefreshResult { summary, permalink, ..RefreshResult::default() })
        };
        Ok(self.operate(
            |event| RefreshStream { response: Some(Event(event)) },
            move |said| RefreshStream { response: Some(result(said)) },
        ))
    }

    async fn up(&self, request: Request<UpRequest>) -> Result<Response<Self::UpStream>, Status> {
        use up_stream::Response::{Event, Result};
        self.admit(request, "up", |options| format!("{:?} {:?}", options.message, options.refresh)).await?;
        Ok(self.operate(
            |event| UpStream { response: Some(Event(event)) },
            |said| UpStream { response: Some(Result(said)) },
        ))
    }

    async fn destroy(&self, request: Request<DestroyRequest>) -> Result<Response<Self::DestroyStream>, Status> {
        use destroy_stream::Response::{Event, Result};
        self.admit(request, "destroy", |options| format!("{:?}", options.remove)).await?;
        let result = |UpResult { summary, permalink, .. }| {
            Result(DestroyResult { summary, permalink, ..DestroyResult::default() })
        };
        Ok(self.operate(
            |event| DestroyStream { response: Some(Event(event)) },
            move |said| DestroyStream { response: Some(result(said)) },
        ))
    }
}
