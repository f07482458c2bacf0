//! Decisions about Stacks.

mod absorb;
mod decide;
mod draft;
mod finalize;
mod namesakes;
pub mod plan;
mod ready;
mod references;
mod requirements;
mod retry;
mod source;
mod start;
mod synced;

pub use decide::decide;
pub use namesakes::deploys;
pub use references::references;
pub use retry::cooldown;
pub use synced::{Present, Synced, synced};
