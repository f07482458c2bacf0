//! The directory of a cluster, and the processes that belong to it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::{sys::signal::Signal, unistd::Pid};

use crate::paths;

pub(crate) struct State {
    number: u8,
    dir: PathBuf,
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

    /// The cluster's first process, if it is alive. It is known by what it runs, which no other process does, so neither
    /// a number that was given anew nor a boot nor a removed directory deceives.
    pub(crate) fn first_process(&self) -> Option<u32> {
        let (program, removed) = (self.init_program(), format!("{} (deleted)", self.init_program().display()));
        pids().find(|pid| {
            fs::read_link(format!("/proc/{pid}/exe"))
                .is_ok_and(|exe| exe == program || exe.as_os_str() == removed.as_str())
        })
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

/// The start time of a process in clock ticks since the boot. A process that has ended but was not yet reaped has none.
fn start_time(pid: u32) -> Option<u64> {
    start_of_living(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn start_of_living(stat: &str) -> Option<u64> {
    // The name in brackets may itself contain spaces and brackets.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_whose_program_no_process_runs_is_not_running() {
        let mut state = State::new(0).unwrap();
        state.dir = std::env::temp_dir().join("no-such-cluster");
        assert_eq!(state.first_process(), None);
    }

    #[test]
    fn a_process_name_with_brackets_does_not_confuse_the_fields() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 999 20";
        assert_eq!(start_of_living(stat), Some(999));
    }

    #[test]
    fn a_zombie_counts_as_ended() {
        assert_eq!(start_of_living("7 (a) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 999 20"), None);
    }

    #[test]
    fn a_kubeconfig_of_ours_is_known_by_its_place() {
        let ours = State::new(3).unwrap().kubeconfig();
        assert_eq!(State::number_of(&ours).unwrap(), Some(3));
        assert_eq!(State::number_of(Path::new("/somewhere/cluster-3/kubeconfig")).unwrap(), None);
        assert_eq!(State::number_of(&ours.with_file_name("other")).unwrap(), None);
    }
}
