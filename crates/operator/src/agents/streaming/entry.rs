//! One run that the operator itself sees through: how far it is, and in the end what came of it.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use pko_core::ask::{Failure, Phase, Progress, RunSeen, RunState};
use tokio::sync::{Notify, watch};

use super::operation::Done;
use crate::agents::Collected;

#[derive(Debug)]
pub(in crate::agents) struct Entry {
    /// Those who watch are told of phases and of the end, and not of all that is counted in between.
    run: watch::Sender<RunSeen>,
    outputs: Mutex<Collected>,
    canceled: Notify,
    asked: Mutex<Instant>,
}

impl Entry {
    pub(super) fn new(run_id: &str, phase: Phase, pulumi_version: String) -> Self {
        let run = RunSeen {
            run_id: run_id.to_owned(),
            state: RunState::Running(phase),
            pulumi_version,
            ..RunSeen::default()
        };
        Self {
            run: watch::Sender::new(run),
            outputs: Mutex::default(),
            canceled: Notify::new(),
            asked: Mutex::new(Instant::now()),
        }
    }

    pub(in crate::agents) fn seen(&self) -> RunSeen {
        self.run.borrow().clone()
    }

    pub(in crate::agents) fn watch(&self) -> watch::Receiver<RunSeen> {
        self.run.subscribe()
    }

    /// The outputs of a run that succeeded.
    pub(in crate::agents) fn outputs(&self) -> Collected {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A run that has ended stays as it is.
    pub(in crate::agents) fn cancel(&self) {
        self.canceled.notify_one();
    }

    pub(super) async fn is_canceled(&self) {
        self.canceled.notified().await;
    }

    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.run.borrow().state, RunState::Running(_))
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        self.run.send_if_modified(|run| {
            let state = RunState::Running(phase);
            let changed = run.state != state;
            run.state = state;
            changed
        });
    }

    /// From here on the operation may have changed something.
    pub(super) fn operates(&self) {
        self.run.send_modify(|run| {
            run.state = RunState::Running(Phase::Operating);
            run.start_time = Some(Timestamp::now());
        });
    }

    pub(super) fn set_progress(&self, progress: &Progress) {
        self.run.send_if_modified(|run| {
            run.progress.clone_from(progress);
            false
        });
    }

    pub(super) fn end(&self, ended: Result<Done, Failure>) {
        self.asked_for();
        let done = ended.unwrap_or_else(|failure| Done { failure: Some(failure), ..Done::default() });
        *self.outputs.lock().unwrap_or_else(PoisonError::into_inner) = done.outputs;
        self.run.send_modify(|run| {
            run.state = match done.failure {
                None => RunState::Succeeded,
                Some(failure) => RunState::Failed(failure),
            };
            run.start_time = done.start_time.or(run.start_time);
            run.end_time = Some(done.end_time.unwrap_or_else(Timestamp::now));
            run.permalink = done.permalink;
            run.project_info = done.project_info;
            run.message = done.message;
            run.outputs = done.output_count;
            run.changes = done.changes;
            run.standard_output = done.standard_output;
        });
    }

    pub(super) fn asked_for(&self) {
        self.last_asked_for(Instant::now());
    }

    pub(super) fn last_asked_for(&self, time: Instant) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = time;
    }

    pub(super) fn unasked_for(&self) -> Duration {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}
