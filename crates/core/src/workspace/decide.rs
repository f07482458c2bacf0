//! A Workspace's reconcile: its pod is there and as specified, then made ready.

use std::time::Duration;

use pko_api::{Workspace, annotations, labels, messages::workspace as message, names, reasons::workspace as reason};

use super::{build, initialize, report::Report};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    seen::{PodSeen, StatefulSetSeen, annotation},
    step::{Decision, Step, Then},
};

/// A pod that changes wakes its Workspace; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// What is in the way goes soon, and a watch that lags behind catches up soon.
const SOON: Duration = Duration::from_secs(2);

/// What comes next for a Workspace.
pub fn decide(facts: &Facts) -> Decision<Step> {
    let Some(workspace) = facts.object.as_ref().and_then(|object| object.workspace()) else {
        return Ok(Step::done());
    };
    let mut report = Report::new(workspace, facts.now);
    if workspace.metadata.deletion_timestamp.is_some() {
        return Ok(report.not_ready(&reason::DELETING, message::DELETING, Vec::new(), Then::AwaitChange));
    }
    if useless(facts, workspace)? {
        fresh(facts, workspace)?;
        let effects = vec![Effect::DeleteWorkspace { on: Target::workspace(workspace) }];
        return Ok(Step::Do { effects, then: Then::AwaitChange });
    }
    let pod = current_pod(facts, workspace, &mut report)?;
    if pod.initialized {
        return initialize::ready(facts, &mut report, pod);
    }
    initialize::run(facts, &mut report, pod)
}

/// The Workspace's pod, of the present revision and running; until then, makes it and waits.
fn current_pod<'f>(facts: &'f Facts, workspace: &Workspace, report: &mut Report) -> Decision<&'f PodSeen> {
    // Asked first: every question begins the decision anew, and what is built below costs the most of it.
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    let found = facts.cached_stateful_set(&names::stateful_set(name))?;
    let pod = facts.cached_pod(&names::pod(name))?;
    let invalid = workspace.spec.problems().first().map(ToString::to_string);
    let planned = match invalid {
        Some(problem) => Err(problem),
        None => build::stateful_set(workspace, &facts.settings).map_err(|invalid| invalid.message),
    };
    let planned =
        planned.map_err(|why| report.stalled(&reason::INITIALIZATION_FAILED, &why, None, Then::AwaitChange))?;
    if found.is_some_and(|set| in_the_way(set, workspace)) {
        return Err(report.rolling(Vec::new(), SOON));
    }
    let current = found.filter(|set| set.revision_hash.as_ref() == Some(&planned.revision_hash) && set.replicas == 1);
    let Some(set) = current else {
        fresh(facts, workspace)?;
        if found.is_some() && !facts.runs_in(name)?.is_empty() {
            // Never under a run: the pod is renewed when that has ended.
            return Err(report.rolling(Vec::new(), LOOK_AGAIN));
        }
        let effects = vec![
            Effect::ApplyService { service: build::service(workspace) },
            Effect::ApplyStatefulSet { stateful_set: planned.object },
        ];
        return Err(report.rolling(effects, LOOK_AGAIN));
    };
    let Some(pod) = pod else { return Err(report.no_pod(None, LOOK_AGAIN)) };
    let of_set = pod.owner_uid.as_ref() == Some(&set.uid);
    if pod.deleting || !of_set || pod.revision_hash.as_ref() != Some(&planned.revision_hash) {
        return Err(report.rolling(Vec::new(), LOOK_AGAIN));
    }
    if pod.ended || pod.running_since.is_none() {
        return Err(report.no_pod(pod.trouble.as_deref(), LOOK_AGAIN));
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
