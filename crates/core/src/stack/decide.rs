//! A Stack's reconcile, one step a line.

use pko_api::finalizers;

use super::{
    absorb,
    draft::Draft,
    finalize, namesakes, ready, references, requirements, source, start, synced,
    synced::{Present, Synced},
};
use crate::{
    effect::Effect,
    facts::Facts,
    seen::Object,
    step::{Decision, Step, Then},
};

/// What comes next for a Stack.
pub fn decide(facts: &Facts) -> Decision<Step> {
    let Some(object) = &facts.object else { return Ok(Step::done()) };
    if let Object::Unreadable(bad) = object {
        return Ok(source::unreadable(bad));
    }
    let Some(stack) = object.stack() else { return Ok(Step::done()) };
    let mut draft = Draft::new(stack, facts);
    if !draft.held() {
        return Ok(hold(&draft));
    }
    let step = go_on(facts, &mut draft);
    if draft.cannot_go_on && finalize::nothing_to_destroy(&draft) {
        // Whatever it is that cannot be, nothing of the Stack would be left behind.
        return finalize::release(facts, &mut Draft::new(stack, facts));
    }
    step
}

fn go_on(facts: &Facts, draft: &mut Draft) -> Decision<Step> {
    absorb::finished_update(facts, draft)?;
    absorb::leftovers(facts, draft)?;
    finalize::without_destroy(facts, draft)?;
    let source = source::resolve(facts, draft)?;
    let (source, planned) = start::plan(facts, draft, source)?;
    let present = Present { commit: &source.commit, references: draft.references.as_deref(), now: facts.now };
    match synced::synced(draft.stack, &draft.status, present) {
        Synced::Yes if draft.status.current_update.is_none() => return ready::settle(facts, draft, &planned),
        Synced::Yes => {}
        Synced::No { trigger } => draft.trigger = trigger,
    }
    finalize::after_dependents(facts, draft)?;
    requirements::met(facts, draft)?;
    references::all_there(facts, draft, &planned)?;
    let workspace = start::ready_workspace(facts, draft, &planned)?;
    namesakes::idle(facts, draft)?;
    start::update(draft, workspace, source.commit)
}

/// Before anything else a Stack gets our finalizer, and a Stack that goes without it is none of our business.
fn hold(draft: &Draft) -> Step {
    if draft.deleting() {
        return Step::done();
    }
    let mut all = draft.stack.metadata.finalizers.clone().unwrap_or_default();
    all.push(finalizers::STACK.to_owned());
    Step::Do { effects: vec![Effect::HoldStack { on: draft.target(), finalizers: all }], then: Then::AwaitChange }
}
