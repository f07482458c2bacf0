//! The StatefulSet controller and the kubelet: a set leads to one pod of its template, and pods start, end and die.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use pko_api::{Program, names};
use pko_core::seen::{Kind, controller_uid};

use super::{
    agent::Agent,
    api::Deletion,
    things::{NAMESPACE, Pod, Source, Thing, Version},
    world::{ARTIFACTS, BUCKET, World, packed},
};

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Scheduled,
    Fetching,
    Running,
    /// Its container is started again.
    Restarting,
    /// It ended, and is still listed.
    Ended,
    /// Told to end; its run winds down.
    WindingDown,
    /// Nothing of it runs any more.
    Stopped,
}

/// What a node knows of a pod.
#[derive(Clone, Debug)]
pub(super) struct Body {
    stage: Stage,
    due: Timestamp,
    /// Its node is away until then: nothing happens to it, and it says nothing.
    lost_until: Option<Timestamp>,
}

/// What nodes know, by the UID of the pod.
pub(super) type Bodies = BTreeMap<String, Body>;

/// How a pod comes to harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    ContainerRestarts,
    Evicted,
    Killed,
    NodeLost,
}

impl Harm {
    pub(super) const ALL: [Self; 4] = [Self::ContainerRestarts, Self::Evicted, Self::Killed, Self::NodeLost];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ContainerRestarts => "container restarts",
            Self::Evicted => "pod evicted",
            Self::Killed => "pod killed",
            Self::NodeLost => "node lost for a while",
        }
    }
}

fn soon(world: &mut World, most: i64) -> Timestamp {
    world.now + SignedDuration::from_millis(world.chance.between(50, most))
}

/// StatefulSets for which something is to do.
pub(super) fn sets_to_sync(world: &World) -> Vec<String> {
    world
        .api
        .all(Kind::StatefulSet)
        .filter(|set| pod_wanted(world, set).is_some())
        .map(|s| s.name().to_owned())
        .collect()
}

enum Wanted {
    Create,
    Delete,
}

fn pod_wanted(world: &World, set: &Version) -> Option<Wanted> {
    let it = set.set()?;
    if set.deleting() {
        return None;
    }
    let Some(pod) = world.api.get(Kind::Pod, &pod_name(set.name())) else { return Some(Wanted::Create) };
    // A pod of another set of this name has to go by itself first.
    if pod.deleting() || controller_uid(pod.meta()).as_deref() != Some(set.uid()) {
        return None;
    }
    let pod = pod.pod()?;
    (pod.ended || pod.template != it.template).then_some(Wanted::Delete)
}

fn pod_name(set: &str) -> String {
    format!("{set}-0")
}

/// The controller looks at one set.
pub(super) fn sync_set(world: &mut World, name: &str) -> Option<String> {
    let set = world.api.get(Kind::StatefulSet, name)?.clone();
    let pod = pod_name(name);
    match pod_wanted(world, &set)? {
        Wanted::Delete => {
            world.api.delete(Kind::Pod, &pod, Deletion::Background, world.now);
            Some(format!("statefulset controller: deletes {pod}"))
        }
        Wanted::Create => {
            let owner = OwnerReference {
                api_version: "apps/v1".to_owned(),
                kind: "StatefulSet".to_owned(),
                name: name.to_owned(),
                uid: set.uid().to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            };
            let metadata =
                ObjectMeta { name: Some(pod.clone()), owner_references: Some(vec![owner]), ..ObjectMeta::default() };
            let template = set.set()?.template.clone();
            let made = world.api.create(Thing::Pod(Pod { metadata, template, ..Pod::default() }), world.now).ok()?;
            let due = soon(world, 2_000);
            let workspace = name.strip_suffix("-workspace").unwrap_or(name).to_owned();
            world.bodies.insert(made.uid().to_owned(), Body { stage: Stage::Scheduled, due, lost_until: None });
            world.agents.0.insert(made.uid().to_owned(), Agent { workspace, ..Agent::default() });
            Some(format!("statefulset controller: creates {pod} ({})", made.uid()))
        }
    }
}

/// Pods with something due, and when the next one has.
pub(super) fn due_pods(world: &World) -> (Vec<String>, Option<Timestamp>) {
    let mut due = Vec::new();
    let mut next: Option<Timestamp> = None;
    for pod in world.api.all(Kind::Pod) {
        let Some(body) = world.bodies.get(pod.uid()) else { continue };
        let back = body.lost_until.filter(|until| *until > world.now);
        let told_to_end = pod.deleting() && !matches!(body.stage, Stage::WindingDown | Stage::Stopped);
        let idle = matches!(body.stage, Stage::Running | Stage::Ended) && !told_to_end;
        if idle {
            continue;
        }
        let at = back.unwrap_or(if told_to_end { world.now } else { body.due });
        if at <= world.now {
            due.push(pod.name().to_owned());
        }
        next = Some(next.map_or(at, |earlier| earlier.min(at)));
    }
    (due, next)
}

