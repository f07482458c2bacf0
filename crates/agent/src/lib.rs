//! What the agent is made of, apart from its command line, so that tests can use the parts.

pub mod auth;
mod automation;
pub mod command;
mod door;
mod health;
pub mod init;
mod login;
pub mod place;
mod runs;
pub mod serve;
pub mod tini;
mod workspace;
