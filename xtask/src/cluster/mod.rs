//! A real one-node Kubernetes on this machine, inside namespaces of its own: its processes, mounts, interfaces and
//! packet filters live and die with one process, so that nothing can be left behind.
//!
//! `state` knows which cluster runs, `network` and `pki` and `plan` say what it is made of, `init` is its first process.

mod init;
mod network;
mod pki;
mod plan;
mod sandbox;
mod state;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
pub(crate) use init::{InitArgs, init};
use network::Network;
use plan::Plan;
use state::State;

use crate::{
    host,
    paths::Lock,
    progress::{Step, seconds, tail},
    tools,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
    /// Another cluster beside the usual one (a number from 1 to 15)
    #[arg(long, global = true, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=15))]
    number: u8,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Start it, or finish starting it; does nothing when it is up
    Up,
    /// Stop it and remove every trace
    Down,
    /// Say whether it runs, with which processes
    Status,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let cluster = Cluster::new(args.number)?;
    match args.action {
        Action::Up => match Named::by_kubeconfig()? {
            Named::Foreign(path) => {
                println!("KUBECONFIG={} is set, so that cluster is used and none is started here.", path.display());
            }
            Named::Ours(_) => cluster.up()?,
        },
        Action::Down => cluster.down()?,
        Action::Status => return cluster.status(),
    }
    Ok(ExitCode::SUCCESS)
}

/// What KUBECONFIG says: a cluster of ours, when the user exported what `up` printed, or someone else's.
enum Named {
    Ours(u8),
    Foreign(PathBuf),
}

impl Named {
    fn by_kubeconfig() -> Result<Self> {
        let Some(path) = std::env::var_os("KUBECONFIG").filter(|v| !v.is_empty()).map(PathBuf::from) else {
            return Ok(Self::Ours(0));
        };
        Ok(State::number_of(&path)?.map_or(Self::Foreign(path), Self::Ours))
    }
}

/// The cluster that tests and images go to: the user's own when KUBECONFIG names one, else ours, started if need be
/// and kept from everyone else while in use: two clones would load their images and CRDs over each other's.
pub(crate) enum Target {
    Foreign(PathBuf),
    Ours { cluster: Cluster, _in_use: Lock },
}

impl Target {
    pub(crate) fn get() -> Result<Self> {
        let cluster = match Named::by_kubeconfig()? {
            Named::Foreign(path) => return Ok(Self::Foreign(path)),
            Named::Ours(number) => Cluster::new(number)?,
        };
        let in_use = Lock::take(&cluster.lock())?;
        cluster.up_alone(&cluster.plan()?)?;
        Ok(Self::Ours { cluster, _in_use: in_use })
    }

    /// Why no cluster can be had here, if none can.
    pub(crate) fn obstacle() -> Result<Option<&'static str>> {
        Ok(if let Named::Foreign(_) = Named::by_kubeconfig()? {
            None
        } else if !cfg!(target_os = "linux") {
            Some("the one-node cluster needs Linux; set KUBECONFIG to use another")
        } else if !host::is_root() {
            Some("the one-node cluster needs root; set KUBECONFIG to use another")
        } else {
            None
        })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        match self {
            Self::Foreign(path) => path.clone(),
            Self::Ours { cluster, .. } => cluster.state.kubeconfig(),
        }
    }

    /// `PATH` with a kubectl in it.
    pub(crate) fn path(&self) -> Result<OsString> {
        let own = std::env::var_os("PATH").unwrap_or_default();
        // A user with a cluster has a kubectl; building ours for it would take minutes.
        if matches!(self, Self::Foreign(_)) && host::succeeds(Command::new("kubectl").args(["version", "--client"])) {
            return Ok(own);
        }
        let path = [tools::dir("kubernetes")?].into_iter().chain(std::env::split_paths(&own));
        Ok(std::env::join_paths(path)?)
    }
}

pub(crate) struct Cluster {
    number: u8,
    network: Network,
    state: State,
}

impl Cluster {
    pub(crate) fn new(number: u8) -> Result<Self> {
        Ok(Self { number, network: Network::new(number), state: State::new(number)? })
    }

    /// The socket at which containerd takes images.
    pub(crate) fn containerd_socket(&self) -> PathBuf {
        self.state.containerd_socket()
    }

