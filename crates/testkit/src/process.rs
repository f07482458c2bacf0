//! A server that runs as a process beside the tests and ends with them, however they end.

use std::{
    ffi::OsStr,
    fs::{self, File},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;

use crate::wait::wait_for;

/// Ends the program as soon as nobody holds the other end of its standard input any more.
const KEEPER: &str = r#""$@" </dev/null & read -r _; kill -KILL $!; wait"#;

const PATIENCE: Duration = Duration::from_secs(30);

/// Killed when dropped, or when the tests that run it are gone. It has a directory of its own.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    keeper: Child,
    dir: TempDir,
}

impl Process {
    /// Starts a program that listens at an address, and waits until it does.
    pub(crate) fn start<A: AsRef<OsStr>>(
        dir: TempDir,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
        environment: &[(&str, &str)],
        address: SocketAddr,
    ) -> Self {
        let name = program.file_name().unwrap_or_default().display().to_string();
        let log = File::create(dir.path().join("log")).expect("a temporary directory can be written to");
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, &name])
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a file can be shared"))
            .stderr(log)
            .spawn()
            .expect("sh starts");
        let process = Self { name, keeper, dir };
        wait_for(&format!("{} to listen at {address}", process.name), PATIENCE, || {
            TcpStream::connect(address).map(drop).map_err(|error| format!("{error}; its log:\n{}", process.log()))
        });
        process
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What it printed.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_else(|error| error.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// An address at which nobody listens just now.
pub(crate) fn free_address(host: IpAddr) -> SocketAddr {
    TcpListener::bind((host, 0)).and_then(|listener| listener.local_addr()).expect("a port is free")
}
