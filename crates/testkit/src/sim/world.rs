//! The whole of the model: API server, nodes, agents, cloud, operator processes, and the clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use pko_api::Program;
use pko_core::{
    ask::Packed,
    digest,
    seen::{Key, Kind},
    settings::Settings,
    workspace::build::Planned,
};
use serde_json::Value;

use super::{
    Mutant,
    agent::Agents,
    api::Api,
    caches::{Caches, key},
    cloud::Cloud,
    counts::{Counts, Group},
    kubelet::{self, Bodies},
    things::KINDS,
};
use crate::chance::Chance;

/// Where artifacts of Programs are served.
pub(super) const ARTIFACTS: &str = "artifacts:8080";
/// Where a Flux source has its artifacts.
pub(super) const BUCKET: &str = "http://flux/bucket/";
/// Planted where secrets are, to be found nowhere else.
pub(super) const PLANTED: &str = "planted-secret";

/// Everything there is.
#[derive(Debug)]
pub(super) struct World {
    pub(super) now: Timestamp,
    pub(super) chance: Chance,
    pub(super) api: Api,
    pub(super) bodies: Bodies,
    pub(super) agents: Agents,
    pub(super) cloud: Cloud,
    pub(super) operators: Vec<Operator>,
    pub(super) settings: Settings,
    /// The effect after which operators crash, so that users do what leads to it; empty if any will do.
    pub(super) crash_after: &'static str,
    /// When the Secret that Stacks refer to was last written.
    pub(super) secret_written: Timestamp,
    /// How many commits the branch of the repository has.
    pub(super) commits: u32,
    /// How often the Flux source had something new.
    pub(super) artifacts: u32,
    /// UIDs of Stacks whose finalizers a user took off.
    pub(super) forced: BTreeSet<String>,
    /// The planned StatefulSets by UID and generation of their Workspaces, and by the operator's image.
    pub(super) plans: BTreeMap<(Option<String>, Option<i64>, String), Planned>,
    /// Things may go wrong.
    pub(super) faults: bool,
    pub(super) mutant: Option<Mutant>,
    /// Effects that were carried out.
    pub(super) writes: u64,
    pub(super) counts: Counts,
    /// The first thing that must not be.
    pub(super) violation: Option<String>,
    /// How far the history of each kind was checked.
    pub(super) checked: [usize; 6],
    trace: Option<Vec<String>>,
}

/// The memory of an operator process that leads, or thinks so.
#[derive(Debug, Default)]
pub(super) struct Operator {
    pub(super) alive: bool,
    pub(super) caches: Caches,
    pub(super) queue: BTreeSet<Key>,
    pub(super) timers: BTreeMap<Key, Timestamp>,
    /// How often in a row an object could not be reconciled.
    pub(super) failures: BTreeMap<Key, u32>,
    /// Objects that are being reconciled.
    pub(super) busy: BTreeSet<Key>,
}

impl World {
    pub(super) fn new(seed: u64, mutant: Option<Mutant>, traced: bool) -> Self {
        Self {
            now: Timestamp::from_second(1_750_000_000).unwrap_or_default(),
            chance: Chance::new(seed),
            api: Api::default(),
            bodies: Bodies::default(),
            agents: Agents::default(),
            cloud: Cloud::default(),
            operators: vec![Operator::default(), Operator::default()],
            settings: Settings {
                agent_image: "agent".to_owned(),
                agent_image_pull_policy: "IfNotPresent".to_owned(),
                flux_max_untar_size_bytes: None,
                artifact_address: ARTIFACTS.to_owned(),
                known_hosts: None,
            },
            crash_after: "",
            secret_written: Timestamp::UNIX_EPOCH,
            commits: 1,
            artifacts: 1,
            forced: BTreeSet::new(),
            plans: BTreeMap::new(),
            faults: true,
            mutant,
            writes: 0,
            counts: Counts::default(),
            violation: None,
            checked: [0; 6],
            trace: traced.then(Vec::new),
        }
    }

