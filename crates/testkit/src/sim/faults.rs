//! What goes wrong by itself, apart from crashes, which belong to the schedule, and from reads and writes that fail.

use jiff::SignedDuration;
use pko_core::seen::Kind;

use super::{
    kubelet::{self, Harm},
    world::World,
};

pub(super) const READ_FAILS: &str = "read fails";
pub(super) const WRITE_FAILS: &str = "write fails";
pub(super) const WRITE_UNKNOWN: &str = "write is done and fails";
pub(super) const LEADER_ENDS: &str = "leader ends";
pub(super) const REPOSITORY_AWAY: &str = "repository away";
const SECOND_LEADER: &str = "second leader";
const AGENT_SILENT: &str = "agent silent";
const AGENT_REFUSES: &str = "agent refuses";

/// Names of everything that goes wrong, for tables.
pub fn names() -> Vec<&'static str> {
    let others = [
        READ_FAILS,
        WRITE_FAILS,
        WRITE_UNKNOWN,
        LEADER_ENDS,
        REPOSITORY_AWAY,
        SECOND_LEADER,
        AGENT_SILENT,
        AGENT_REFUSES,
    ];
    others.into_iter().chain(Harm::ALL.map(Harm::name)).collect()
}

/// Another process leads, or thinks so.
pub(super) fn second_leader(world: &mut World) -> bool {
    let Some(down) = world.operators.iter().position(|operator| !operator.alive) else { return false };
    if world.operators.iter().any(|operator| operator.alive) {
        world.fault(SECOND_LEADER);
    }
    world.start_operator(down);
    true
}

/// An agent says nothing, or nothing but no, for a while.
pub(super) fn agent_silent(world: &mut World) -> bool {
    let pods: Vec<String> = world.agents.0.keys().cloned().collect();
    if pods.is_empty() {
        return false;
    }
    let pod = world.chance.pick(&pods).clone();
    let until = world.now + SignedDuration::from_secs(world.chance.between(1, 60));
    let refuses = world.chance.one_in(3);
    world.fault(if refuses { AGENT_REFUSES } else { AGENT_SILENT });
    if let Some(agent) = world.agents.0.get_mut(&pod) {
        *(if refuses { &mut agent.refuses_until } else { &mut agent.silent_until }) = Some(until);
    }
    world.trace(|| format!("fault: the agent in {pod} does not answer until {until}"));
    true
}

/// A pod or its container comes to harm, preferably while something runs in it.
pub(super) fn pod_harmed(world: &mut World) -> bool {
    let pods = kubelet::pods(world);
    if pods.is_empty() {
        return false;
    }
    let pod = world.chance.pick(&pods).clone();
    let running = world.api.get(Kind::Pod, &pod).is_some_and(|it| world.agents.is_operating(it.uid()));
    let restarts = running && world.chance.percent(50);
    let what = if restarts { Harm::ContainerRestarts } else { *world.chance.pick(&Harm::ALL) };
    let Some(told) = kubelet::harm(world, &pod, what) else { return false };
    world.fault(what.name());
    world.trace(|| told);
    true
}
