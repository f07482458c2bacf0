//! A real one-node Kubernetes on this machine, inside namespaces of its own: its processes, mounts, interfaces and
//! packet filters live and die with one process, so that nothing can be left behind.
//!
//! `state` knows which cluster runs, `network` and `pki` and `plan` say what it is made of, `init` is its first process.

mod init;
mod network;
mod pki;
mod plan;
mod state;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
pub(crate) use init::{InitArgs, init};
use network::Network;
use state::State;

use crate::{
    host, image,
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
    if let Some(path) = cluster.foreign_kubeconfig() {
        println!("KUBECONFIG={} is set, so that cluster is used and none is started or stopped here.", path.display());
        return Ok(ExitCode::SUCCESS);
    }
    match args.action {
        Action::Up => cluster.up()?,
        Action::Down => cluster.down()?,
        Action::Status => return cluster.status(),
    }
    Ok(ExitCode::SUCCESS)
}

/// The cluster that tests and images go to: the user's own when KUBECONFIG names one, else ours, started if need be.
pub(crate) enum Target {
    Foreign(PathBuf),
    Ours { cluster: Cluster, _in_use: Lock },
}

impl Target {
    pub(crate) fn get() -> Result<Self> {
        let cluster = Cluster::new(0)?;
        if let Some(path) = cluster.foreign_kubeconfig() {
            return Ok(Self::Foreign(path));
        }
        cluster.up()?;
        let in_use = Lock::share(&cluster.use_lock())?;
        Ok(Self::Ours { cluster, _in_use: in_use })
    }

