//! Every decision, as pure functions over facts. What lives here knows no client, clock, environment or chance.

pub mod outcome;
