//! What must hold after every step of every history. Each is a function that says in words how it is broken.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use pko_api::{
    Stack,
    conditions::{ConditionType, find, is_true},
    finalizers,
    stack::update_state,
    update::update_type,
};
use pko_core::{
    effect::{Operation, OperationKind},
    outcome,
    seen::{Key, Kind, ended},
    step::Then,
};
use serde::Serialize;

use super::{
    api::{Api, Change},
    caches::Caches,
    things::{KINDS, Thing, Version, place},
    world::{PLANTED, World},
};

/// Looks at everything that has changed since it last looked.
pub(super) fn check(world: &mut World) {
    for kind in KINDS {
        let from = world.checked[place(kind)];
        let to = world.api.history(kind).len();
        world.checked[place(kind)] = to;
        for position in from..to {
            let broken = broken_by(world, &world.api.history(kind)[position]);
            if let Some(broken) = broken {
                world.violated(broken);
            }
        }
        if kind == Kind::Update
            && from < to
            && let Some(broken) = one_update_at_a_time(world)
        {
            world.violated(broken);
        }
    }
}

fn broken_by(world: &World, change: &Change) -> Option<String> {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    match (before.map(|it| &**it), after.map(|it| &**it)) {
        (before, Some(Thing::Stack(stack))) => {
            let before = before.and_then(Thing::stack);
            let status_written = before.is_none_or(|before| before.status != stack.status);
            if !status_written {
                return finalizer_leaves_when_it_may(world, before, Some(stack));
            }
            exactly_one_state(stack)
                .or_else(|| absorbed_before_cleared(before, stack))
                .or_else(|| finalizer_leaves_when_it_may(world, before, Some(stack)))
                .or_else(|| not_ahead(&stack.metadata, stack.status.as_ref().map(|status| status.observed_generation)))
                .or_else(|| no_secret("the status of a Stack", &stack.status))
        }
        (Some(Thing::Stack(before)), None) => finalizer_leaves_when_it_may(world, Some(before), None),
        (_, Some(Thing::Workspace(workspace))) => {
            let status = workspace.status.as_ref()?;
            always_ready_or_not(&status.conditions)
                .or_else(|| not_ahead(&workspace.metadata, Some(status.observed_generation)))
                .or_else(|| no_secret("the status of a Workspace", status))
        }
        (_, Some(Thing::Update(update))) => {
            let status = update.status.as_ref();
            status
                .and_then(|status| three_conditions(&status.conditions))
                .or_else(|| not_ahead(&update.metadata, status.map(|status| status.observed_generation)))
                .or_else(|| no_secret("an Update", update))
        }
        _ => None,
    }
}

/// At most one Update of a Stack object has not ended, whether it runs, waits, or was only just created. That nobody
/// knows whether a create succeeded makes no difference: its name was saved before.
fn one_update_at_a_time(world: &World) -> Option<String> {
    let mut stacks: BTreeMap<String, &str> = BTreeMap::new();
    for thing in world.api.all(Kind::Update) {
        let Some(stack) = world.api.stack_uid(thing).filter(|_| thing.update().is_some_and(|it| !ended(it))) else {
            continue;
        };
        if let Some(other) = stacks.insert(stack, thing.name()) {
            return Some(format!("two incomplete Updates of one Stack: {other} and {}", thing.name()));
        }
    }
    None
}

/// The Stack's finalizer goes only when nothing was deployed, or nothing is left of it, or the user wants it kept; and
/// never while something runs.
fn finalizer_leaves_when_it_may(world: &World, before: Option<&Stack>, after: Option<&Stack>) -> Option<String> {
    let held = |stack: &Stack| stack.metadata.finalizers.iter().flatten().any(|name| name == finalizers::STACK);
    let before = before.filter(|stack| held(stack))?;
    if after.is_some_and(held) {
        return None;
    }
    let uid = before.metadata.uid.as_deref().unwrap_or_default();
    if world.forced.contains(uid) {
        return None;
    }
    let name = before.metadata.name.as_deref().unwrap_or_default();
    if before.metadata.deletion_timestamp.is_none() {
        return Some(format!("Stack {name} lost its finalizer and is not being deleted"));
    }
    if world.cloud.ledger.iter().any(|execution| execution.stack_uid == uid && execution.end.is_none()) {
        return Some(format!("Stack {name} was let go while an operation ran"));
    }
    let destroys = before.spec.destroy_on_finalize && !before.spec.preview;
    let left = world.cloud.stacks.contains_key(&before.spec.stack)
        && world.cloud.deployed_by(uid)
        && !world.cloud.shared(&before.spec.stack);
    (destroys && left).then(|| format!("Stack {name} was let go and its resources are still there"))
}

/// `currentUpdate` is cleared or replaced only together with taking its result over.
fn absorbed_before_cleared(before: Option<&Stack>, after: &Stack) -> Option<String> {
    let before = before?.status.as_ref()?.current_update.as_ref()?;
    let status = after.status.as_ref();
    if status.and_then(|status| status.current_update.as_ref()).is_some_and(|current| current.name == before.name) {
        return None;
    }
    let last = status.and_then(|status| status.last_update.as_ref()).map(|last| last.name.as_str());
    (last != Some(before.name.as_str())).then(|| format!("the result of Update {} was not taken over", before.name))
}

