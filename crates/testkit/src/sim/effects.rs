//! What each effect does to the model, under which conditions, and how it reads in a history.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{Workspace, annotations, env, finalizers, names};
use pko_core::{
    digest,
    effect::{Effect, Status, Target},
    seen::{Kind, Object, PodRef, StatefulSetSeen, controller_uid},
};
use serde_json::{Value, json};

use super::{
    agent::{self, Work},
    api::{Deletion, OutputsSecret, Refused},
    counts::{Counts, Group},
    invariants,
    things::{Set, Source, Template, Thing},
    world::{PLANTED, World},
};

type Done = Result<Option<String>, Refused>;

pub(super) fn carry_out(world: &mut World, effect: &Effect) -> Done {
    match effect {
        // A Stack that is gone is released.
        Effect::ReleaseStack { on, .. } if world.api.get(on.kind, &on.name).is_none() => Ok(None),
        Effect::Status { on, status } => write_status(world, on, status),
        Effect::HoldStack { on, finalizers } | Effect::ReleaseStack { on, finalizers } => {
            let mut stack = guarded(world, on)?;
            if stack.deleting() && finalizers.len() > stack.finalizers().len() {
                return Err(Refused::Forbidden("no new finalizers on an object that is being deleted".to_owned()));
            }
            stack.meta_mut().finalizers = (!finalizers.is_empty()).then(|| finalizers.clone());
            Ok(Some(world.api.store(stack)))
        }
        Effect::RequestUpdate { on, request } => {
            if world.api.same(on.kind, &on.name, &on.uid).is_some() {
                let mut stack = same(world, on)?;
                let key = annotations::PREREQUISITE_REQUEST.to_owned();
                stack.meta_mut().annotations.get_or_insert_default().insert(key, request.clone());
                world.api.store(stack);
            }
            Ok(None)
        }
        Effect::ApplyWorkspace { workspace, uid } => apply_workspace(world, workspace, uid.as_deref()),
        Effect::DeleteWorkspace { on } | Effect::DeleteUpdate { on } => {
            if world.api.same(on.kind, &on.name, &on.uid).is_some() {
                world.api.delete(on.kind, &on.name, Deletion::Background, world.now);
            }
            Ok(None)
        }
        Effect::CreateUpdate(update) => {
            let name = update.metadata.name.as_deref().unwrap_or_default();
            if world.api.get(Kind::Update, name).is_none() {
                world.api.create(Thing::Update((**update).clone()), world.now)?;
            }
            Ok(None)
        }
        Effect::HoldUpdate { on } => {
            let mut update = same(world, on)?;
            if update.finalizers().iter().any(|name| name == finalizers::STACK) {
                return Ok(None);
            }
            if update.deleting() {
                return Err(Refused::Forbidden("no new finalizers on an object that is being deleted".to_owned()));
            }
            update.meta_mut().finalizers.get_or_insert_default().push(finalizers::STACK.to_owned());
            world.api.store(update);
            Ok(None)
        }
        Effect::ReleaseUpdate { on } => {
            let Ok(mut update) = same(world, on) else { return Ok(None) };
            update.meta_mut().finalizers.get_or_insert_default().retain(|name| name != finalizers::STACK);
            world.api.store(update);
            Ok(None)
        }
        Effect::ApplyService { .. } => Ok(None),
        Effect::ApplyStatefulSet { stateful_set } => apply_set(world, stateful_set),
        Effect::DeletePod { pod } => {
            if world.api.same(Kind::Pod, &pod.name, &pod.uid).is_some() {
                world.api.delete(Kind::Pod, &pod.name, Deletion::Background, world.now);
            }
            Ok(None)
        }
        Effect::MarkInitialized { pod, stacks_hash } => mark(world, pod, stacks_hash),
        Effect::StartInit { pod, run_id, init } => start(world, pod, run_id, agent::init(init), ""),
        Effect::StartUpdate { pod, run_id, operation } => {
            let update = world.api.all(Kind::Update).find(|update| update.uid() == run_id);
            let stack = update.and_then(|update| world.api.stack_uid(update)).unwrap_or_default();
            if let Some(wrong) = invariants::destroyed_twice(world, operation, &stack) {
                world.violated(wrong);
            }
            start(world, pod, run_id, Work::Operation(operation.clone()), &stack)
        }
        Effect::CancelRun { pod, run_id } => {
            let now = world.now;
            if world.agents.0.get(&pod.uid).and_then(|agent| agent.active()).is_some_and(|run| run.id == *run_id) {
                world.agents.kill(&pod.uid, "Canceled", &mut world.cloud, now);
            }
            Ok(None)
        }
        Effect::StoreOutputs { pod, run_id, update } => store_outputs(world, pod, run_id, update),
        Effect::Publish { event, .. } => {
            if event.message.contains(PLANTED) {
                world.violated(format!("a secret is in an event: {}", event.message));
            }
            Ok(None)
        }
    }
}

