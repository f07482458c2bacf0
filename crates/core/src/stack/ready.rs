//! A Stack that needs no update now: what it says, when it is looked at again, and what may be tidied up.

use std::time::Duration;

use pko_api::{
    Workspace, events,
    messages::stack as message,
    reasons::stack as reason,
    stack::{LastUpdate, reclaim_policy, update_state},
    update::update_type,
};

use super::{
    draft::Draft,
    finalize,
    synced::{MOST_FAILURES, cooldown, resync_frequency, since},
};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    outcome::Outcome,
    step::{Decision, Step, Then},
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
    Ok(draft.settle(&outcome(&last), reclaim.into_iter().collect(), then))
}

fn outcome(last: &LastUpdate) -> Outcome {
    if last.state == update_state::SUCCEEDED {
        Outcome::Ready
    } else if last.failures >= MOST_FAILURES {
        Outcome::Stalled { reason: reason::UPDATE_FAILED, message: message::gave_up(&last.update_type, last.failures) }
    } else if last.update_type == update_type::PREVIEW {
        Outcome::Reconciling { reason: reason::PREVIEW_FAILED, message: message::preview_failed(last.failures) }
    } else {
        Outcome::Reconciling {
            reason: reason::RETRYING_AFTER_FAILURE,
            message: message::update_failures(last.failures),
        }
    }
}

fn look_again(draft: &Draft, last: &LastUpdate) -> Then {
    let period = if last.state != update_state::SUCCEEDED {
        if last.failures >= MOST_FAILURES {
            return Then::AwaitChange;
        }
        cooldown(draft.stack, last.failures)
    } else if draft.stack.spec.continue_resync_on_commit_match {
        resync_frequency(draft.stack)
    } else {
        return Then::AwaitChange;
    };
    Then::Requeue(period.saturating_sub(since(last, draft.now)).max(SHORTEST))
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
