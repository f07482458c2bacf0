//! Brings the Workspace to where an update can run in it, and starts the update.

use std::time::Duration;

use pko_api::{
    Workspace, annotations,
    conditions::{ConditionType, find, is_true},
    events,
    messages::{stack as message, workspace as workspace_message},
    names,
    reasons::{stack as reason, workspace as workspace_reason},
    stack::{CurrentUpdate, update_state},
    update::update_type,
    workspace::WorkspaceStatus,
};
use serde_json::Value;

use super::{
    draft::Draft,
    plan::{self, Source},
    references,
    source::Resolved,
    synced::expects_no_refresh_changes,
};
use crate::{
    conditions::joined,
    covers::covers,
    effect::Effect,
    facts::Facts,
    outcome::Outcome,
    seen::{annotation, controller_uid},
    step::{Decision, Step, Then},
};

/// A Workspace that becomes ready, or stalls, wakes its Stack; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// A namespace that goes away stays so; this is for its last moments.
const TERMINATING: Duration = Duration::from_secs(30);
/// A Workspace that has to go first goes soon.
const IN_THE_WAY: Duration = Duration::from_secs(5);

/// The Workspace that the Stack is to have, and the source that is in it.
pub(super) fn plan(facts: &Facts, draft: &mut Draft, source: Resolved) -> Decision<(Resolved, Workspace)> {
    let planned = at(facts, draft, &source.from)?;
    if let Source::Git(git) = &source.from
        && let Some(found) = facts.cached_workspace(planned.metadata.name.as_deref().unwrap_or_default())?
        && let Some(earlier) = found.spec.git.as_ref().and_then(|git| git.git_ref.clone())
        && earlier != source.commit
        && on_its_way(found)
    {
        // A branch that moves faster than a pod starts must not keep it from ever being ready.
        let mut git = git.clone();
        git.git_ref = Some(earlier.clone());
        let steady = Resolved { from: Source::Git(git), commit: earlier };
        let other = at(facts, draft, &steady.from)?;
        if as_planned(found, &other) {
            return Ok((steady, other));
        }
    }
    Ok((source, planned))
}

fn at(facts: &Facts, draft: &mut Draft, source: &Source) -> Decision<Workspace> {
    let planned = plan::bare(draft.stack, source).map_err(|invalid| draft.spec_invalid(&invalid.message))?;
    draft.references = references::hash(facts, &planned)?;
    Ok(plan::with_references(planned, draft.references.as_deref()))
}

/// Whether a Workspace is becoming ready.
fn on_its_way(workspace: &Workspace) -> bool {
    let status = workspace.status.clone().unwrap_or_default();
    let said = |kind| is_true(&status.conditions, kind);
    workspace.metadata.deletion_timestamp.is_none()
        && !said(ConditionType::STALLED)
        && !(said(ConditionType::READY)
            && status.observed_generation == workspace.metadata.generation.unwrap_or_default())
}

/// The Stack's Workspace once it is as planned and ready; until then, applies it and waits.
pub(super) fn ready_workspace<'f>(facts: &'f Facts, draft: &mut Draft, planned: &Workspace) -> Decision<&'f Workspace> {
    let name = planned.metadata.name.as_deref().unwrap_or_default();
    let found = facts.cached_workspace(name)?;
    if let Some(workspace) = found
        && in_the_way(workspace, draft)
    {
        return Err(waiting(draft, Vec::new(), IN_THE_WAY));
    }
    let Some(workspace) = found.filter(|workspace| as_planned(workspace, planned)) else {
        draft.fresh(facts)?;
        if draft.deleting() && facts.namespace_terminating()? {
            let page = draft.status.last_update.as_ref().map(|last| last.permalink.as_str());
            let text = message::namespace_terminating(&facts.key.namespace, draft.name(), page);
            return Err(draft.stalled(reason::NAMESPACE_TERMINATING, text, Then::Requeue(TERMINATING)));
        }
        let uid = found.and_then(|workspace| workspace.metadata.uid.clone());
        let apply = Effect::ApplyWorkspace { workspace: Box::new(planned.clone()), uid };
        return Err(waiting(draft, vec![apply], LOOK_AGAIN));
    };
    let status = workspace.status.clone().unwrap_or_default();
    let current = status.observed_generation == workspace.metadata.generation.unwrap_or_default();
    if current && is_true(&status.conditions, ConditionType::READY) {
        return Ok(workspace);
    }
    if current && let Some(stalled) = find(&status.conditions, ConditionType::STALLED).filter(|c| c.status == "True") {
        let why = if stalled.reason == workspace_reason::INCOMPATIBLE_CONFIGURATION.as_str() {
            reason::PULUMI_VERSION_TOO_LOW
        } else {
            reason::WORKSPACE_FAILED
        };
        let text = message::workspace_stalled(&stalled.reason, &stalled.message);
        return Err(draft.stalled(why, text, Then::Requeue(LOOK_AGAIN)));
    }
    let text = joined(message::WAITING_FOR_WORKSPACE, &trouble(&status));
    Err(draft.reconciling(reason::STACK_PROCESSING, text, Vec::new(), LOOK_AGAIN))
}

