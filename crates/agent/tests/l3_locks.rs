//! Locks on a self-managed backend: those that our own CLI has left are removed by the next run, and no others.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pko_proto::{
    agent::{DestroyRequest, RefreshRequest},
    runs::{AttachRequest, Run, attach_response::What},
};
use support::{Rig, children, destroy_with, follow, kill_tree, program, reason, refresh_with, start, until, up};

const SLOW: &str = "value: x, createSeconds: 60";

/// A workspace whose run `u` has just begun to create something.
async fn creating(rig: Rig) -> Rig {
    rig.init().await;
    start(&mut rig.runs().await, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    rig
}

/// A workspace whose CLI was killed during its run `u`, with the process that the lock names.
async fn killed() -> (Rig, i32) {
    let rig = creating(Rig::serving(&program(SLOW)).await).await;
    let pid = rig.cli_pid("u");
    let plugins = children(pid);
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let (run, _) = follow(&mut rig.runs().await, "u").await;
    plugins.into_iter().for_each(kill_tree);
    assert_eq!(reason(&run), "Killed");
    assert!(!rig.locks().is_empty(), "a dead CLI leaves its lock");
    rig.write_program(&program("value: x"));
    (rig, pid)
}

fn hostname() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// A run was refused by a lock, which is named and still there.
#[track_caller]
fn assert_refused(rig: &Rig, run: &Run, names: &[&str]) {
    assert_eq!(reason(run), "UpdateConflict", "{run:?}");
    let message = &run.failure.as_ref().unwrap().message;
    for name in names {
        assert!(message.contains(name), "{name} is missing: {message}");
    }
    assert_eq!(rig.calls_of("cancel"), 0);
    assert!(!rig.locks().is_empty());
}

#[tokio::test]
async fn the_lock_of_a_cli_that_was_killed_is_removed_by_the_next_run() {
    let (rig, _) = killed().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u2", up()).await.unwrap();
    let (run, outputs) = follow(&mut runs, "u2").await;
    assert_eq!((run.failure, run.resource_changes["create"]), (None, 1), "the stack itself is there already");
    assert_eq!((outputs[0].value.as_slice(), rig.things()), (&b"\"x\""[..], 1));
    assert!(rig.locks().is_empty(), "{:?}", rig.locks());
    assert_eq!((rig.calls_of("cancel --yes --stack dev"), rig.calls_of("up ")), (1, 3), "{:?}", rig.calls());
    assert!(rig.log().contains("removing the lock that a CLI of an earlier run has left"));
    assert!(!rig.log().contains("will not outlive this agent"), "the second attempt has its own pipes");
}

#[tokio::test]
async fn refresh_and_destroy_remove_such_a_lock_too() {
    let (rig, _) = killed().await;
    assert_eq!(rig.run("r", refresh_with(RefreshRequest::default())).await.failure, None);
    assert!(rig.locks().is_empty());
    let (rig, _) = killed().await;
    assert_eq!(rig.run("d", destroy_with(DestroyRequest::default())).await.failure, None);
    assert!(rig.locks().is_empty());
}

#[tokio::test]
async fn the_lock_of_a_cli_that_ended_with_its_container_is_removed_by_the_next_agents_run() {
    let mut rig = creating(Rig::serving(&program(SLOW)).await).await;
    rig.kill_agent();
    kill_tree(rig.cli_pid("u"));
    rig.write_program(&program("value: x"));
    rig.start_agent().await;
    let run = rig.run("u2", up()).await;
    assert_eq!((run.failure, rig.things()), (None, 1));
    assert!(rig.locks().is_empty());
}

#[tokio::test]
async fn a_run_that_removed_a_lock_outlives_its_agent_like_any_other() {
    let (mut rig, _) = killed().await;
    rig.write_program(&program("value: x, createSeconds: 3"));
    let mut runs = rig.runs().await;
    start(&mut runs, "u2", up()).await.unwrap();
    let request = AttachRequest { run_id: "u2".to_owned(), ..AttachRequest::default() };
    let mut stream = runs.attach(request).await.unwrap().into_inner();
    loop {
        if let Some(What::Progress(progress)) = stream.message().await.unwrap().unwrap().what
            && progress.started > 0
        {
            break;
        }
    }
    rig.kill_agent();
    rig.start_agent().await;
    let (run, outputs) = follow(&mut rig.runs().await, "u2").await;
    assert_eq!((run.failure, outputs[0].value.as_slice()), (None, &b"\"x\""[..]));
    assert!(rig.locks().is_empty());
}

#[tokio::test]
async fn locks_of_others_are_never_removed() {
    let (rig, pid) = killed().await;
    let own = rig.locks();
    let now = jiff::Timestamp::now().to_string();
    for (n, (why, host, pid, since)) in [
        ("another host", "other-pod".to_owned(), pid, now.as_str()),
        ("another process", hostname(), 999_999, now.as_str()),
        ("another time", hostname(), pid, "2020-11-01T00:00:00Z"),
    ]
    .into_iter()
    .enumerate()
    {
        // First beside a lock of ours, then alone.
        rig.lock_stack_as(&host, pid, since, "ghost");
        let run = rig.run(&format!("mixed-{n}"), up()).await;
        assert_refused(&rig, &run, &[&format!("ghost@{host} (pid {pid}) since"), "`pulumi cancel`"]);
        let kept: Vec<_> = own.iter().map(|file| (file, fs::read(file).unwrap())).collect();
        for file in &own {
            fs::remove_file(file).unwrap();
        }
        let run = rig.run(&format!("alone-{n}"), up()).await;
        assert_refused(&rig, &run, &[&format!("ghost@{host} (pid {pid}) since")]);
        for file in rig.locks() {
            fs::remove_file(file).unwrap();
        }
        for (file, text) in &kept {
            fs::write(file, text).unwrap();
        }
        assert_eq!(rig.locks().len(), own.len(), "{why}");
    }
    let run = rig.run("u2", up()).await;
    assert_eq!(run.failure, None, "our own alone is removed");
}

#[tokio::test]
async fn the_lock_of_a_cli_that_lives_is_never_removed() {
    let mut rig = creating(Rig::serving(&program(SLOW)).await).await;
    let pid = rig.cli_pid("u");
    rig.kill_agent();
    // A journal that is wrong about the end of a run does not make its CLI dead.
    let end = serde_json::json!({"endTime": jiff::Timestamp::now().to_string()}).to_string();
    fs::write(rig.path("share/.runs/u/end.json"), end).unwrap();
    rig.start_agent().await;
    let run = rig.run("u2", up()).await;
    assert_refused(&rig, &run, &[&format!("(pid {pid}) since")]);
    // Nor does a journal that does not know the process.
    rig.kill_agent();
    fs::rename(rig.path("share/.runs/u/process.json"), rig.path("process.json")).unwrap();
    rig.start_agent().await;
    let run = rig.run("u3", up()).await;
    assert_refused(&rig, &run, &[&format!("(pid {pid}) since")]);
    fs::rename(rig.path("process.json"), rig.path("share/.runs/u/process.json")).unwrap();
    kill_tree(pid);
    until("the CLI is gone", || async { (!fs::exists(format!("/proc/{pid}")).unwrap()).then_some(()) }).await;
    rig.write_program(&program("value: x"));
    assert_eq!(rig.run("u4", up()).await.failure, None, "now it is dead");
}
