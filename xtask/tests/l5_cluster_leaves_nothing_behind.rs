//! The one-node cluster comes, survives trouble, and goes without a trace. It runs beside the usual one.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

const NUMBER: &str = "15";
const GROUP: &str = "pko-cluster-15";

fn command(action: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["cluster", action, "--number", NUMBER]).env_remove("KUBECONFIG");
    command
}

fn xtask(action: &str) -> Output {
    command(action).output().unwrap()
}

fn succeeding(action: &str) -> String {
    let output = xtask(action);
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "cluster {action}: {text}");
    text
}

/// Takes the cluster down also when the test fails.
struct TakenDown;

impl Drop for TakenDown {
    fn drop(&mut self) {
        let _ = xtask("down");
    }
}

/// What a cluster could leave on a machine.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    interfaces: BTreeSet<String>,
    routes: String,
    mounts: BTreeSet<String>,
    packet_filter: Vec<String>,
    cgroups: BTreeSet<PathBuf>,
    kernel_settings: Vec<String>,
    directories: Vec<PathBuf>,
}

impl Machine {
    fn look() -> Self {
        let rules = printed(&mut Command::new("iptables-save"));
        let settings =
            ["kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom", "net/ipv4/ip_forward"];
        let roots = ["/sys/fs/cgroup".into()].into_iter().chain(entries("/sys/fs/cgroup"));
        let places =
            ["/opt/containerd", "/usr/libexec/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/run/containerd"];
        Self {
            interfaces: entries("/sys/class/net").map(|path| path.display().to_string()).collect(),
            routes: printed(Command::new("ip").arg("route")),
            mounts: fs::read_to_string("/proc/mounts").unwrap().lines().map(str::to_owned).collect(),
            packet_filter: rules.lines().filter(|l| l.starts_with(['-', '*'])).map(str::to_owned).collect(),
            cgroups: roots.map(|root: PathBuf| root.join(GROUP)).filter(|group| group.exists()).collect(),
            kernel_settings: settings.map(|s| fs::read_to_string(Path::new("/proc/sys").join(s)).unwrap()).into(),
            directories: places.map(PathBuf::from).into_iter().filter(|place| place.exists()).collect(),
        }
    }
}

fn entries(dir: &str) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path())
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Processes that live in a process namespace below this one's, containers included.
fn namespaced() -> BTreeSet<String> {
    entries("/proc")
        .filter(|process| {
            let status = fs::read_to_string(process.join("status")).unwrap_or_default();
            status.lines().any(|line| line.starts_with("NSpid:") && line.split_whitespace().count() > 2)
        })
        .map(|process| process.file_name().unwrap().display().to_string())
        .collect()
}

fn kubectl(up: &str, args: &[&str]) -> String {
    let value = |name: &str| {
        up.lines().find_map(|l| l.trim().strip_prefix(name)).unwrap_or_else(|| panic!("{name} is missing in {up}"))
    };
    let bin = value("export PATH=").split(':').next().unwrap();
    let mut command = Command::new(Path::new(bin).join("kubectl"));
    printed(command.args(["--kubeconfig", value("export KUBECONFIG=")]).args(args))
}

/// A pod with a network of its own, so that there is something to leave behind.
fn run_a_pod(up: &str) {
    kubectl(up, &["run", "a", "--image=localhost/pause:1", "--image-pull-policy=Never"]);
    kubectl(up, &["wait", "--for=condition=Ready", "pod/a", "--timeout=60s"]);
}

fn until(what: &str, limit: Duration, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !happened() {
        assert!(Instant::now() < deadline, "{what} did not happen within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_cluster_comes_survives_trouble_and_goes_without_a_trace() {
    let down = TakenDown;
    succeeding("down");
    let (before, processes_before) = (Machine::look(), namespaced());

    // Interrupted while it starts: the next call finishes the work.
    let mut interrupted = command("up").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until("the start of the cluster's processes", Duration::from_secs(30), || namespaced() != processes_before);
    interrupted.kill().unwrap();
    interrupted.wait().unwrap();
    let up = succeeding("up");
    run_a_pod(&up);
    let during = Machine::look();
    assert!(!during.cgroups.is_empty(), "the look would see control groups");
    assert_ne!(during.interfaces, before.interfaces, "the look would see interfaces");

    // Up already: nothing is touched, whatever accounts there are.
    kubectl(&up, &["create", "serviceaccount", "another"]);
    let began = Instant::now();
    let second = succeeding("up");
    assert!(began.elapsed() < Duration::from_secs(10), "a cluster that is up is left alone: {second}");
    assert_eq!(kubectl(&second, &["get", "pod", "a", "-o", "name"]), "pod/a\n", "nothing in it was touched");
    let status = succeeding("status");
    for process in ["etcd", "kube-apiserver", "kubelet", "containerd", "coredns"] {
        assert!(status.contains(process), "{process} is missing in {status}");
    }

    // One of its processes dies alone: it is started again.
    let dns = || -> Vec<String> {
        let is_dns = |pid: &String| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == "coredns\n");
        let ours = |pid: &String| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| String::from_utf8_lossy(&c).contains("/cluster-15/"))
        };
        namespaced().into_iter().filter(|pid| is_dns(pid) && ours(pid)).collect()
    };
    let old = dns();
    assert!(Command::new("kill").arg("-9").args(&old).status().unwrap().success());
    until("a new start of coredns", Duration::from_secs(10), || !dns().is_empty() && dns() != old);

    // The machine lost the cluster's first process without a word: what is on disk is stale.
    let holder = status.split("process ").nth(1).and_then(|t| t.split_whitespace().next()).unwrap().to_owned();
    assert!(Command::new("kill").args(["-9", &holder]).status().unwrap().success());
    let began = Instant::now();
    let up = succeeding("up");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(30), "starting again took {took:?}: {up}");
    assert!(up.contains("clearing away"), "{up}");

    // Made from other parts, as another clone may have done: it is replaced.
    let kubeconfig = up.lines().find_map(|l| l.trim().strip_prefix("export KUBECONFIG=")).unwrap();
    let state = Path::new(kubeconfig).parent().unwrap();
    let record = state.join("plan.json");
    let plan = fs::read_to_string(&record).unwrap();
    fs::write(&record, plan.replace("--leader-elect=false", "--leader-elect=true")).unwrap();
    let up = succeeding("up");
    assert!(up.contains("made from other parts"), "{up}");
    run_a_pod(&up);

    // Someone removed its directory under it: it can still be taken down.
    let all: BTreeSet<String> = namespaced().difference(&processes_before).cloned().collect();
    assert!(all.len() > 8, "the look would see processes: {all:?}");
    fs::remove_file(&record).unwrap();
    succeeding("down");
    assert_eq!(Machine::look(), before);
    assert!(namespaced().is_disjoint(&all), "some of {all:?} are still there");
    assert!(!xtask("status").status.success());
    assert!(!state.exists(), "its directory is gone");
    succeeding("down");
    drop(down);
}
