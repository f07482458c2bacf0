//! Whether a Stack is as its spec and source say, or why it needs an update.

use std::time::Duration;

use jiff::Timestamp;
use pko_api::{
    Checked, GoDuration, Stack, annotations,
    messages::trigger,
    stack::{LastUpdate, StackStatus, update_state},
    update::update_type,
};

use serde_json::Value;

use super::{draft::request, retry};
use crate::{seen::annotation, time::elapsed};

/// The shortest time between resyncs.
const SHORTEST_RESYNC: i64 = 60;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Synced {
    Yes,
    No { trigger: String },
}

/// What the Stack's world looks like now.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// The revision of its source.
    pub commit: &'a str,
    /// A digest of the Secrets and ConfigMaps that it uses; nothing if one of them is not there, or it uses none.
    pub references: Option<&'a str>,
    pub now: Timestamp,
}

/// Looks at the last update and at what has changed since.
pub fn synced(stack: &Stack, status: &StackStatus, present: Present) -> Synced {
    match why_not(stack, status, present) {
        Some(trigger) => Synced::No { trigger },
        None => Synced::Yes,
    }
}

fn why_not(stack: &Stack, status: &StackStatus, present: Present) -> Option<String> {
    let Some(last) = &status.last_update else { return Some(trigger::INITIAL.to_owned()) };
    if let Some(asked) = asked(stack, status, last) {
        return Some(asked);
    }
    let deleting = stack.metadata.deletion_timestamp.is_some();
    match last.state.as_str() {
        update_state::SUCCEEDED if deleting => {
            (last.update_type != update_type::DESTROY).then(|| trigger::DELETION.to_owned())
        }
        update_state::SUCCEEDED if last.update_type == update_type::REFRESH && expects_no_refresh_changes(stack) => {
            Some(trigger::REFRESHED.to_owned())
        }
        update_state::SUCCEEDED => changed(last, &last.last_successful_commit, present).or_else(|| {
            let every = resync_frequency(stack);
            (stack.spec.continue_resync_on_commit_match && since(last, present.now) >= every)
                .then(|| trigger::resync(every.into()))
        }),
        update_state::FAILED => changed(last, &last.last_attempted_commit, present).or_else(|| {
            let retry = retry::after(stack, last);
            retry
                .next
                .is_some_and(|next| next <= present.now)
                .then(|| trigger::backoff(GoDuration::from(retry.cooldown)))
        }),
        _ => None,
    }
}

/// Whether somebody asks for an update that was not made yet: by the spec, by an annotation, or by deleting the Stack.
pub(super) fn asked_for(stack: &Stack, status: &StackStatus) -> bool {
    status.last_update.as_ref().is_none_or(|last| asked(stack, status, last).is_some())
}

fn asked(stack: &Stack, status: &StackStatus, last: &LastUpdate) -> Option<String> {
    let deleting = stack.metadata.deletion_timestamp.is_some();
    let generation = stack.metadata.generation.unwrap_or_default();
    if last.generation != generation {
        let text = if deleting { trigger::DELETION.to_owned() } else { trigger::new_generation(generation) };
        return Some(text);
    }
    if deleting && last.update_type == update_type::DESTROY && last.state == update_state::SUCCEEDED {
        // Nothing is left that could be asked for.
        return None;
    }
    let requested = request(stack);
    if last.reconcile_request != requested {
        return Some(trigger::sync_request(&requested));
    }
    let by_flux = annotation(&stack.metadata, annotations::FLUX_REQUESTED_AT);
    if let Some(by_flux) = by_flux.filter(|value| !handled(value, status, last)) {
        return Some(trigger::sync_request(&by_flux));
    }
    // A Stack that requires this one finds it out of date. The request names the update that is too old.
    let by_dependent = annotation(&stack.metadata, annotations::PREREQUISITE_REQUEST);
    by_dependent
        .filter(|value| *value == annotations::prerequisite_request(&last.name))
        .map(|value| trigger::sync_request(&value))
}

/// Whether an update was made for that value of Flux's annotation. Before any was recorded, the time that the value
/// usually is tells: a Stack that another operator has looked after is not rerun for what it was asked then.
fn handled(value: &str, status: &StackStatus, last: &LastUpdate) -> bool {
    match &status.last_handled_reconcile_at {
        Some(handled) => handled == value,
        None => value
            .parse::<Timestamp>()
            .is_ok_and(|asked| last.last_resync_time.as_ref().is_some_and(|done| asked <= done.0)),
    }
}

/// Whether source or references are others than those of the last update. What was not recorded has not changed.
fn changed(last: &LastUpdate, commit: &str, present: Present) -> Option<String> {
    if commit != present.commit {
        return Some(trigger::new_commit(present.commit));
    }
    let before = Some(last.references_hash.as_str()).filter(|hash| !hash.is_empty())?;
    (before != present.references?).then(|| trigger::NEW_REFERENCES.to_owned())
}

/// Whether each update of a Stack begins with a refresh of its own. One whose template makes something else of its
/// updates knows better.
pub(super) fn expects_no_refresh_changes(stack: &Stack) -> bool {
    let template = stack.spec.update_template.as_ref().map(|template| &template.raw()["spec"]["type"]);
    stack.spec.refresh && stack.spec.expect_no_refresh_changes && template.is_none_or(Value::is_null)
}

/// How often a Stack is resynced that asks for it, and its branch is looked at.
pub(super) fn resync_frequency(stack: &Stack) -> Duration {
    let seconds = stack.spec.resync_frequency_seconds.as_ref().and_then(Checked::good).copied().unwrap_or_default();
    Duration::from_secs(seconds.max(SHORTEST_RESYNC).unsigned_abs())
}

/// Time since the result of the last update was taken over.
pub(super) fn since(last: &LastUpdate, now: Timestamp) -> Duration {
    let then = last.last_resync_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    elapsed(then, now)
}
