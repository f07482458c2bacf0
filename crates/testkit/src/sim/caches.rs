//! What an operator process sees of the cluster: a cache per kind, each some way behind, and who is woken by a change.

use std::collections::BTreeMap;

use pko_api::{
    Stack, Update, annotations,
    conditions::{ConditionType, is_true},
};
use pko_core::{
    seen::{Key, Kind, annotation, ended, running},
    stack::deploys,
};

use super::{
    api::{Api, Change},
    things::{KINDS, NAMESPACE, Version, place},
};

/// A kind as a watch showed it up to some point of its history.
#[derive(Debug, Default)]
struct Cache {
    objects: BTreeMap<String, Version>,
    /// As they were last.
    gone: BTreeMap<String, Version>,
    position: usize,
}

/// All kinds. They come from a fresh list, and then only ever go forwards, each at its own pace.
#[derive(Debug, Default)]
pub(super) struct Caches([Cache; 6]);

impl Caches {
    pub(super) fn listed(api: &Api) -> Self {
        Self(KINDS.map(|kind| {
            let (objects, position) = api.list(kind);
            Cache { objects, gone: BTreeMap::new(), position }
        }))
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Version> {
        self.0[place(kind)].objects.get(name)
    }

    /// What an object was that is gone.
    pub(super) fn gone(&self, key: &Key) -> Option<&Version> {
        self.0[place(key.kind)].gone.get(&key.name)
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
        let woken = self.woken(change);
        let cache = &mut self.0[place(kind)];
        if let Some(after) = &change.after {
            cache.objects.insert(after.name().to_owned(), after.clone());
        } else if let Some(gone) = cache.objects.remove(change.thing().name()) {
            cache.gone.insert(gone.name().to_owned(), gone);
        }
        woken
    }

    /// Whom a change wakes, as the operator's own rules have it: the object itself, those it was made for, and those
    /// that wait for it.
    fn woken(&self, change: &Change) -> Vec<Key> {
        let thing = change.thing();
        let (kind, name) = (thing.kind(), thing.name());
        let versions: Vec<&Version> = change.before.iter().chain(&change.after).collect();
        let mut keys = if kind == Kind::Stack { self.waiting_for(change) } else { Vec::new() };
        match kind {
            // What it made may have to go with it.
            Kind::Stack if change.after.is_none() => {
                let made = [Kind::Workspace, Kind::Update].into_iter().flat_map(|kind| self.all(kind));
                let made = made.filter(|thing| thing.stack_name() == Some(name));
                keys.extend(made.map(|thing| key(thing.kind(), thing.name())));
            }
            Kind::Stack => {
                let after = change.after.as_ref().and_then(|after| after.stack());
                if after.is_some_and(|stack| annotation(&stack.metadata, annotations::CANCEL_REQUEST).is_some()) {
                    let of_it = self.all(Kind::Update).filter(|thing| thing.stack_name() == Some(name));
                    let unfinished = of_it.filter(|thing| thing.update().is_some_and(|update| !ended(update)));
                    keys.extend(unfinished.map(|thing| key(Kind::Update, thing.name())));
                }
            }
            Kind::Program => {
                let users = self.all(Kind::Stack).filter(|stack| uses(stack, name));
                keys.extend(users.map(|stack| key(Kind::Stack, stack.name())));
            }
            Kind::Workspace => {
                keys.push(key(Kind::Stack, name));
                keys.extend(versions.iter().filter_map(|version| version.stack_name()).map(|it| key(Kind::Stack, it)));
                keys.extend(self.updates_in(name, |update| !ended(update)));
            }
            Kind::Update => {
                keys.extend(versions.iter().filter_map(|version| version.stack_name()).map(|it| key(Kind::Stack, it)));
                // A Workspace renews its pod for what is about to run in it, and not for what does. Others wait for their
                // turn.
                let after = change.after.as_ref().and_then(|after| after.update());
                let workspaces = versions.iter().filter_map(|it| it.update()?.spec.workspace_name.as_deref());
                if !after.is_some_and(running) {
                    keys.extend(workspaces.clone().map(|it| key(Kind::Workspace, it)));
                }
                if after.is_none_or(ended) {
                    keys.extend(workspaces.flat_map(|it| self.updates_in(it, |update| !ended(update))));
                }
            }
            Kind::StatefulSet | Kind::Pod => {
                let workspace = name.strip_suffix("-0").unwrap_or(name);
                let workspace = workspace.strip_suffix("-workspace").unwrap_or(workspace);
                keys.push(key(Kind::Workspace, workspace));
                if kind == Kind::Pod {
                    keys.extend(self.updates_in(workspace, running));
                }
            }
        }
        keys.retain(|key| self.get(key.kind, &key.name).is_some());
        if !matches!(kind, Kind::StatefulSet | Kind::Pod) {
            keys.push(key(kind, name));
        }
        keys
    }

    /// The Stacks that are of interest.
    pub(super) fn stacks(&self, which: impl Fn(&Stack) -> bool) -> Vec<Stack> {
        self.all(Kind::Stack).filter_map(|thing| thing.stack()).filter(|stack| which(stack)).cloned().collect()
    }

    /// What each Stack requires that a Stack requires, directly or not.
    pub(super) fn requirements(&self, name: &str) -> BTreeMap<String, Vec<String>> {
        let mut found = BTreeMap::new();
        let mut open = vec![name.to_owned()];
        while let Some(name) = open.pop() {
            if !found.contains_key(&name) {
                let stack = self.get(Kind::Stack, &name).and_then(|thing| thing.stack());
                let required = stack.map(|stack| &stack.spec.prerequisites).into_iter().flatten();
                let required: Vec<String> = required.map(|other| other.name.clone()).collect();
                open.extend(required.iter().cloned());
                found.insert(name, required);
            }
        }
        found
    }

    /// Stacks that wait for one that has become ready, or has gone, or for those that it required or shared with.
    fn waiting_for(&self, change: &Change) -> Vec<Key> {
        let stack = |version: Option<&Version>| version.and_then(|version| version.stack()).cloned();
        let (before, after) = (stack(change.before.as_ref()), stack(change.after.as_ref()));
        let name = change.thing().name();
        let status = |stack: &Option<Stack>| stack.as_ref().and_then(|stack| stack.status.clone()).unwrap_or_default();
        let ready = is_true(&status(&after).conditions, ConditionType::READY);
        let ended = status(&before).current_update.is_some() && status(&after).current_update.is_none();
        let other = |stack: &Stack| {
            let requires = stack.spec.prerequisites.iter().any(|required| required.name == name);
            let shares = before.as_ref().is_some_and(|before| deploys(before) == deploys(stack));
            let own = stack.metadata.name.clone().unwrap_or_default();
            let required = before.as_ref().is_some_and(|it| it.spec.prerequisites.iter().any(|it| it.name == own));
            (requires && (ready || after.is_none())) || (shares && ended) || (required && after.is_none())
        };
        let found = self.stacks(|stack| stack.metadata.name.as_deref() != Some(name) && other(stack));
        found.iter().filter_map(|stack| Some(key(Kind::Stack, stack.metadata.name.as_deref()?))).collect()
    }

    fn updates_in<'a>(&'a self, workspace: &'a str, which: fn(&Update) -> bool) -> impl Iterator<Item = Key> + 'a {
        let there = move |update: &Update| update.spec.workspace_name.as_deref() == Some(workspace) && which(update);
        self.all(Kind::Update)
            .filter(move |thing| thing.update().is_some_and(there))
            .map(|thing| key(Kind::Update, thing.name()))
    }
}

pub(super) fn key(kind: Kind, name: &str) -> Key {
    Key { kind, namespace: NAMESPACE.to_owned(), name: name.to_owned() }
}

fn uses(stack: &Version, program: &str) -> bool {
    stack.stack().and_then(|stack| stack.spec.program_ref.as_ref()).is_some_and(|named| named.name == program)
}