/// The kubelet does what is next for a pod.
pub(super) fn sync_pod(world: &mut World, name: &str) -> Option<String> {
    let thing = world.api.get(Kind::Pod, name)?.clone();
    let uid = thing.uid().to_owned();
    let body = world.bodies.get(&uid)?.clone();
    let mut pod = thing.pod()?.clone();
    if thing.deleting() {
        return Some(wind_down(world, name, &uid, body.stage));
    }
    let told = match body.stage {
        Stage::Scheduled => {
            pod.ip = Some(format!("10.0.0.{}", world.chance.below(250)));
            let due = soon(world, 3_000);
            world.bodies.insert(uid, Body { stage: Stage::Fetching, due, lost_until: None });
            format!("kubelet: {name} has an address")
        }
        Stage::Fetching => match fetch(world, &pod.template.source) {
            Ok(program) => {
                pod.running_since = Some(world.now);
                pod.trouble = None;
                let silent_until = world.chance.percent(40).then(|| soon(world, 3_000));
                if let Some(agent) = world.agents.0.get_mut(&uid) {
                    agent.up = true;
                    agent.program = program;
                    agent.silent_until = silent_until;
                }
                world.bodies.insert(uid, Body { stage: Stage::Running, due: world.now, lost_until: None });
                format!("kubelet: {name} runs")
            }
            Err(why) => {
                pod.trouble = Some(format!("container fetch is in CrashLoopBackOff: {why}"));
                let due = world.now + SignedDuration::from_secs(20);
                world.bodies.insert(uid, Body { stage: Stage::Fetching, due, lost_until: None });
                format!("kubelet: {name} cannot fetch: {why}")
            }
        },
        Stage::Restarting => {
            pod.running_since = Some(world.now);
            if let Some(agent) = world.agents.0.get_mut(&uid) {
                agent.up = true;
            }
            world.bodies.insert(uid, Body { stage: Stage::Running, due: world.now, lost_until: None });
            format!("kubelet: {name} runs again")
        }
        Stage::Running | Stage::Ended | Stage::WindingDown | Stage::Stopped => return None,
    };
    world.api.store(Thing::Pod(pod));
    Some(told)
}

fn wind_down(world: &mut World, name: &str, uid: &str, stage: Stage) -> String {
    match stage {
        Stage::WindingDown => {
            world.agents.kill(uid, "Canceled", &mut world.cloud, world.now);
            let due = soon(world, 5_000);
            world.bodies.insert(uid.to_owned(), Body { stage: Stage::Stopped, due, lost_until: None });
            format!("kubelet: the run in {name} has wound down")
        }
        Stage::Stopped => {
            world.agents.0.remove(uid);
            world.bodies.remove(uid);
            world.api.remove(Kind::Pod, name);
            format!("kubelet: {name} is gone")
        }
        _ => {
            if let Some(agent) = world.agents.0.get_mut(uid) {
                agent.terminating = true;
            }
            let most = if world.agents.is_operating(uid) { 30_000 } else { 500 };
            let due = soon(world, most);
            world.bodies.insert(uid.to_owned(), Body { stage: Stage::WindingDown, due, lost_until: None });
            format!("kubelet: {name} is told to end")
        }
    }
}

/// The artifact server serves the present generation of a Program only.
fn fetch(world: &World, source: &Source) -> Result<String, String> {
    let (url, digest) = match source {
        Source::Artifact { url, digest } => (url, digest),
        // Every commit stays where it is.
        Source::Commit(commit) => return Ok(commit.clone()),
        Source::Project | Source::None => return Ok(String::new()),
    };
    if url.starts_with(BUCKET) {
        return if *digest == world.bucket_digest() {
            Ok(digest.clone())
        } else {
            Err("the digest differs".to_owned())
        };
    }
    let served = world.api.all(Kind::Program).filter_map(|thing| thing.program()).find(|program| serves(program, url));
    let program = served.ok_or("404")?;
    let found = packed(program).digest;
    if found == *digest { Ok(found) } else { Err("the digest differs".to_owned()) }
}

fn serves(program: &Program, url: &str) -> bool {
    let name = program.metadata.name.as_deref().unwrap_or_default();
    let generation = program.metadata.generation.unwrap_or_default();
    names::artifact_url(ARTIFACTS, NAMESPACE, name, generation) == url
}

/// Pods that can come to harm.
pub(super) fn pods(world: &World) -> Vec<String> {
    world.api.all(Kind::Pod).map(|pod| pod.name().to_owned()).collect()
}

/// Something happens to a pod that nobody asked for, or somebody did by force.
pub(super) fn harm(world: &mut World, name: &str, harm: Harm) -> Option<String> {
    let thing = world.api.get(Kind::Pod, name)?.clone();
    let uid = thing.uid().to_owned();
    let stage = world.bodies.get(&uid)?.stage;
    let mut pod = thing.pod()?.clone();
    match harm {
        Harm::ContainerRestarts if stage == Stage::Running => {
            world.agents.kill(&uid, "Interrupted", &mut world.cloud, world.now);
            if let Some(agent) = world.agents.0.get_mut(&uid) {
                agent.up = false;
            }
            pod.running_since = None;
            let due = soon(world, 5_000);
            world.bodies.insert(uid, Body { stage: Stage::Restarting, due, lost_until: None });
            world.api.store(Thing::Pod(pod));
        }
        Harm::Evicted if !thing.deleting() && stage != Stage::Ended => {
            world.agents.kill(&uid, "Canceled", &mut world.cloud, world.now);
            if let Some(agent) = world.agents.0.get_mut(&uid) {
                agent.up = false;
            }
            pod.ended = true;
            pod.running_since = None;
            let now = world.now;
            world.bodies.insert(uid, Body { stage: Stage::Ended, due: now, lost_until: None });
            world.api.store(Thing::Pod(pod));
        }
        Harm::Killed => {
            world.agents.kill(&uid, "Interrupted", &mut world.cloud, world.now);
            world.agents.0.remove(&uid);
            world.bodies.remove(&uid);
            world.api.remove(Kind::Pod, name);
        }
        Harm::NodeLost => {
            let until = world.now + SignedDuration::from_secs(world.chance.between(10, 900));
            if let Some(body) = world.bodies.get_mut(&uid) {
                body.lost_until = Some(until);
            }
            if let Some(agent) = world.agents.0.get_mut(&uid) {
                agent.silent_until = Some(until);
            }
        }
        Harm::ContainerRestarts | Harm::Evicted => return None,
    }
    Some(format!("harm: {} for {name}", harm.name()))
}
