//! Real git servers on loopback, and repositories for them to serve: `git http-backend` behind a small HTTP server, a
//! real `sshd`, and the one page of GitHub's API that an app needs.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod github;
mod http;
mod keys;
mod repository;
mod server;
mod ssh;

pub use github::GitHub;
pub use http::{Fault, HttpServer, Seen};
pub use keys::{KeyForm, KeyKind, SshKey};
pub use repository::Repositories;
pub use ssh::{SshOptions, SshServer};
