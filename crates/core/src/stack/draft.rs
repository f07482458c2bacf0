//! The Stack's status as this reconcile would leave it, and what goes with it.

use std::time::Duration;

use jiff::Timestamp;
use pko_api::{
    Stack, annotations,
    events::{self, Event},
    reasons::{Reason, stack as reason},
    stack::StackStatus,
};

use crate::{
    effect::{Effect, Status, Target},
    facts::Facts,
    outcome::{Outcome, stack_conditions},
    seen::{annotation, held},
    step::{Decision, Step, Then},
};

/// How long a watch that lags behind is given, unless it catches up earlier.
const CATCH_UP: Duration = Duration::from_secs(1);

/// A status in the making. Nothing is written before the whole of it is known.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) stack: &'a Stack,
    pub(super) now: Timestamp,
    pub(super) status: StackStatus,
    /// Updates whose results are in the status, or were before: they may go once it is written.
    pub(super) release: Vec<Target>,
    pub(super) events: Vec<Event>,
    /// Why an update is needed.
    pub(super) trigger: String,
    /// A digest of the Secrets and ConfigMaps that an update would use.
    pub(super) references: Option<String>,
    /// Nothing more will happen until something changes from outside.
    pub(super) cannot_go_on: bool,
    refused: Option<&'a str>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(stack: &'a Stack, facts: &'a Facts) -> Self {
        let mut status = stack.status.clone().unwrap_or_default();
        status.observed_generation = stack.metadata.generation.unwrap_or_default();
        status.observed_reconcile_request = request(stack);
        Self {
            stack,
            now: facts.now,
            status,
            release: Vec::new(),
            events: Vec::new(),
            trigger: String::new(),
            references: None,
            cannot_go_on: false,
            refused: facts.refused.as_deref(),
        }
    }

    pub(super) fn name(&self) -> &str {
        self.stack.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) const fn deleting(&self) -> bool {
        self.stack.metadata.deletion_timestamp.is_some()
    }

    /// Whether our finalizer is on the Stack.
    pub(super) fn held(&self) -> bool {
        held(&self.stack.metadata)
    }

    pub(super) fn target(&self) -> Target {
        Target::stack(self.stack)
    }

    /// Goes on only if the Stack is as it was read: for writes to other objects, which its version does not guard.
    pub(super) fn fresh(&self, facts: &Facts) -> Decision<()> {
        let live = facts.live_stack(self.name())?;
        if live.is_some_and(|live| live.metadata.resource_version == self.stack.metadata.resource_version) {
            return Ok(());
        }
        Err(Step::look_again(CATCH_UP))
    }

    /// Whether there is anything that a write has to say.
    pub(super) fn changed(&self) -> bool {
        self.stack.status.as_ref() != Some(&self.status)
    }

    /// The end of a reconcile: the status if it changed, then what depends on its being written.
    pub(super) fn settle(&mut self, outcome: &Outcome, more: Vec<Effect>, then: Then) -> Step {
        let outcome = outcome.clone().because(self.refused);
        self.status.conditions = stack_conditions(&self.status.conditions, &outcome, self.now);
        let mut effects = Vec::new();
        if self.changed() {
            let status = Status::Stack(Box::new(self.status.clone()));
            effects.push(Effect::Status { on: self.target(), status });
        }
        effects.extend(self.release.drain(..).map(|on| Effect::ReleaseUpdate { on }));
        effects.extend(more);
        let on = self.target();
        effects.extend(self.events.drain(..).map(|event| Effect::Publish { on: on.clone(), event }));
        Step::Do { effects, then }
    }

    /// Waits, and says for what.
    pub(super) fn reconciling(
        &mut self,
        reason: Reason,
        message: impl Into<String>,
        more: Vec<Effect>,
        look_again: Duration,
    ) -> Step {
        let outcome = Outcome::Reconciling { reason, message: message.into() };
        self.settle(&outcome, more, Then::Requeue(look_again))
    }

    /// Cannot go on, and says why.
    pub(super) fn stalled(&mut self, reason: Reason, message: impl Into<String>, then: Then) -> Step {
        self.cannot_go_on = true;
        self.settle(&Outcome::Stalled { reason, message: message.into() }, Vec::new(), then)
    }

    /// The spec has to be changed.
    pub(super) fn spec_invalid(&mut self, message: &str) -> Step {
        self.invalid(message, Then::AwaitChange)
    }

    /// The spec, or something that it refers to, has to be changed.
    pub(super) fn spec_invalid_for_now(&mut self, message: &str, look_again: Duration) -> Step {
        self.invalid(message, Then::Requeue(look_again))
    }

    /// Said in an event only when the condition does not say it yet.
    fn invalid(&mut self, message: &str, then: Then) -> Step {
        self.cannot_go_on = true;
        let before = self.status.conditions.clone();
        let outcome = Outcome::Stalled { reason: reason::SPEC_INVALID, message: message.to_owned() };
        if stack_conditions(&before, &outcome, self.now) != before {
            self.events.push(events::stack::config_invalid(message));
        }
        self.settle(&outcome, Vec::new(), then)
    }
}

/// The user's request for a fresh update, empty if there is none.
pub(super) fn request(stack: &Stack) -> String {
    annotation(&stack.metadata, annotations::RECONCILIATION_REQUEST).unwrap_or_default()
}
