//! Lets a Stack go that is being deleted, when nothing of it has to be destroyed any more.

use pko_api::{annotations, finalizers};

use super::{draft::Draft, plan};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    outcome::Outcome,
    seen::annotation,
    step::{Decision, Step, Then},
};

/// A Stack that is not to be destroyed goes at once.
pub(super) fn without_destroy(facts: &Facts, draft: &mut Draft) -> Decision<()> {
    if draft.deleting() && !destroys(draft) { Err(release(facts, draft)?) } else { Ok(()) }
}

/// Whether deleting the Stack destroys its resources.
pub(super) fn destroys(draft: &Draft) -> bool {
    draft.stack.spec.destroy_on_finalize && !draft.stack.spec.preview
}

/// The only place where a Stack loses our finalizer.
pub(super) fn release(facts: &Facts, draft: &mut Draft) -> Decision<Step> {
    let mut effects: Vec<Effect> = ownerless_workspace(facts, draft)?.into_iter().collect();
    let mut remaining = draft.stack.metadata.finalizers.clone().unwrap_or_default();
    remaining.retain(|name| name != finalizers::STACK);
    effects.push(Effect::ReleaseStack { on: draft.target(), finalizers: remaining });
    Ok(draft.settle(&Outcome::Ready, effects, Then::AwaitChange))
}

/// The Workspace of a destroy has no owner with which it would go, so it goes first.
fn ownerless_workspace(facts: &Facts, draft: &Draft) -> Decision<Option<Effect>> {
    let Some(workspace) = facts.live_workspace(&plan::workspace_name(draft.stack))? else { return Ok(None) };
    let metadata = &workspace.metadata;
    if metadata.deletion_timestamp.is_some() || annotation(metadata, annotations::DESTROYS) != draft.stack.metadata.uid
    {
        return Ok(None);
    }
    draft.fresh(facts)?;
    Ok(Some(Effect::DeleteWorkspace { on: Target::workspace(workspace) }))
}
