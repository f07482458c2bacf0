//! Decisions about Workspaces.

pub mod build;
mod decide;
mod initialize;
mod report;

pub use decide::decide;
