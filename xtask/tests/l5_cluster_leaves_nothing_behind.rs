//! The one-node cluster comes, survives trouble, and goes without a trace. It runs beside the usual one.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

const NUMBER: &str = "15";

fn xtask(action: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["cluster", action, "--number", NUMBER])
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

fn succeeding(action: &str) -> String {
    let output = xtask(action);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "cluster {action}: {text}");
    text
}

/// What a cluster could leave on a machine.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    interfaces: BTreeSet<String>,
    mounts: BTreeSet<String>,
    packet_filter: Vec<String>,
    cgroups: BTreeSet<String>,
    processes: BTreeSet<String>,
}

impl Machine {
    fn look() -> Self {
        let rules = Command::new("iptables-save").output().unwrap();
        assert!(rules.status.success());
        Self {
            interfaces: names("/sys/class/net"),
            mounts: fs::read_to_string("/proc/mounts").unwrap().lines().map(str::to_owned).collect(),
            packet_filter: String::from_utf8_lossy(&rules.stdout)
                .lines()
                .filter(|l| l.starts_with("-A") || l.starts_with('*'))
                .map(str::to_owned)
                .collect(),
            cgroups: names("/sys/fs/cgroup")
                .iter()
                .flat_map(|c| names(&format!("/sys/fs/cgroup/{c}")))
                .filter(|c| c.contains("pko-cluster-15"))
                .collect(),
            processes: names("/proc")
                .into_iter()
                .filter(|p| {
                    fs::read(format!("/proc/{p}/cmdline"))
                        .is_ok_and(|c| String::from_utf8_lossy(&c).contains("cluster-15"))
                })
                .collect(),
        }
    }
}

fn names(dir: &str) -> BTreeSet<String> {
    fs::read_dir(dir).into_iter().flatten().map(|e| e.unwrap().file_name().display().to_string()).collect()
}

fn name_of(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn kubectl(up: &str, args: &[&str]) -> String {
    let value = |name: &str| {
        up.lines().find_map(|l| l.trim().strip_prefix(name)).unwrap_or_else(|| panic!("{name} is missing in {up}"))
    };
    let bin = value("export PATH=").split(':').next().unwrap();
    let output = Command::new(Path::new(bin).join("kubectl"))
        .args(["--kubeconfig", value("export KUBECONFIG=")])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "kubectl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A pod with a network of its own, so that there is something to leave behind.
fn run_a_pod(up: &str) {
    let pod = r#"{"spec":{"containers":[{"name":"a","image":"localhost/pause:1","imagePullPolicy":"Never"}]}}"#;
    kubectl(up, &["run", "a", "--image=localhost/pause:1", "--image-pull-policy=Never", &format!("--overrides={pod}")]);
    kubectl(up, &["wait", "--for=condition=Ready", "pod/a", "--timeout=60s"]);
}

#[test]
fn a_cluster_comes_and_goes_without_a_trace() {
    succeeding("down");
    let before = Machine::look();
    let up = succeeding("up");
    run_a_pod(&up);
    assert!(Machine::look().cgroups.contains("pko-cluster-15"), "the look would see control groups");
    assert_ne!(Machine::look().interfaces, before.interfaces, "the look would see interfaces");

    let again = Instant::now();
    let second = succeeding("up");
    assert!(again.elapsed() < Duration::from_secs(10), "a cluster that is up is left alone: {second}");
    assert_eq!(kubectl(&second, &["get", "pod", "a", "-o", "name"]), "pod/a\n", "nothing in it was touched");
    let status = succeeding("status");
    for process in ["etcd", "kube-apiserver", "kubelet", "containerd", "coredns"] {
        assert!(status.contains(process), "{process} is missing in {status}");
    }

    // One of its processes dies alone: it is started again.
    let dns = || Machine::look().processes.into_iter().filter(|p| name_of(p) == "coredns").collect::<Vec<_>>();
    let old = dns();
    assert!(Command::new("kill").arg("-9").args(&old).status().unwrap().success());
    let deadline = Instant::now() + Duration::from_secs(10);
    while dns().is_empty() || dns() == old {
        assert!(Instant::now() < deadline, "coredns was not started again");
        std::thread::sleep(Duration::from_millis(50));
    }

    // The machine lost the cluster's first process without a word: what is on disk is stale.
    let holder = status.split("process ").nth(1).and_then(|t| t.split_whitespace().next()).unwrap().to_owned();
    assert!(Command::new("kill").args(["-9", &holder]).status().unwrap().success());
    let began = Instant::now();
    let up = succeeding("up");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(30), "starting again took {took:?}: {up}");
    assert!(up.contains("clearing away"), "{up}");
    run_a_pod(&up);

    succeeding("down");
    assert_eq!(Machine::look(), before);
    assert!(!xtask("status").status.success());
    let kubeconfig = up.lines().find_map(|l| l.trim().strip_prefix("export KUBECONFIG=")).unwrap();
    assert!(!Path::new(kubeconfig).parent().unwrap().exists(), "its directory is gone");
    succeeding("down");
}
