//! What became of looking at a Stack, and the conditions that say so. Conditions are computed here and nowhere else, so
//! that they never contradict each other.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pko_api::{
    conditions::{ConditionStatus, ConditionType, find},
    messages::stack as message,
    reasons::{Reason, stack as reason},
};

use crate::conditions::{self, LONGEST_MESSAGE, joined};

/// Waiting is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The Stack is as its spec says.
    Ready,
    /// Something is going on, or is waited for; it goes on by itself.
    Reconciling { reason: Reason, message: String },
    /// Nothing more will happen until something changes from outside.
    Stalled { reason: Reason, message: String },
}

impl Outcome {
    /// With what the server or an agent would not do, if anything.
    pub(crate) fn because(mut self, refused: Option<&str>) -> Self {
        if let Self::Reconciling { message, .. } | Self::Stalled { message, .. } = &mut self
            && let Some(refused) = refused
        {
            *message = joined(message, refused);
        }
        self
    }
}

/// The conditions of a Stack after an outcome: Ready always, and one of Reconciling and Stalled unless it is ready.
/// The time of a condition moves only when its status changes.
pub fn stack_conditions(previous: &[Condition], outcome: &Outcome, now: Timestamp) -> Vec<Condition> {
    let condition = |kind: ConditionType, status: ConditionStatus, reason: &Reason, message: &str| {
        conditions::condition(previous, kind, status, reason, message, now)
    };
    let not_ready = |why: &Reason, text: &str| condition(ConditionType::READY, ConditionStatus::False, why, text);
    match outcome {
        Outcome::Ready => vec![condition(
            ConditionType::READY,
            ConditionStatus::True,
            &reason::PROCESSING_COMPLETED,
            message::UP_TO_DATE,
        )],
        Outcome::Reconciling { reason: why, message: text } => vec![
            condition(ConditionType::RECONCILING, ConditionStatus::True, why, text),
            not_ready(&reason::NOT_READY_IN_PROGRESS, message::IN_PROGRESS),
        ],
        Outcome::Stalled { reason: why, message: text } => vec![
            condition(ConditionType::STALLED, ConditionStatus::True, why, text),
            not_ready(&reason::NOT_READY_STALLED, message::STALLED),
        ],
    }
}

/// What is wrong with a Stack's conditions as kstatus and its readers understand them; every test of a status asks.
pub fn faults(conditions: &[Condition]) -> Vec<String> {
    let mut found = Vec::new();
    let holding =
        |kind: ConditionType| conditions.iter().filter(|c| c.type_ == kind.as_str() && c.status == "True").count();
    let states = [ConditionType::READY, ConditionType::RECONCILING, ConditionType::STALLED].map(holding);
    if states.iter().sum::<usize>() != 1 {
        found.push(format!("exactly one of Ready, Reconciling and Stalled must hold, not {states:?}"));
    }
    if find(conditions, ConditionType::READY).is_none() {
        found.push("Ready must always be there".to_owned());
    }
    for condition in conditions {
        if Reason::reported(&condition.reason).as_str() != condition.reason {
            found.push(format!("{} has the malformed reason {:?}", condition.type_, condition.reason));
        }
        if condition.message.len() > LONGEST_MESSAGE {
            found.push(format!("{} has a message of {} bytes", condition.type_, condition.message.len()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn waiting() -> Outcome {
        Outcome::Reconciling { reason: reason::STACK_PROCESSING, message: message::WAITING_FOR_WORKSPACE.to_owned() }
    }

    #[test]
    fn the_time_of_a_condition_moves_only_with_its_status() {
        let first = stack_conditions(&[], &waiting(), at(1));
        let second = stack_conditions(&first, &waiting(), at(2));
        assert_eq!(first, second, "nothing changed, so nothing is to be written");
        let ready = stack_conditions(&second, &Outcome::Ready, at(3));
        assert_eq!(ready[0].last_transition_time, Time(at(3)));
    }

    #[test]
    fn an_outcome_replaces_the_one_before_it() {
        let stalled = Outcome::Stalled { reason: reason::SPEC_INVALID, message: "why".to_owned() };
        let after = stack_conditions(&stack_conditions(&[], &waiting(), at(1)), &stalled, at(2));
        let kinds: Vec<&str> = after.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(kinds, ["Stalled", "Ready"]);
        let ready = find(&after, ConditionType::READY).unwrap();
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "NotReadyStalled"));
        assert_eq!(ready.last_transition_time, Time(at(1)), "it was not ready before either");
    }

    #[test]
    fn contradictions_are_found() {
        let mut both = stack_conditions(&[], &waiting(), at(1));
        both.extend(stack_conditions(&[], &Outcome::Ready, at(1)));
        assert_eq!(faults(&both).len(), 1, "{:?}", faults(&both));
        assert_eq!(faults(&[]).len(), 2, "{:?}", faults(&[]));
    }
}
