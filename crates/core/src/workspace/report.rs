//! The Workspace's status as this reconcile would leave it. Its conditions are set here only.

use std::time::Duration;

use jiff::Timestamp;
use pko_api::{
    Workspace,
    conditions::{ConditionStatus, ConditionType, find},
    events::Event,
    messages::workspace as message,
    reasons::{Reason, workspace as reason},
    workspace::{WorkspaceSpec, WorkspaceStatus},
};

use crate::{
    conditions::{condition, joined},
    effect::{Effect, Status, Target},
    facts::Facts,
    step::{Step, Then},
};

/// A status in the making.
#[derive(Debug)]
pub(super) struct Report<'a> {
    workspace: &'a Workspace,
    now: Timestamp,
    status: WorkspaceStatus,
    refused: Option<&'a str>,
}

impl<'a> Report<'a> {
    pub(super) fn new(workspace: &'a Workspace, facts: &'a Facts) -> Self {
        let status = workspace.status.clone().unwrap_or_default();
        Self { workspace, now: facts.now, status, refused: facts.refused.as_deref() }
    }

    pub(super) const fn spec(&self) -> &'a WorkspaceSpec {
        &self.workspace.spec
    }

    pub(super) fn pulumi_version(&self) -> String {
        self.status.pulumi_version.clone()
    }

    /// Its pod is being made anew, perhaps not before something else.
    pub(super) fn rolling(&mut self, first: &str, effects: Vec<Effect>, look_again: Duration) -> Step {
        self.status.address.clear();
        let text = joined(message::ROLLING_UPDATE, first);
        self.not_ready(&reason::ROLLING_UPDATE, &text, effects, Then::Requeue(look_again))
    }

    /// Its pod does not run, perhaps because of some trouble.
    pub(super) fn no_pod(&mut self, trouble: Option<&str>, look_again: Duration) -> Step {
        self.status.address.clear();
        let text = joined(message::WAITING_FOR_REPLICAS, trouble.unwrap_or_default());
        self.not_ready(&reason::WAITING_FOR_REPLICAS, &text, Vec::new(), Then::Requeue(look_again))
    }

    /// It is not ready, and goes on by itself.
    pub(super) fn not_ready(&mut self, why: &Reason, text: &str, effects: Vec<Effect>, then: Then) -> Step {
        self.write(&[(ConditionType::READY, false, why, text)], Vec::new(), effects, Vec::new(), then)
    }

    /// It is not ready; told in an event too, unless that was said before.
    pub(super) fn not_ready_with(&mut self, why: &Reason, text: &str, event: Event, then: Then) -> Step {
        let events = if self.says(ConditionType::READY, why) { Vec::new() } else { vec![event] };
        self.write(&[(ConditionType::READY, false, why, text)], Vec::new(), Vec::new(), events, then)
    }

    /// It is not ready, and something outside has to change first.
    pub(super) fn stalled(&mut self, why: &Reason, text: &str, event: Option<Event>, then: Then) -> Step {
        let told = self.says(ConditionType::STALLED, why);
        let events = event.into_iter().filter(|_| !told).collect();
        let conditions = [(ConditionType::READY, false, why, text), (ConditionType::STALLED, true, why, text)];
        self.write(&conditions, Vec::new(), Vec::new(), events, then)
    }

    /// Operations can run in it.
    pub(super) fn ready(
        &mut self,
        address: String,
        version: String,
        before: Vec<Effect>,
        events: Vec<Event>,
        then: Then,
    ) -> Step {
        self.status.address = address;
        self.status.pulumi_version = version;
        let conditions = [(ConditionType::READY, true, &reason::SUCCEEDED, message::SUCCEEDED)];
        self.write(&conditions, before, Vec::new(), events, then)
    }

    /// Whether the status says that already.
    pub(super) fn says(&self, kind: ConditionType, why: &Reason) -> bool {
        find(&self.status.conditions, kind).is_some_and(|found| found.reason == why.as_str())
    }

    fn target(&self) -> Target {
        Target::workspace(self.workspace)
    }

    fn write(
        &mut self,
        conditions: &[(ConditionType, bool, &Reason, &str)],
        before: Vec<Effect>,
        after: Vec<Effect>,
        events: Vec<Event>,
        then: Then,
    ) -> Step {
        let previous = std::mem::take(&mut self.status.conditions);
        for (kind, holds, why, text) in conditions {
            let status = if *holds { ConditionStatus::True } else { ConditionStatus::False };
            let refused = self.refused.filter(|_| *kind == ConditionType::READY && !holds);
            let text = joined(text, refused.unwrap_or_default());
            let mut next = condition(&previous, *kind, status, why, &text, self.now);
            next.observed_generation = self.workspace.metadata.generation;
            self.status.conditions.push(next);
        }
        self.status.observed_generation = self.workspace.metadata.generation.unwrap_or_default();
        let mut effects = before;
        if self.workspace.status.as_ref() != Some(&self.status) {
            let status = Status::Workspace(Box::new(self.status.clone()));
            effects.push(Effect::Status { on: self.target(), status });
        }
        effects.extend(after);
        effects.extend(events.into_iter().map(|event| Effect::Publish { on: self.target(), event }));
        Step::Do { effects, then }
    }
}