/// What keeps a Workspace from becoming ready, unless it is on its way.
fn trouble(status: &WorkspaceStatus) -> String {
    let Some(ready) = find(&status.conditions, ConditionType::READY).filter(|ready| ready.status != "True") else {
        return String::new();
    };
    let on_its_way = [
        (workspace_reason::ROLLING_UPDATE, workspace_message::ROLLING_UPDATE),
        (workspace_reason::WAITING_FOR_REPLICAS, workspace_message::WAITING_FOR_REPLICAS),
        (workspace_reason::INSTALLING, workspace_message::INSTALLING),
        (workspace_reason::INITIALIZING, workspace_message::INITIALIZING),
        (workspace_reason::DELETING, workspace_message::DELETING),
    ];
    match on_its_way.iter().find(|(reason, _)| ready.reason == reason.as_str()) {
        Some((_, text)) => ready.message.strip_prefix(text).unwrap_or_default().trim_start_matches(": ").to_owned(),
        None => joined(&ready.reason, &ready.message),
    }
}

/// Plans an Update in the status, on the version of the Stack that was read, and creates it. After a crash between the
/// two, or when nobody knows whether it was created, the plan is found again and the same Update is created.
pub(super) fn update(draft: &mut Draft, workspace: &Workspace, commit: String) -> Decision<Step> {
    let of_type = if draft.deleting() {
        update_type::DESTROY
    } else if draft.stack.spec.preview {
        update_type::PREVIEW
    } else if refreshes_first(draft, &commit) {
        update_type::REFRESH
    } else {
        update_type::UP
    };
    let planned_before = draft.status.current_update.clone();
    let plan = planned_before.clone().unwrap_or_else(|| CurrentUpdate {
        generation: draft.status.observed_generation,
        reconcile_request: draft.status.observed_reconcile_request.clone(),
        name: names::update(draft.name(), u64::try_from(draft.now.as_millisecond()).unwrap_or_default()),
        references_hash: draft.references.clone().unwrap_or_default(),
        commit,
    });
    if planned_before.is_none() {
        let by_flux = annotation(&draft.stack.metadata, annotations::FLUX_REQUESTED_AT);
        draft.status.last_handled_reconcile_at = by_flux.or_else(|| draft.status.last_handled_reconcile_at.take());
        draft.events.push(events::stack::update_detected(&draft.trigger));
    }
    let update = plan::update(draft.stack, workspace, &plan.name, of_type, &draft.trigger)
        .map_err(|invalid| draft.spec_invalid(&invalid.message))?;
    draft.status.current_update = Some(plan);
    let outcome =
        Outcome::Reconciling { reason: reason::STACK_PROCESSING, message: message::BEING_PROCESSED.to_owned() };
    Ok(draft.settle(&outcome, vec![Effect::CreateUpdate(Box::new(update))], Then::Requeue(LOOK_AGAIN)))
}

/// Whether the update has to wait until a refresh has shown that nothing was changed from outside.
fn refreshes_first(draft: &Draft, commit: &str) -> bool {
    let shown = draft.status.last_update.as_ref().is_some_and(|last| {
        last.update_type == update_type::REFRESH
            && last.state == update_state::SUCCEEDED
            && last.generation == draft.status.observed_generation
            && last.reconcile_request == draft.status.observed_reconcile_request
            && last.last_attempted_commit == commit
    });
    expects_no_refresh_changes(draft.stack) && !shown
}

fn waiting(draft: &mut Draft, more: Vec<Effect>, look_again: Duration) -> Step {
    draft.reconciling(reason::STACK_PROCESSING, message::WAITING_FOR_WORKSPACE, more, look_again)
}

/// A Workspace that goes away, or belongs to another: perhaps to a Stack of this name that was deleted.
fn in_the_way(workspace: &Workspace, draft: &Draft) -> bool {
    let owner = controller_uid(&workspace.metadata);
    workspace.metadata.deletion_timestamp.is_some() || owner.is_some_and(|uid| Some(uid) != draft.stack.metadata.uid)
}

/// What was applied last is what would be applied now, and it is still there.
fn as_planned(workspace: &Workspace, planned: &Workspace) -> bool {
    let hash = |workspace: &Workspace| annotation(&workspace.metadata, annotations::APPLIED_HASH);
    let spec = |workspace: &Workspace| serde_json::to_value(&workspace.spec).unwrap_or(Value::Null);
    hash(workspace) == hash(planned) && covers(&spec(workspace), &spec(planned))
}
