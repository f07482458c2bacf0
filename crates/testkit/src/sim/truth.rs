//! Whether a world without faults has come to rest, and whether what it says is true.

use pko_api::{
    Stack, Update, annotations,
    conditions::{ConditionType, find, is_true},
    names,
    stack::{LastUpdate, update_state},
};
use pko_core::seen::{self, Kind, annotation, ended};

use super::{
    cloud::End,
    invariants::held,
    things::Version,
    users,
    world::{World, packed},
};

/// The first thing that is not yet as it should be in the end.
pub(super) fn unsettled(world: &World) -> Option<String> {
    let mut stacks = world.api.all(Kind::Stack).filter_map(|thing| thing.stack());
    stacks
        .find_map(|stack| Some(format!("Stack {}: {}", stack.metadata.name.as_deref()?, restless(world, stack)?)))
        .or_else(|| world.api.all(Kind::Update).find_map(|thing| leftover(world, thing)))
        .or_else(|| {
            let failed = world.operators.iter().flat_map(|operator| operator.failures.keys()).next();
            failed.map(|key| format!("{key} could not be reconciled and is tried again"))
        })
        .or_else(|| world.api.all(Kind::Workspace).find_map(|thing| unready(world, thing)))
        .or_else(|| {
            let programs = world.api.all(Kind::Program).filter_map(|thing| thing.program());
            programs
                .filter(|program| {
                    let served = program.status.as_ref().and_then(|status| status.artifact.as_ref());
                    served.and_then(|artifact| artifact.digest.clone()) != Some(packed(program).digest)
                })
                .map(|program| format!("Program {:?} is not packed", program.metadata.name))
                .next()
        })
}

/// A Workspace is ready, or stalled, or its pod cannot start.
fn unready(world: &World, thing: &Version) -> Option<String> {
    let workspace = thing.workspace()?;
    let stack = thing.stack_name().unwrap_or_default();
    let owned = workspace.metadata.owner_references.iter().flatten().next().is_some();
    if !owned && world.api.get(Kind::Stack, stack).is_none() {
        return Some(format!("Workspace {} was left behind", thing.name()));
    }
    let status = workspace.status.clone().unwrap_or_default();
    let pod = world.api.get(Kind::Pod, &names::pod(thing.name()));
    if pod.is_some_and(|pod| pod.deleting() || world.agents.is_busy(pod.uid(), world.now)) {
        return Some(format!("the pod of Workspace {} is busy", thing.name()));
    }
    let seen = status.observed_generation == workspace.metadata.generation.unwrap_or_default();
    let said = [ConditionType::READY, ConditionType::STALLED].iter().any(|kind| is_true(&status.conditions, *kind));
    let troubled = pod.and_then(|pod| pod.pod()).is_some_and(|pod| pod.trouble.is_some());
    (!(seen && (said || troubled))).then(|| format!("Workspace {} is not ready", thing.name()))
}

fn leftover(world: &World, thing: &Version) -> Option<String> {
    let update = thing.update()?;
    let stack = world.api.stack_uid(thing);
    let stack = stack.and_then(|uid| world.api.all(Kind::Stack).find(|stack| stack.uid() == uid));
    if stack.is_none() && held(thing) {
        return Some(format!("Update {} is held for a Stack that is gone", thing.name()));
    }
    if ended(update) && held(thing) {
        return Some(format!("Update {} has ended and is still held", thing.name()));
    }
    if !ended(update) && thing.stack_name().is_none() && !could_begin(world, update) {
        // Whoever wrote it may still provide what it waits for.
        return None;
    }
    (!ended(update)).then(|| format!("Update {} has not ended", thing.name()))
}

/// Whether the Workspace of an Update that a user wrote is ready for it.
fn could_begin(world: &World, update: &Update) -> bool {
    let workspace = update.spec.workspace_name.as_deref().unwrap_or_default();
    let workspace = world.api.get(Kind::Workspace, workspace).and_then(|thing| thing.workspace()?.status.as_ref());
    seen::running(update) || workspace.is_some_and(|status| is_true(&status.conditions, ConditionType::READY))
}

fn restless(world: &World, stack: &Stack) -> Option<String> {
    let status = stack.status.clone().unwrap_or_default();
    let generation = stack.metadata.generation.unwrap_or_default();
    if status.observed_generation != generation {
        return Some("it was not looked at".to_owned());
    }
    let request = annotation(&stack.metadata, annotations::RECONCILIATION_REQUEST).unwrap_or_default();
    if status.observed_reconcile_request != request {
        return Some("the request was not seen".to_owned());
    }
    // One that is planned and cannot be created yet is no reason to wait.
    if let Some(current) = &status.current_update
        && world.api.get(Kind::Update, &current.name).is_some()
    {
        return Some(format!("Update {} is under way", current.name));
    }
    if is_true(&status.conditions, ConditionType::READY) {
        return untrue_ready(world, stack, status.last_update.as_ref());
    }
    match find(&status.conditions, ConditionType::STALLED) {
        Some(stalled) => untrue_stall(world, stack, &stalled.reason),
        None => match find(&status.conditions, ConditionType::RECONCILING) {
            Some(why) if waits_truly(world, stack, &why.reason) => None,
            _ => Some("it is still being reconciled".to_owned()),
        },
    }
}

