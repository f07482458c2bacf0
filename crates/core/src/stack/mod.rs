//! Decisions about Stacks.

mod absorb;
mod decide;
mod draft;
mod finalize;
pub mod plan;
mod ready;
mod source;
mod start;
mod synced;

pub use decide::decide;
pub use synced::{Synced, cooldown, synced};
