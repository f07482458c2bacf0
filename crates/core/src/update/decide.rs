//! An Update's reconcile: start its operation once, follow it, report its end, and go in time.

use std::time::Duration;

use pko_api::{
    Checked, Stack, Update, Workspace, annotations,
    conditions::{ConditionType, find, is_true},
    events, names,
    paths::PULUMI_CONTAINER,
    reasons::{Reason, update as reason},
    update::{UpdateRun, update_type},
};

use super::{
    operation::operation,
    report::{Report, Waiting},
};
use crate::{
    ask::{RunAnswer, RunSeen, RunState},
    effect::{Effect, Target},
    facts::Facts,
    seen::{self, PodRef, PodSeen, annotation, controller_uid, held, stack_of},
    step::{Decision, Step, Then},
    time::elapsed,
    workspace::build,
};

/// What is waited for wakes the Update; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// How soon an agent that does not answer is asked again.
const SILENT: Duration = Duration::from_secs(5);
/// How long an Update of a Stack may wait to begin. What it waits for may never come, because the Workspace would have
/// to be another by now, and its Stack does not change the Workspace as long as the Update is under way.
const PATIENCE: Duration = Duration::from_mins(5);
/// How soon a Stack is looked at again that has not taken hold of its Update.
const NOT_HELD: Duration = Duration::from_secs(5);

/// What comes next for an Update.
pub fn decide(facts: &Facts) -> Decision<Step> {
    let Some(update) = facts.object.as_ref().and_then(|object| object.update()) else { return gone(facts) };
    if seen::ended(update) {
        return after_end(facts, update);
    }
    let report = Report::new(update, facts);
    match update.status.as_ref().and_then(|status| status.run.as_ref()) {
        Some(run) => follow(facts, update, report, run),
        None => begin(facts, update, report),
    }
}

/// Before the operation starts: everything that may still stop it.
fn begin(facts: &Facts, update: &Update, mut report: Report) -> Decision<Step> {
    if is_true(&report.status().conditions, ConditionType::PROGRESSING) {
        // Begun by an operator whose runs do not outlive it.
        return Ok(report.aborted("the operator that ran this update went away before it ended"));
    }
    // One that a user wrote belongs to nobody, and runs. One of a Stack has lost its owner.
    let orphaned = stack_of(&update.metadata).is_some() && controller_uid(&update.metadata).is_none();
    if update.metadata.deletion_timestamp.is_some() || orphaned || cancel_requested(facts, update)? {
        return Ok(report.canceled());
    }
    if let Some(owner) = stack_of(&update.metadata)
        && !held(&update.metadata)
    {
        // Until its Stack holds it, it could vanish while it runs, and its result with it.
        let planned = facts.live_stack(owner)?.is_some_and(|stack| plans(stack, update));
        return Ok(if planned { Step::look_again(NOT_HELD) } else { report.canceled() });
    }
    let operation = match operation(&update.spec) {
        Ok(operation) => operation,
        Err(problem) => return Ok(report.failed(&reason::UNKNOWN, &problem)),
    };
    let name = update.spec.workspace_name.clone().unwrap_or_default();
    // The watch may be behind the Stack that made this Update, so what it says is not enough to start.
    let workspace = facts.live_workspace(&name)?;
    let out_of_patience = stack_of(&update.metadata).is_some() && age(update, facts) >= PATIENCE;
    let Some(workspace) = workspace else {
        if out_of_patience {
            return Ok(report.gave_up());
        }
        return Ok(report.waiting(&Waiting::new(reason::WORKSPACE_NOT_FOUND), LOOK_AGAIN));
    };
    // Asked before a pod template is built, since every question begins the decision anew.
    let others = facts.updates_in(&name)?;
    let pod = if ready(workspace) { facts.live_pod(&names::pod(&name))? } else { None };
    let pod = pod.filter(|pod| pod.initialized && !pod.deleting && pod.running_since.is_some());
    // A pod of another version of the operator is renewed before it is used.
    let pod = pod.filter(|pod| up_to_date(facts, workspace, pod));
    let Some(pod) = pod.and_then(PodSeen::agent) else {
        if out_of_patience {
            return Ok(report.gave_up());
        }
        let message = trouble(workspace);
        return Ok(report.waiting(&Waiting { reason: reason::WORKSPACE_NOT_READY, message }, LOOK_AGAIN));
    };
    if let Some(first) = others.iter().find(|other| goes_before(other, update)) {
        // One at a time, in the order in which they were asked for.
        let first = first.metadata.name.as_deref().unwrap_or_default();
        let message = format!("waiting for Update {first} to end");
        return Ok(report.waiting(&Waiting { reason: reason::WORKSPACE_BUSY, message }, LOOK_AGAIN));
    }
    let run_id = update.metadata.uid.clone().unwrap_or_default();
    if let RunAnswer::Silent { why } | RunAnswer::Refused { message: why, .. } = facts.run(&pod, &run_id)? {
        if out_of_patience {
            return Ok(report.gave_up());
        }
        let waiting = Waiting { reason: reason::TRANSIENT_FAILURE, message: why.clone() };
        let told = report.says(&waiting);
        let mut step = report.waiting(&waiting, SILENT);
        if !told && let Step::Do { effects, .. } = &mut step {
            effects.push(Effect::Publish {
                on: Target::workspace(workspace),
                event: events::workspace::connection_failure(why),
            });
        }
        return Ok(step);
    }
    // Written before the start, so that whoever comes next looks for the run in this pod.
    report.runs_in(UpdateRun { pod_uid: pod.uid.clone() });
    Ok(report.progressing(None, "", vec![Effect::StartUpdate { pod, run_id, operation }], LOOK_AGAIN))
}