    /// Keeps a line of the history, if somebody is going to read it.
    pub(super) fn trace(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{} {}", self.now.strftime("%d %H:%M:%S%.3f"), line()));
        }
    }

    pub(super) fn traced(&self) -> Vec<String> {
        self.trace.iter().flatten().cloned().collect()
    }

    pub(super) fn violated(&mut self, what: String) {
        self.trace(|| format!("VIOLATION {what}"));
        self.violation.get_or_insert(what);
    }

    pub(super) fn in_ms(&self, milliseconds: i64) -> Timestamp {
        self.now + SignedDuration::from_millis(milliseconds)
    }

    /// A process starts: it knows nothing but a fresh list, and looks at everything once.
    pub(super) fn start_operator(&mut self, number: usize) {
        let caches = Caches::listed(&self.api);
        let queue =
            KINDS[..4].iter().flat_map(|kind| caches.all(*kind).map(|thing| key(*kind, thing.name()))).collect();
        self.operators[number] = Operator { alive: true, caches, queue, ..Operator::default() };
        self.trace(|| format!("operator {number} starts"));
    }

    /// A process ends, and with it all that it knew.
    pub(super) fn stop_operator(&mut self, number: usize) {
        self.operators[number] = Operator::default();
        self.trace(|| format!("operator {number} ends"));
    }

    /// The next event of a kind reaches a process.
    pub(super) fn see(&mut self, number: usize, kind: Kind) {
        let operator = &mut self.operators[number];
        operator.queue.extend(operator.caches.advance(kind, &self.api));
    }

    /// The end of a run reaches those who follow it, unless a stream broke.
    fn wake(&mut self, key: &Key) {
        for number in 0..self.operators.len() {
            if self.operators[number].alive && self.chance.percent(70) {
                self.operators[number].queue.insert(key.clone());
            }
        }
    }

    /// Something happens by itself: garbage is collected, sets and pods are looked after, runs go on.
    pub(super) fn by_itself(&mut self) -> bool {
        let turn = self.chance.below(4);
        let told = (0..4).find_map(|next| match (turn + next) % 4 {
            0 => self.api.collect(&mut self.chance, self.now),
            1 => {
                let sets = kubelet::sets_to_sync(self);
                (!sets.is_empty())
                    .then(|| self.chance.pick(&sets).clone())
                    .and_then(|set| kubelet::sync_set(self, &set))
            }
            2 => {
                let (pods, _) = kubelet::due_pods(self);
                (!pods.is_empty())
                    .then(|| self.chance.pick(&pods).clone())
                    .and_then(|pod| kubelet::sync_pod(self, &pod))
            }
            _ => self.run_goes_on(),
        });
        let Some(told) = told else { return false };
        self.trace(|| told);
        true
    }

    fn run_goes_on(&mut self) -> Option<String> {
        let pods = self.agents.due(self.now);
        if pods.is_empty() {
            return None;
        }
        let pod = self.chance.pick(&pods).clone();
        let ended = self.agents.go_on(&pod, &mut self.cloud, self.faults, (self.now, &mut self.chance))?;
        if ended.init {
            self.wake(&key(Kind::Workspace, &ended.workspace));
        } else if !ended.run_id.is_empty() {
            let update = self.api.all(Kind::Update).find(|update| update.uid() == ended.run_id);
            if let Some(name) = update.map(|update| update.name().to_owned()) {
                self.wake(&key(Kind::Update, &name));
            }
        }
        Some(ended.told)
    }

    /// The next moment at which something is due, later than now.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let (_, pods) = kubelet::due_pods(self);
        let timers = self.operators.iter().flat_map(|operator| operator.timers.values().copied());
        let agents = self.agents.next_due().into_iter().chain(self.agents.next_answer(self.now));
        timers.chain(pods).chain(agents).filter(|due| *due > self.now).min()
    }

    /// Timers that are due put their objects into the queue.
    pub(super) fn ring(&mut self) {
        let now = self.now;
        for operator in &mut self.operators {
            let due: Vec<Key> =
                operator.timers.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
            for key in due {
                operator.timers.remove(&key);
                operator.queue.insert(key);
            }
        }
    }

    /// Where the branch of the repository is.
    pub(super) fn commit(&self) -> String {
        format!("commit-{}", self.commits)
    }

    /// The digest of what the Flux source has to offer.
    pub(super) fn bucket_digest(&self) -> String {
        format!("sha256:bucket-{}", self.artifacts)
    }

    pub(super) fn fault(&mut self, what: &'static str) {
        self.counts.hit(Group::Fault, what);
    }
}

/// The packed form of a Program.
pub(super) fn packed(program: &Program) -> Packed {
    let text = serde_json::to_value(&program.program).unwrap_or(Value::Null);
    Packed { digest: format!("sha256:{}", digest::of(&text)), size: 100 }
}
