//! A Workspace's reconcile: its pod is there and as specified, then made ready.

use std::time::Duration;

use pko_api::{
    Update, Workspace, annotations, conditions::ConditionType, labels, messages::workspace as message, names,
    reasons::workspace as reason,
};

use super::{
    build::{self, StatefulSetPlan},
    initialize, missing, renewal,
    report::Report,
};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    seen::{PodSeen, StatefulSetSeen, annotation},
    settings::Settings,
    step::{Decision, Step, Then},
};

/// A pod that changes wakes its Workspace; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// What is in the way goes soon, and a watch that lags behind catches up soon.
const SOON: Duration = Duration::from_secs(2);
/// How long a pod may take to appear or to start before it is asked why it does not.
const SLOW: Duration = Duration::from_secs(5);

/// What comes next for a Workspace.
pub fn decide(facts: &Facts) -> Decision<Step> {
    let Some(workspace) = facts.object.as_ref().and_then(|object| object.workspace()) else {
        return Ok(Step::done());
    };
    let mut report = Report::new(workspace, facts);
    if workspace.metadata.deletion_timestamp.is_some() {
        return Ok(report.not_ready(&reason::DELETING, message::DELETING, Vec::new(), Then::AwaitChange));
    }
    if useless(facts, workspace)? {
        fresh(facts, workspace)?;
        let effects = vec![Effect::DeleteWorkspace { on: Target::workspace(workspace) }];
        return Ok(Step::Do { effects, then: Then::AwaitChange });
    }
    // Asked first: every question begins the decision anew, and what is built below costs the most of it.
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    let set = facts.cached_stateful_set(&names::stateful_set(name))?;
    let pod = facts.cached_pod(&names::pod(name))?;
    let planned = match facts.planned.or_build(|| plan(workspace, &facts.settings)) {
        Ok(planned) => planned,
        Err(why) => return Ok(report.stalled(&reason::INITIALIZATION_FAILED, why, None, Then::AwaitChange)),
    };
    let set = current_set(facts, workspace, (set, pod), planned, &mut report)?;
    let pod = running_pod(facts, workspace, set, pod, &mut report)?;
    if set.spec_hash.is_none() || pod.stacks_hash.as_ref() == Some(&planned.stacks_hash) {
        // Pods of another operator are not marked with their stacks; any change would have renewed them.
        if pod.initialized {
            let then = renewal::due(set, pod, planned, facts.now);
            return initialize::ready(facts, &mut report, pod, &planned.stacks_hash, then);
        }
    } else if let [running, ..] = facts.runs_in(name)? {
        // It began with the configuration that the pod has now.
        let text = format!("{}: waiting for Update {} to end", message::INITIALIZING, name_of(running));
        return Ok(report.not_ready(&reason::INITIALIZING, &text, Vec::new(), Then::Requeue(LOOK_AGAIN)));
    }
    initialize::run(facts, &mut report, pod, &planned.stacks_hash)
}

/// What is to be applied for a Workspace, or in words why nothing can be.
pub fn plan(workspace: &Workspace, settings: &Settings) -> Result<StatefulSetPlan, String> {
    match workspace.spec.problems().first() {
        Some(problem) => Err(problem.to_string()),
        None => build::stateful_set(workspace, settings).map_err(|invalid| invalid.message),
    }
}

/// The StatefulSet that the pod is to come from: as planned, or good enough for now. Otherwise applies it and waits.
fn current_set<'f>(
    facts: &'f Facts,
    workspace: &Workspace,
    (found, pod): (Option<&'f StatefulSetSeen>, Option<&'f PodSeen>),
    planned: &StatefulSetPlan,
    report: &mut Report,
) -> Decision<&'f StatefulSetSeen> {
    if found.is_some_and(|set| in_the_way(set, workspace)) {
        return Err(report.rolling("", Vec::new(), SOON));
    }
    if let Some(set) = found.filter(|set| set.replicas == 1)
        && (set.revision_hash.as_ref() == Some(&planned.revision_hash)
            || renewal::can_wait(facts, workspace, set, pod, planned)?)
    {
        return Ok(set);
    }
    fresh(facts, workspace)?;
    if found.is_some()
        && let [running, ..] = facts.runs_in(&facts.key.name)?
    {
        // Never under a run: the pod is renewed when that has ended.
        let text = format!("waiting for Update {} to end", name_of(running));
        return Err(report.rolling(&text, Vec::new(), LOOK_AGAIN));
    }
    let effects = vec![
        Effect::ApplyService { service: build::service(workspace) },
        Effect::ApplyStatefulSet { stateful_set: planned.object.clone() },
    ];
    Err(report.rolling("", effects, LOOK_AGAIN))
}

/// The pod of that StatefulSet once it runs; until then, says what it waits for.
fn running_pod<'f>(
    facts: &'f Facts,
    workspace: &Workspace,
    set: &StatefulSetSeen,
    pod: Option<&'f PodSeen>,
    report: &mut Report,
) -> Decision<&'f PodSeen> {
    let Some(pod) = pod else {
        let waited = report.says(ConditionType::READY, &reason::WAITING_FOR_REPLICAS);
        let why = if waited { facts.refusal_of_pod(&names::stateful_set(&facts.key.name))? } else { None };
        let why = why.map(|why| format!("the cluster refuses the pod: {why}"));
        return Err(report.no_pod(why.as_deref(), if waited { LOOK_AGAIN } else { SLOW }));
    };
    let of_set = pod.owner_uid.as_ref() == Some(&set.uid) && pod.revision_hash == set.revision_hash;
    if pod.deleting || !of_set {
        return Err(report.rolling("", Vec::new(), LOOK_AGAIN));
    }
    if pod.ended || pod.running_since.is_none() {
        if pod.trouble.is_some() {
            return Err(report.no_pod(pod.trouble.as_deref(), LOOK_AGAIN));
        }
        let age = pod.created.map(|created| crate::time::elapsed(created, facts.now)).unwrap_or_default();
        if age < SLOW {
            return Err(report.no_pod(None, SLOW));
        }
        let missing = missing::reference(facts, &workspace.spec)?;
        return Err(report.no_pod(missing.as_deref(), LOOK_AGAIN));
    }
    Ok(pod)
}

/// Whether it was there to destroy a Stack that is gone, by force: nobody else would take it away.
fn useless(facts: &Facts, workspace: &Workspace) -> Decision<bool> {
    let Some(destroys) = annotation(&workspace.metadata, annotations::DESTROYS) else { return Ok(false) };
    let label = workspace.metadata.labels.as_ref().and_then(|labels| labels.get(labels::STACK_NAME));
    let Some(name) = label else { return Ok(false) };
    Ok(facts.live_stack(name)?.is_none_or(|stack| stack.metadata.uid.as_ref() != Some(&destroys)))
}

/// A StatefulSet that goes away, or belongs to another: perhaps to a Workspace of this name that was deleted.
fn in_the_way(set: &StatefulSetSeen, workspace: &Workspace) -> bool {
    set.deleting || set.owner_uid.as_ref().is_some_and(|uid| Some(uid) != workspace.metadata.uid.as_ref())
}

/// Goes on only if the Workspace is as it was read: from an old view of it, a newer pod would be undone.
fn fresh(facts: &Facts, workspace: &Workspace) -> Decision<()> {
    let live = facts.live_workspace(&facts.key.name)?;
    if live.is_some_and(|live| live.metadata.resource_version == workspace.metadata.resource_version) {
        return Ok(());
    }
    Err(Step::look_again(SOON))
}

fn name_of(update: &Update) -> &str {
    update.metadata.name.as_deref().unwrap_or_default()
}