    /// Why no cluster can be had here, if none can.
    pub(crate) fn obstacle() -> Result<Option<String>> {
        if Cluster::new(0)?.foreign_kubeconfig().is_some() {
            return Ok(None);
        }
        Ok(if !cfg!(target_os = "linux") {
            Some("the one-node cluster needs Linux; set KUBECONFIG to use another".to_owned())
        } else if !host::is_root() {
            Some("the one-node cluster needs root; set KUBECONFIG to use another".to_owned())
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

    /// KUBECONFIG, unless it names this very cluster because the user exported what `up` printed.
    fn foreign_kubeconfig(&self) -> Option<PathBuf> {
        let path = PathBuf::from(std::env::var_os("KUBECONFIG").filter(|v| !v.is_empty())?);
        (path != self.state.kubeconfig()).then_some(path)
    }

    fn use_lock(&self) -> String {
        format!("cluster-{}-in-use", self.number)
    }

    fn start_lock(&self) -> String {
        format!("cluster-{}", self.number)
    }

    pub(crate) fn up(&self) -> Result<()> {
        if let Some(obstacle) = Target::obstacle()? {
            bail!(obstacle);
        }
        tools::packages(&tools::CLUSTER_PACKAGES)?;
        let bins = tools::ensure(tools::CLUSTER)?;
        let plan = plan::Plan::new(&self.state, &self.network, &bins)?;
        let _lock = Lock::take(&self.start_lock())?;
        let began = Instant::now();
        match self.state.holder() {
            Some(holder) if holder.plan == plan.fingerprint() => {}
            Some(_) => {
                eprintln!("the running cluster was made from other parts or settings and is replaced");
                let _exclusive = Lock::take(&self.use_lock())?;
                self.remove()?;
                self.start(&plan)?;
            }
            None => self.start_anew(&plan)?,
        }
        if let Err(error) = self.wait_ready() {
            // Its first process may have been ending just when we looked.
            if self.state.holder().is_some() {
                return Err(error);
            }
            self.start_anew(&plan)?;
            self.wait_ready()?;
        }
        println!("cluster {} is up ({}); use it with:", self.number, seconds(began.elapsed()));
        println!("  export KUBECONFIG={}", self.state.kubeconfig().display());
        println!("  export PATH={}:$PATH   # kubectl", bins[0].display());
        Ok(())
    }

    fn start_anew(&self, plan: &plan::Plan) -> Result<()> {
        if self.state.dir().exists() {
            eprintln!("clearing away what a cluster that no longer runs left in {}", self.state.dir().display());
        }
        self.remove()?;
        self.start(plan)
    }

    fn start(&self, plan: &plan::Plan) -> Result<()> {
        self.network.await_gone()?;
        let step = Step::begin("starting the cluster's processes");
        plan.write(&self.state)?;
        pki::write(&self.state, &self.network)?;
        let program = self.state.dir().join("init");
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
        let pid = await_some("the cluster's first process", Duration::from_secs(10), || {
            state::child_running(child.id(), &program)
        })
        .with_context(|| tail(&self.state.logs().join("init.log"), 0, 5))?;
        self.state.record_holder(pid, &plan.fingerprint())?;
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
            host::succeeds(Command::new("ctr").arg("--address").arg(self.state.containerd_socket()).arg("version"))
                .then_some(())
        })
        .with_context(|| tail(&self.state.logs().join("containerd.log"), 0, 5))?;
        image::load_pause(self)
    }

    fn wait_ready(&self) -> Result<()> {
        // Also when it was started by a command that was then interrupted.
        self.load_sandbox_image()?;
        let kubectl = tools::binary("kubernetes", "kubectl")?;
        let step = Step::begin("waiting for the node");
        let deadline = Instant::now() + Duration::from_secs(90);
        loop {
            let answer = host::output(Command::new(&kubectl).arg("--kubeconfig").arg(self.state.kubeconfig()).args([
                "get",
                "nodes,serviceaccounts",
                "--request-timeout=5s",
                "--output=jsonpath={.items[*].status.conditions[?(@.type==\"Ready\")].status} {.items[*].kind}",
            ]));
            let seen = match answer {
                // The default service account appears last: from then on pods are admitted.
                Ok(text) if text.trim() == "True Node ServiceAccount" => break,
                Ok(text) => text,
                Err(error) => format!("{error:#}").lines().last().unwrap_or_default().to_owned(),
            };
            if self.state.holder().is_none() {
                bail!(
                    "the cluster's first process has ended; the end of its log:\n{}",
                    tail(&self.state.logs().join("init.log"), 0, 20)
                );
            }
            if Instant::now() > deadline {
                bail!(
                    "the node was not ready after 90 s; last seen: {seen}; logs are in {}",
                    self.state.logs().display()
                );
            }
            step.show(&seen);
            std::thread::sleep(Duration::from_millis(100));
        }
        step.done("ready");
        Ok(())
    }

    fn down(&self) -> Result<()> {
        if !host::is_root() && self.state.dir().exists() {
            bail!("stopping the one-node cluster needs root");
        }
        let _lock = Lock::take(&self.start_lock())?;
        let was_there = self.state.dir().exists();
        let _exclusive = Lock::take(&self.use_lock())?;
        let began = Instant::now();
        self.remove()?;
        println!(
            "cluster {} is {} ({})",
            self.number,
            if was_there { "gone" } else { "not there" },
            seconds(began.elapsed())
        );
        Ok(())
    }

    /// Ends the first process, and with it all others, then everything that was on disk.
    fn remove(&self) -> Result<()> {
        if let Some(holder) = self.state.holder() {
            holder.kill()?;
        }
        if self.state.dir().exists() {
            self.network.await_gone()?;
            self.state.remove_cgroups()?;
            std::fs::remove_dir_all(self.state.dir())
                .with_context(|| format!("removing {}", self.state.dir().display()))?;
        }
        Ok(())
    }

    fn status(&self) -> Result<ExitCode> {
        let Some(holder) = self.state.holder() else {
            println!("cluster {} is not running", self.number);
            return Ok(ExitCode::FAILURE);
        };
        let kubectl = tools::binary("kubernetes", "kubectl")?;
        println!("cluster {} runs in the namespaces of process {}", self.number, holder.pid);
        println!("processes: {}", holder.process_names().join(" "));
        println!("kubeconfig: {}", self.state.kubeconfig().display());
        let nodes = host::output(Command::new(kubectl).arg("--kubeconfig").arg(self.state.kubeconfig()).args([
            "get",
            "nodes",
            "--request-timeout=5s",
        ]));
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
