//! A real `sshd` on an unprivileged port, with keys and configuration of its own, killed when dropped.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use super::{KeyForm, KeyKind, LOOPBACK, Repositories, SshKey, keys::run};
use crate::process::{Process, free_address};

/// Where Debian has it; it insists on being started by its full path.
const SSHD: &str = "/usr/sbin/sshd";

#[derive(Debug, Clone)]
pub struct SshOptions {
    /// The kinds of host keys that it has.
    pub host_keys: Vec<KeyKind>,
    /// Whether clients may choose the version of git's protocol, which a stock server does not let them.
    pub new_protocol: bool,
    /// Further lines of its configuration.
    pub more: &'static str,
    /// Where it is to be reached.
    pub host: IpAddr,
}

impl Default for SshOptions {
    fn default() -> Self {
        Self { host_keys: vec![KeyKind::Ed25519], new_protocol: true, more: "", host: LOOPBACK }
    }
}

#[derive(Debug)]
pub struct SshServer {
    process: Process,
    root: PathBuf,
    address: SocketAddr,
    user: String,
    host_keys: Vec<SshKey>,
}

impl SshServer {
    /// Lets in whoever has one of these keys, as the user that runs the test.
    pub fn start(repositories: &Repositories, keys: &[&SshKey], options: &SshOptions) -> Self {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        let authorized: Vec<&str> = keys.iter().map(|key| key.public.trim_end()).collect();
        fs::write(path("authorized_keys"), authorized.join("\n") + "\n").unwrap();
        let address = free_address(options.host);
        let mut config = format!(
            "ListenAddress {address}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n{}\n",
            path("authorized_keys").display(),
            options.more,
        );
        if options.new_protocol {
            config.push_str("AcceptEnv GIT_PROTOCOL\n");
        }
        let mut host_keys = Vec::new();
        for kind in &options.host_keys {
            let file = path(&format!("host_{kind:?}"));
            host_keys.push(SshKey::in_file(&file, *kind, KeyForm::OpenSsh, ""));
            config.push_str("HostKey ");
            config.push_str(&file.display().to_string());
            config.push('\n');
        }
        fs::write(path("config"), config).unwrap();
        // A server that runs as root wants it to be there.
        let _ = fs::create_dir_all("/run/sshd");
        let user = run(Command::new("id").arg("-un")).trim().to_owned();
        let config = path("config");
        let arguments = [Path::new("-D"), Path::new("-e"), Path::new("-f"), &config];
        let process = Process::start(dir, Path::new(SSHD), arguments, &[], address);
        Self { process, root: repositories.root().to_owned(), address, user, host_keys }
    }

    /// What the server printed.
    pub fn log(&self) -> String {
        self.process.log()
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    /// The address of a repository.
    pub fn url(&self, name: &str) -> String {
        format!("ssh://{}@{}{}/{name}", self.user, self.address, self.root.display())
    }

    pub fn host_keys(&self) -> &[SshKey] {
        &self.host_keys
    }

    /// Lines of known_hosts for all its host keys.
    pub fn known_hosts(&self) -> String {
        self.host_keys.iter().map(|key| self.known_host(key)).collect()
    }

    /// The line with which this server would be known to have a key.
    pub fn known_host(&self, key: &SshKey) -> String {
        format!("[{}]:{} {}\n", self.address.ip(), self.address.port(), key.public)
    }

    /// The same lines with the name hashed, as `ssh-keygen -H` does it.
    pub fn hashed_known_hosts(&self) -> String {
        let file = self.process.dir().join("known_hosts");
        fs::write(&file, self.known_hosts()).unwrap();
        run(Command::new("ssh-keygen").arg("-Hf").arg(&file));
        fs::read_to_string(file).unwrap()
    }
}
