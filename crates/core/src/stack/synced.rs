//! Whether a Stack is as its spec and source say, or why it needs an update.

use std::time::Duration;

use jiff::Timestamp;
use pko_api::{
    Checked, GoDuration, Stack,
    messages::trigger,
    stack::{LastUpdate, StackStatus, update_state},
    update::update_type,
};

use super::draft::request;
use crate::time::elapsed;

/// How often an update of one generation may fail before the operator gives up.
pub(super) const MOST_FAILURES: i64 = 3;
/// The first wait after a failure; each further failure triples it.
const FIRST_COOLDOWN: Duration = Duration::from_secs(10);
/// The longest wait after a failure unless the spec says otherwise.
const LONGEST_COOLDOWN: Duration = Duration::from_hours(24);
/// The shortest time between resyncs.
const SHORTEST_RESYNC: i64 = 60;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Synced {
    Yes,
    No { trigger: String },
}

/// Looks at the last update and at what has changed since.
pub fn synced(stack: &Stack, status: &StackStatus, commit: &str, now: Timestamp) -> Synced {
    match why_not(stack, status, commit, now) {
        Some(trigger) => Synced::No { trigger },
        None => Synced::Yes,
    }
}

fn why_not(stack: &Stack, status: &StackStatus, commit: &str, now: Timestamp) -> Option<String> {
    let deleting = stack.metadata.deletion_timestamp.is_some();
    let generation = stack.metadata.generation.unwrap_or_default();
    let Some(last) = &status.last_update else { return Some(trigger::INITIAL.to_owned()) };
    if last.generation != generation {
        let text = if deleting { trigger::DELETION.to_owned() } else { trigger::new_generation(generation) };
        return Some(text);
    }
    let requested = request(stack);
    if last.reconcile_request != requested {
        return Some(trigger::sync_request(&requested));
    }
    match last.state.as_str() {
        update_state::SUCCEEDED if deleting => {
            (last.update_type != update_type::DESTROY).then(|| trigger::DELETION.to_owned())
        }
        update_state::SUCCEEDED if last.last_successful_commit != commit => Some(trigger::new_commit(commit)),
        update_state::SUCCEEDED => {
            let every = resync_frequency(stack);
            (stack.spec.continue_resync_on_commit_match && since(last, now) >= every)
                .then(|| trigger::resync(every.into()))
        }
        update_state::FAILED if last.last_attempted_commit != commit => Some(trigger::new_commit(commit)),
        update_state::FAILED if last.failures >= MOST_FAILURES => None,
        update_state::FAILED => {
            let wait = cooldown(stack, last.failures);
            (since(last, now) >= wait).then(|| trigger::backoff(GoDuration::from(wait)))
        }
        _ => None,
    }
}

/// How long to wait after that many failures.
pub fn cooldown(stack: &Stack, failures: i64) -> Duration {
    let cap = stack.spec.retry_max_backoff_duration_seconds.as_ref().and_then(Checked::good).copied();
    let cap = cap.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    let cap = cap.map_or(LONGEST_COOLDOWN, Duration::from_secs);
    if failures <= 0 {
        return FIRST_COOLDOWN;
    }
    let times = u32::try_from(failures).ok().and_then(|exponent| 3_u32.checked_pow(exponent));
    times.and_then(|times| FIRST_COOLDOWN.checked_mul(times)).map_or(cap, |wait| wait.min(cap))
}

/// How often a Stack is resynced that asks for it.
pub(super) fn resync_frequency(stack: &Stack) -> Duration {
    let seconds = stack.spec.resync_frequency_seconds.as_ref().and_then(Checked::good).copied().unwrap_or_default();
    Duration::from_secs(seconds.max(SHORTEST_RESYNC).unsigned_abs())
}

/// Time since the result of the last update was taken over.
pub(super) fn since(last: &LastUpdate, now: Timestamp) -> Duration {
    let then = last.last_resync_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    elapsed(then, now)
}