/// The object, if it still is the version that was read.
fn guarded(world: &World, on: &Target) -> Result<Thing, Refused> {
    let thing = same(world, on)?;
    if thing.version() != on.resource_version {
        return Err(Refused::Conflict(format!("{} {} was changed", on.kind.as_str(), on.name)));
    }
    Ok(thing)
}

/// The object, if it still is that very one.
fn same(world: &World, on: &Target) -> Result<Thing, Refused> {
    let found = world.api.same(on.kind, &on.name, &on.uid);
    found
        .map(|thing| (**thing).clone())
        .ok_or_else(|| Refused::Conflict(format!("{} {} is not, or no longer, {}", on.kind.as_str(), on.name, on.uid)))
}

fn write_status(world: &mut World, on: &Target, status: &Status) -> Done {
    let mut thing = guarded(world, on)?;
    match (&mut thing, status) {
        (Thing::Stack(it), Status::Stack(status)) => it.status = Some((**status).clone()),
        (Thing::Program(it), Status::Program(status)) => it.status = Some((**status).clone()),
        (Thing::Workspace(it), Status::Workspace(status)) => it.status = Some((**status).clone()),
        (Thing::Update(it), Status::Update(status)) => it.status = Some((**status).clone()),
        _ => world.violated(format!("the status of another kind was written to {} {}", on.kind.as_str(), on.name)),
    }
    Ok(Some(world.api.store(thing)))
}

/// Server-side apply by the one manager that writes Workspaces here: what is applied replaces what was.
fn apply_workspace(world: &mut World, planned: &Workspace, uid: Option<&str>) -> Done {
    let name = planned.metadata.name.as_deref().unwrap_or_default();
    let found = world.api.get(Kind::Workspace, name).cloned();
    if let Some(uid) = uid
        && found.as_ref().is_none_or(|found| found.uid() != uid)
    {
        return Err(Refused::Conflict(format!("Workspace {name} is not, or no longer, {uid}")));
    }
    let Some(found) = found else {
        world.api.create(Thing::Workspace(planned.clone()), world.now)?;
        return Ok(None);
    };
    let (owner, own) = (controller_uid(found.meta()), controller_uid(&planned.metadata));
    if uid.is_none() && owner.is_some() && own.is_some() && owner != own {
        return Err(Refused::Forbidden(format!("Workspace {name} would have two owners that control it")));
    }
    let Some(mut after) = found.workspace().cloned() else { return Ok(None) };
    after.spec = planned.spec.clone();
    take_over(&mut after.metadata, &planned.metadata);
    world.api.store(Thing::Workspace(after));
    Ok(None)
}

fn take_over(metadata: &mut ObjectMeta, planned: &ObjectMeta) {
    metadata.labels.clone_from(&planned.labels);
    metadata.annotations.clone_from(&planned.annotations);
    metadata.owner_references.clone_from(&planned.owner_references);
}