/// The operation was given to a pod: it is there, it ended, or it is gone with the pod.
fn follow(facts: &Facts, update: &Update, mut report: Report, run: &UpdateRun) -> Decision<Step> {
    let name = names::pod(update.spec.workspace_name.as_deref().unwrap_or_default());
    let same = |pod: &&PodSeen| pod.uid == run.pod_uid && !pod.ended;
    let pod = match facts.cached_pod(&name)?.filter(same) {
        Some(pod) => pod,
        None => match facts.live_pod(&name)?.filter(same) {
            Some(pod) => pod,
            None => return Ok(report.aborted("the workspace pod in which this update ran is gone")),
        },
    };
    let run_id = update.metadata.uid.clone().unwrap_or_default();
    let Some(pod) = pod.agent() else {
        return Ok(report.progressing(None, "the workspace pod has no address", Vec::new(), SILENT));
    };
    match facts.run(&pod, &run_id)? {
        RunAnswer::Silent { why } => {
            // Silence is no end: the operation may well be going on.
            let text = format!("no answer from the agent in pod {}: {why}", pod.name);
            Ok(report.progressing(None, &text, Vec::new(), SILENT))
        }
        RunAnswer::Refused { code, message } => {
            let text = format!("the agent in pod {} refuses us, {code}: {message}", pod.name);
            Ok(report.progressing(None, &text, Vec::new(), SILENT))
        }
        RunAnswer::Unknown => {
            if report.status().start_time.is_some() {
                // It was seen running: whatever became of it, it must not be run again.
                return Ok(report.aborted("the agent no longer knows the run of this update"));
            }
            // The address may be another pod's by now, whose agent would take the run for a new one.
            if facts.live_pod(&name)?.filter(same).and_then(PodSeen::agent).as_ref() != Some(&pod) {
                return Ok(Step::look_again(SILENT));
            }
            let operation = match operation(&update.spec) {
                Ok(operation) => operation,
                Err(problem) => return Ok(report.failed(&reason::UNKNOWN, &problem)),
            };
            Ok(report.progressing(None, "", vec![Effect::StartUpdate { pod, run_id, operation }], LOOK_AGAIN))
        }
        RunAnswer::Known(run) => match &run.state {
            RunState::Running(_) => {
                let look_again = report.got_to(run);
                let unwanted = update.metadata.deletion_timestamp.is_some() && stack_of(&update.metadata).is_none();
                if unwanted || cancel_requested(facts, update)? {
                    let cancel = vec![Effect::CancelRun { pod, run_id }];
                    return Ok(report.progressing(run.start_time, "being canceled", cancel, look_again));
                }
                Ok(report.progressing(run.start_time, "", Vec::new(), look_again))
            }
            RunState::Succeeded => Ok(succeeded(update, report, &pod, run)),
            RunState::Failed(failure) => {
                report.ran(run);
                let message = format!("{}\n{}", failure.message.trim_end(), where_to_look(facts, &pod, run));
                Ok(report.failed(&Reason::reported(&failure.reason), &message))
            }
        },
    }
}

/// After the error itself.
fn where_to_look(facts: &Facts, pod: &PodRef, run: &RunSeen) -> String {
    if run.permalink.is_empty() {
        format!("see `kubectl logs --namespace {} {} --container {PULUMI_CONTAINER}`", facts.key.namespace, pod.name)
    } else {
        format!("see {}", run.permalink)
    }
}

/// An Update that was deleted while it ran, and that no Stack holds: whoever wrote it no longer wants it.
fn gone(facts: &Facts) -> Decision<Step> {
    let Some(update) = facts.gone.as_ref().and_then(|object| object.update()) else { return Ok(Step::done()) };
    let run = update.status.as_ref().and_then(|status| status.run.as_ref());
    let Some(run) = run.filter(|_| seen::running(update) && stack_of(&update.metadata).is_none()) else {
        return Ok(Step::done());
    };
    let name = names::pod(update.spec.workspace_name.as_deref().unwrap_or_default());
    let pod = facts.cached_pod(&name)?.filter(|pod| pod.uid == run.pod_uid);
    let Some(pod) = pod.and_then(PodSeen::agent) else { return Ok(Step::done()) };
    let run_id = update.metadata.uid.clone().unwrap_or_default();
    Ok(match facts.run(&pod, &run_id)? {
        RunAnswer::Known(run) if matches!(run.state, RunState::Running(_)) => {
            Step::Do { effects: vec![Effect::CancelRun { pod, run_id }], then: Then::AwaitChange }
        }
        RunAnswer::Silent { .. } => Step::look_again(SILENT),
        _ => Step::done(),
    })
}

