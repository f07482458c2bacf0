//! What an operator process sees of the cluster: a cache per kind, each some way behind, and who is woken by a change.

use std::collections::BTreeMap;

use pko_api::{
    Update,
    conditions::{ConditionType, is_true},
};
use pko_core::seen::{Key, Kind};

use super::{
    api::{Api, Change},
    things::{KINDS, NAMESPACE, Thing, Version, place},
};

/// A kind as a watch showed it up to some point of its history.
#[derive(Debug, Default)]
struct Cache {
    objects: BTreeMap<String, Version>,
    position: usize,
}

/// All kinds. They come from a fresh list, and then only ever go forwards, each at its own pace.
#[derive(Debug, Default)]
pub(super) struct Caches([Cache; 6]);

impl Caches {
    pub(super) fn listed(api: &Api) -> Self {
        Self(KINDS.map(|kind| {
            let (objects, position) = api.list(kind);
            Cache { objects, position }
        }))
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Version> {
        self.0[place(kind)].objects.get(name)
    }

    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = &Version> {
        self.0[place(kind)].objects.values()
    }

    /// Kinds of which there is more to see.
    pub(super) fn behind(&self, api: &Api) -> Vec<Kind> {
        KINDS.into_iter().filter(|kind| self.0[place(*kind)].position < api.history(*kind).len()).collect()
    }

    /// The next event of a kind arrives; yields whom it wakes.
    pub(super) fn advance(&mut self, kind: Kind, api: &Api) -> Vec<Key> {
        let cache = &mut self.0[place(kind)];
        let Some(change) = api.history(kind).get(cache.position) else { return Vec::new() };
        cache.position += 1;
        match &change.after {
            Some(after) => cache.objects.insert(after.name().to_owned(), after.clone()),
            None => cache.objects.remove(change.thing().name()),
        };
        self.woken(change)
    }

    /// Whom a change wakes: the object itself, those it was made for, and those that wait for it.
    fn woken(&self, change: &Change) -> Vec<Key> {
        let thing = change.thing();
        let name = thing.name();
        let mut keys = vec![key(thing.kind(), name)];
        match &**thing {
            Thing::Stack(_) => {}
            Thing::Program(_) => {
                let users = self.all(Kind::Stack).filter(|stack| uses(stack, name));
                keys.extend(users.map(|stack| key(Kind::Stack, stack.name())));
            }
            Thing::Workspace(_) => {
                keys.extend(stack_of(thing));
                keys.extend(self.waiting_in(name));
            }
            Thing::Update(update) => {
                keys.extend(stack_of(thing));
                keys.extend(update.spec.workspace_name.as_deref().map(|name| key(Kind::Workspace, name)));
            }
            Thing::Set(_) | Thing::Pod(_) => {
                let workspace = name.strip_suffix("-0").unwrap_or(name);
                let workspace = workspace.strip_suffix("-workspace").unwrap_or(workspace);
                keys = vec![key(Kind::Workspace, workspace)];
                keys.extend(self.waiting_in(workspace));
            }
        }
        keys
    }

    fn waiting_in<'a>(&'a self, workspace: &'a str) -> impl Iterator<Item = Key> + 'a {
        let there =
            move |update: &Update| update.spec.workspace_name.as_deref() == Some(workspace) && !complete(update);
        self.all(Kind::Update)
            .filter(move |thing| thing.update().is_some_and(there))
            .map(|thing| key(Kind::Update, thing.name()))
    }
}

pub(super) fn key(kind: Kind, name: &str) -> Key {
    Key { kind, namespace: NAMESPACE.to_owned(), name: name.to_owned() }
}

/// An Update that has ended; it does not begin again.
pub(super) fn complete(update: &Update) -> bool {
    update.status.as_ref().is_some_and(|status| is_true(&status.conditions, ConditionType::COMPLETE))
}

fn uses(stack: &Version, program: &str) -> bool {
    stack.stack().and_then(|stack| stack.spec.program_ref.as_ref()).is_some_and(|named| named.name == program)
}

fn stack_of(thing: &Version) -> Option<Key> {
    thing.stack_name().map(|name| key(Kind::Stack, name))
}
