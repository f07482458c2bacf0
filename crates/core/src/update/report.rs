//! The Update's status as this reconcile would leave it. Its three conditions are set together, here only.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Checked, Update,
    conditions::{ConditionStatus, ConditionType, find},
    events,
    reasons::{Reason, update as reason},
    update::{PreviewResult, UpdateProgress, UpdateRun, UpdateStatus, update_type},
};

use crate::{
    ask::RunSeen,
    conditions::{condition, joined, shortened},
    effect::{Effect, Status, Target},
    facts::Facts,
    step::{Step, Then},
    time::{elapsed, whole_second},
};

/// How often the progress of a run is told at first, and at last.
const OFTEN: Duration = Duration::from_secs(10);
const RARELY: Duration = Duration::from_mins(1);

/// A status in the making.
#[derive(Debug)]
pub(super) struct Report<'a> {
    update: &'a Update,
    now: Timestamp,
    status: UpdateStatus,
    refused: Option<&'a str>,
}

/// Why an operation has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl Waiting {
    pub(super) const fn new(reason: Reason) -> Self {
        Self { reason, message: String::new() }
    }
}

/// The three conditions, each with its reason.
type Triple<'r> = [(bool, &'r Reason); 3];

impl<'a> Report<'a> {
    pub(super) fn new(update: &'a Update, facts: &'a Facts) -> Self {
        let status = update.status.clone().unwrap_or_default();
        Self { update, now: facts.now, status, refused: facts.refused.as_deref() }
    }

    pub(super) const fn status(&self) -> &UpdateStatus {
        &self.status
    }

    pub(super) fn target(&self) -> Target {
        Target::update(self.update)
    }

    /// Records the pod to which the operation is given.
    pub(super) fn runs_in(&mut self, run: UpdateRun) {
        self.status.run = Some(run);
    }

    /// Tells how far a run is, now and then: the longer it takes, the rarer. Yields when that is to be told again.
    pub(super) fn got_to(&mut self, run: &RunSeen) -> Duration {
        let age = run.start_time.map(|start| elapsed(start, self.now)).unwrap_or_default();
        let period = (age / 10).clamp(OFTEN, RARELY);
        let told = self.status.progress.as_ref().and_then(|progress| progress.heartbeat.as_ref()).map(|time| time.0);
        let due = told.map_or(OFTEN.saturating_sub(age), |told| period.saturating_sub(elapsed(told, self.now)));
        if !due.is_zero() {
            return due;
        }
        self.status.progress = Some(UpdateProgress {
            begun: run.progress.begun,
            done: run.progress.done,
            current: run.progress.current.clone(),
            heartbeat: Some(Time(whole_second(self.now))),
        });
        period
    }

    /// Takes over what a run that ended says about itself.
    pub(super) fn ran(&mut self, run: &RunSeen) {
        self.status.progress = None;
        self.status.resource_changes.clone_from(&run.changes);
        if self.update.spec.update_type.as_deref() == Some(update_type::PREVIEW) {
            self.status.preview = Some(PreviewResult {
                standard_output: run.standard_output.clone(),
                outputs: run.expected_outputs.clone(),
            });
        }
        let time = |time: Option<Timestamp>| time.map(|time| Time(whole_second(time)));
        self.status.start_time = time(run.start_time).or_else(|| self.status.start_time.clone());
        self.status.end_time = time(run.end_time);
        self.status.permalink.clone_from(&run.permalink);
        self.status.project_info.clone_from(&run.project_info);
    }

    /// Names the Secret with the outputs.
    pub(super) fn left_outputs(&mut self, secret: String) {
        self.status.outputs = secret;
    }

    /// Whether the status says already what is waited for.
    pub(super) fn says(&self, waiting: &Waiting) -> bool {
        find(&self.status.conditions, ConditionType::PROGRESSING)
            .is_some_and(|found| found.reason == waiting.reason.as_str())
    }

    /// The operation cannot begin yet.
    pub(super) fn waiting(&mut self, waiting: &Waiting, look_again: Duration) -> Step {
        let triple = [(false, &waiting.reason), (false, &reason::PROGRESSING), (false, &reason::PROGRESSING)];
        self.write(&triple, &waiting.message, Vec::new(), Vec::new(), Then::Requeue(look_again))
    }