    /// A file that lives as long as this cluster and remembers an image loaded into it.
    pub(crate) fn loaded_mark(&self, name: &str) -> PathBuf {
        self.state.dir().join(format!("loaded-{name}"))
    }

    /// A directory that this machine and the pods' node both see, for volumes; it goes with the cluster.
    pub(crate) fn volumes(&self) -> PathBuf {
        self.state.dir().join("volumes")
    }

    /// This machine, as pods reach it.
    pub(crate) fn host_address(&self) -> String {
        self.network.host()
    }

    /// The node, where DNS answers.
    pub(crate) fn node_address(&self) -> String {
        self.network.node()
    }

    /// Held by whoever starts, stops or uses the cluster.
    fn lock(&self) -> String {
        format!("cluster-{}", self.number)
    }

    fn up(&self) -> Result<()> {
        let plan = self.plan()?;
        // One that is up is left alone, also while another command uses it.
        if self.runs(&plan) && sandbox::is_loaded(self) && self.is_ready()?.is_ok() {
            println!("cluster {} is up; use it with:", self.number);
        } else {
            let _lock = Lock::take(&self.lock())?;
            let began = Instant::now();
            self.up_alone(&plan)?;
            println!("cluster {} is up ({}); use it with:", self.number, seconds(began.elapsed()));
        }
        println!("  export KUBECONFIG={}", self.state.kubeconfig().display());
        println!("  export PATH={}:$PATH   # kubectl", tools::dir("kubernetes")?.display());
        Ok(())
    }

    /// Gets the parts and says what the cluster is to be made of.
    fn plan(&self) -> Result<Plan> {
        if let Some(obstacle) = Target::obstacle()? {
            bail!(obstacle);
        }
        self.state.check_place()?;
        tools::packages(&tools::CLUSTER_PACKAGES)?;
        Plan::new(&self.state, &self.network, &tools::ensure(tools::CLUSTER)?)
    }

    fn runs(&self, plan: &Plan) -> bool {
        plan.made(&self.state) && self.state.first_process().is_some()
    }

    /// Brings the cluster up; the lock is held.
    fn up_alone(&self, plan: &Plan) -> Result<()> {
        if !self.runs(plan) {
            if self.state.first_process().is_some() {
                eprintln!("the running cluster was made from other parts or settings and is replaced");
            }
            self.start_anew(plan)?;
        }
        if let Err(error) = self.wait_ready() {
            // Its first process may have been ending just when we looked.
            if self.state.first_process().is_some() {
                return Err(error);
            }
            self.start_anew(plan)?;
            self.wait_ready()?;
        }
        Ok(())
    }

    fn start_anew(&self, plan: &Plan) -> Result<()> {
        if self.state.dir().exists() && self.state.first_process().is_none() {
            eprintln!("clearing away what a cluster that no longer runs left in {}", self.state.dir().display());
        }
        self.remove()?;
        self.start(plan)
    }

    fn start(&self, plan: &Plan) -> Result<()> {
        self.network.await_gone()?;
        let step = Step::begin("starting the cluster's processes");
        plan.write(&self.state)?;
        pki::write(&self.state, &self.network)?;
        let program = self.state.init_program();
        std::fs::copy(std::env::current_exe()?, &program).context("copying the cluster's first process")?;
        let log = std::fs::File::create(self.state.logs().join("init.log"))?;
        // A session of its own, so that closing the terminal does not reach it.
        let mut child = Command::new("setsid")
            .args(["unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--mount-proc"])
            .arg(&program)
            .args(["cluster-init", "--state"])
            .arg(self.state.dir())
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting setsid unshare")?;
        let pid = await_some("the cluster's first process", Duration::from_secs(10), || self.state.first_process())
            .with_context(|| tail(&self.state.logs().join("init.log"), 0, 5))?;
        self.network.connect(pid)?;
        {
            use std::io::Write;
            let mut stdin = child.stdin.take().context("the pipe to the cluster's first process")?;
            stdin.write_all(b"go\n")?;
        }
        step.done("running");
        Ok(())
    }

    /// Gives containerd the image of pod sandboxes, without which no pod starts.
    fn load_sandbox_image(&self) -> Result<()> {
        await_some("containerd", Duration::from_secs(30), || {
            let mut version = Command::new("ctr");
            version.args(["--connect-timeout=2s", "--timeout=2s", "--address"]).arg(self.containerd_socket());
            host::succeeds(version.arg("version")).then_some(())
        })
        .with_context(|| tail(&self.state.logs().join("containerd.log"), 0, 5))?;
        sandbox::load(self)
    }