fn apply_set(world: &mut World, value: &Value) -> Done {
    let Ok(set) = serde_json::from_value::<StatefulSet>(value.clone()) else {
        world.violated(format!("not a StatefulSet: {value}"));
        return Err(Refused::Forbidden("not a StatefulSet".to_owned()));
    };
    let seen = StatefulSetSeen::from(&set);
    let template = Template {
        digest: digest::of(&value["spec"]["template"]),
        revision_hash: seen.revision_hash,
        spec_hash: seen.spec_hash,
        source: source(&value["spec"]["template"]["spec"]["initContainers"]),
    };
    let name = set.metadata.name.clone().unwrap_or_default();
    let Some(found) = world.api.get(Kind::StatefulSet, &name).cloned() else {
        world.api.create(Thing::Set(Set { metadata: set.metadata, template, replicas: seen.replicas }), world.now)?;
        return Ok(None);
    };
    let Some(mut after) = found.set().cloned() else { return Ok(None) };
    take_over(&mut after.metadata, &set.metadata);
    after.template = template;
    after.replicas = seen.replicas;
    world.api.store(Thing::Set(after));
    Ok(None)
}

/// What the containers that run first fetch.
fn source(containers: &Value) -> Source {
    let variables = containers.as_array().into_iter().flatten().filter_map(|it| it["env"].as_array()).flatten();
    let variables: BTreeMap<&str, &str> =
        variables.filter_map(|it| Some((it["name"].as_str()?, it["value"].as_str()?))).collect();
    let text = |name: &str| variables.get(name).map(|value| (*value).to_owned());
    if let (Some(url), Some(digest)) = (text(env::FLUX_URL), text(env::FLUX_DIGEST)) {
        Source::Artifact { url, digest }
    } else if let Some(commit) = text(env::GIT_REVISION) {
        Source::Commit(commit)
    } else if variables.contains_key(env::PROJECT_NAME) {
        Source::Project
    } else {
        Source::None
    }
}

fn mark(world: &mut World, pod: &PodRef, stacks_hash: &str) -> Done {
    let found = world.api.same(Kind::Pod, &pod.name, &pod.uid).cloned();
    let Some(mut after) = found.and_then(|thing| thing.pod().cloned()) else {
        return Err(Refused::Conflict(format!("Pod {} is not, or no longer, {}", pod.name, pod.uid)));
    };
    let marks = after.metadata.annotations.get_or_insert_default();
    marks.insert(annotations::INITIALIZED.to_owned(), annotations::TRUE.to_owned());
    marks.insert(annotations::STACKS_HASH.to_owned(), stacks_hash.to_owned());
    world.api.store(Thing::Pod(after));
    Ok(None)
}

fn start(world: &mut World, pod: &PodRef, run_id: &str, work: Work, stack_uid: &str) -> Done {
    let clock = (world.now, &mut world.chance);
    let wrong = world.agents.start(&pod.uid, run_id, work, stack_uid, &mut world.cloud, clock)?;
    if let Some(wrong) = wrong {
        world.violated(wrong);
    }
    Ok(None)
}

fn store_outputs(world: &mut World, pod: &PodRef, run_id: &str, update: &Target) -> Done {
    use pko_core::ask::{RunAnswer, RunState};
    let RunAnswer::Known(run) = world.agents.run(&pod.uid, run_id, world.now) else {
        return Err(Refused::Failed("the agent does not answer"));
    };
    if run.state != RunState::Succeeded {
        return Err(Refused::Conflict("the run did not succeed".to_owned()));
    }
    let secret = OutputsSecret {
        owner_uid: update.uid.clone(),
        outputs: BTreeMap::from([
            ("password".to_owned(), json!(format!("{PLANTED}-in-outputs"))),
            ("url".to_owned(), json!("https://example.com")),
        ]),
        secret: BTreeSet::from(["password".to_owned()]),
    };
    let stored = world.api.secrets.entry(names::outputs_secret(&update.name)).or_insert(secret);
    if stored.owner_uid != update.uid {
        return Err(Refused::Forbidden(format!("there are outputs that do not belong to Update {}", update.name)));
    }
    Ok(None)
}

