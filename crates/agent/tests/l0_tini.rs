//! The agent as a container's first process.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    process::{Child, Command},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// A directory with `tini` and a script `agent`.
fn with_script(body: &str) -> (TempDir, PathBuf, PathBuf) {
    let dir = TempDir::new().unwrap();
    let (tini, script) = (dir.path().join("tini"), dir.path().join("agent"));
    symlink(env!("CARGO_BIN_EXE_agent"), &tini).unwrap();
    fs::write(&script, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    (dir, tini, script)
}

fn end_of(mut child: Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if began.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            panic!("tini has not ended");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_arguments_of_pkos_pods_reach_the_agent_without_the_two_dashes() {
    let (dir, tini, script) = with_script("echo \"$@\" > \"$0.args\"; exit 7");
    let child = Command::new(tini).arg(&script).args(["--", "serve", "--workspace", "/w"]).spawn().unwrap();
    assert_eq!(end_of(child), Some(7), "the agent's exit code");
    assert_eq!(fs::read_to_string(dir.path().join("agent.args")).unwrap(), "serve --workspace /w\n");
}

#[test]
fn signals_are_passed_on() {
    let (dir, tini, script) = with_script("trap 'exit 3' TERM; touch \"$0.ready\"; while :; do sleep 0.05; done");
    let child = Command::new(tini).arg(&script).spawn().unwrap();
    until("the script is ready", || dir.path().join("agent.ready").exists());
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(end_of(child), Some(3));
}

#[test]
fn the_child_is_left_no_blocked_signals() {
    let dir = TempDir::new().unwrap();
    let (tini, seen) = (dir.path().join("tini"), dir.path().join("seen"));
    symlink(env!("CARGO_BIN_EXE_agent"), &tini).unwrap();
    // No shell: those unblock signals themselves.
    let status = Command::new(tini).args(["cp", "/proc/self/status"]).arg(&seen).status().unwrap();
    assert!(status.success());
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.lines().any(|line| line == "SigBlk:\t0000000000000000"), "{seen}");
}

#[test]
fn a_child_that_a_signal_ends_gives_its_number() {
    let (_dir, tini, script) = with_script("kill -9 $$");
    assert_eq!(end_of(Command::new(tini).arg(&script).spawn().unwrap()), Some(137));
}

#[test]
fn orphans_are_taken_care_of() {
    // The inner shell ends at once; its background job is then nobody's child but tini's.
    let body = "sh -c 'sh -c \"echo \\$\\$ > $0.orphan; exit\" & ' ; touch \"$0.ready\"; while :; do sleep 0.05; done";
    let (dir, tini, script) = with_script(&body.replace("$0", "$AGENT"));
    let child = Command::new(tini).arg(&script).env("AGENT", &script).spawn().unwrap();
    let orphan = dir.path().join("agent.orphan");
    until("the orphan has written its name", || fs::read_to_string(&orphan).is_ok_and(|text| text.ends_with('\n')));
    let pid = fs::read_to_string(&orphan).unwrap().trim().to_owned();
    until("the orphan is reaped", || !PathBuf::from(format!("/proc/{pid}")).exists());
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(end_of(child), Some(143));
}

#[test]
fn without_a_program_it_says_what_is_missing() {
    let (_dir, tini, _) = with_script("");
    let output = Command::new(tini).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tini needs a program to run"));
}
