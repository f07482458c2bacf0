//! `cargo xtask demo`: the operator in a cluster, a Program and a Stack, and what becomes of them. Every command that
//! does something is shown, so that it can be done again by hand; the cluster stays up.

mod changes;
mod dump;
mod follow;
mod kubectl;
mod volume;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use follow::Follower;
use kubectl::Kubectl;
use serde_json::{Value, json};

use crate::{cluster::Target, image, install, progress::seconds};

const NAMESPACE: &str = "pulumi-demo";
const OPERATOR_NAMESPACE: &str = "pulumi-kubernetes-operator";
const KINDS: &[&str] = &[
    "crd/stacks.pulumi.com",
    "crd/programs.pulumi.com",
    "crd/workspaces.auto.pulumi.com",
    "crd/updates.auto.pulumi.com",
];
/// Long enough for a slow machine that takes the images for the first time.
const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) fn run() -> Result<ExitCode> {
    let began = Instant::now();
    if let Some(obstacle) = Target::obstacle()? {
        bail!(obstacle);
    }
    let target = Target::get()?;
    image::ensure_loaded(&target, false)?;
    let kubectl = Kubectl::new(&target)?;
    if let Err(error) = show(&kubectl, &target) {
        dump::everything(&kubectl);
        return Err(error.context(format!("the demo failed after {}", seconds(began.elapsed()))));
    }
    kubectl.tell_environment();
    print!("{}", include_str!("next.txt"));
    println!("\nthe demo took {}", seconds(began.elapsed()));
    Ok(ExitCode::SUCCESS)
}

fn show(kubectl: &Kubectl, target: &Target) -> Result<()> {
    title("The operator");
    install_operator(kubectl)?;
    reset(kubectl, target)?;

    title("A Program, and a Stack that runs it");
    kubectl.run(&apply("examples/demo/1-account.yaml"))?;
    kubectl.send(&apply("-"), &volume::claim(target)?, "a volume for Pulumi's state")?;
    kubectl.run(&apply("examples/demo/2-program.yaml"))?;
    kubectl.run(&apply("examples/demo/3-stack.yaml"))?;
    let mut follower = Follower::begin();
    let expected = json!({"greeting": "Hello, cluster", "password": "[secret]"});
    let first = follower.until_updated(kubectl, "", &expected, PATIENCE)?;
    tell(kubectl)?;

    title("The Program changes");
    kubectl.run(&apply("examples/demo/4-changed-program.yaml"))?;
    let mut follower = Follower::knowing(follower);
    let expected = json!({"greeting": "Welcome back, cluster", "guests": ["Ada", "Grace"], "password": "[secret]"});
    follower.until_updated(kubectl, &first, &expected, PATIENCE)?;
    tell(kubectl)
}

fn install_operator(kubectl: &Kubectl) -> Result<()> {
    kubectl.run(&apply("deploy/crds"))?;
    until_looked_at(kubectl)?;
    kubectl.run(&[&["wait", "--for=condition=Established", "--timeout=60s"], KINDS].concat())?;
    let manifests = install::rendered(Some(&image::operator_digest()?))?;
    kubectl.send(&apply("-"), &manifests, &format!("deploy/install with the image {}", image::OPERATOR))?;
    let timeout = format!("--timeout={}s", PATIENCE.as_secs());
    kubectl.run(&["rollout", "status", "deployment/controller-manager", "-n", OPERATOR_NAMESPACE, &timeout])
}

/// Waits until the API server has begun with the CRDs: before a CRD has any condition, `kubectl wait` fails on it.
fn until_looked_at(kubectl: &Kubectl) -> Result<()> {
    let began = Instant::now();
    let each = "jsonpath={range .items[*]}{.metadata.name}={.status.conditions[*].type}{\"\\n\"}{end}";
    loop {
        let seen = kubectl.read(&[&["get"], KINDS, &["-o", each]].concat())?;
        if seen.lines().filter(|line| !line.is_empty()).all(|line| !line.ends_with('=')) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            bail!("the API server does not take up the CRDs: {seen}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Takes away what an earlier demo left, as a user would: the Stack first, so that it destroys what it made.
fn reset(kubectl: &Kubectl, target: &Target) -> Result<()> {
    let found = kubectl.read(&["get", "namespace", NAMESPACE, "--ignore-not-found", "-o", "name"])?;
    if !found.trim().is_empty() {
        title("What an earlier demo left goes");
        if kubectl.run(&["delete", "stacks", "--all", "-n", NAMESPACE, "--timeout=60s"]).is_err() {
            println!("the Stack was not finalised in time; its finalizer is taken away");
            let patch = r#"{"metadata":{"finalizers":[]}}"#;
            kubectl.run(&["patch", "stack", "demo", "-n", NAMESPACE, "--type=merge", "-p", patch])?;
        }
        kubectl.run(&["delete", "namespace", NAMESPACE, "--timeout=120s"])?;
    }
    volume::remove(kubectl, target)
}

/// What a user would look at.
fn tell(kubectl: &Kubectl) -> Result<()> {
    kubectl.run(&["get", "stack,workspace,update", "-n", NAMESPACE])?;
    kubectl.run(&["get", "stack", "demo", "-n", NAMESPACE, "-o", "jsonpath={.status.outputs}{\"\\n\"}"])
}

fn apply(what: &str) -> [&str; 5] {
    ["apply", "--server-side", "--force-conflicts", "-f", what]
}

fn title(text: &str) {
    println!("\n== {text}");
}

/// The items of a list as kubectl prints it.
fn items(list: &str) -> Result<Vec<Value>> {
    let list: Value = serde_json::from_str(list).context("reading what kubectl printed")?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}
