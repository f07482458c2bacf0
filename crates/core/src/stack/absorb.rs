//! Takes over the result of an Update that ended, and lets go of Updates whose results were taken over.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Stack, Update,
    conditions::{ConditionType, find, is_true},
    events,
    messages::stack as message,
    reasons::{stack as reason, update as update_reason},
    stack::{CurrentUpdate, LastUpdate, update_state},
    update::update_type,
};

use super::{draft::Draft, retry, synced::expects_no_refresh_changes};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    seen::{ended, held},
    step::Decision,
    time::whole_second,
};

/// An Update that ends wakes its Stack; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// If an Update is planned or running: waits for it, or takes its result over. One that was planned and does not exist
/// stays planned, and will be created under its name.
pub(super) fn finished_update(facts: &Facts, draft: &mut Draft) -> Decision<()> {
    let Some(current) = draft.status.current_update.clone() else { return Ok(()) };
    let update = match facts.cached_update(&current.name)? {
        Some(update) => update,
        None => match facts.live_update(&current.name)? {
            Some(update) => update,
            // Perhaps it ended long ago, and this view of the Stack is older than that.
            None => return draft.fresh(facts),
        },
    };
    if !ended(update) {
        let hold = (!held(&update.metadata) && update.metadata.deletion_timestamp.is_none())
            .then(|| Effect::HoldUpdate { on: Target::update(update) });
        return Err(draft.reconciling(
            reason::STACK_PROCESSING,
            message::BEING_PROCESSED,
            hold.into_iter().collect(),
            LOOK_AGAIN,
        ));
    }
    let last = if failed(update) { failure(draft, &current, update) } else { success(facts, draft, &current, update)? };
    draft.status.last_update = Some(last);
    draft.status.current_update = None;
    if held(&update.metadata) {
        draft.release.push(Target::update(update));
    }
    Ok(())
}

/// A crash between writing the status and letting the Update go leaves it held. Whether its result was taken over is
/// for the Stack as it is to say, not for an old view of it.
pub(super) fn leftovers(facts: &Facts, draft: &mut Draft) -> Decision<()> {
    let current = draft.stack.status.as_ref().and_then(|status| status.current_update.as_ref());
    let left: Vec<Target> = facts
        .updates_of(draft.name())?
        .iter()
        .filter(|update| ended(update) && held(&update.metadata) && owned_by(update, draft))
        .filter(|update| update.metadata.name.as_deref() != current.map(|current| current.name.as_str()))
        .map(Target::update)
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    draft.fresh(facts)?;
    draft.release.extend(left);
    Ok(())
}

fn failure(draft: &mut Draft, current: &CurrentUpdate, update: &Update) -> LastUpdate {
    let status = update.status.clone().unwrap_or_default();
    let previous = draft.status.last_update.as_ref();
    // What was asked for or changed since is another matter, and begins anew.
    let same = previous.filter(|last| {
        last.generation == current.generation
            && last.reconcile_request == current.reconcile_request
            && last.last_attempted_commit == current.commit
    });
    let why = find(&status.conditions, ConditionType::FAILED).map(|failed| failed.reason.clone()).unwrap_or_default();
    let step = i64::from(!lost(update) && !retry::uncounted(draft.stack, &why));
    if status.project_info.is_some() {
        // What a failed update has made may have to be destroyed without its source, too.
        draft.status.project_info = status.project_info;
    }
    draft.events.push(events::stack::update_failure(&status.message));
    LastUpdate {
        state: update_state::FAILED.to_owned(),
        message: status.message,
        reason: why,
        last_successful_commit: previous.map(|last| last.last_successful_commit.clone()).unwrap_or_default(),
        permalink: status.permalink,
        failures: same.map_or(0, |last| last.failures + step),
        ..result(draft, current, update)
    }
}