/// Counts every reason that a status says.
pub(super) fn count_reasons(counts: &mut Counts, effect: &Effect) {
    let Effect::Status { status, .. } = effect else { return };
    let (group, conditions) = match status {
        Status::Stack(status) => (Group::StackReason, &status.conditions),
        Status::Workspace(status) => (Group::WorkspaceReason, &status.conditions),
        Status::Update(status) => (Group::UpdateReason, &status.conditions),
        Status::Program(_) => return,
    };
    for condition in conditions {
        counts.hit(group, condition.reason.clone());
    }
}

/// An effect in one line.
pub(super) fn told(effect: &Effect) -> String {
    let on = |on: &Target| format!("{} {} @{}", effect.name(), on.name, on.resource_version);
    match effect {
        Effect::Status { on: target, status } => {
            let text = match status {
                Status::Stack(status) => format!(
                    "current {:?} last {:?} {}",
                    status.current_update.as_ref().map(|current| &current.name),
                    status.last_update.as_ref().map(|last| (&last.name, &last.state, last.failures)),
                    conditions(&status.conditions),
                ),
                Status::Workspace(status) => conditions(&status.conditions),
                Status::Update(status) => {
                    format!("run {:?} {}", status.run.as_ref().map(|run| &run.pod_uid), conditions(&status.conditions))
                }
                Status::Program(status) => {
                    format!("{:?}", status.artifact.as_ref().map(|artifact| &artifact.revision))
                }
            };
            format!("{}: {text}", on(target))
        }
        Effect::HoldStack { on: target, .. }
        | Effect::ReleaseStack { on: target, .. }
        | Effect::RequestUpdate { on: target, .. }
        | Effect::DeleteWorkspace { on: target }
        | Effect::HoldUpdate { on: target }
        | Effect::ReleaseUpdate { on: target }
        | Effect::DeleteUpdate { on: target } => on(target),
        Effect::CreateUpdate(update) => {
            let spec = &update.spec;
            format!("{} {:?} {:?} {:?}", effect.name(), update.metadata.name, spec.update_type, spec.message)
        }
        Effect::ApplyWorkspace { uid, .. } => format!("{} {uid:?}", effect.name()),
        Effect::DeletePod { pod } | Effect::MarkInitialized { pod, .. } => format!("{} {}", effect.name(), pod.uid),
        Effect::StartInit { pod, run_id, .. }
        | Effect::StartUpdate { pod, run_id, .. }
        | Effect::CancelRun { pod, run_id } => {
            format!("{} {run_id} in {}", effect.name(), pod.uid)
        }
        Effect::Publish { event, .. } => format!("{} {}: {}", effect.name(), event.reason, event.message),
        Effect::ApplyService { .. } | Effect::ApplyStatefulSet { .. } | Effect::StoreOutputs { .. } => {
            effect.name().to_owned()
        }
    }
}

fn conditions(all: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]) -> String {
    let all: Vec<String> = all.iter().map(|it| format!("{}={}/{}", it.type_, it.status, it.reason)).collect();
    all.join(" ")
}

/// An object in a few words.
pub(super) fn shown(object: &Object) -> String {
    let meta = |meta: &ObjectMeta| format!("{:?} @{:?}", meta.name, meta.resource_version);
    match object {
        Object::Stack(it) => meta(&it.metadata),
        Object::Program(it) => meta(&it.metadata),
        Object::Workspace(it) => {
            format!(
                "{} {}",
                meta(&it.metadata),
                it.status.as_ref().map_or(String::new(), |s| conditions(&s.conditions))
            )
        }
        Object::Update(it) => {
            format!(
                "{} {}",
                meta(&it.metadata),
                it.status.as_ref().map_or(String::new(), |s| conditions(&s.conditions))
            )
        }
        other => format!("{other:?}"),
    }
}
