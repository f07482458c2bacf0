//! A simulated cluster: the driver and the decisions of production against a model of everything around them. A history
//! follows from its seed alone. No clock, no thread, no chance from outside.

mod agent;
mod api;
mod caches;
mod cloud;
mod counts;
mod effects;
mod faults;
mod history;
mod invariants;
mod kubelet;
mod mutants;
mod rest;
mod shell;
mod things;
mod truth;
mod users;
mod world;

pub use counts::{Counts, EFFECTS, Group};
pub use faults::names as faults;
pub use mutants::Mutant;
pub use users::acts;

/// How a history went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How many things happened.
    pub steps: usize,
    pub counts: Counts,
    /// What must not be, and was.
    pub violation: Option<String>,
    /// What happened, line by line, if it was asked for.
    pub trace: Vec<String>,
}

/// Runs the history of a seed.
pub fn run(seed: u64, mutant: Option<Mutant>) -> Outcome {
    history::History::new(seed, mutant, false).run()
}

/// Runs the history of a seed, and tells what happened.
pub fn run_traced(seed: u64, mutant: Option<Mutant>) -> Outcome {
    history::History::new(seed, mutant, true).run()
}

impl Outcome {
    /// The part of the trace that is worth reading: up to the last write, and a little of the waiting after it.
    pub fn last_lines(&self, most: usize) -> &[String] {
        const WAITING: usize = 15;
        let written = self.trace.iter().rposition(|line| line.contains(" -> ")).unwrap_or_default();
        let end = self.trace.len().min(written + WAITING);
        &self.trace[end.saturating_sub(most)..end]
    }
}
