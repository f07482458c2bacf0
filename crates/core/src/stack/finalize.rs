//! Lets a Stack go that is being deleted, when nothing of it has to be destroyed any more.

use pko_api::finalizers;

use super::draft::Draft;
use crate::{
    effect::Effect,
    outcome::Outcome,
    step::{Decision, Step, Then},
};

/// A Stack that is not to be destroyed goes at once.
pub(super) fn without_destroy(draft: &mut Draft) -> Decision<()> {
    if draft.deleting() && !destroys(draft) { Err(release(draft)) } else { Ok(()) }
}

/// Whether deleting the Stack destroys its resources.
pub(super) fn destroys(draft: &Draft) -> bool {
    draft.stack.spec.destroy_on_finalize && !draft.stack.spec.preview
}

/// The only place where a Stack loses our finalizer.
pub(super) fn release(draft: &mut Draft) -> Step {
    let mut remaining = draft.stack.metadata.finalizers.clone().unwrap_or_default();
    remaining.retain(|name| name != finalizers::STACK);
    let release = Effect::ReleaseStack { on: draft.target(), finalizers: remaining };
    draft.settle(&Outcome::Ready, vec![release], Then::AwaitChange)
}
