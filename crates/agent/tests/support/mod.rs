//! A workspace with the real agent, the real CLI and the test provider, all below one temporary directory.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "what fails here fails a test, which prints what was seen"
)]

use std::{
    fs,
    future::Future,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pko_proto::{
    agent::{self, automation_service_client::AutomationServiceClient},
    health::health_client::HealthClient,
    runs::{
        AttachRequest, CancelMode, CancelRequest, Destroy, GetRequest, Init, OutputChunk, Preview, Refresh, Run, Stack,
        StartRequest, Up, attach_response::What, runs_client::RunsClient, start_request::Operation,
    },
};
use tempfile::TempDir;
use tonic::{Status, transport::Channel};

/// The longest that anything in these tests takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

pub(crate) type Runs = RunsClient<Channel>;

/// A program with one thing that has these properties.
pub(crate) fn program(properties: &str) -> String {
    format!(
        "name: shop\nruntime: yaml\nresources:\n  a:\n    type: pkotest:Thing\n    properties: {{{properties}}}\n    \
         options: {{version: 0.1.0}}\noutputs:\n  plain: ${{a.value}}\n"
    )
}

pub(crate) struct Rig {
    dir: TempDir,
    agent: Option<Child>,
    address: String,
    /// How many agents were started here.
    count: usize,
    extra_env: Vec<(String, String)>,
}

impl Rig {
    /// A workspace with a program, and no agent yet.
    pub(crate) fn new(program: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let rig = Self { dir, agent: None, address: String::new(), count: 0, extra_env: Vec::new() };
        for name in ["share/source", "home/plugins/resource-pkotest-v0.1.0", "backend", "bin"] {
            fs::create_dir_all(rig.path(name)).unwrap();
        }
        symlink(rig.path("share/source"), rig.path("share/workspace")).unwrap();
        let provider = from_xtask("PKO_TEST_PROVIDER");
        symlink(provider, rig.path("home/plugins/resource-pkotest-v0.1.0/pulumi-resource-pkotest")).unwrap();
        rig.write_program(program);
        rig.write_pulumi("");
        rig
    }

    /// A pulumi that writes its arguments down and then is the real one, under the same process identifier. What comes
    /// before may change the arguments.
    pub(crate) fn write_pulumi(&self, before: &str) {
        let real = std::env::split_paths(&from_xtask("PKO_TEST_PULUMI_PATH"))
            .map(|dir| dir.join("pulumi"))
            .find(|file| file.exists())
            .expect("pulumi is on PKO_TEST_PULUMI_PATH");
        let calls = self.path("calls");
        let body = format!("printf '%s\\n' \"$*\" >> {}\n{before}\nexec {} \"$@\"", calls.display(), real.display());
        self.write_script("pulumi", &body);
    }

    /// A pulumi that appends lines to the event log it is given, and then does something.
    pub(crate) fn write_pulumi_with_events(&self, events: &str, then: &str) {
        std::fs::write(self.path("recorded"), events).unwrap();
        let find = "while [ $# -gt 0 ]; do [ \"$1\" = --event-log ] && log=$2; shift; done";
        let recorded = self.path("recorded");
        self.write_script("pulumi", &format!("{find}\ncat {} >> \"$log\"\n{then}", recorded.display()));
    }

    /// The same with an agent.
    pub(crate) async fn serving(program: &str) -> Self {
        let mut rig = Self::new(program);
        rig.start_agent().await;
        rig
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write_program(&self, text: &str) {
        fs::write(self.path("share/source/Pulumi.yaml"), text).unwrap();
    }

    /// A program that the agent finds before all others.
    pub(crate) fn write_script(&self, name: &str, body: &str) {
        let file = self.path("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A variable of the agents that are started from now on.
    pub(crate) fn set_env(&mut self, name: &str, value: &str) {
        self.extra_env.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let path = [self.path("bin").display().to_string(), from_xtask("PKO_TEST_PULUMI_PATH"), from_xtask("PATH")];
        let text = |name: &str| self.path(name).display().to_string();
        let mut env = vec![
            ("PATH".to_owned(), path.join(":")),
            ("HOME".to_owned(), text("home")),
            ("PULUMI_HOME".to_owned(), text("home")),
            ("PULUMI_BACKEND_URL".to_owned(), format!("file://{}", text("backend"))),
            ("PULUMI_CONFIG_PASSPHRASE".to_owned(), "test".to_owned()),
            ("PKOTEST_CLOUD".to_owned(), text("cloud")),
        ];
        env.extend(self.extra_env.clone());
        env
    }

    pub(crate) async fn start_agent(&mut self) {
        self.start_agent_with(&["serve"], Path::new(env!("CARGO_BIN_EXE_agent"))).await;
    }

    /// Starts an agent and waits until it listens.
    pub(crate) async fn start_agent_with(&mut self, args: &[&str], program: &Path) {
        assert!(self.agent.is_none(), "one agent at a time");
        self.count += 1;
        let log = self.log_file();
        let child = Command::new(program)
            .args(args)
            .arg("--workspace")
            .arg(self.path("share/workspace"))
            .args(["--skip-install", "--host", "127.0.0.1", "--port", "0", "--env-file"])
            .arg(self.path("share/.env"))
            .env_clear()
            .envs(self.env())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let agent = self.agent.insert(child);
        self.address = until("the agent listens", || {
            let (ended, log) = (agent.try_wait().unwrap(), &log);
            async move {
                let text = fs::read_to_string(log).unwrap();
                assert_eq!(ended, None, "the agent has ended: {text}");
                let line = text.lines().find(|l| l.contains("server listening"))?;
                Some(format!("http://{}", line.split("address=").nth(1)?.trim()))
            }
        })
        .await;
    }

    fn log_file(&self) -> PathBuf {
        self.path(&format!("agent-{}.log", self.count))
    }

    /// What the agents have logged.
    pub(crate) fn log(&self) -> String {
        (1..=self.count).filter_map(|n| fs::read_to_string(self.path(&format!("agent-{n}.log"))).ok()).collect()
    }

    pub(crate) fn agent_pid(&self) -> i32 {
        i32::try_from(self.agent.as_ref().expect("an agent runs").id()).unwrap()
    }

    pub(crate) fn signal_agent(&self, signal: Signal) {
        kill(Pid::from_raw(self.agent_pid()), signal).unwrap();
    }

    /// Ends the agent at once, without a word to anyone.
    pub(crate) fn kill_agent(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            agent.kill().unwrap();
            agent.wait().unwrap();
        }
    }

    pub(crate) async fn agent_exit(&mut self) -> ExitStatus {
        let agent = self.agent.as_mut().expect("an agent runs");
        let ended = until("the agent ends", || {
            let ended = agent.try_wait().unwrap();
            async move { ended }
        })
        .await;
        self.agent = None;
        ended
    }

    /// Where the agent listens, without a scheme.
    pub(crate) fn address(&self) -> &str {
        self.address.trim_start_matches("http://")
    }

    async fn channel(&self) -> Channel {
        Channel::from_shared(self.address.clone()).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn runs(&self) -> Runs {
        RunsClient::new(self.channel().await)
    }

    pub(crate) async fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel().await)
    }

    pub(crate) async fn automation(&self) -> AutomationServiceClient<Channel> {
        AutomationServiceClient::new(self.channel().await)
    }

    /// The arguments of every call of the CLI so far, a line each.
    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("calls")).unwrap_or_default();
        text.lines().map(|l| l.trim_start_matches("--non-interactive ").to_owned()).collect()
    }

    /// Calls whose arguments begin like this.
    pub(crate) fn calls_of(&self, beginning: &str) -> usize {
        self.calls().iter().filter(|c| c.starts_with(beginning)).count()
    }

    /// What the provider did, in order.
    pub(crate) fn ledger(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("cloud/ledger.jsonl")).unwrap_or_default();
        let op = |line: &str| Some(serde_json::from_str::<serde_json::Value>(line).ok()?["op"].as_str()?.to_owned());
        text.lines().filter_map(op).collect()
    }

    pub(crate) async fn until_in_ledger(&self, op: &str) {
        until(&format!("{op} in the ledger"), || async { self.ledger().iter().any(|o| o == op).then_some(()) }).await;
    }

    pub(crate) fn things(&self) -> usize {
        fs::read_dir(self.path("cloud/things")).map_or(0, Iterator::count)
    }

    /// Locks in the backend.
    pub(crate) fn locks(&self) -> Vec<PathBuf> {
        files_below(&self.path("backend/.pulumi/locks"))
    }

    /// Locks the stack `dev` as someone else would.
    pub(crate) fn lock_stack(&self, user: &str, host: &str) {
        self.lock_stack_as(host, 999_999, "2026-11-01T00:00:00Z", user);
    }

    /// Locks the stack `dev` as this process of a host would have at this time.
    pub(crate) fn lock_stack_as(&self, host: &str, pid: i32, since: &str, user: &str) {
        let locks = self.path("backend/.pulumi/locks/organization/shop/dev");
        fs::create_dir_all(&locks).unwrap();
        let lock = serde_json::json!({"pid": pid, "username": user, "hostname": host, "timestamp": since});
        fs::write(locks.join(format!("0b5d1d5e-0000-4000-8000-{pid:012}.json")), lock.to_string()).unwrap();
    }

    /// Everything in the journal, as one text.
    pub(crate) fn journal(&self) -> String {
        let read = |f: &PathBuf| fs::metadata(f).unwrap().is_file().then(|| fs::read(f).unwrap());
        let all: Vec<u8> = files_below(&self.path("share/.runs")).iter().filter_map(read).flatten().collect();
        String::from_utf8_lossy(&all).into_owned()
    }

    /// The CLI process that the journal has for a run.
    pub(crate) fn cli_pid(&self, run_id: &str) -> i32 {
        let text = fs::read_to_string(self.path("share/.runs").join(run_id).join("process.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["pid"].as_i64().unwrap().try_into().unwrap()
    }

    /// What the CLI prints when someone calls it by hand on the stack `dev`, without its warnings.
    pub(crate) fn pulumi(&self, args: &[&str]) -> String {
        let output = Command::new("pulumi")
            .arg("--non-interactive")
            .args(args)
            .args(["--stack", "dev"])
            .current_dir(self.path("share/source"))
            .env_clear()
            .envs(self.env())
            .output()
            .unwrap();
        assert!(output.status.success(), "pulumi {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The configuration of the stack, with its secrets in clear.
    pub(crate) fn config(&self) -> serde_json::Value {
        serde_json::from_str(&self.pulumi(&["config", "--json", "--show-secrets"])).unwrap()
    }

    /// The resources in the stack's state, as type and name.
    pub(crate) fn resources(&self) -> Vec<String> {
        let state: serde_json::Value = serde_json::from_str(&self.pulumi(&["stack", "export"])).unwrap();
        let resources = state["deployment"]["resources"].as_array().cloned().unwrap_or_default();
        resources
            .iter()
            .map(|r| r["urn"].as_str().unwrap().split("::").skip(2).collect::<Vec<_>>().join("::"))
            .collect()
    }

    /// Makes the stack `dev` ready.
    pub(crate) async fn init(&self) {
        let run = self.run("init", init(vec![stack()])).await;
        assert_eq!(run.failure, None, "{}", self.log());
    }

    /// Starts a run and waits for its end.
    pub(crate) async fn run(&self, run_id: &str, operation: Operation) -> Run {
        let mut runs = self.runs().await;
        start(&mut runs, run_id, operation).await.unwrap();
        follow(&mut runs, run_id).await.0
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- agent\n{}--- calls\n{}", self.log(), self.calls().join("\n"));
        }
        if let Some(mut agent) = self.agent.take() {
            let pid = agent.id();
            kill_tree(pid.cast_signed());
            let _ = agent.wait();
        }
        // A CLI outlives its agent; only those of this rig's journal are ended, and only if they are still the same.
        for file in files_below(&self.path("share/.runs")).iter().filter(|f| f.ends_with("process.json")) {
            let Ok(text) = fs::read_to_string(file) else { continue };
            let Ok(process) = serde_json::from_str::<pko_pulumi::Identity>(&text) else { continue };
            if process.is_alive() {
                let _ =
                    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), nix::sys::signal::Signal::SIGKILL);
            }
        }
    }
}

