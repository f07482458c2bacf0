//! Decisions about Updates.

mod decide;
mod operation;
mod report;

pub use decide::decide;