/// Whether the Stack of an Update asks for its end.
fn cancel_requested(facts: &Facts, update: &Update) -> Decision<bool> {
    let Some(stack) = stack_of(&update.metadata) else { return Ok(false) };
    let Some(stack) = facts.cached_stack(stack)? else { return Ok(false) };
    Ok(annotation(&stack.metadata, annotations::CANCEL_REQUEST) == update.metadata.name)
}

/// Whether another Update of the same Workspace runs, or waits since before this one.
fn goes_before(other: &Update, update: &Update) -> bool {
    let age = |update: &Update| {
        (update.metadata.creation_timestamp.as_ref().map(|time| time.0), update.metadata.name.clone())
    };
    let waits = other.metadata.deletion_timestamp.is_none() && age(other) < age(update);
    other.metadata.uid != update.metadata.uid && (seen::running(other) || waits)
}

fn up_to_date(facts: &Facts, workspace: &Workspace, pod: &PodSeen) -> bool {
    let planned = build::stateful_set(workspace, &facts.settings);
    planned.is_ok_and(|planned| pod.revision_hash.as_ref() == Some(&planned.revision_hash))
}

/// What a Workspace says for itself.
fn trouble(workspace: &Workspace) -> String {
    let conditions = workspace.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let ready = find(conditions, ConditionType::READY).filter(|ready| ready.status != "True");
    ready.map(|ready| format!("{}: {}", ready.reason, ready.message)).unwrap_or_default()
}

fn succeeded(update: &Update, mut report: Report, pod: &PodRef, run: &RunSeen) -> Step {
    report.ran(run);
    let mut before = Vec::new();
    if run.outputs > 0 && update.spec.update_type.as_deref() == Some(update_type::UP) {
        let update = report.target();
        report.left_outputs(names::outputs_secret(&update.name));
        before.push(Effect::StoreOutputs { pod: pod.clone(), run_id: run.run_id.clone(), update });
    }
    report.succeeded(&run.message, before)
}

/// After its end an Update stays for its time, and as long as its Stack holds it.
fn after_end(facts: &Facts, update: &Update) -> Decision<Step> {
    if held(&update.metadata) && !wanted(facts, update)? {
        // Its Stack went without letting it go.
        let effects = vec![Effect::ReleaseUpdate { on: Target::update(update) }];
        return Ok(Step::Do { effects, then: Then::AwaitChange });
    }
    if update.metadata.deletion_timestamp.is_some() {
        return Ok(Step::done());
    }
    let Some(ttl) = update.spec.ttl_after_completed.as_ref().and_then(Checked::good) else { return Ok(Step::done()) };
    let conditions = update.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let since = find(conditions, ConditionType::COMPLETE).map(|c| c.last_transition_time.0);
    let age = since.map(|since| elapsed(since, facts.now)).unwrap_or_default();
    let Some(left) = ttl.to_std().checked_sub(age).filter(|left| !left.is_zero()) else {
        let on = Target::update(update);
        let event = Effect::Publish { on: on.clone(), event: events::update::expired() };
        return Ok(Step::Do { effects: vec![Effect::DeleteUpdate { on }, event], then: Then::AwaitChange });
    };
    Ok(Step::look_again(left))
}

fn age(update: &Update, facts: &Facts) -> Duration {
    let made = update.metadata.creation_timestamp.as_ref().map_or(facts.now, |time| time.0);
    elapsed(made, facts.now)
}

fn ready(workspace: &Workspace) -> bool {
    workspace.metadata.deletion_timestamp.is_none()
        && workspace.status.as_ref().is_some_and(|status| {
            status.observed_generation == workspace.metadata.generation.unwrap_or_default()
                && is_true(&status.conditions, ConditionType::READY)
        })
}

/// Whether there is a Stack that will let the Update go.
fn wanted(facts: &Facts, update: &Update) -> Decision<bool> {
    let Some(name) = stack_of(&update.metadata) else { return Ok(false) };
    Ok(facts.live_stack(name)?.is_some_and(|stack| owns(stack, update) || plans(stack, update)))
}

fn owns(stack: &Stack, update: &Update) -> bool {
    let owners = update.metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().any(|owner| Some(&owner.uid) == stack.metadata.uid.as_ref())
}

/// Whether the Stack still waits for this Update.
fn plans(stack: &Stack, update: &Update) -> bool {
    let current = stack.status.as_ref().and_then(|status| status.current_update.as_ref());
    current.is_some_and(|current| Some(&current.name) == update.metadata.name.as_ref())
}
