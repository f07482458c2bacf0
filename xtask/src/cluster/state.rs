//! The directory of a cluster, and the process that holds it up. A process is known by its number, its start time and
//! the machine's boot, so that a stale record never points at a stranger.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::{sys::signal::Signal, unistd::Pid};
use serde::{Deserialize, Serialize};

use crate::paths;

pub(crate) struct State {
    number: u8,
    dir: PathBuf,
}

/// The first process of a running cluster.
#[derive(Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    start: u64,
    boot: String,
    pub(crate) plan: String,
}

impl State {
    pub(crate) fn new(number: u8) -> Result<Self> {
        Ok(Self { number, dir: paths::cache()?.join(format!("cluster-{number}")) })
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.dir.join("pki")
    }

    pub(crate) fn conf(&self) -> PathBuf {
        self.dir.join("conf")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    pub(crate) fn containerd_socket(&self) -> PathBuf {
        self.dir.join("containerd.sock")
    }

    /// The control group of all pods.
    pub(crate) fn cgroup(&self) -> String {
        format!("pko-cluster-{}", self.number)
    }

    pub(crate) fn record_holder(&self, pid: u32, plan: &str) -> Result<()> {
        let holder = Holder {
            pid,
            start: start_time(pid).context("the first process has ended")?,
            boot: boot_id()?,
            plan: plan.to_owned(),
        };
        fs::write(self.dir.join("holder.json"), serde_json::to_vec(&holder)?)
            .context("recording the cluster's first process")
    }

    /// Which cluster of ours a kubeconfig belongs to.
    pub(crate) fn number_of(kubeconfig: &Path) -> Result<Option<u8>> {
        let dir = kubeconfig.parent().filter(|dir| kubeconfig == dir.join("kubeconfig"));
        let Some((base, name)) = dir.and_then(|dir| Some((dir.parent()?, dir.file_name()?.to_str()?))) else {
            return Ok(None);
        };
        Ok(if base == paths::cache()? { name.strip_prefix("cluster-").and_then(|n| n.parse().ok()) } else { None })
    }

    /// Refuses places that would not work inside the cluster's namespaces.
    pub(crate) fn check_place(&self) -> Result<()> {
        for covered in ["/run", "/var/lib", "/var/log"] {
            if self.dir.starts_with(covered) {
                bail!("{} lies below {covered}, which the cluster covers; set PKO_TOOLS_DIR", self.dir.display());
            }
        }
        // The kernel takes 107 bytes for the path of a socket.
        if self.containerd_socket().as_os_str().len() > 107 {
            bail!("{} is too long a path for a socket; set PKO_TOOLS_DIR", self.containerd_socket().display());
        }
        Ok(())
    }

    /// The copy of this program that is the cluster's first process.
    pub(crate) fn init_program(&self) -> PathBuf {
        self.dir.join("init")
    }

    /// The process that runs the copy, recorded or not, removed from disk or not.
    pub(crate) fn first_process(&self) -> Option<u32> {
        let (program, removed) = (self.init_program(), format!("{} (deleted)", self.init_program().display()));
        pids().find(|pid| {
            fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|exe| exe == program || exe.as_os_str() == removed.as_str())
        })
    }

    /// The cluster's first process if it is alive.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let record = fs::read(self.dir.join("holder.json")).ok()?;
        let holder: Holder = serde_json::from_slice(&record).ok()?;
        holder.is_alive().then_some(holder)
    }

    /// Removes the pods' control groups, which outlive their processes.
    pub(crate) fn remove_cgroups(&self) -> Result<()> {
        for root in cgroup_roots() {
            let group = root.join(self.cgroup());
            if group.exists() {
                remove_cgroup(&group).with_context(|| format!("removing control group {}", group.display()))?;
            }
        }
        Ok(())
    }
}

impl Holder {
    fn is_alive(&self) -> bool {
        boot_id().is_ok_and(|b| b == self.boot) && start_time(self.pid) == Some(self.start)
    }
}

/// Kills the first process of a process namespace; the kernel then ends every other one in it and in the namespaces
/// below, where containers run. Returns when all are gone.
pub(crate) fn kill_namespace(first: u32) -> Result<()> {
    let all: Vec<(u32, u64)> = members(first).into_iter().filter_map(|pid| Some((pid, start_time(pid)?))).collect();
    nix::sys::signal::kill(Pid::from_raw(i32::try_from(first)?), Signal::SIGKILL)
        .context("ending the cluster's first process")?;
    super::await_some("the end of the cluster's processes", Duration::from_secs(30), || {
        all.iter().all(|(pid, start)| start_time(*pid) != Some(*start)).then_some(())
    })
}

/// The names of the processes beside the first one of a process namespace; those of containers are not among them.
pub(crate) fn process_names(first: u32) -> Vec<String> {
    let name = |pid: &u32| Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned());
    let mut names: Vec<String> = members(first).iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

fn members(first: u32) -> Vec<u32> {
    let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let own = namespace(first);
    pids().filter(|pid| own.is_some() && namespace(*pid) == own).collect()
}

/// The child of a process that runs the given program.
pub(crate) fn child_running(parent: u32, program: &Path) -> Option<u32> {
    pids().find(|pid| {
        stat_fields(*pid).is_some_and(|f| f.first().and_then(|p| p.parse().ok()) == Some(parent))
            && fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
    })
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
}

/// Where control groups are made: one tree, or one per controller.
pub(crate) fn cgroup_roots() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").exists() {
        return vec![root.to_owned()];
    }
    fs::read_dir(root)
        .into_iter()
        .flatten()
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.is_dir() && !p.is_symlink())
        .collect()
}

fn remove_cgroup(group: &Path) -> Result<()> {
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_cgroup(&entry.path())?;
        }
    }
    Ok(fs::remove_dir(group)?)
}

fn boot_id() -> Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id").context("reading the boot's id")?.trim().to_owned())
}

/// The start time of a process in clock ticks since the boot. A process that has ended but was not yet reaped has none.
fn start_time(pid: u32) -> Option<u64> {
    fields_of_living(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?.get(18)?.parse().ok()
}

/// The fields of /proc/PID/stat from the parent's number on.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    fields_of_living(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn fields_of_living(stat: &str) -> Option<Vec<String>> {
    // The name in brackets may itself contain spaces and brackets.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().map(str::to_owned);
    let state = fields.next()?;
    (state != "Z" && state != "X").then(|| fields.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_process_that_was_replaced_by_another_is_not_alive() {
        let me = std::process::id();
        let mut holder =
            Holder { pid: me, start: start_time(me).unwrap(), boot: boot_id().unwrap(), plan: String::new() };
        assert!(holder.is_alive());
        holder.start += 1;
        assert!(!holder.is_alive(), "another start time is another process");
        holder.start -= 1;
        holder.boot = "another boot".to_owned();
        assert!(!holder.is_alive(), "nothing survives a boot");
    }

    #[test]
    fn a_process_name_with_brackets_does_not_confuse_the_fields() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 999 20";
        let fields = fields_of_living(stat).unwrap();
        assert_eq!((fields[0].as_str(), fields[18].as_str()), ("1", "999"));
    }

    #[test]
    fn a_zombie_counts_as_ended() {
        assert_eq!(fields_of_living("7 (a) Z 1 2"), None);
    }
}
