//! A real `sshd` on an unprivileged port of loopback, with keys and configuration of its own, killed when dropped.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{KeyForm, KeyKind, Repositories, SshKey, keys::run};

/// Where Debian has it; it insists on being started by its full path.
const SSHD: &str = "/usr/sbin/sshd";
const DEADLINE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct SshOptions {
    /// The kinds of host keys that it has.
    pub host_keys: Vec<KeyKind>,
    /// Whether clients may choose the version of git's protocol, which a stock server does not let them.
    pub new_protocol: bool,
    /// Further lines of its configuration.
    pub more: &'static str,
}

impl Default for SshOptions {
    fn default() -> Self {
        Self { host_keys: vec![KeyKind::Ed25519], new_protocol: true, more: "" }
    }
}

#[derive(Debug)]
pub struct SshServer {
    dir: TempDir,
    root: PathBuf,
    port: u16,
    user: String,
    child: Child,
    host_keys: Vec<SshKey>,
}

impl SshServer {
    /// Lets in whoever has one of these keys, as the user that runs the test.
    pub fn start(repositories: &Repositories, keys: &[&SshKey], options: &SshOptions) -> Self {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        let authorized: Vec<&str> = keys.iter().map(|key| key.public.trim_end()).collect();
        fs::write(path("authorized_keys"), authorized.join("\n") + "\n").unwrap();
        let mut config = format!(
            "ListenAddress 127.0.0.1\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\n\
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
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = fs::File::create(path("log")).unwrap();
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-p", &port.to_string(), "-f"])
            .arg(path("config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("sshd is installed");
        let mut server = Self { dir, root: repositories.root().to_owned(), port, user, child, host_keys };
        server.wait();
        server
    }

    fn wait(&mut self) {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && began.elapsed() < DEADLINE, "sshd does not come up: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the server printed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    /// The address of a repository.
    pub fn url(&self, name: &str) -> String {
        format!("ssh://{}@127.0.0.1:{}{}/{name}", self.user, self.port, self.root.display())
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
        format!("[127.0.0.1]:{} {}\n", self.port, key.public)
    }

    /// The same lines with the name hashed, as `ssh-keygen -H` does it.
    pub fn hashed_known_hosts(&self) -> String {
        let file = self.dir.path().join("known_hosts");
        fs::write(&file, self.known_hosts()).unwrap();
        run(Command::new("ssh-keygen").arg("-Hf").arg(&file));
        fs::read_to_string(file).unwrap()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
