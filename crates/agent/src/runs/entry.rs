//! One run as the agent holds it: what others may see of it, and what they may wish for.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use pko_proto::{agent, runs};
use pko_pulumi::{Ended, Output, Summary};
use prost_types::Timestamp;
use tokio::sync::watch;

use super::{
    journal::Page,
    record::{End, Progress, Start},
};

/// How a run is to end before its time. Wishes only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    #[default]
    None,
    /// The pod goes away: the CLI is asked to wind down.
    Shutdown,
    /// A client asked for it: the CLI is asked to wind down.
    Graceful,
    /// The CLI is killed if it does not wind down in time.
    Forced,
}

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// Grows with every change: phases and events so far. An agent that takes a run up comes to the same numbers.
    pub(crate) seq: u64,
    phases: u64,
    pub(crate) phase: runs::Phase,
    progress: Progress,
    /// The latest warning or error, with the number it came with.
    pub(crate) latest: Option<(u64, String)>,
    /// Which event that was.
    latest_event: u64,
    pub(crate) end: Option<End>,
}

impl View {
    /// As it goes over the wire, with the latest diagnostic if it came after a number.
    pub(crate) fn progress(&self, after_seq: u64) -> runs::Progress {
        let Progress { started, done, current } = self.end.as_ref().map_or(&self.progress, |end| &end.progress);
        let count = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
        let news = self.latest.as_ref().filter(|(at, _)| *at > after_seq);
        runs::Progress {
            started: count(*started),
            done: count(*done),
            phase: self.phase.into(),
            diagnostic: news.map(|(_, text)| text.clone()).unwrap_or_default(),
            current: current.clone(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) start: Start,
    pub(crate) page: Page,
    view: watch::Sender<View>,
    wish: watch::Sender<Wish>,
    /// Outputs in clear, which are kept in memory only, and only of the latest run.
    revealed: Mutex<Option<BTreeMap<String, Output>>>,
    /// How the CLI ended and its last words, for the client of a streaming call.
    last_words: Mutex<Option<Ended>>,
}

impl Entry {
    pub(crate) fn new(start: Start, page: Page, end: Option<End>) -> Self {
        Self {
            start,
            page,
            view: watch::Sender::new(View { end, ..View::default() }),
            wish: watch::Sender::default(),
            revealed: Mutex::default(),
            last_words: Mutex::default(),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.view.borrow().end.is_none()
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.view.borrow().end.clone()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    pub(crate) fn wishes(&self) -> watch::Receiver<Wish> {
        self.wish.subscribe()
    }

    pub(crate) fn wish(&self) -> Wish {
        *self.wish.borrow()
    }

    pub(crate) fn ask(&self, wish: Wish) {
        self.wish.send_if_modified(|now| {
            let grows = wish > *now;
            *now = wish.max(*now);
            grows
        });
    }

    pub(crate) fn set_phase(&self, phase: runs::Phase) {
        self.view.send_modify(|view| {
            view.phase = phase;
            view.phases += 1;
            view.seq += 1;
        });
    }

    pub(crate) fn note(&self, summary: &Summary) {
        self.view.send_modify(|view| {
            view.seq = view.phases + summary.seen;
            view.progress = summary.into();
            if let Some((at, text)) = &summary.latest
                && *at > view.latest_event
            {
                view.latest_event = *at;
                view.latest = Some((view.seq, pko_pulumi::shorten(text)));
            }
        });
    }

    /// Writes the end down and then tells everyone.
    pub(crate) fn finish(&self, end: End) {
        if let Err(error) = self.page.end(&end) {
            tracing::error!(%error, run = self.start.run_id, "the end of the run could not be written to its journal");
        }
        let failure = end.failure.as_ref();
        tracing::info!(
            run = self.start.run_id,
            operation = self.start.operation,
            reason = failure.map(|f| f.reason.word()),
            "the run {}",
            if failure.is_some() { "failed" } else { "succeeded" }
        );
        self.view.send_modify(|view| {
            view.seq += 1;
            view.phase = runs::Phase::Unspecified;
            view.end = Some(end);
        });
    }

    /// Waits for the end of the run.
    pub(crate) async fn ended(&self) -> End {
        let mut views = self.watch();
        loop {
            if let Some(end) = views.borrow_and_update().end.clone() {
                return end;
            }
            // The sender lives as long as this entry.
            let _ = views.changed().await;
        }
    }

    pub(crate) fn reveal(&self, outputs: Option<BTreeMap<String, Output>>) {
        *self.revealed.lock().unwrap_or_else(PoisonError::into_inner) = outputs;
    }

    pub(crate) fn revealed(&self) -> Option<BTreeMap<String, Output>> {
        self.revealed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keep_last_words(&self, ended: Option<Ended>) {
        *self.last_words.lock().unwrap_or_else(PoisonError::into_inner) = ended;
    }

    pub(crate) fn last_words(&self) -> Option<Ended> {
        self.last_words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn to_proto(&self) -> runs::Run {
        let view = self.view.borrow();
        let mut run = runs::Run {
            run_id: self.start.run_id.clone(),
            state: runs::State::Running.into(),
            phase: view.phase.into(),
            start_time: Some(timestamp(self.start.time)),
            message: self.start.message.clone(),
            progress: Some(view.progress(0)),
            ..runs::Run::default()
        };
        if let Some(end) = &view.end {
            let state = if end.failure.is_some() { runs::State::Failed } else { runs::State::Succeeded };
            run.state = state.into();
            run.phase = runs::Phase::Unspecified.into();
            run.end_time = Some(timestamp(end.time));
            run.failure = end.failure.as_ref().map(|failure| runs::Failure {
                reason: failure.reason.word().to_owned(),
                message: failure.message.clone(),
                stack_name: failure.stack_name.clone(),
                retryable: failure.retryable,
            });
            run.permalink = end.permalink.clone().unwrap_or_default();
            run.project_info = end.project_info();
            if let Some(project) = &end.project {
                run.project_backend = project.backend.clone().unwrap_or_default();
                run.project_stack_config_dir = project.stack_config_dir.clone().unwrap_or_default();
            }
            run.pulumi_version = end.pulumi_version.clone().unwrap_or_default();
            run.resource_changes = end.resource_changes.clone().into_iter().collect();
            run.output_count = end.output_count;
            run.standard_output.clone_from(&end.standard_output);
            run.outputs_json.clone_from(&end.outputs_json);
        }
        run
    }
}

impl End {
    pub(crate) fn project_info(&self) -> Option<agent::ProjectInfo> {
        self.project.as_ref().map(|p| agent::ProjectInfo { name: p.name.clone(), runtime: p.runtime.clone() })
    }
}

pub(crate) fn timestamp(time: jiff::Timestamp) -> Timestamp {
    Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}
