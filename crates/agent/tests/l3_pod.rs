//! The agent as a workspace pod starts it.

mod support;

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use nix::sys::signal::Signal;
use pko_proto::{
    agent::PulumiVersionRequest,
    health::{HealthCheckRequest, health_check_response::ServingStatus},
    runs::ListRequest,
};
use support::{Rig, up};
use tempfile::TempDir;
use tonic::Code;

const AGENT: &str = env!("CARGO_BIN_EXE_agent");
const PROGRAM: &str = "name: shop\nruntime: yaml\noutputs: {n: 5}\n";

#[tokio::test]
async fn the_command_of_the_workspace_container_runs_and_ends_well() {
    let mut rig = Rig::new(PROGRAM);
    let share = rig.path("share");
    let done = Command::new(AGENT).arg("bootstrap").arg(&share).status().unwrap();
    assert!(done.success());
    let agent = share.join("agent").display().to_string();
    rig.start_agent_with(&[&agent, "--", "serve"], &share.join("tini")).await;
    rig.init().await;
    assert_eq!(rig.run("u", up()).await.output_count, 1);
    rig.signal_agent(Signal::SIGTERM);
    assert_eq!(rig.agent_exit().await.code(), Some(0));
    assert!(rig.log().contains("server stopped"));
}

#[test]
fn bootstrap_leaves_executable_copies_and_may_run_again() {
    let dir = TempDir::new().unwrap();
    for _ in 0..2 {
        assert!(Command::new(AGENT).arg("bootstrap").arg(dir.path()).status().unwrap().success());
    }
    for name in ["agent", "agent-init"] {
        let copy = fs::metadata(dir.path().join(name)).unwrap();
        assert_eq!(copy.permissions().mode() & 0o777, 0o755);
        assert_eq!(copy.len(), fs::metadata(Path::new(AGENT).with_file_name(name)).unwrap().len());
    }
    assert_eq!(fs::read_link(dir.path().join("tini")).unwrap(), Path::new("agent"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "nothing unfinished stays");
}

#[tokio::test]
async fn a_literal_pair_of_dashes_before_the_command_is_passed_over() {
    let mut rig = Rig::new(PROGRAM);
    rig.start_agent_with(&["--", "serve"], Path::new(AGENT)).await;
    assert!(rig.runs().await.list(ListRequest {}).await.unwrap().into_inner().runs.is_empty());
}

#[tokio::test]
async fn whoever_shows_no_token_is_let_into_neither_service() {
    let mut rig = Rig::new(PROGRAM);
    let kubeconfig = rig.path("kubeconfig");
    let text = "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], \
                clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}";
    fs::write(&kubeconfig, text).unwrap();
    let args = "serve --auth-mode kube --kube-audience ws.ns --kube-workspace-namespace ns --kube-workspace-name ws";
    let kubeconfig = kubeconfig.display().to_string();
    let args: Vec<&str> = args.split(' ').chain(["--kubeconfig", &kubeconfig]).collect();
    rig.start_agent_with(&args, Path::new(AGENT)).await;
    let status = rig.runs().await.list(ListRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let status = rig.automation().await.pulumi_version(PulumiVersionRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    let health = rig.health().await.check(of_service("")).await.unwrap().into_inner();
    assert_eq!(health.status(), ServingStatus::Serving, "probes carry no token");
}

fn of_service(name: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: name.to_owned() }
}

#[tokio::test]
async fn probes_learn_that_the_agent_serves_until_it_is_told_to_stop() {
    let mut rig = Rig::serving(PROGRAM).await;
    let mut health = rig.health().await;
    for name in ["", "agent.AutomationService", "pko.runs.v1.Runs"] {
        assert_eq!(health.check(of_service(name)).await.unwrap().into_inner().status(), ServingStatus::Serving);
    }
    assert_eq!(health.check(of_service("another")).await.unwrap_err().code(), Code::NotFound);
    let mut unknown = health.watch(of_service("another")).await.unwrap().into_inner();
    assert_eq!(unknown.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    let mut watched = health.watch(of_service("")).await.unwrap().into_inner();
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    rig.signal_agent(Signal::SIGTERM);
    assert_eq!(watched.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    drop((watched, unknown, health));
    assert_eq!(rig.agent_exit().await.code(), Some(0));
}

#[test]
fn a_workspace_that_is_not_there_ends_the_agent_with_a_sentence() {
    let output = Command::new(AGENT).args(["serve", "-w", "/no/such/dir"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("unable to resolve the workspace directory"), "{text}");
}
