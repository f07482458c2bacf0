//! An operation over its stream: events are counted, the result is kept as far as it can be stored.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use pko_api::{ProjectInfo, reasons::update as reason};
use pko_core::ask::Failure;
use pko_proto::{
    agent::{
        self, DestroyStream, OutputValue, PreviewStream, RefreshStream, SelectStackRequest, UpStream, UpdateSummary,
        destroy_stream, preview_stream, refresh_stream, up_stream,
    },
    runs::{Destroy, OutputChunk, Preview, Refresh, Up},
};
use prost_types::Struct;
use tonic::{Code, Status, Streaming};

use super::{Calls, Entry, errors, events::Events};
use crate::agents::{Collected, LARGEST, runs::timestamp};

/// What a summary says when all went well.
const SUCCEEDED: &str = "succeeded";
/// As agents with Runs say it.
const STACK_NOT_FOUND: &str = "StackNotFound";

/// What came of a run.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// It did not end well.
    pub(super) failure: Option<Failure>,
    pub(super) start_time: Option<Timestamp>,
    pub(super) end_time: Option<Timestamp>,
    pub(super) message: String,
    pub(super) permalink: String,
    pub(super) project_info: Option<ProjectInfo>,
    pub(super) changes: BTreeMap<String, i32>,
    pub(super) standard_output: String,
    /// How many outputs there were, with those that were left out.
    pub(super) output_count: u32,
    pub(super) outputs: Collected,
}

pub(super) async fn preview(entry: &Entry, calls: &Calls, wanted: Preview) -> Result<Done, Failure> {
    select(calls, wanted.stack_name, true).await?;
    entry.operates();
    follow(entry, calls.preview(wanted.options.unwrap_or_default()).await).await
}

pub(super) async fn up(entry: &Entry, calls: &Calls, wanted: Up) -> Result<Done, Failure> {
    select(calls, wanted.stack_name, true).await?;
    entry.operates();
    follow(entry, calls.up(wanted.options.unwrap_or_default()).await).await
}

pub(super) async fn refresh(entry: &Entry, calls: &Calls, wanted: Refresh) -> Result<Done, Failure> {
    select(calls, wanted.stack_name, true).await?;
    entry.operates();
    follow(entry, calls.refresh(wanted.options.unwrap_or_default()).await).await
}

/// Never creates the stack: destroying an empty one would pass for destroying what the lost one had.
pub(super) async fn destroy(entry: &Entry, calls: &Calls, wanted: Destroy) -> Result<Done, Failure> {
    select(calls, wanted.stack_name, false).await?;
    entry.operates();
    follow(entry, calls.destroy(wanted.options.unwrap_or_default()).await).await
}

/// PKO's operations are about the stack that is selected.
async fn select(calls: &Calls, stack: String, create: bool) -> Result<(), Failure> {
    let request =
        SelectStackRequest { stack_name: stack.clone(), create: create.then_some(true), secrets_provider: None };
    calls.select_stack(request).await.map_err(|status| {
        if status.code() == Code::NotFound {
            return errors::final_failure(STACK_NOT_FOUND, &format!("the backend has no stack {stack}"));
        }
        errors::of_operation(&status)
    })
}

/// Reads to the result. What an agent sends behind it is nothing to wait for.
async fn follow<T: Message>(entry: &Entry, stream: Result<Streaming<T>, Status>) -> Result<Done, Failure> {
    let failed = |status: Status| errors::of_operation(&status);
    let mut stream = stream.map_err(failed)?;
    let mut events = Events::default();
    while let Some(message) = stream.message().await.map_err(failed)? {
        match message.said() {
            Some(Said::Event(event)) => {
                events.take(&event);
                entry.set_progress(&events.progress);
            }
            Some(Said::Result(mut done)) => {
                done.changes = events.changes;
                return Ok(*done);
            }
            None => {}
        }
    }
    Err(errors::failure(reason::UNKNOWN.as_str(), "didn't receive a result"))
}

/// What the streams of all operations say.
enum Said {
    Event(Struct),
    Result(Box<Done>),
}

trait Message {
    fn said(self) -> Option<Said>;
}

