//! What the agent adds to the bare CLI, as a ratio of both in one run. `cargo xtask bench` takes more pairs than the
//! test run does.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "what fails here fails a test, which prints its figures")]

mod support;

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use support::{Rig, follow, program, start, up};

/// The most that an update may take, by the bare CLI's time.
const MOST: f64 = 1.3;

fn pairs() -> usize {
    std::env::var("PKO_BENCH_PAIRS").map_or(5, |text| text.parse().expect("PKO_BENCH_PAIRS is a number"))
}

fn bare_up(rig: &Rig) -> Duration {
    let began = Instant::now();
    let ended = Command::new("pulumi")
        .args(["up", "--yes", "--skip-preview", "--non-interactive", "--stack", "dev"])
        .current_dir(rig.path("share/source"))
        .env_clear()
        .envs(rig.env())
        .env("PULUMI_SKIP_UPDATE_CHECK", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(ended.success());
    began.elapsed()
}

#[tokio::test]
async fn an_update_through_runs_takes_little_more_than_the_bare_cli() {
    let rig = Rig::serving(&program("value: x")).await;
    rig.init().await;
    assert_eq!(rig.run("first", up()).await.output_count, 1);
    bare_up(&rig);
    let mut runs = rig.runs().await;
    let mut times = Vec::new();
    for n in 0..pairs() {
        let bare = bare_up(&rig);
        let began = Instant::now();
        let run_id = format!("warm-{n}");
        start(&mut runs, &run_id, up()).await.unwrap();
        let (run, outputs) = follow(&mut runs, &run_id).await;
        let ours = began.elapsed();
        assert_eq!((run.failure, outputs.len()), (None, 1));
        times.push((bare, ours));
    }
    let median = |of: &dyn Fn(&(Duration, Duration)) -> f64| {
        let mut all: Vec<f64> = times.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let ratio = median(&|(bare, ours)| ours.as_secs_f64() / bare.as_secs_f64());
    let (bare, ours) = (median(&|pair| pair.0.as_secs_f64()), median(&|pair| pair.1.as_secs_f64()));
    println!("warm up, {} pairs: bare CLI {bare:.3} s, through Runs {ours:.3} s, ratio {ratio:.2}", times.len());
    assert!(ratio <= MOST, "{ratio:.2} times the bare CLI: {times:?}");
}