/// What cannot be had now is waited for, and what fails is tried again for ever.
fn waits_truly(world: &World, stack: &Stack, reason: &str) -> bool {
    let fails = world.cloud.mood(&stack.spec.stack).operations.is_some();
    match reason {
        "PrerequisiteNotSatisfied" => stack.spec.prerequisites.iter().any(|required| {
            let other = world.api.get(Kind::Stack, &required.name).and_then(|thing| thing.stack()?.status.as_ref());
            other.is_none_or(|status| !is_true(&status.conditions, ConditionType::READY))
        }),
        "RetryingAfterFailure" | "PreviewFailed" | "UpdateConflict" => fails,
        _ => false,
    }
}

/// Ready is true if the cloud is as the Stack and its Program say.
fn untrue_ready(world: &World, stack: &Stack, last: Option<&LastUpdate>) -> Option<String> {
    if stack.metadata.deletion_timestamp.is_some() {
        return Some("it is ready and being deleted".to_owned());
    }
    let Some(last) = last.filter(|last| last.state == update_state::SUCCEEDED) else {
        return Some("it is ready and no update has succeeded".to_owned());
    };
    if last.generation != stack.metadata.generation.unwrap_or_default() {
        return Some("it is ready by an update of another generation".to_owned());
    }
    if stack.spec.preview || world.cloud.shared(&stack.spec.stack) {
        return None;
    }
    let Some(deployed) = world.cloud.stacks.get(&stack.spec.stack).filter(|deployed| deployed.whole) else {
        return Some("it is ready and nothing whole is deployed".to_owned());
    };
    if deployed.size != users::size(&stack.spec) {
        return Some(format!("it is ready with {}, and {} is deployed", users::size(&stack.spec), deployed.size));
    }
    if stack.spec.project_repo.is_some() && deployed.program != world.commit() {
        return Some(format!("it is ready with {}, and the branch is at {}", deployed.program, world.commit()));
    }
    if stack.spec.flux_source.is_some() && deployed.program != world.bucket_digest() {
        return Some(format!("it is ready with {}, not with the present artifact", deployed.program));
    }
    if stack.spec.project_repo.is_some() || stack.spec.flux_source.is_some() {
        return None;
    }
    let program = stack.spec.program_ref.as_ref().map(|program| program.name.as_str());
    if program.is_some_and(|name| made_anew(world, name)) {
        return None;
    }
    let program = program.and_then(|name| world.api.get(Kind::Program, name));
    let digest = program.and_then(|thing| thing.program()).map(|program| packed(program).digest).unwrap_or_default();
    (deployed.program != digest).then(|| format!("it is ready with program {digest}, not {}", deployed.program))
}

/// A Program that is deleted and made anew counts its generations from one again, and by them alone Stacks tell whether
/// it has changed. As in PKO, such a change can go unnoticed.
fn made_anew(world: &World, program: &str) -> bool {
    let made = world.api.history(Kind::Program).iter().filter(|change| change.before.is_none());
    made.filter(|change| change.thing().name() == program).count() > 1
}

/// Stalled is true if the model knows the reason too, and that it is still there.
fn untrue_stall(world: &World, stack: &Stack, reason: &str) -> Option<String> {
    let mood = world.cloud.mood(&stack.spec.stack);
    let program = stack.spec.program_ref.as_ref();
    let uid = stack.metadata.uid.as_deref().unwrap_or_default();
    let truthful = match reason {
        "SpecInvalid" => !stack.spec.problems().is_empty() || !stack.spec.prerequisites.is_empty(),
        "SourceUnavailable" => program.is_some_and(|program| world.api.get(Kind::Program, &program.name).is_none()),
        "PulumiVersionTooLow" => mood.init == Some("IncompatibleConfiguration"),
        "WorkspaceFailed" => mood.init.is_some_and(|reason| reason != "IncompatibleConfiguration"),
        // Failed, or destroyed what somebody else had destroyed.
        "UpdateFailed" => world
            .cloud
            .last_of(uid)
            .is_some_and(|execution| execution.end != Some(End::Succeeded) || world.cloud.shared(&stack.spec.stack)),
        _ => false,
    };
    (!truthful).then(|| format!("it is stalled with {reason}, for which there is no cause"))
}
