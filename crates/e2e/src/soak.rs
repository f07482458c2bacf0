//! How big a soak is. `cargo xtask test` runs each small; `cargo xtask soak` says otherwise.

use std::time::Duration;

/// How many rounds, or how many Stacks.
pub fn size(usual: usize) -> usize {
    number("PKO_SOAK_ROUNDS").map_or(usual, |size| usize::try_from(size).expect("a soak fits into memory"))
}

/// For how long something is watched.
pub fn duration(usual: Duration) -> Duration {
    number("PKO_SOAK_SECONDS").map_or(usual, Duration::from_secs)
}

/// What chance begins with. The same each time in the test run, where a failure is to be seen again.
pub fn seed() -> u64 {
    number("PKO_SOAK_SEED").unwrap_or(1)
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number; run this with cargo xtask soak")))
}
