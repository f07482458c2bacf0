//! An operation as a stream: every event, then the result or an error. When its client goes away, the run is canceled.

use std::{collections::HashMap, sync::Arc, time::Duration};

use pko_proto::agent::{OutputValue, ProjectInfo, UpdateSummary};
use pko_pulumi::{Class, Ended, EventLog};
use prost_types::Struct;
use tokio::{sync::mpsc, time::sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::errors::{auto_error, known_kind};
use crate::runs::{
    Registry,
    entry::{Entry, Wish, timestamp},
    outputs,
    record::{End, Reason},
};

const LOOK: Duration = Duration::from_millis(100);

pub(super) type Streaming<T> = ReceiverStream<Result<T, Status>>;

/// What an operation's stream is made of.
pub(super) struct Kinds<T> {
    /// How an error begins.
    pub(super) failed: &'static str,
    pub(super) event: fn(Struct) -> T,
    pub(super) result: fn(OperationResult) -> T,
}

/// The fields that the results of all operations share.
pub(super) struct OperationResult {
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) summary: UpdateSummary,
    pub(super) permalink: Option<String>,
    pub(super) outputs: HashMap<String, OutputValue>,
    pub(super) project_info: Option<ProjectInfo>,
}

pub(super) fn follow<T: Send + 'static>(entry: Arc<Entry>, registry: Arc<Registry>, kinds: Kinds<T>) -> Streaming<T> {
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        let Some(end) = events(&entry, &sender, &kinds).await else {
            tracing::info!(run = entry.start.run_id, "the client has gone away; canceling its run");
            entry.ask(Wish::Graceful);
            return;
        };
        let last = result(&entry, &registry, end).await.map(kinds.result).map_err(|(text, class)| {
            known_kind(auto_error(kinds.failed, &entry.last_words().unwrap_or_default(), &text), class)
        });
        let _ = sender.send(last).await;
    });
    ReceiverStream::new(receiver)
}

/// Forwards events until the run has ended. Nothing, if the client has gone away before.
async fn events<T>(entry: &Entry, sender: &mpsc::Sender<Result<T, Status>>, kinds: &Kinds<T>) -> Option<End> {
    let mut log = EventLog::new(&entry.page.events());
    loop {
        // Whatever was written before the end is read after this.
        let end = entry.watch().borrow().end.clone();
        let mut found = Vec::new();
        let more = log
            .read(|line| {
                if let Ok(serde_json::Value::Object(event)) = serde_json::from_slice(line) {
                    found.push(pko_proto::to_struct(&event));
                }
            })
            .unwrap_or_default();
        for event in found {
            sender.send(Ok((kinds.event)(event))).await.ok()?;
        }
        match end {
            _ if more => {}
            Some(end) => return Some(end),
            None => tokio::select! {
                () = sleep(LOOK) => {}
                () = sender.closed() => return None,
            },
        }
    }
}

async fn result(entry: &Entry, registry: &Registry, end: End) -> Result<OperationResult, (String, Class)> {
    if let Some(failure) = end.failure {
        let class = match failure.reason {
            Reason::UpdateConflict => Class::Conflict,
            Reason::InvalidAccessToken => Class::InvalidAccessToken,
            _ => Class::Other,
        };
        return Err((failure.message, class));
    }
    let mut outputs = HashMap::new();
    if end.output_count > 0 {
        match outputs::all(entry, &registry.workspace).await {
            Ok(all) => {
                let wire = |output: pko_pulumi::Output| OutputValue {
                    value: output.value.into_bytes(),
                    secret: output.secret,
                };
                outputs = all.into_iter().map(|(name, output)| (name, wire(output))).collect();
            }
            Err(error) => tracing::error!(error, run = entry.start.run_id, "the outputs are left out"),
        }
    }
    let Ended { stdout, stderr, .. } = entry.last_words().unwrap_or_default();
    Ok(OperationResult {
        stdout,
        stderr,
        summary: UpdateSummary {
            start_time: Some(timestamp(entry.start.time)),
            end_time: Some(timestamp(end.time)),
            result: "succeeded".to_owned(),
            message: entry.start.message.clone(),
        },
        project_info: end.project_info(),
        permalink: end.permalink,
        outputs,
    })
}
