//! When a pod is renewed that only the operator's own version has made out of date: not while it is used, nor all pods of
//! a cluster at once.

use std::time::Duration;

use jiff::Timestamp;
use pko_api::Workspace;

use super::build::StatefulSetPlan;
use crate::{
    facts::Facts,
    seen::{PodSeen, StatefulSetSeen, running},
    step::{Decision, Then},
    time::elapsed,
};

/// A pod that nobody uses is renewed when it is so old.
const OLDEST: Duration = Duration::from_hours(7 * 24);
/// Pods of one age are renewed within this time, not all at once.
const SPREAD_SECONDS: u64 = 24 * 60 * 60;

/// Whether a StatefulSet that is not as planned can stay as it is for now: the user asks for nothing new, its pod works,
/// and nothing is about to run in it.
pub(super) fn can_wait(
    facts: &Facts,
    workspace: &Workspace,
    set: &StatefulSetSeen,
    pod: Option<&PodSeen>,
    planned: &StatefulSetPlan,
) -> Decision<bool> {
    let Some(pod) = pod.filter(|pod| works(pod, set)) else { return Ok(false) };
    let as_asked = match &set.spec_hash {
        Some(hash) => *hash == planned.spec_hash && pod.stacks_hash.as_ref() == Some(&planned.stacks_hash),
        // Made by another operator, which had seen to this very generation.
        None => workspace
            .status
            .as_ref()
            .is_some_and(|status| status.observed_generation == workspace.metadata.generation.unwrap_or_default()),
    };
    if !as_asked || left(pod, facts.now).is_zero() {
        return Ok(false);
    }
    Ok(facts.updates_in(&facts.key.name)?.iter().all(running))
}

/// When a pod that is in use has to be looked at again.
pub(super) fn due(set: &StatefulSetSeen, pod: &PodSeen, planned: &StatefulSetPlan, now: Timestamp) -> Then {
    if set.revision_hash.as_ref() == Some(&planned.revision_hash) {
        return Then::AwaitChange;
    }
    Then::Requeue(left(pod, now))
}

fn works(pod: &PodSeen, set: &StatefulSetSeen) -> bool {
    let of_set = pod.owner_uid.as_ref() == Some(&set.uid) && pod.revision_hash == set.revision_hash;
    of_set && pod.initialized && !pod.deleting && !pod.ended && pod.running_since.is_some()
}

/// Until it is too old.
fn left(pod: &PodSeen, now: Timestamp) -> Duration {
    let spread = pod.uid.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let oldest = OLDEST + Duration::from_secs(spread % SPREAD_SECONDS);
    oldest.saturating_sub(pod.created.map(|created| elapsed(created, now)).unwrap_or_default())
}
