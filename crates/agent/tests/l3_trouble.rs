//! Runs in trouble: canceled at any moment, killed, watched by readers that do not read, and very large.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "what fails here fails a test, which says what it did")]

mod support;

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use pko_proto::{
    agent::UpRequest,
    runs::{AttachRequest, CancelMode, Run, attach_response::What},
};
use support::{Rig, cancel, children, follow, init, program, reason, stack, start, until, up};

/// Things that take a while, some after others.
fn slow(count: usize, value: usize) -> String {
    let mut text = "name: shop\nruntime: yaml\nresources:\n".to_owned();
    for n in 0..count {
        let after = if n >= 2 { format!(", dependsOn: ['${{t{}}}']", n - 2) } else { String::new() };
        writeln!(
            text,
            "  t{n}: {{type: 'pkotest:Thing', properties: {{value: 'v{value}', createSeconds: 0.3, updateSeconds: 0.3}}, \
             options: {{version: 0.1.0{after}}}}}"
        )
        .unwrap();
    }
    text
}

/// Rounds: 8, or PKO_SOAK_ROUNDS. The seed is PKO_SEED, or today's luck, and is printed.
#[tokio::test]
async fn a_run_that_is_canceled_at_any_moment_leaves_a_sound_state_and_no_lock() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let rounds = number("PKO_SOAK_ROUNDS").unwrap_or(8);
    let mut seed = number("PKO_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("PKO_SEED={seed}");
    let rig = Rig::serving(&slow(6, 0)).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    let mut canceled = 0;
    for round in 0..rounds {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // From before the CLI listens to signals until most of the work is done.
        let moment = Duration::from_millis((seed >> 33) % 3000);
        let run_id = format!("u{round}");
        rig.write_program(&slow(6, usize::try_from(round).unwrap()));
        start(&mut runs, &run_id, up()).await.unwrap();
        let mut others = rig.runs().await;
        let (run, _) = {
            let mut ending = std::pin::pin!(follow(&mut runs, &run_id));
            if let Ok(ended) = tokio::time::timeout(moment, &mut ending).await {
                ended
            } else {
                cancel(&mut others, &run_id, CancelMode::Graceful).await;
                ending.await
            }
        };
        let what = format!("round {round}, canceled after {moment:?}: {run:?}");
        assert!(run.failure.is_none() || reason(&run) == "Canceled", "{what}");
        canceled += u64::from(run.failure.is_some());
        assert_eq!(rig.locks().len(), 0, "{what}");
        // What is in the cloud is in the state, whatever was cut off.
        let known = rig.resources().iter().filter(|r| r.contains("pkotest:index:Thing")).count();
        assert_eq!(known, rig.things(), "{what}");
    }
    assert!(canceled > 0, "no cancel came in time");
    let run = rig.run("last", up()).await;
    assert_eq!((run.failure, rig.things()), (None, 6));
}

#[tokio::test]
async fn a_cli_that_is_killed_is_told_as_such() {
    let rig = Rig::serving(&program("value: x, createSeconds: 30")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    let pid = rig.cli_pid("u");
    let plugins = children(pid);
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    let (run, _) = follow(&mut runs, "u").await;
    for plugin in plugins {
        let _ = kill(Pid::from_raw(plugin), Signal::SIGKILL);
    }
    let failure = run.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.retryable), ("Killed", true));
    for words in ["killed by signal 9", "run a refresh", "removed by the next run", "`pulumi cancel`"] {
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[tokio::test]
async fn an_init_whose_agent_is_killed_is_interrupted_and_can_be_done_again() {
    let mut rig = Rig::serving(&program("value: x")).await;
    let installing = rig.path("installing");
    rig.write_pulumi(&format!("[ \"$2\" = install ] && touch {} && sleep 3", installing.display()));
    start(&mut rig.runs().await, "i", init(vec![stack()])).await.unwrap();
    until("the install has begun", || async { installing.exists().then_some(()) }).await;
    rig.kill_agent();
    rig.start_agent().await;
    let (run, _) = follow(&mut rig.runs().await, "i").await;
    let failure = run.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.retryable), ("Interrupted", true), "{}", failure.message);
    rig.write_pulumi("");
    rig.run("i2", init(vec![stack()])).await;
    assert_eq!(rig.run("u", up()).await.failure, None);
}

fn took(run: &Run) -> Duration {
    let (from, to) = (run.start_time.unwrap(), run.end_time.unwrap());
    let millis = |t: prost_types::Timestamp| t.seconds * 1000 + i64::from(t.nanos) / 1_000_000;
    Duration::from_millis((millis(to) - millis(from)).cast_unsigned())
}