impl Message for PreviewStream {
    fn said(self) -> Option<Said> {
        Some(match self.response? {
            preview_stream::Response::Event(event) => Said::Event(event),
            preview_stream::Response::Result(result) => {
                let mut done = done(result.summary, result.permalink, result.project_info);
                done.standard_output = errors::shortened(&result.stdout);
                Said::Result(Box::new(done))
            }
        })
    }
}

impl Message for UpStream {
    fn said(self) -> Option<Said> {
        Some(match self.response? {
            up_stream::Response::Event(event) => Said::Event(event),
            up_stream::Response::Result(result) => {
                let mut done = done(result.summary, result.permalink, result.project_info);
                done.output_count = u32::try_from(result.outputs.len()).unwrap_or(u32::MAX);
                done.outputs = collected(result.outputs);
                Said::Result(Box::new(done))
            }
        })
    }
}

impl Message for RefreshStream {
    fn said(self) -> Option<Said> {
        Some(match self.response? {
            refresh_stream::Response::Event(event) => Said::Event(event),
            refresh_stream::Response::Result(result) => {
                Said::Result(Box::new(done(result.summary, result.permalink, result.project_info)))
            }
        })
    }
}

impl Message for DestroyStream {
    fn said(self) -> Option<Said> {
        Some(match self.response? {
            destroy_stream::Response::Event(event) => Said::Event(event),
            destroy_stream::Response::Result(result) => {
                Said::Result(Box::new(done(result.summary, result.permalink, result.project_info)))
            }
        })
    }
}

/// The part that all results share. Previews have no summary, and are good when they have a result.
fn done(summary: Option<UpdateSummary>, permalink: Option<String>, project: Option<agent::ProjectInfo>) -> Done {
    let good = summary.as_ref().is_none_or(|summary| summary.result == SUCCEEDED);
    let summary = summary.unwrap_or_default();
    Done {
        failure: (!good).then(|| errors::failure(reason::UPDATE_FAILED.as_str(), &summary.message)),
        start_time: summary.start_time.as_ref().and_then(timestamp),
        end_time: summary.end_time.as_ref().and_then(timestamp),
        message: errors::shortened(&summary.message),
        permalink: permalink.unwrap_or_default(),
        project_info: project.map(|project| ProjectInfo {
            name: project.name,
            runtime: project.runtime,
            backend: None,
            stack_config_dir: None,
        }),
        ..Done::default()
    }
}

/// No more than a Secret can hold is held.
fn collected(outputs: HashMap<String, OutputValue>) -> Collected {
    let mut collected = Collected::default();
    for (name, OutputValue { value, secret }) in outputs {
        collected.take(&OutputChunk { name, value, secret, last: true });
    }
    collected.fit(LARGEST);
    collected
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp as Time;

    use super::*;

    fn result(summary: Option<UpdateSummary>) -> Done {
        done(summary, None, None)
    }

    #[test]
    fn a_summary_says_when_what_for_and_whether_it_went_well() {
        let time = |seconds| Some(Time { seconds, nanos: 0 });
        let mut summary = UpdateSummary {
            start_time: time(10),
            end_time: time(20),
            result: "succeeded".to_owned(),
            message: "why".to_owned(),
        };
        let done = result(Some(summary.clone()));
        assert_eq!((done.failure, done.message.as_str()), (None, "why"));
        assert_eq!((done.start_time, done.end_time), (Timestamp::new(10, 0).ok(), Timestamp::new(20, 0).ok()));
        for other in ["failed", ""] {
            other.clone_into(&mut summary.result);
            assert_eq!(result(Some(summary.clone())).failure.unwrap().reason, "UpdateFailed");
        }
    }

    #[test]
    fn a_result_without_a_summary_is_good() {
        let done = result(None);
        assert_eq!((done.failure, done.start_time, done.message.as_str()), (None, None, ""));
    }

    #[test]
    fn outputs_that_no_secret_can_hold_are_left_out_by_name() {
        let value = |size| OutputValue { value: vec![b'1'; size], secret: false };
        let outputs = [("a", 3), ("large", LARGEST + 1), ("b", LARGEST - 2)];
        let kept = collected(outputs.map(|(name, size)| (name.to_owned(), value(size))).into());
        assert_eq!(kept.outputs.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(kept.left_out.len(), 2, "{:?}", kept.left_out);
    }
}