fn success(facts: &Facts, draft: &mut Draft, current: &CurrentUpdate, update: &Update) -> Decision<LastUpdate> {
    let status = update.status.clone().unwrap_or_default();
    if destroyed_nothing(draft, update) {
        let namespace = draft.stack.metadata.namespace.as_deref().unwrap_or_default();
        let message = message::nothing_destroyed(&draft.stack.spec.stack, draft.name(), namespace);
        draft.events.push(events::stack::update_failure(&message));
        return Ok(LastUpdate {
            state: update_state::FAILED.to_owned(),
            message,
            reason: retry::NOTHING_DESTROYED.to_owned(),
            permalink: status.permalink,
            ..result(draft, current, update)
        });
    }
    if !status.outputs.is_empty() {
        draft.status.outputs = Some(facts.outputs(&status.outputs)?.cloned().unwrap_or_default());
    } else if update.spec.update_type.as_deref() == Some(update_type::UP) {
        draft.status.outputs = None;
    }
    if status.project_info.is_some() {
        draft.status.project_info = status.project_info;
    }
    draft.events.push(events::stack::updated());
    let of_type = update.spec.update_type.as_deref();
    let before = draft.status.last_update.as_ref().map(|last| last.last_successful_commit.clone());
    Ok(LastUpdate {
        state: update_state::SUCCEEDED.to_owned(),
        // A refresh that comes before an update deploys nothing.
        last_successful_commit: if of_type == Some(update_type::REFRESH) && expects_no_refresh_changes(draft.stack) {
            before.unwrap_or_default()
        } else {
            current.commit.clone()
        },
        permalink: status.permalink,
        ..result(draft, current, update)
    })
}

/// What both have in common.
fn result(draft: &Draft, current: &CurrentUpdate, update: &Update) -> LastUpdate {
    let status = update.status.as_ref();
    LastUpdate {
        generation: current.generation,
        reconcile_request: current.reconcile_request.clone(),
        name: current.name.clone(),
        update_type: update.spec.update_type.clone().unwrap_or_default(),
        last_attempted_commit: current.commit.clone(),
        references_hash: current.references_hash.clone(),
        resource_changes: status.map(|status| status.resource_changes.clone()).unwrap_or_default(),
        preview: status.and_then(|status| status.preview.clone()),
        last_resync_time: Some(Time(whole_second(draft.now))),
        ..LastUpdate::default()
    }
}

/// After an update that succeeded there is at least the stack itself to destroy. Where there is nothing, the state that
/// was destroyed is not the one that the update made. Who asks for it once more after that wants it so.
fn destroyed_nothing(draft: &Draft, update: &Update) -> bool {
    let deployed = draft
        .status
        .last_update
        .as_ref()
        .is_some_and(|last| last.update_type == update_type::UP && last.state == update_state::SUCCEEDED);
    let deleted = update.status.as_ref().is_some_and(|status| {
        status.resource_changes.iter().any(|(what, count)| what.starts_with("delete") && *count > 0)
    });
    update.spec.update_type.as_deref() == Some(update_type::DESTROY) && deployed && !deleted
}

fn failed(update: &Update) -> bool {
    update.status.as_ref().is_some_and(|status| is_true(&status.conditions, ConditionType::FAILED))
}

/// The operation was lost with its pod, or never began: that says nothing about the Stack.
fn lost(update: &Update) -> bool {
    let Some(status) = &update.status else { return false };
    let why = find(&status.conditions, ConditionType::FAILED).map(|failed| failed.reason.as_str());
    // One that was cancelled after it had begun has failed: somebody wanted it to.
    let never_began = status.run.is_none() && why == Some(update_reason::CANCELED.as_str());
    never_began || why == Some(update_reason::ABORTED.as_str())
}

/// Those made for a destroy have no owner but their Workspace; that they are of this Stack, their label says.
fn owned_by(update: &Update, draft: &Draft) -> bool {
    let owners = update.metadata.owner_references.as_deref().unwrap_or_default();
    let mut stacks = owners.iter().filter(|owner| owner.kind == Stack::KIND).peekable();
    stacks.peek().is_none() || stacks.any(|owner| Some(&owner.uid) == draft.stack.metadata.uid.as_ref())
}