#[tokio::test]
async fn readers_that_do_not_read_never_slow_the_engine() {
    let noisy = |value: &str| program(&format!("value: {value}, noise: 20000"));
    let rig = Rig::serving(&noisy("a")).await;
    rig.init().await;
    let alone = rig.run("alone", up()).await;
    assert_eq!(alone.failure, None);

    rig.write_program(&noisy("b"));
    let mut runs = rig.runs().await;
    start(&mut runs, "watched", up()).await.unwrap();
    let request = AttachRequest { run_id: "watched".to_owned(), after_seq: 0, outputs: true };
    let mut unread = Vec::new();
    for _ in 0..4 {
        unread.push(rig.runs().await.attach(request.clone()).await.unwrap().into_inner());
    }
    let (watched, _) = follow(&mut runs, "watched").await;
    assert_eq!(watched.failure, None);
    drop(unread);

    rig.write_program(&noisy("c"));
    let mut automation = rig.automation().await;
    let unread = automation.up(UpRequest::default()).await.unwrap().into_inner();
    let run_id = rig.runs().await.list(pko_proto::runs::ListRequest {}).await.unwrap().into_inner().runs;
    let (streamed, _) = follow(&mut runs, &run_id.last().unwrap().run_id).await;
    assert_eq!(streamed.failure, None);
    drop(unread);
    // Other tests share this machine, hence the room.
    let limit = took(&alone) * 3 + Duration::from_secs(10);
    assert!(took(&watched) < limit && took(&streamed) < limit, "{:?} {:?} {limit:?}", took(&watched), took(&streamed));
}

#[tokio::test]
async fn an_output_of_fifty_megabytes_arrives_whole_and_the_agents_memory_stays_bounded() {
    const SIZE: usize = 50_000_000;
    let text = program(&format!("value: x, largeBytes: {SIZE}")) + "  large: ${a.large}\n";
    let rig = Rig::serving(&text).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    let (run, outputs) = follow(&mut runs, "u").await;
    assert_eq!(run.failure, None);
    let parts: Vec<_> = outputs.iter().filter(|o| o.name == "large").collect();
    assert!(parts.iter().all(|p| p.value.len() <= 1024 * 1024));
    let whole: Vec<u8> = parts.iter().flat_map(|p| p.value.iter().copied()).collect();
    let piece = b"pkotest large text; ";
    assert_eq!(whole.len(), SIZE + 2, "with its quotes");
    assert!(whole[1..=SIZE].chunks(piece.len()).all(|c| c == &piece[..c.len()]));
    let status = std::fs::read_to_string(format!("/proc/{}/status", rig.agent_pid())).unwrap();
    let peak: usize =
        status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB").parse().unwrap();
    // The line of the event it comes in, the value itself, and the copy that is sent.
    let bound = (3 * SIZE + 64 * 1024 * 1024) / 1024;
    eprintln!("peak {peak} kB of {bound} kB");
    assert!(peak < bound, "peak {peak} kB, bound {bound} kB");
}

#[tokio::test]
async fn ten_thousand_events_are_counted_rightly() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    let mut events = String::new();
    for n in 0..5000 {
        let of = |kind: &str, n: usize| {
            serde_json::json!({kind: {"metadata": {"op": "create", "urn": support::urn(&format!("t{n}")),
                "type": "pkotest:index:Thing", "old": null, "new": {"inputs": {}, "outputs": {}}}}})
        };
        writeln!(events, "{}\n{}", of("resourcePreEvent", n), of("resOutputsEvent", n)).unwrap();
    }
    let summary = serde_json::json!({"summaryEvent": {"resourceChanges": {"create": 5000}, "result": "succeeded"}});
    writeln!(events, "{summary}\n{{\"cancelEvent\":{{}}}}").unwrap();
    let go = rig.path("go");
    rig.write_pulumi_with_events(&events, &format!("while [ ! -e {} ]; do sleep 0.05; done", go.display()));
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    let request = AttachRequest { run_id: "u".to_owned(), ..AttachRequest::default() };
    let mut stream = runs.attach(request).await.unwrap().into_inner();
    let began = Instant::now();
    let seq = loop {
        let message = stream.message().await.unwrap().unwrap();
        let Some(What::Progress(progress)) = &message.what else { continue };
        if (progress.started, progress.done) == (5000, 5000) {
            break message.seq;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "{progress:?}");
    };
    assert!(seq >= 10_001, "phases and events: {seq}");
    std::fs::write(go, "").unwrap();
    let (run, _) = follow(&mut runs, "u").await;
    assert_eq!((run.failure, run.resource_changes["create"]), (None, 5000));
}
