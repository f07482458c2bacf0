//! Every decision, as pure functions over facts. What lives here knows no client, clock, environment or chance.

pub mod ask;
mod conditions;
mod covers;
pub mod digest;
pub mod driver;
pub mod effect;
pub mod facts;
pub mod invalid;
pub mod lease;
pub mod merge;
pub mod outcome;
mod owner;
pub mod program;
pub mod references;
pub mod seen;
pub mod settings;
pub mod stack;
pub mod step;
mod time;
mod trouble;
pub mod update;
pub mod workspace;

/// What comes next for the object that the facts are about.
pub fn decide(facts: &facts::Facts) -> step::Step {
    let decision = match facts.key.kind {
        seen::Kind::Stack => stack::decide(facts),
        seen::Kind::Program => program::decide(facts),
        seen::Kind::Workspace => workspace::decide(facts),
        seen::Kind::Update => update::decide(facts),
        seen::Kind::StatefulSet | seen::Kind::Pod => Ok(step::Step::done()),
    };
    decision.unwrap_or_else(|earlier| earlier)
}
