//! The lines to agents: a connection per pod and a token per Workspace, the same for both services.

use std::{sync::Arc, time::Duration};

use pko_core::seen::PodRef;
use pko_proto::{agent::automation_service_client::AutomationServiceClient, runs::runs_client::RunsClient};
use tokio::sync::Semaphore;
use tonic::{Code, Request, Status, metadata::MetadataValue, transport::Channel};

use super::{
    channels::Channels,
    streaming::{LARGEST_RESULT, Paced},
    tokens::Tokens,
};
use crate::{cluster::Failure, wake::workspace_of_pod};

/// How long an agent may take to answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Most that one message of a run may hold.
const LARGEST_MESSAGE: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct Lines {
    channels: Channels,
    tokens: Tokens,
    /// Who may receive a large result.
    turns: Arc<Semaphore>,
}

impl Lines {
    pub(super) fn new(channels: Channels, tokens: Tokens) -> Self {
        Self { channels, tokens, turns: Arc::new(Semaphore::new(1)) }
    }

    /// Drops connections and tokens that nobody has used for a while.
    pub(super) fn tidy(&self) {
        self.channels.tidy();
        self.tokens.tidy();
    }

    pub(super) fn runs(&self, pod: &PodRef) -> RunsClient<Channel> {
        RunsClient::new(self.channels.to(pod)).max_decoding_message_size(LARGEST_MESSAGE)
    }

    pub(super) fn automation(&self, pod: &PodRef) -> AutomationServiceClient<Paced> {
        let paced = Paced::new(self.channels.to(pod), Arc::clone(&self.turns));
        AutomationServiceClient::new(paced).max_decoding_message_size(LARGEST_RESULT)
    }

    /// A stream to a pod is alive.
    pub(super) fn touch(&self, pod: &PodRef) {
        self.channels.touch(pod);
    }

    /// A message with a token for the Workspace of a pod.
    pub(super) async fn request<T>(&self, namespace: &str, pod: &PodRef, message: T) -> Result<Request<T>, Failure> {
        let token = self.tokens.of(workspace_of_pod(&pod.name), namespace).await?;
        let mut request = Request::new(message);
        if let Ok(mut value) = MetadataValue::try_from(format!("Bearer {token}")) {
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }

    /// A token that is refused, such as one of an account that was made anew, is not shown again.
    pub(super) fn heard<T>(&self, namespace: &str, pod: &PodRef, answer: Result<T, Status>) -> Result<T, Status> {
        if answer.as_ref().is_err_and(|status| status.code() == Code::Unauthenticated) {
            self.tokens.forget(workspace_of_pod(&pod.name), namespace);
        }
        answer
    }
}

/// An agent that takes too long does not answer.
pub(super) async fn in_time<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    tokio::time::timeout(DEADLINE, call)
        .await
        .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("no answer within {DEADLINE:?}"))))
}
