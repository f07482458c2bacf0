//! What a decision comes to: one more question, or things to do and when to look again.

use std::time::Duration;

use crate::{ask::Question, effect::Effect};

/// The next step of a reconcile.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Something has to be read first.
    Ask(Question),
    /// This is to be done, in order, each only if the one before it was.
    Do { effects: Vec<Effect>, then: Then },
}

/// When an object is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// When something that is watched changes; nothing else can move it.
    AwaitChange,
    /// After that time, or earlier when something that is watched changes.
    Requeue(Duration),
}

/// A part of a decision: a value to go on with, or the step that comes first.
pub type Decision<T> = Result<T, Step>;

impl Step {
    /// Nothing to do until something changes.
    pub const fn done() -> Self {
        Self::Do { effects: Vec::new(), then: Then::AwaitChange }
    }

    /// Nothing to do for that time, or until something changes.
    pub const fn look_again(after: Duration) -> Self {
        Self::Do { effects: Vec::new(), then: Then::Requeue(after) }
    }
}
