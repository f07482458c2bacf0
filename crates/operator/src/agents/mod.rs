//! The agents in workspace pods: one connection per pod, a token per Workspace, and runs as the core sees them.

mod channels;
mod follow;
mod operations;
mod outputs;
mod runs;
mod tokens;

use std::time::Duration;

use pko_core::{
    ask::RunAnswer,
    effect::{Init, Operation},
    seen::PodRef,
};
use pko_proto::runs::{
    CancelMode, CancelRequest, GetRequest, ListRequest, StartRequest, runs_client::RunsClient,
    start_request::Operation as Wanted,
};
use tonic::{Code, Request, Status, metadata::MetadataValue, transport::Channel};

use crate::{
    cluster::{Cause, Cluster, Failure},
    wake::workspace_of_pod,
};

pub use follow::Followers;
pub(crate) use outputs::LARGEST;
pub use outputs::Output;
pub use tokens::Account;

use channels::Channels;
use tokens::Tokens;

/// How long an agent may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Most that one message of an agent may hold.
const LARGEST_MESSAGE: usize = 16 << 20;

/// All agents that were spoken to lately.
#[derive(Debug)]
pub struct Agents {
    channels: Channels,
    tokens: Tokens,
}

impl Agents {
    /// Speaks with tokens of that account. With an override, all agents are at that address: for development.
    pub fn new(cluster: Cluster, account: Account, everywhere_at: Option<String>) -> Self {
        Self { channels: Channels::new(everywhere_at), tokens: Tokens::new(cluster, account) }
    }

    /// Drops connections and tokens that nobody has used for a while.
    pub fn tidy(&self) {
        self.channels.tidy();
        self.tokens.tidy();
    }

    /// A run as its agent knows it.
    pub async fn run(&self, namespace: &str, pod: &PodRef, run_id: &str) -> Result<RunAnswer, Failure> {
        let request = GetRequest { run_id: run_id.to_owned() };
        let mut client = self.client(pod);
        let request = self.request(namespace, pod, request).await?;
        let answer = self.heard(namespace, pod, in_time(client.get(request)).await);
        Ok(runs::answer(answer.map(|answer| answer.into_inner().run)))
    }

    /// The latest attempt among the runs whose identifiers begin so.
    pub async fn latest_run(&self, namespace: &str, pod: &PodRef, prefix: &str) -> Result<RunAnswer, Failure> {
        let mut client = self.client(pod);
        let request = self.request(namespace, pod, ListRequest {}).await?;
        let answer = self.heard(namespace, pod, in_time(client.list(request)).await);
        Ok(runs::answer(answer.map(|answer| runs::latest(answer.into_inner().runs, prefix))))
    }

    /// Starts making a workspace ready, unless that run was started before.
    pub async fn start_init(
        &self,
        namespace: &str,
        pod: &PodRef,
        run_id: &str,
        init: &Init,
    ) -> Result<RunAnswer, Failure> {
        self.start(namespace, pod, run_id, operations::init(init)).await
    }

    /// Starts an operation, unless that run was started before.
    pub async fn start_update(
        &self,
        namespace: &str,
        pod: &PodRef,
        run_id: &str,
        operation: &Operation,
    ) -> Result<RunAnswer, Failure> {
        self.start(namespace, pod, run_id, operations::operation(operation)).await
    }

    async fn start(
        &self,
        namespace: &str,
        pod: &PodRef,
        run_id: &str,
        operation: Wanted,
    ) -> Result<RunAnswer, Failure> {
        let request = StartRequest { run_id: run_id.to_owned(), operation: Some(operation) };
        let mut client = self.client(pod);
        let request = self.request(namespace, pod, request).await?;
        match self.heard(namespace, pod, in_time(client.start(request)).await) {
            Ok(answer) => Ok(runs::answer(Ok(answer.into_inner().run))),
            Err(status) => Err(failure("starting", run_id, namespace, pod, &status)),
        }
    }

    /// Asks a run to end, gracefully.
    pub async fn cancel(&self, namespace: &str, pod: &PodRef, run_id: &str) -> Result<(), Failure> {
        let request = CancelRequest { run_id: run_id.to_owned(), mode: CancelMode::Graceful.into() };
        let mut client = self.client(pod);
        let request = self.request(namespace, pod, request).await?;
        match self.heard(namespace, pod, in_time(client.cancel(request)).await) {
            Err(status) if status.code() != Code::NotFound => {
                Err(failure("canceling", run_id, namespace, pod, &status))
            }
            _ => Ok(()),
        }
    }

    /// A token that is refused, such as one of an account that was made anew, is not shown again.
    fn heard<T>(&self, namespace: &str, pod: &PodRef, answer: Result<T, Status>) -> Result<T, Status> {
        if answer.as_ref().is_err_and(|status| status.code() == Code::Unauthenticated) {
            self.tokens.forget(workspace_of_pod(&pod.name), namespace);
        }
        answer
    }

    fn client(&self, pod: &PodRef) -> RunsClient<Channel> {
        RunsClient::new(self.channels.to(pod)).max_decoding_message_size(LARGEST_MESSAGE)
    }

    /// A message with a token for the Workspace of a pod.
    async fn request<T>(&self, namespace: &str, pod: &PodRef, message: T) -> Result<Request<T>, Failure> {
        let token = self.tokens.of(workspace_of_pod(&pod.name), namespace).await?;
        let mut request = Request::new(message);
        if let Ok(mut value) = MetadataValue::try_from(format!("Bearer {token}")) {
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// An agent that takes too long does not answer.
async fn in_time<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::time::timeout(DEADLINE, call)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("no answer within {DEADLINE:?}"))))
}

fn failure(doing: &str, run_id: &str, namespace: &str, pod: &PodRef, status: &Status) -> Failure {
    let cause = match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Cause::Unreachable,
        _ => Cause::Other,
    };
    let object = format!("run {run_id} in pod {namespace}/{}", pod.name);
    Failure::new(cause, doing, &object, format!("{:?}: {}", status.code(), runs::why(status)))
}
