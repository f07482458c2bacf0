//! Real git servers on loopback or another address, and repositories for them to serve: `git http-backend` behind a small HTTP server, a
//! real `sshd`, and the one page of GitHub's API that an app needs.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod authority;
mod github;
mod http;
mod keys;
mod repository;
mod server;
mod ssh;

use std::net::{IpAddr, Ipv4Addr};

pub use authority::Authority;
pub use github::{App, GitHub};
pub use http::{Fault, HttpServer, Seen};
pub use keys::{KeyForm, KeyKind, SshKey};
pub use repository::Repositories;
pub use ssh::{SshOptions, SshServer};

/// Where a server is that is not told where to be.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