pub(crate) fn from_xtask(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; these tests are run by `cargo xtask test L3`"))
}

pub(crate) fn children(pid: i32) -> Vec<i32> {
    let parent = |stat: &str| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|child| fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|s| parent(&s) == Some(pid)))
        .collect()
}

/// Ends a process and all that it has started, as the end of a container does.
pub(crate) fn kill_tree(pid: i32) {
    let children = children(pid);
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    children.into_iter().for_each(kill_tree);
}

fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Waits for a condition and says which one it was that did not come.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < DEADLINE, "waited {DEADLINE:?} in vain: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

pub(crate) fn stack() -> Stack {
    Stack { name: "dev".to_owned(), create: true, ..Stack::default() }
}

pub(crate) fn init(stacks: Vec<Stack>) -> Operation {
    Operation::Init(Init { stacks, skip_install: false })
}

pub(crate) fn up() -> Operation {
    Operation::Up(Up { stack_name: "dev".to_owned(), options: Some(agent::UpRequest::default()) })
}

pub(crate) fn up_with(options: agent::UpRequest) -> Operation {
    Operation::Up(Up { stack_name: "dev".to_owned(), options: Some(options) })
}

pub(crate) fn preview_with(options: agent::PreviewRequest) -> Operation {
    Operation::Preview(Preview { stack_name: "dev".to_owned(), options: Some(options) })
}

