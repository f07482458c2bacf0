//! A Stack's reconcile, one step a line.

use pko_api::finalizers;

use super::{absorb, draft::Draft, finalize, plan, ready, source, start, synced, synced::Synced};
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
    absorb::finished_update(facts, &mut draft)?;
    absorb::leftovers(facts, &mut draft)?;
    finalize::without_destroy(facts, &mut draft)?;
    let source = source::resolve(facts, &mut draft)?;
    let planned = plan::workspace(stack, &source.from).map_err(|invalid| draft.spec_invalid(&invalid.message))?;
    match synced::synced(stack, &draft.status, &source.commit, facts.now) {
        Synced::Yes if draft.status.current_update.is_none() => return ready::settle(facts, &mut draft, &planned),
        Synced::Yes => {}
        Synced::No { trigger } => draft.trigger = trigger,
    }
    let workspace = start::ready_workspace(facts, &mut draft, &planned)?;
    start::update(&mut draft, workspace, source.commit)
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
