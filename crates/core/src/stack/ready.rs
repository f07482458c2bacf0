//! A Stack that needs no update now: what it says, when it is looked at again, and what may be tidied up.

use std::time::Duration;

use pko_api::{
    Workspace, events,
    stack::{LastUpdate, reclaim_policy, update_state},
};

use super::{
    draft::Draft,
    finalize, retry, source,
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
    let then = look_again(draft, &last);
    let reclaim = if succeeded { reclaim_workspace(facts, draft, planned)? } else { None };
    Ok(draft.settle(&outcome(draft, &last), reclaim.into_iter().collect(), then))
}

fn outcome(draft: &Draft, last: &LastUpdate) -> Outcome {
    if last.state == update_state::SUCCEEDED { Outcome::Ready } else { retry::after(draft.stack, last).outcome }
}

/// When the next update is due, or the branch is looked at again, whichever is earlier.
fn look_again(draft: &Draft, last: &LastUpdate) -> Then {
    let frequency = resync_frequency(draft.stack);
    let due = if last.state != update_state::SUCCEEDED {
        let next = retry::after(draft.stack, last).next;
        next.map(|next| elapsed(draft.now, next).max(SHORTEST))
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
