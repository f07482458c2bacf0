//! Many histories of the simulated cluster: each keeps every promise, and together they have seen everything.
//!
//! `PKO_SIM_HISTORIES` runs another number of them, `PKO_SIM_FIRST` others; `PKO_SIM_SEED` replays one.

use std::{
    collections::BTreeSet,
    env,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use pko_api::reasons::{Reason, stack, update, workspace};
use pko_testkit::sim::{self, Counts, EFFECTS, Group, Outcome};

/// How many histories a test run has.
const HISTORIES: u64 = 30_000;
/// What is rare may need some more to be seen often enough: so many at a time, up to twice the number.
const MORE: u64 = 1_000;
/// How long half of them are at least.
const MEDIAN_STEPS: usize = 100;
/// How often everything has to be hit.
const HITS: u64 = 50;
/// How many lines of a failing history are shown.
const LINES: usize = 75;

const STACK_REASONS: [Reason; 13] = [
    stack::NOT_READY_IN_PROGRESS,
    stack::NOT_READY_STALLED,
    stack::PROCESSING_COMPLETED,
    stack::STACK_PROCESSING,
    stack::RETRYING_AFTER_FAILURE,
    stack::PREVIEW_FAILED,
    stack::SPEC_INVALID,
    stack::SOURCE_UNAVAILABLE,
    stack::PULUMI_VERSION_TOO_LOW,
    stack::WORKSPACE_FAILED,
    stack::UPDATE_FAILED,
    stack::PREREQUISITE_NOT_SATISFIED,
    stack::UPDATE_CONFLICT,
];

/// Namespaces do not go away here.
const STACK_REASONS_TO_COME: [Reason; 1] = [stack::NAMESPACE_TERMINATING];

const WORKSPACE_REASONS: [Reason; 10] = [
    workspace::DELETING,
    workspace::ROLLING_UPDATE,
    workspace::WAITING_FOR_REPLICAS,
    workspace::CONNECTION_FAILED,
    workspace::INCOMPATIBLE_CONFIGURATION,
    workspace::INSTALLING,
    workspace::INSTALLATION_FAILED,
    workspace::INITIALIZING,
    workspace::INITIALIZATION_FAILED,
    workspace::SUCCEEDED,
];

const UPDATE_REASONS: [Reason; 15] = [
    update::PROGRESSING,
    update::WORKSPACE_NOT_FOUND,
    update::WORKSPACE_NOT_READY,
    update::WORKSPACE_BUSY,
    update::TRANSIENT_FAILURE,
    update::COMPLETE,
    update::UPDATED,
    update::UPDATE_SUCCEEDED,
    update::UPDATE_FAILED,
    update::UNKNOWN,
    update::UPDATE_CONFLICT,
    update::INVALID_ACCESS_TOKEN,
    update::ABORTED,
    update::CANCELED,
    update::FAILED,
];

/// What the modelled agents report beyond the vocabulary.
const REPORTED: [(Group, &str); 3] = [
    (Group::WorkspaceReason, "Unauthenticated"),
    (Group::UpdateReason, "Interrupted"),
    (Group::UpdateReason, "UnexpectedChanges"),
];

/// What many histories came to.
#[derive(Default)]
struct Sum {
    counts: Counts,
    steps: Vec<usize>,
    failing: Vec<(u64, String)>,
}

impl Sum {
    fn take(&mut self, seed: u64, outcome: Outcome) {
        self.counts.add(outcome.counts);
        self.steps.push(outcome.steps);
        self.failing.extend(outcome.violation.map(|violation| (seed, violation)));
    }

    fn add(&mut self, other: Self) {
        self.counts.add(other.counts);
        self.steps.extend(other.steps);
        self.failing.extend(other.failing);
    }

    /// What was not hit often enough.
    fn rare(&self) -> Vec<String> {
        expected()
            .into_iter()
            .map(|(group, what)| (self.counts.of(group, &what), group, what))
            .filter(|(hits, ..)| *hits < HITS)
            .map(|(hits, group, what)| format!("{group:?} {what}: {hits}"))
            .collect()
    }
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().expect(variable))
}

