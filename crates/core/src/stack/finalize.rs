//! Lets a Stack go that is being deleted, when nothing of it has to be destroyed any more.

use std::time::Duration;

use pko_api::{Stack, annotations, finalizers, reasons::stack as reason};

use super::{draft::Draft, plan, requirements::requires};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    outcome::Outcome,
    seen::{annotation, held},
    step::{Decision, Step, Then},
    time::elapsed,
};

/// How long Stacks that require one that is deleted are given to be deleted too.
const FOLLOWING: Duration = Duration::from_secs(3);
/// A Stack that goes wakes those that it requires; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// A Stack that is not to be destroyed goes at once.
pub(super) fn without_destroy(facts: &Facts, draft: &mut Draft) -> Decision<()> {
    if draft.deleting() && !destroys(draft) { Err(release(facts, draft)?) } else { Ok(()) }
}

/// Whether the Stack goes, and never had an update that could have made anything.
pub(super) const fn nothing_to_destroy(draft: &Draft) -> bool {
    draft.deleting() && draft.status.last_update.is_none() && draft.status.current_update.is_none()
}

/// Stacks that require this one and are destroyed as well go first. Those who delete several do not do so in one
/// moment, so those that may follow are given one.
pub(super) fn after_dependents(facts: &Facts, draft: &mut Draft) -> Decision<()> {
    if !draft.deleting() || draft.status.current_update.is_some() {
        return Ok(());
    }
    let dependents = facts.dependents()?;
    if dependents.is_empty() {
        return Ok(());
    }
    let requirements = facts.requirements()?;
    let own = draft.name();
    let mut first = dependents.iter().filter(|other| {
        let name = other.metadata.name.as_deref().unwrap_or_default();
        // Where Stacks require each other, somebody has to begin.
        held(&other.metadata) && destroys_stack(other) && !requires(own, name, requirements)
    });
    let age = draft.stack.metadata.deletion_timestamp.as_ref().map(|time| elapsed(time.0, facts.now));
    let recent = age.is_some_and(|age| age < FOLLOWING);
    let Some(first) = first.find(|other| other.metadata.deletion_timestamp.is_some() || recent) else { return Ok(()) };
    let name = first.metadata.name.as_deref().unwrap_or_default();
    let (text, wait) = if first.metadata.deletion_timestamp.is_some() {
        (format!("waiting for Stack {name}, which requires this one, to be destroyed first"), LOOK_AGAIN)
    } else {
        (format!("waiting a moment for Stack {name}, which requires this one and may be deleted too"), FOLLOWING)
    };
    Err(draft.reconciling(reason::STACK_PROCESSING, text, Vec::new(), wait))
}

fn destroys_stack(stack: &Stack) -> bool {
    stack.spec.destroy_on_finalize && !stack.spec.preview
}

/// Whether deleting the Stack destroys its resources.
pub(super) fn destroys(draft: &Draft) -> bool {
    destroys_stack(draft.stack)
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