/// Exactly one of Ready, Reconciling and Stalled holds.
fn exactly_one_state(stack: &Stack) -> Option<String> {
    let faults = outcome::faults(&stack.status.as_ref()?.conditions);
    (!faults.is_empty()).then(|| format!("conditions of a Stack: {}", faults.join("; ")))
}

/// A Workspace says whether it is ready, and is not both ready and stalled.
fn always_ready_or_not(conditions: &[Condition]) -> Option<String> {
    let Some(ready) = find(conditions, ConditionType::READY) else {
        return Some("a Workspace does not say whether it is ready".to_owned());
    };
    let stalled = find(conditions, ConditionType::STALLED).is_some_and(|it| it.status == "True");
    (stalled && ready.status == "True").then(|| "a Workspace is both ready and stalled".to_owned())
}

/// An Update has its three conditions, and is at most one of progressing and complete.
fn three_conditions(conditions: &[Condition]) -> Option<String> {
    let kinds: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
    if kinds != ["Progressing", "Failed", "Complete"] {
        return Some(format!("an Update has the conditions {kinds:?}"));
    }
    let holds = |at: usize| conditions[at].status == "True";
    let contradiction = (holds(0) && holds(2)) || (holds(1) && !holds(2));
    contradiction.then(|| "an Update contradicts itself".to_owned())
}

/// Nothing was observed that is still to come.
fn not_ahead(metadata: &ObjectMeta, observed: Option<i64>) -> Option<String> {
    let generation = metadata.generation.unwrap_or_default();
    let ahead = observed.is_some_and(|observed| observed > generation);
    ahead.then(|| format!("{:?} observed generation {observed:?} of {generation}", metadata.name))
}

fn no_secret(place: &str, what: &impl Serialize) -> Option<String> {
    let text = serde_json::to_string(what).unwrap_or_default();
    text.contains(PLANTED).then(|| format!("a secret is in {place}"))
}

/// A Stack that is not ready says why, and is looked at again by itself, unless only its spec or its user can help.
pub(super) fn forgotten(api: &Api, caches: &Caches, key: &Key, then: Then) -> Option<String> {
    let live = api.get(key.kind, &key.name)?;
    if caches.get(key.kind, &key.name).is_none_or(|seen| seen.version() != live.version()) {
        // What it has not seen yet will wake it.
        return None;
    }
    let stack = live.stack()?;
    let status = stack.status.as_ref()?;
    if then != Then::AwaitChange || is_true(&status.conditions, ConditionType::READY) {
        return None;
    }
    let why = status.conditions.iter().find(|condition| condition.type_ != ConditionType::READY.as_str());
    let Some(why) = why.filter(|why| !why.reason.is_empty() && !why.message.is_empty()) else {
        return Some(format!("{key} is not ready and does not say why"));
    };
    let for_the_user = why.type_ == ConditionType::STALLED.as_str()
        && (why.reason == "SpecInvalid" || why.message.contains("annotate the Stack"));
    // What was just decided on may have been overtaken by a change, which wakes it.
    let seen = status.observed_generation == stack.metadata.generation.unwrap_or_default();
    (seen && !for_the_user).then(|| format!("{key} waits with {} and is not looked at again", why.reason))
}

/// What was destroyed, and told so, is not destroyed again.
pub(super) fn destroyed_twice(world: &World, operation: &Operation, stack_uid: &str) -> Option<String> {
    if operation.kind != OperationKind::Destroy {
        return None;
    }
    let stack = world.api.all(Kind::Stack).find(|stack| stack.uid() == stack_uid)?.stack()?;
    let last = stack.status.as_ref()?.last_update.as_ref()?;
    let same = last.generation == stack.metadata.generation.unwrap_or_default();
    let done = last.update_type == update_type::DESTROY && last.state == update_state::SUCCEEDED;
    (same && done).then(|| format!("Stack {:?} was destroyed and is destroyed again", stack.metadata.name))
}

/// What is in the cloud belongs to a Stack, or to one whose user wanted it kept.
pub(super) fn orphaned(world: &World) -> Option<String> {
    let orphan = |pulumi_stack: &String| {
        let made = world.cloud.ledger.iter().filter(|it| it.stack == *pulumi_stack && it.kind == OperationKind::Up);
        let makers: BTreeSet<&str> = made.map(|it| it.stack_uid.as_str()).collect();
        makers.iter().all(|uid| {
            let last = world.api.history(Kind::Stack).iter().rfind(|change| change.thing().uid() == *uid);
            last.is_some_and(|change| {
                let kept = |stack: &Stack| !stack.spec.destroy_on_finalize || stack.spec.preview;
                change.after.is_none() && !world.forced.contains(*uid) && !change.thing().stack().is_some_and(kept)
            })
        })
    };
    let found = world.cloud.stacks.keys().find(|stack| !world.cloud.shared(stack) && orphan(stack))?;
    Some(format!("what is deployed in {found} belongs to nobody"))
}

/// Whether our finalizer is on an object.
pub(super) fn held(thing: &Version) -> bool {
    thing.finalizers().iter().any(|name| name == finalizers::STACK)
}
