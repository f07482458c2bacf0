//! The agents in workspace pods, and runs as the core sees them: by Runs where the agent has it, by PKO's streaming calls
//! where it has not. Which way a run goes, nobody outside needs to know.

mod channels;
mod follow;
mod lines;
mod operations;
mod outputs;
mod runs;
mod streaming;
mod tokens;

use std::sync::Arc;

use pko_core::{
    ask::{RunAnswer, RunSeen},
    effect::{Init, Operation},
    seen::PodRef,
};
use pko_proto::runs::{
    CancelMode, CancelRequest, GetRequest, ListRequest, StartRequest, start_request::Operation as Wanted,
};
use tokio::sync::watch;
use tonic::{Code, Status};

use crate::cluster::{Cause, Cluster, Failure};

pub use follow::Followers;
pub use outputs::Output;
pub(crate) use outputs::{Collected, LARGEST};
pub use tokens::Account;

use channels::Channels;
use lines::{Lines, in_time};
use streaming::{Calls, Streamed};
use tokens::Tokens;

/// All agents that were spoken to lately.
#[derive(Debug)]
pub struct Agents {
    lines: Arc<Lines>,
    /// The runs in pods whose agents do not have Runs.
    streamed: Streamed,
}

impl Agents {
    /// Speaks with tokens of that account. With an override, all agents are at that address: for development.
    pub fn new(cluster: Cluster, account: Account, everywhere_at: Option<String>) -> Self {
        let lines = Lines::new(Channels::new(everywhere_at), Tokens::new(cluster, account));
        Self { lines: Arc::new(lines), streamed: Streamed::default() }
    }

    /// Drops connections, tokens and ended runs that nobody has asked for in a while.
    pub fn tidy(&self) {
        self.lines.tidy();
        self.streamed.tidy();
    }

    /// A run as its agent knows it.
    pub async fn run(&self, namespace: &str, pod: &PodRef, run_id: &str) -> Result<RunAnswer, Failure> {
        if let Some(run) = self.streamed.find(pod, run_id) {
            return Ok(known(run.seen()));
        }
        let request = self.lines.request(namespace, pod, GetRequest { run_id: run_id.to_owned() }).await?;
        let answer = self.lines.heard(namespace, pod, in_time(self.lines.runs(pod).get(request)).await);
        if lacks_runs(&answer) {
            return Ok(self.not_streamed(namespace, pod).await);
        }
        Ok(runs::answer(answer.map(|answer| answer.into_inner().run)))
    }

    /// The latest attempt among the runs whose identifiers begin so.
    pub async fn latest_run(&self, namespace: &str, pod: &PodRef, prefix: &str) -> Result<RunAnswer, Failure> {
        if let Some(run) = self.streamed.latest(pod, prefix) {
            return Ok(known(run.seen()));
        }
        let request = self.lines.request(namespace, pod, ListRequest {}).await?;
        let answer = self.lines.heard(namespace, pod, in_time(self.lines.runs(pod).list(request)).await);
        if lacks_runs(&answer) {
            return Ok(self.not_streamed(namespace, pod).await);
        }
        Ok(runs::answer(answer.map(|answer| runs::latest(answer.into_inner().runs, prefix))))
    }

    /// An agent without Runs is asked for its version, to see whether it speaks to us at all.
    async fn not_streamed(&self, namespace: &str, pod: &PodRef) -> RunAnswer {
        runs::answer(self.calls(namespace, pod).version().await.map(|_| None))
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

    async fn start(&self, namespace: &str, pod: &PodRef, run_id: &str, wanted: Wanted) -> Result<RunAnswer, Failure> {
        let request = StartRequest { run_id: run_id.to_owned(), operation: Some(wanted.clone()) };
        let request = self.lines.request(namespace, pod, request).await?;
        let answer = self.lines.heard(namespace, pod, in_time(self.lines.runs(pod).start(request)).await);
        let started = if lacks_runs(&answer) {
            self.streamed.start(self.calls(namespace, pod), run_id, wanted).await.map(known)
        } else {
            answer.map(|answer| runs::answer(Ok(answer.into_inner().run)))
        };
        started.map_err(|status| failure("starting", run_id, namespace, pod, &status))
    }

    /// Asks a run to end, gracefully.
    pub async fn cancel(&self, namespace: &str, pod: &PodRef, run_id: &str) -> Result<(), Failure> {
        if let Some(run) = self.streamed.find(pod, run_id) {
            run.cancel();
            return Ok(());
        }
        let request = CancelRequest { run_id: run_id.to_owned(), mode: CancelMode::Graceful.into() };
        let request = self.lines.request(namespace, pod, request).await?;
        match self.lines.heard(namespace, pod, in_time(self.lines.runs(pod).cancel(request)).await) {
            Err(status) if !matches!(status.code(), Code::NotFound | Code::Unimplemented) => {
                Err(failure("canceling", run_id, namespace, pod, &status))
            }
            _ => Ok(()),
        }
    }

    /// Tells when a run that is streamed gets further or ends.
    fn watch(&self, pod: &PodRef, run_id: &str) -> Option<watch::Receiver<RunSeen>> {
        Some(self.streamed.find(pod, run_id)?.watch())
    }

    fn calls(&self, namespace: &str, pod: &PodRef) -> Calls {
        Calls::new(Arc::clone(&self.lines), namespace, pod)
    }
}

/// PKO's own agent does; then the streaming calls are the way.
fn lacks_runs<T>(answer: &Result<T, Status>) -> bool {
    answer.as_ref().is_err_and(|status| status.code() == Code::Unimplemented)
}

fn known(run: RunSeen) -> RunAnswer {
    RunAnswer::Known(Box::new(run))
}

fn failure(doing: &str, run_id: &str, namespace: &str, pod: &PodRef, status: &Status) -> Failure {
    let cause = match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Cause::Unreachable,
        _ => Cause::Other,
    };
    let object = format!("run {run_id} in pod {namespace}/{}", pod.name);
    Failure::new(cause, doing, &object, format!("{:?}: {}", status.code(), runs::why(status)))
}
