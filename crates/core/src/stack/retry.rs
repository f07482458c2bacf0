//! What a failed update leads to: whether it may pass by itself, how long to wait, and when it is tried again.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::{
    Checked, Stack,
    messages::stack as message,
    reasons::{stack as reason, update as update_reason},
    stack::LastUpdate,
    update::update_type,
};

use super::synced::resync_frequency;
use crate::{digest, outcome::Outcome, time::whole_second};

/// How often an update of one generation may fail before the Stack counts as stalled.
const MOST_FAILURES: i64 = 3;
/// The first wait after a failure; each further failure triples it.
const FIRST_COOLDOWN: Duration = Duration::from_secs(10);
/// The longest wait after a failure unless the spec says otherwise.
const LONGEST_COOLDOWN: Duration = Duration::from_hours(24);
/// Those who meet somebody else at a Pulumi stack come back between these.
const CONFLICT: std::ops::Range<u64> = 10..60;
/// A destroy that found nothing, though something had been made.
pub(super) const NOTHING_DESTROYED: &str = "NothingDestroyed";

/// A refresh that was to find no changes, and has.
const UNEXPECTED_CHANGES: &str = "UnexpectedChanges";

/// Reasons of failures that pass by themselves, sooner or later. Of others, trying again may help as well, but nobody
/// would bet on it.
const PASSING: [&str; 8] = [
    "UpdateConflict",
    "BackendUnavailable",
    "PluginDownloadFailed",
    "ProviderFailed",
    "Killed",
    "Interrupted",
    "Aborted",
    "Canceled",
];

/// What becomes of a Stack whose last update failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Retry {
    /// How long is waited from the failure on, in round figures.
    pub(super) cooldown: Duration,
    /// Until then, it waits. Nothing: until somebody asks for it.
    pub(super) next: Option<Timestamp>,
    pub(super) outcome: Outcome,
}

/// What comes after a failure.
pub(super) fn after(stack: &Stack, last: &LastUpdate) -> Retry {
    if last.reason == NOTHING_DESTROYED {
        let outcome = Outcome::Stalled { reason: reason::UPDATE_FAILED, message: last.message.clone() };
        return Retry { cooldown: LONGEST_COOLDOWN, next: None, outcome };
    }
    if last.update_type == update_type::REFRESH && last.reason == UNEXPECTED_CHANGES {
        // Another refresh would find nothing, since this one has taken note of it all.
        let message = message::UNEXPECTED_REFRESH_CHANGES.to_owned();
        let outcome = Outcome::Stalled { reason: reason::UPDATE_FAILED, message };
        return Retry { cooldown: LONGEST_COOLDOWN, next: None, outcome };
    }
    let conflict = uncounted(stack, &last.reason);
    let cooldown = if conflict { among(last, CONFLICT) } else { cooldown(stack, last.failures) };
    // Somebody who asks for periodic updates gets them, whether they fail or not.
    let resync = stack.spec.continue_resync_on_commit_match.then(|| resync_frequency(stack));
    let cooldown = resync.map_or(cooldown, |resync| resync.min(cooldown));
    let scattered = if conflict { cooldown } else { cooldown + cooldown * spread(last, 100) / 1000 };
    let failed = last.last_resync_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let wait = SignedDuration::try_from(scattered).unwrap_or(SignedDuration::MAX);
    let next = whole_second(failed.checked_add(wait).unwrap_or(Timestamp::MAX));
    Retry { cooldown, next: Some(next), outcome: outcome(last, conflict, next) }
}

fn outcome(last: &LastUpdate, conflict: bool, next: Timestamp) -> Outcome {
    if conflict {
        return Outcome::Reconciling { reason: reason::UPDATE_CONFLICT, message: message::update_conflict(next) };
    }
    if last.failures >= MOST_FAILURES && !PASSING.contains(&last.reason.as_str()) {
        let message = message::gave_up(&last.update_type, last.failures, next);
        return Outcome::Stalled { reason: reason::UPDATE_FAILED, message };
    }
    if last.update_type == update_type::PREVIEW {
        let message = message::preview_failed(last.failures, next);
        return Outcome::Reconciling { reason: reason::PREVIEW_FAILED, message };
    }
    let message = message::update_failures(last.failures, next);
    Outcome::Reconciling { reason: reason::RETRYING_AFTER_FAILURE, message }
}

/// Whether a failure is that somebody else was at it, and the user does not mind.
pub(super) fn uncounted(stack: &Stack, why: &str) -> bool {
    stack.spec.retry_on_update_conflict && why == update_reason::UPDATE_CONFLICT.as_str()
}

/// How long to wait after that many failures.
pub fn cooldown(stack: &Stack, failures: i64) -> Duration {
    let cap = stack.spec.retry_max_backoff_duration_seconds.as_ref().and_then(Checked::good).copied();
    let cap = cap.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0);
    let cap = cap.map_or(LONGEST_COOLDOWN, Duration::from_secs);
    let times = u32::try_from(failures.max(0)).ok().and_then(|exponent| 3_u32.checked_pow(exponent));
    times.and_then(|times| FIRST_COOLDOWN.checked_mul(times)).map_or(cap, |wait| wait.min(cap))
}

/// Somewhere between, differently after each failure.
fn among(last: &LastUpdate, seconds: std::ops::Range<u64>) -> Duration {
    let width = u32::try_from(seconds.end - seconds.start).unwrap_or(u32::MAX);
    Duration::from_secs(seconds.start + u64::from(spread(last, width)))
}

/// A number below, which follows from the update that failed: so that Stacks that failed together do not come back
/// together, and each decision about one comes to the same.
fn spread(last: &LastUpdate, below: u32) -> u32 {
    let digits = digest::of(&last.name.as_str().into());
    u32::from_str_radix(&digits[..8], 16).unwrap_or_default() % below.max(1)
}