    /// kubectl for this cluster, which does not wait long for an API server that may not be there.
    fn kubectl(&self) -> Result<Command> {
        let mut kubectl = Command::new(tools::binary("kubernetes", "kubectl")?);
        kubectl.arg("--kubeconfig").arg(self.state.kubeconfig()).arg("--request-timeout=5s");
        Ok(kubectl)
    }

    /// Whether pods can be started, or what was seen instead.
    fn is_ready(&self) -> Result<Result<(), String>> {
        let mut ask = self.kubectl()?;
        ask.arg("--output=jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status} {.items[*].kind}");
        // The default service account appears last: from then on pods are admitted.
        let answer = host::output(ask.args(["get", &format!("node/{}", plan::NODE), "serviceaccount/default"]));
        Ok(match answer {
            Ok(text) if text.trim() == "True Node ServiceAccount" => Ok(()),
            Ok(text) => Err(text),
            Err(error) => Err(format!("{error:#}").lines().last().unwrap_or_default().to_owned()),
        })
    }

    fn wait_ready(&self) -> Result<()> {
        // Also when it was started by a command that was then interrupted.
        self.load_sandbox_image()?;
        let step = Step::begin("waiting for the node");
        let deadline = Instant::now() + Duration::from_secs(90);
        while let Err(seen) = self.is_ready()? {
            if self.state.first_process().is_none() {
                let log = tail(&self.state.logs().join("init.log"), 0, 20);
                bail!("the cluster's first process has ended; the end of its log:\n{log}");
            }
            if Instant::now() > deadline {
                let logs = self.state.logs();
                bail!("the node was not ready after 90 s; last seen: {seen}; logs are in {}", logs.display());
            }
            step.show(&seen);
            std::thread::sleep(Duration::from_millis(100));
        }
        step.done("ready");
        Ok(())
    }

    fn down(&self) -> Result<()> {
        let was_there = self.state.dir().exists() || self.state.first_process().is_some();
        if was_there && !host::is_root() {
            bail!("stopping the one-node cluster needs root");
        }
        let _lock = Lock::take(&self.lock())?;
        let began = Instant::now();
        self.remove()?;
        let gone = if was_there { "gone" } else { "not there" };
        println!("cluster {} is {gone} ({})", self.number, seconds(began.elapsed()));
        Ok(())
    }

    /// Ends the first process, and with it all others, then everything that was on disk.
    fn remove(&self) -> Result<()> {
        // Found by what it runs, so also when someone removed the directory under it.
        let running = self.state.first_process();
        if let Some(pid) = running {
            state::kill_namespace(pid)?;
        }
        if running.is_some() || self.state.dir().exists() {
            self.network.await_gone()?;
            self.state.remove_cgroups()?;
        }
        if self.state.dir().exists() {
            std::fs::remove_dir_all(self.state.dir())
                .with_context(|| format!("removing {}", self.state.dir().display()))?;
        }
        Ok(())
    }

    fn status(&self) -> Result<ExitCode> {
        let Some(first) = self.state.first_process() else {
            println!("cluster {} is not running", self.number);
            return Ok(ExitCode::FAILURE);
        };
        println!("cluster {} runs in the namespaces of process {first}", self.number);
        println!("processes: {}", state::process_names(first).join(" "));
        println!("kubeconfig: {}", self.state.kubeconfig().display());
        let nodes = host::output(self.kubectl()?.args(["get", "nodes"]));
        match nodes {
            Ok(nodes) => {
                print!("{nodes}");
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => {
                println!("the API does not answer: {error:#}");
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// Asks again and again until there is an answer or the time is over.
fn await_some<T>(what: &str, limit: Duration, ask: impl Fn() -> Option<T>) -> Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            bail!("{what} did not appear within {}", seconds(limit));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Loads an image archive into the cluster's containerd.
pub(crate) fn import(cluster: &Cluster, archive: &Path) -> Result<()> {
    host::output(
        Command::new("ctr")
            .arg("--address")
            .arg(cluster.containerd_socket())
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive),
    )
    .map(drop)
}