    /// The operation was given to its pod. What is not as it should be is said in the condition.
    pub(super) fn progressing(
        &mut self,
        since: Option<Timestamp>,
        message: &str,
        after: Vec<Effect>,
        look_again: Duration,
    ) -> Step {
        if let Some(since) = since {
            self.status.start_time = Some(Time(whole_second(since)));
        }
        let triple = [(true, &reason::PROGRESSING), (false, &reason::PROGRESSING), (false, &reason::PROGRESSING)];
        self.write(&triple, message, Vec::new(), after, Then::Requeue(look_again))
    }

    /// The operation did what it was asked.
    pub(super) fn succeeded(&mut self, message: &str, before: Vec<Effect>) -> Step {
        message.clone_into(&mut self.status.message);
        let spec = &self.update.spec;
        let event = events::update::succeeded(
            spec.update_type.as_deref().unwrap_or_default(),
            spec.stack_name.as_deref().unwrap_or_default(),
        );
        let triple = [(false, &reason::COMPLETE), (false, &reason::UPDATE_SUCCEEDED), (true, &reason::UPDATED)];
        let event = Effect::Publish { on: self.target(), event };
        self.write(&triple, "", before, vec![event], self.expiry())
    }

    /// The operation failed.
    pub(super) fn failed(&mut self, why: &Reason, message: &str) -> Step {
        let triple = [(false, &reason::COMPLETE), (true, why), (true, &reason::UPDATED)];
        self.lost(&triple, message)
    }

    /// The operation was lost while it ran.
    pub(super) fn aborted(&mut self, message: &str) -> Step {
        self.status.progress = None;
        let triple = [(false, &reason::FAILED), (true, &reason::ABORTED), (true, &reason::FAILED)];
        self.lost(&triple, message)
    }

    /// The operation never began, and will not.
    pub(super) fn canceled(&mut self) -> Step {
        let triple = [(false, &reason::FAILED), (true, &reason::CANCELED), (true, &reason::FAILED)];
        self.write(&triple, "", Vec::new(), Vec::new(), self.expiry())
    }

    /// The operation could not begin for too long; its Stack sees to the Workspace, and tries again.
    pub(super) fn gave_up(&mut self) -> Step {
        let triple = [(false, &reason::FAILED), (true, &reason::CANCELED), (true, &reason::FAILED)];
        self.lost(&triple, "the workspace did not become ready in time")
    }

    fn lost(&mut self, triple: &Triple, message: &str) -> Step {
        shortened(message).clone_into(&mut self.status.message);
        let spec = &self.update.spec;
        let event = events::update::failed(
            spec.update_type.as_deref().unwrap_or_default(),
            spec.stack_name.as_deref().unwrap_or_default(),
        );
        let event = Effect::Publish { on: self.target(), event };
        self.write(triple, "", Vec::new(), vec![event], self.expiry())
    }

    /// When an Update that has just ended is to be deleted.
    fn expiry(&self) -> Then {
        let ttl = self.update.spec.ttl_after_completed.as_ref().and_then(Checked::good);
        ttl.map_or(Then::AwaitChange, |ttl| Then::Requeue(ttl.to_std()))
    }

    fn write(&mut self, triple: &Triple, message: &str, before: Vec<Effect>, after: Vec<Effect>, then: Then) -> Step {
        let kinds = [ConditionType::PROGRESSING, ConditionType::FAILED, ConditionType::COMPLETE];
        let previous = std::mem::take(&mut self.status.conditions);
        for (kind, (holds, why)) in kinds.into_iter().zip(triple) {
            let status = if *holds { ConditionStatus::True } else { ConditionStatus::False };
            let text = if kind == ConditionType::PROGRESSING { message } else { "" };
            let refused = self.refused.filter(|_| kind == ConditionType::PROGRESSING && !triple[2].0);
            let text = joined(text, refused.unwrap_or_default());
            let text = text.as_str();
            let mut next = condition(&previous, kind, status, why, text, self.now);
            next.observed_generation = self.update.metadata.generation;
            self.status.conditions.push(next);
        }
        self.status.observed_generation = self.update.metadata.generation.unwrap_or_default();
        let mut effects = before;
        if self.update.status.as_ref() != Some(&self.status) {
            let status = Status::Update(Box::new(self.status.clone()));
            effects.push(Effect::Status { on: self.target(), status });
        }
        effects.extend(after);
        Step::Do { effects, then }
    }
}
