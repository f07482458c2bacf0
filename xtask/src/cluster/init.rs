//! The first process of a cluster's namespaces: prepares them, starts the other processes, starts them again when they
//! end, and collects the orphans. When it is killed, the kernel ends everything else.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::BufRead,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::{
    mount::{MsFlags, mount},
    sys::wait::{WaitStatus, waitpid},
    unistd::Pid,
};

use super::{
    plan::{Component, Plan},
    state,
};

#[derive(clap::Args)]
pub(crate) struct InitArgs {
    #[arg(long)]
    state: PathBuf,
}

pub(crate) fn init(args: &InitArgs) -> Result<ExitCode> {
    if !nix::unistd::getpid().eq(&Pid::from_raw(1)) {
        bail!("this is started by cargo xtask cluster up, as the first process of a namespace");
    }
    let mut word = String::new();
    std::io::stdin().lock().read_line(&mut word)?;
    if word.trim() != "go" {
        bail!("whoever was starting the cluster went away");
    }
    let plan: Plan = serde_json::from_slice(&fs::read(Plan::path(&args.state))?).context("reading the plan")?;
    prepare(&args.state, &plan)?;
    let logs = args.state.join("logs");
    let mut running = BTreeMap::new();
    for component in &plan.components {
        running.insert(start(component, &logs)?, component);
    }
    loop {
        let ended = match waitpid(None::<Pid>, None).context("waiting for a process to end")? {
            WaitStatus::Exited(pid, code) => (pid, format!("code {code}")),
            WaitStatus::Signaled(pid, signal, _) => (pid, signal.to_string()),
            _ => continue,
        };
        if let Some(component) = running.remove(&ended.0.as_raw()) {
            println!("{} ended with {}; starting it again", component.name, ended.1);
            std::thread::sleep(Duration::from_millis(500));
            running.insert(start(component, &logs)?, component);
        }
    }
}

/// Settings of the machine's kernel that the kubelet insists on.
const KERNEL_SETTINGS: &[(&str, &str)] = &[
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Gives the namespaces directories of their own in the usual places, so that nothing is written to the machine's.
fn prepare(state: &Path, plan: &Plan) -> Result<()> {
    let none: Option<&str> = None;
    // Mounts of the kubelet must reach the containers; the way out of this namespace stays closed.
    mount(none, "/", none, MsFlags::MS_SHARED | MsFlags::MS_REC, none).context("sharing mounts inside")?;
    for (ours, theirs) in [("var-lib", "/var/lib"), ("var-log", "/var/log")] {
        mount(Some(&state.join(ours)), theirs, none, MsFlags::MS_BIND, none)
            .with_context(|| format!("covering {theirs}"))?;
    }
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755")).context("covering /run")?;
    // The kubelet wants these to have certain values and would set them for the whole machine: it finds them set.
    for (setting, wanted) in KERNEL_SETTINGS {
        let file = state.join("conf").join(setting.replace('/', "."));
        fs::write(&file, format!("{wanted}\n"))?;
        let place = Path::new("/proc/sys").join(setting);
        mount(Some(&file), &place, none, MsFlags::MS_BIND, none)
            .with_context(|| format!("covering {}", place.display()))?;
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").context("letting packets through between pods")?;
    for root in state::cgroup_roots() {
        fs::create_dir_all(root.join(&plan.cgroup))
            .with_context(|| format!("making a control group in {}", root.display()))?;
    }
    Ok(())
}

fn start(component: &Component, logs: &Path) -> Result<i32> {
    let log = File::options().create(true).append(true).open(logs.join(format!("{}.log", component.name)))?;
    let child = Command::new(&component.argv[0])
        .args(&component.argv[1..])
        .current_dir("/")
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("starting {}", component.name))?;
    Ok(i32::try_from(child.id())?)
}
