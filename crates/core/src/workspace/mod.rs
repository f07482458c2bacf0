//! Decisions about Workspaces.

pub mod build;
mod decide;
mod initialize;
mod missing;
mod renewal;
mod report;

pub use decide::{decide, plan};
