//! The shell around the core: watches and stores, facts in, effects out. It reads and writes, and decides nothing.

pub mod agents;
pub mod artifacts;
pub mod cluster;
pub mod explain;
pub mod flags;
pub mod health;
pub mod http;
pub mod leader;
pub mod logs;
pub mod operator;
mod packed;
pub mod queue;
pub mod reconcile;
pub mod shell;
pub mod sources;
pub mod store;
mod wake;
pub mod watch;
