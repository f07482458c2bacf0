//! The operator as a process of this machine, for tests that need to kill it at a chosen moment. It signs in with the
//! service account of deploy/install, so it may do what that account may; it takes the flags of the Deployment; and it
//! resolves names by the cluster's DNS.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{ACCOUNT, Kubectl, OPERATOR_NAMESPACE, install_permissions, operator, variable, wait_for};

/// Two operators would act on each other's objects.
static ALONE: Mutex<()> = Mutex::new(());

/// Ended when dropped. Its log is shown when the test fails. There is one at a time in a test program.
#[derive(Debug)]
pub struct LocalOperator {
    dir: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    health_port: u16,
    /// How many pods it has stood for.
    pods: usize,
    child: Child,
    kills: usize,
    _alone: MutexGuard<'static, ()>,
}

impl LocalOperator {
    /// Takes the place of an operator in the cluster and waits until it is ready.
    pub fn start(subject: &str) -> Self {
        // A test that failed beside us is no concern of ours.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        install_permissions();
        operator::end();
        let dir = std::env::temp_dir().join(format!("pko-{subject}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("creating {}: {error}", dir.display()));
        write(&dir.join("kubeconfig"), &kubeconfig());
        write(&dir.join("resolv.conf"), &resolver());
        let container = operator::deployment()["spec"]["template"]["spec"]["containers"][0].take();
        let (host, artifact_port, health_port) = (variable("PKO_TEST_HOST_ADDRESS"), free_port(), free_port());
        let mut arguments = kept_arguments(&container);
        arguments.push(format!("--health-probe-bind-address=127.0.0.1:{health_port}"));
        arguments.push(format!("--program-fs-addr={host}:{artifact_port}"));
        arguments.push(format!("--program-fs-adv-addr={host}:{artifact_port}"));
        let mut environment = literal_environment(&container);
        environment.extend(
            [
                ("KUBECONFIG", dir.join("kubeconfig").display().to_string()),
                ("POD_NAMESPACE", OPERATOR_NAMESPACE.to_owned()),
                ("POD_SA_NAME", ACCOUNT.to_owned()),
                ("POD_NAME", subject.to_owned()),
                ("PATH", variable("PATH")),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        );
        let child = spawn(&dir, &arguments, &environment, &identity(&dir, 1));
        let operator = Self { dir, arguments, environment, health_port, pods: 1, child, kills: 0, _alone: alone };
        operator.wait_ready();
        operator
    }

    /// What it is known by as a leader.
    pub fn identity(&self) -> String {
        identity(&self.dir, self.pods)
    }

    /// Ends the process at this very moment, without a chance to tidy up.
    pub fn kill(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("the manager had already ended by itself with {status}:\n{}", self.log());
        }
        self.child.kill().and_then(|()| self.child.wait()).expect("a process of ours can be killed");
        self.kills += 1;
    }

    /// Asks the process to end, as the kubelet does, and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        assert!(asked.is_ok_and(|status| status.success()), "the manager had already ended:\n{}", self.log());
        wait_for("the manager to end in good order", Duration::from_secs(30), || match self.child.try_wait() {
            Ok(Some(status)) => Ok(status),
            other => Err(format!("{other:?}")),
        })
    }

    /// Starts it again after its end, as the kubelet would start a container of the same pod.
    pub fn respawn(&mut self) {
        self.child = spawn(&self.dir, &self.arguments, &self.environment, &self.identity());
    }

    /// Starts it again after its end with another setting, as an upgrade would.
    pub fn respawn_with(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
        self.respawn_elsewhere();
    }

    /// Starts it again after its end as another pod.
    pub fn respawn_elsewhere(&mut self) {
        self.pods += 1;
        self.respawn();
    }

    /// How often it was killed.
    pub fn kills(&self) -> usize {
        self.kills
    }

    /// Its resident memory now, in kB.
    pub fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        kb.unwrap_or_else(|| panic!("the manager has no memory, so it has ended:\n{}", self.log()))
    }

    pub fn wait_ready(&self) {
        wait_for("the manager to be ready", Duration::from_secs(30), || {
            let answer = ask(self.health_port, "/readyz").map_err(|error| error.to_string())?;
            if answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200") {
                Ok(())
            } else {
                Err(format!("{answer}; its log:\n{}", self.log()))
            }
        });
    }

    /// What all its processes said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("manager.log")).unwrap_or_else(|error| error.to_string())
    }
}

impl Drop for LocalOperator {
    fn drop(&mut self) {
        // In good order if it can: the next operator then need not wait for the lease.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill().and_then(|()| self.child.wait());
        if std::thread::panicking() {
            let log = self.log();
            let dumps = PathBuf::from(variable("PKO_TEST_DUMPS"));
            let file = dumps.join(self.dir.file_name().unwrap_or_default()).with_extension("manager.log");
            let kept = fs::create_dir_all(&dumps).and_then(|()| fs::write(&file, &log));
            eprintln!("== log of the manager (also in {}: {kept:?})\n{log}", file.display());
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The cluster's DNS is put in the place of this machine's for this process only. Each program here runs in the place
/// of the one before, so the process that we know is in the end the manager.
fn spawn(dir: &Path, arguments: &[String], environment: &[(String, String)], identity: &str) -> Child {
    let path = dir.join("manager.log");
    let log = File::options().create(true).append(true).open(&path).expect("the manager's log can be written");
    Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c"])
        .arg(r#"mount --bind "$0" /etc/resolv.conf && exec "$@""#)
        .arg(dir.join("resolv.conf"))
        .arg(variable("PKO_TEST_MANAGER"))
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(k, v)| (k, v)))
        .env("POD_UID", identity)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file can be shared"))
        .stderr(log)
        .spawn()
        .expect("unshare starts")
}

/// The same for all processes that stand for one pod.
fn identity(dir: &Path, pod: usize) -> String {
    format!("{}-{pod}", dir.file_name().unwrap_or_default().display())
}

/// The kubeconfig of this run with a token of the operator's account in the place of its user.
fn kubeconfig() -> String {
    let kubectl = Kubectl::new().in_namespace(OPERATOR_NAMESPACE);
    let token = kubectl.run(&["create", "token", ACCOUNT, "--duration=2h"]);
    let view = kubectl.run(&["config", "view", "--raw", "--minify", "--flatten", "-o", "json"]);
    let mut config: Value = serde_json::from_str(&view).expect("kubectl prints its configuration as JSON");
    config["users"][0]["user"] = json!({"token": token.trim()});
    config.to_string()
}

/// As in a pod of the operator's namespace.
fn resolver() -> String {
    let search = format!("{OPERATOR_NAMESPACE}.svc.cluster.local svc.cluster.local cluster.local");
    format!("nameserver {}\nsearch {search}\noptions ndots:5\n", variable("PKO_TEST_NODE_ADDRESS"))
}

/// The Deployment's arguments without the addresses, which are others outside the cluster.
fn kept_arguments(container: &Value) -> Vec<String> {
    let given = container["args"].as_array().cloned().unwrap_or_default();
    given
        .iter()
        .filter_map(Value::as_str)
        .filter(|a| !a.starts_with("--health-probe-bind-address") && !a.starts_with("--program-fs-"))
        .map(str::to_owned)
        .collect()
}

fn literal_environment(container: &Value) -> Vec<(String, String)> {
    let given = container["env"].as_array().cloned().unwrap_or_default();
    given.iter().filter_map(|e| Some((e["name"].as_str()?.to_owned(), e["value"].as_str()?.to_owned()))).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port is free").port()
}

fn ask(port: u16, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn write(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().create(true).truncate(true).write(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
}