pub(crate) fn refresh_with(options: agent::RefreshRequest) -> Operation {
    Operation::Refresh(Refresh { stack_name: "dev".to_owned(), options: Some(options) })
}

pub(crate) fn destroy_with(options: agent::DestroyRequest) -> Operation {
    Operation::Destroy(Destroy { stack_name: "dev".to_owned(), options: Some(options) })
}

/// How a resource of the stack is named in a target.
pub(crate) fn urn(name: &str) -> String {
    format!("urn:pulumi:dev::shop::pkotest:index:Thing::{name}")
}

pub(crate) async fn start(runs: &mut Runs, run_id: &str, operation: Operation) -> Result<Run, Status> {
    let request = StartRequest { run_id: run_id.to_owned(), operation: Some(operation) };
    Ok(runs.start(request).await?.into_inner().run.unwrap())
}

pub(crate) async fn get(runs: &mut Runs, run_id: &str) -> Run {
    runs.get(GetRequest { run_id: run_id.to_owned() }).await.unwrap().into_inner().run.unwrap()
}

pub(crate) async fn cancel(runs: &mut Runs, run_id: &str, mode: CancelMode) {
    runs.cancel(CancelRequest { run_id: run_id.to_owned(), mode: mode.into() }).await.unwrap();
}

/// The end of a run, and its outputs.
pub(crate) async fn follow(runs: &mut Runs, run_id: &str) -> (Run, Vec<OutputChunk>) {
    let request = AttachRequest { run_id: run_id.to_owned(), after_seq: 0, outputs: true };
    let mut stream = runs.attach(request).await.unwrap().into_inner();
    let (mut end, mut outputs) = (None, Vec::new());
    while let Some(response) = stream.message().await.unwrap() {
        match response.what.unwrap() {
            What::Ended(run) => end = Some(run),
            What::Output(chunk) => {
                assert!(end.is_some(), "outputs follow the end");
                outputs.push(chunk);
            }
            What::Progress(_) | What::Heartbeat(_) => assert!(end.is_none(), "only outputs follow the end"),
        }
    }
    (end.expect("the stream has an end"), outputs)
}

pub(crate) fn reason(run: &Run) -> &str {
    run.failure.as_ref().map_or("", |f| &f.reason)
}
