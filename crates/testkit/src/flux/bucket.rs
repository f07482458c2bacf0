//! A bucket of an S3 server, which takes whatever credentials it is given.

use std::{net::SocketAddr, path::Path};

use tempfile::TempDir;

use super::request::send;
use crate::{
    cluster::{host_address, variable},
    process::{Process, free_address},
};

/// Gone when dropped, with the objects in it.
#[derive(Debug)]
pub struct Bucket {
    address: SocketAddr,
    _process: Process,
}

impl Bucket {
    pub const NAME: &'static str = "programs";

    pub fn start() -> Self {
        let address = free_address(host_address());
        let program = variable("PKO_TEST_S3");
        let host = address.to_string();
        let arguments = ["-backend", "memory", "-initialbucket", Self::NAME, "-host", &host];
        let process = Process::start(TempDir::new().unwrap(), Path::new(&program), arguments, &[], address);
        Self { address, _process: process }
    }

    /// What a Bucket of Flux has as its endpoint.
    pub fn endpoint(&self) -> String {
        self.address.to_string()
    }

    /// Puts an object, in the place of one with the same key.
    pub fn put(&self, key: &str, content: &str) {
        let path = format!("/{}/{key}", Self::NAME);
        send(self.address, "PUT", &path, "application/octet-stream", content.as_bytes(), 200);
    }
}