/// Runs histories on all cores; after the first that fails, only those that are under way.
fn run(seeds: std::ops::Range<u64>) -> Sum {
    let next = AtomicU64::new(seeds.start);
    let end = AtomicU64::new(seeds.end);
    let work = || {
        let mut sum = Sum::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end.load(Ordering::Relaxed) {
                return sum;
            }
            sum.take(seed, sim::run(seed, None));
            if !sum.failing.is_empty() {
                end.store(0, Ordering::Relaxed);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut all = Sum::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            // What a history panicked with was printed.
            all.add(thread.join().expect("no history panics"));
        }
    });
    all.failing.sort();
    all
}

/// Everything that has to be hit.
fn expected() -> BTreeSet<(Group, String)> {
    let reasons = |group: Group, reasons: &[Reason]| -> Vec<(Group, String)> {
        reasons.iter().map(|reason| (group, reason.as_str().to_owned())).collect()
    };
    let names = |group: Group, names: &[&str]| -> Vec<(Group, String)> {
        names.iter().map(|name| (group, (*name).to_owned())).collect()
    };
    [
        names(Group::Effect, &EFFECTS),
        names(Group::CrashAfter, &EFFECTS),
        names(Group::Fault, &sim::faults()),
        names(Group::User, &sim::acts()),
        reasons(Group::StackReason, &STACK_REASONS),
        reasons(Group::WorkspaceReason, &WORKSPACE_REASONS),
        reasons(Group::UpdateReason, &UPDATE_REASONS),
        REPORTED.map(|(group, reason)| (group, reason.to_owned())).into(),
    ]
    .concat()
    .into_iter()
    .collect()
}

#[test]
fn thirty_thousand_histories_keep_every_promise_and_see_everything() {
    let asked = number("PKO_SIM_HISTORIES");
    let first = number("PKO_SIM_FIRST").unwrap_or_default();
    let mut last = first + asked.unwrap_or(HISTORIES);
    let mut sum = run(first..last);
    while asked.is_none() && sum.failing.is_empty() && last < first + 2 * HISTORIES && !sum.rare().is_empty() {
        sum.add(run(last..last + MORE));
        last += MORE;
    }
    sum.steps.sort_unstable();
    let median = sum.steps[sum.steps.len() / 2];
    println!("{} histories, {median} steps in the median\n{}", sum.steps.len(), sum.counts.table());

    if let Some((seed, violation)) = sum.failing.first() {
        let lines = sim::run_traced(*seed, None);
        panic!(
            "{violation}\n\nthe last of history {seed}:\n{}\n\nall of it: PKO_SIM_SEED={seed} cargo test -p pko-testkit \
             --test l2_histories replay -- --nocapture",
            lines.last_lines(LINES).join("\n")
        );
    }
    assert!(median >= MEDIAN_STEPS, "histories have become short: {median} steps in the median");
    if asked.is_none() {
        let rare = sum.rare();
        assert!(rare.is_empty(), "hit less than {HITS} times: {rare:#?}");
    }
    let expected = expected();
    let known = |group: Group, what: &str| expected.contains(&(group, what.to_owned()));
    for group in [Group::Effect, Group::StackReason, Group::WorkspaceReason, Group::UpdateReason] {
        let new: Vec<&str> =
            sum.counts.in_group(group).map(|(what, _)| what).filter(|what| !known(group, what)).collect();
        assert!(new.is_empty(), "{group:?} that no list in this file has: {new:?}");
    }
    for reason in STACK_REASONS_TO_COME {
        assert_eq!(sum.counts.of(Group::StackReason, reason.as_str()), 0, "{reason} is listed as one to come");
    }
}

#[test]
fn a_history_follows_from_its_seed() {
    let (one, other) = (sim::run(7, None), sim::run_traced(7, None));
    assert_eq!((one.steps, one.counts), (other.steps, other.counts));
}

/// Does nothing unless it is asked to.
#[test]
fn replay() {
    let Some(seed) = number("PKO_SIM_SEED") else { return };
    let outcome = sim::run_traced(seed, None);
    println!("{}", outcome.trace.join("\n"));
    assert_eq!(outcome.violation, None);
}
