//! A Stack that needs no update now: what it says, when it is looked at again, and what may be tidied up.

use std::time::Duration;

use pko_api::{
    Workspace, events,
    stack::{LastUpdate, reclaim_policy, update_state},
};

use super::{
    draft::Draft,
    finalize,
    retry::{self, Retry},
    source,
    synced::{resync_frequency, since},
};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    outcome::Outcome,
    step::{Decision, Step, Then},
    time::elapsed,
};

/// The shortest wait; a clock that is behind must not turn into a busy loop.
const SHORTEST: Duration = Duration::from_secs(1);

/// Says how the last update went, and lets a Stack go whose destroy succeeded.
pub(super) fn settle(facts: &Facts, draft: &mut Draft, planned: &Workspace) -> Decision<Step> {
    let Some(last) = draft.status.last_update.clone() else { return Ok(Step::done()) };
    let succeeded = last.state == update_state::SUCCEEDED;
    if draft.deleting() && succeeded {
        return finalize::release(facts, draft);
    }
    let retry = (!succeeded).then(|| retry::after(draft.stack, &last));
    let then = look_again(draft, &last, retry.as_ref());
    let reclaim = if succeeded { reclaim_workspace(facts, draft, planned)? } else { None };
    let outcome = retry.map_or(Outcome::Ready, |retry| retry.outcome);
    Ok(draft.settle(&outcome, reclaim.into_iter().collect(), then))
}

/// When the next update is due, or the branch is looked at again, whichever is earlier.
fn look_again(draft: &Draft, last: &LastUpdate, retry: Option<&Retry>) -> Then {
    let frequency = resync_frequency(draft.stack);
    let due = if let Some(retry) = retry {
        retry.next.map(|next| elapsed(draft.now, next).max(SHORTEST))
    } else if draft.stack.spec.continue_resync_on_commit_match {
        Some(frequency.saturating_sub(since(last, draft.now)).max(SHORTEST))
    } else {
        None
    };
    let poll = (source::follows_a_branch(draft.stack) && !draft.deleting()).then_some(frequency);
    match (due, poll) {
        (Some(due), Some(poll)) => Then::Requeue(due.min(poll)),
        (Some(wait), None) | (None, Some(wait)) => Then::Requeue(wait),
        (None, None) => Then::AwaitChange,
    }
}

/// Deletes the Workspace of a Stack that does not keep it.
fn reclaim_workspace(facts: &Facts, draft: &mut Draft, planned: &Workspace) -> Decision<Option<Effect>> {
    if draft.stack.spec.workspace_reclaim_policy.as_deref() != Some(reclaim_policy::DELETE) {
        return Ok(None);
    }
    let name = planned.metadata.name.as_deref().unwrap_or_default();
    let Some(workspace) = facts.cached_workspace(name)? else { return Ok(None) };
    if workspace.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    draft.fresh(facts)?;
    draft.events.push(events::stack::workspace_deleted());
    Ok(Some(Effect::DeleteWorkspace { on: Target::workspace(workspace) }))
}
