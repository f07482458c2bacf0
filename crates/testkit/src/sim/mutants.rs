//! Mistakes planted between the decisions and the model, to see that the histories would find them. Production code
//! knows nothing of them.

use pko_api::{finalizers, update::update_type};
use pko_core::{
    effect::{Effect, Status, Target},
    seen::{Key, Kind},
    step::Then,
};

use super::{things::Thing, world::World};

/// A planted mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A Stack that is being deleted goes when its destroy should begin.
    FinalizerDroppedEarly,
    /// Every attempt to create an Update chooses a new name.
    SecondUpdate,
    /// A Stack is never looked at again by time.
    MissingRequeue,
    /// The result of an Update is not taken over.
    ClearedUnabsorbed,
    /// Status and finalizers are written whatever has changed since they were decided on.
    UnguardedWrites,
    /// What should be read as it is, is read as it was last seen.
    StaleReads,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::FinalizerDroppedEarly,
        Self::SecondUpdate,
        Self::MissingRequeue,
        Self::ClearedUnabsorbed,
        Self::UnguardedWrites,
        Self::StaleReads,
    ];
}

pub(super) fn believes_stale_cache(mutant: Option<Mutant>) -> bool {
    mutant == Some(Mutant::StaleReads)
}

/// The effect that is carried out in the place of the one that was decided on.
pub(super) fn altered(world: &World, effect: &Effect) -> Effect {
    let mut effect = effect.clone();
    match (world.mutant, &mut effect) {
        (Some(Mutant::FinalizerDroppedEarly), Effect::CreateUpdate(update))
            if update.spec.update_type.as_deref() == Some(update_type::DESTROY) =>
        {
            let labels = update.metadata.labels.clone().unwrap_or_default();
            let name = labels.get(pko_api::labels::STACK_NAME).cloned().unwrap_or_default();
            if let Some(stack) = world.api.get(Kind::Stack, &name) {
                let finalizers = stack.finalizers().iter().filter(|name| *name != finalizers::STACK).cloned().collect();
                return Effect::ReleaseStack { on: target(stack), finalizers };
            }
        }
        (Some(Mutant::SecondUpdate), Effect::CreateUpdate(update)) => {
            let name = format!("{}-{}", update.metadata.name.clone().unwrap_or_default(), world.writes);
            update.metadata.name = Some(name);
        }
        (Some(Mutant::ClearedUnabsorbed), Effect::Status { on, status: Status::Stack(status) }) => {
            let before = world.api.get(Kind::Stack, &on.name).and_then(|thing| thing.stack()?.status.clone());
            if let Some(before) = before.filter(|before| before.current_update.is_some())
                && before.current_update != status.current_update
            {
                status.last_update = before.last_update;
            }
        }
        (Some(Mutant::UnguardedWrites), _) => {
            if let Some(on) = effect.guarded_by()
                && let Some(now) = world.api.get(on.kind, &on.name)
            {
                on.resource_version = now.version().to_owned();
                on.uid = now.uid().to_owned();
            }
        }
        _ => {}
    }
    effect
}

/// When an object is looked at again, in the place of what was decided.
pub(super) fn then(mutant: Option<Mutant>, key: &Key, then: Then) -> Then {
    if mutant == Some(Mutant::MissingRequeue) && key.kind == Kind::Stack { Then::AwaitChange } else { then }
}

fn target(thing: &Thing) -> Target {
    Target {
        kind: thing.kind(),
        name: thing.name().to_owned(),
        uid: thing.uid().to_owned(),
        resource_version: thing.version().to_owned(),
    }
}
