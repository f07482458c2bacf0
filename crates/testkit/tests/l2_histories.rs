//! Many histories of the simulated cluster, and what they have to have seen.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use pko_testkit::sim::{self, Counts};

fn histories() -> u64 {
    std::env::var("PKO_SIM_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[test]
fn ten_thousand_histories_keep_every_promise() {
    let next = AtomicU64::new(0);
    let first_failing = AtomicU64::new(u64::MAX);
    let all = histories();
    let work = || {
        let mut counts = Counts::default();
        let mut steps = Vec::new();
        let mut failing = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= all || seed > first_failing.load(Ordering::Relaxed).saturating_add(500) {
                return (counts, steps, failing);
            }
            let outcome = sim::run(seed, None);
            if let Some(violation) = outcome.violation {
                first_failing.fetch_min(seed, Ordering::Relaxed);
                failing.push((seed, violation));
            }
            counts.add(outcome.counts);
            steps.push(outcome.steps);
        }
    };
    let mut counts = Counts::default();
    let mut steps = Vec::new();
    let mut failing = Vec::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let (more, some, wrong) = thread.join().unwrap();
            counts.add(more);
            steps.extend(some);
            failing.extend(wrong);
        }
    });
    steps.sort_unstable();
    println!("{} histories, median {} steps\n{}", steps.len(), steps[steps.len() / 2], counts.table());
    failing.sort();
    for (seed, violation) in &failing {
        println!("seed {seed}: {violation}");
    }
    if let Some((seed, violation)) = failing.first() {
        let again = sim::run_traced(*seed, None);
        panic!("seed {seed}: {violation}\n{}", again.last_lines(75).join("\n"));
    }
}

#[test]
fn replay() {
    let Ok(seed) = std::env::var("PKO_SIM_SEED") else { return };
    let outcome = sim::run_traced(seed.parse().unwrap(), None);
    println!("{}", outcome.trace.join("\n"));
    if let Some(violation) = outcome.violation {
        panic!("{violation}");
    }
}
