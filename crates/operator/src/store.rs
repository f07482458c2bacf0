//! What the watches have shown: our kinds packed, pods and StatefulSets cut down, and who belongs to whom. One lock, held
//! for as long as a look-up takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{PoisonError, RwLock},
    time::{Duration, Instant},
};

use pko_api::{Stack, Update};
use pko_core::{
    references::ReferenceKind,
    seen::{Key, Kind, Object},
};

use crate::{
    packed::{Packed, Traits},
    wake,
};

/// A relation to another object of the same namespace, by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Made for that Stack.
    OfStack(String),
    /// Made for, or working in, that Workspace.
    OfWorkspace(String),
    /// Runs that Program.
    RunsProgram(String),
    /// Needs that Secret or ConfigMap.
    Uses(ReferenceKind, String),
    /// Takes its program from that Flux source, or another object with such an artifact.
    From { group: String, kind: String, name: String },
    /// Waits for that Stack.
    Requires(String),
    /// Is a Stack of that Pulumi stack.
    Deploys(String),
}

/// The store.
#[derive(Debug, Default)]
pub struct Store {
    seen: RwLock<Seen>,
}

/// The content of the store.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    objects: BTreeMap<Key, Entry>,
    linked: BTreeMap<(String, Link), BTreeSet<Key>>,
    listed: BTreeSet<Kind>,
    /// What has gone and is still to be decided about, and since when.
    gone: BTreeMap<Key, (Object, Instant)>,
}

/// How long what has gone is remembered.
const REMEMBERED: Duration = Duration::from_mins(10);

#[derive(Debug)]
struct Entry {
    object: Packed,
    links: Vec<Link>,
    traits: Traits,
}

/// All kinds that are watched.
const WATCHED: [Kind; 6] = [Kind::Stack, Kind::Program, Kind::Workspace, Kind::Update, Kind::StatefulSet, Kind::Pod];

impl Store {
    /// Takes an object in, and says whom that concerns.
    pub fn put(&self, key: Key, object: Object, links: Vec<Link>) -> BTreeSet<Key> {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let packed = Packed::of(&object);
        if seen.objects.get(&key).is_some_and(|entry| entry.object == packed && entry.links == links) {
            return BTreeSet::new();
        }
        let traits = Traits::of(&object);
        let before = seen.objects.get(&key).map(|entry| entry.traits);
        // Those whom it concerned before have to know as well.
        let mut all = seen.remove(&key);
        all.extend(links.iter().filter(|link| !all.contains(link)).cloned().collect::<Vec<_>>());
        let concerned = wake::concerned(&seen, &key, &all, before, Some(traits));
        for link in &links {
            seen.linked.entry((key.namespace.clone(), link.clone())).or_default().insert(key.clone());
        }
        seen.objects.insert(key, Entry { object: packed, links, traits });
        concerned
    }

    /// Forgets an object, and says whom that concerns.
    pub fn remove(&self, key: &Key) -> BTreeSet<Key> {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.remember(key);
        let before = seen.objects.get(key).map(|entry| entry.traits);
        let links = seen.remove(key);
        wake::concerned(&seen, key, &links, before, None)
    }

    /// After a complete list: forgets what was not in it, and says whom that concerns.
    pub fn listed(&self, kind: Kind, present: &BTreeSet<Key>) -> BTreeSet<Key> {
        let absent: Vec<Key> = {
            let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
            seen.listed.insert(kind);
            seen.objects.keys().filter(|key| key.kind == kind && !present.contains(key)).cloned().collect()
        };
        absent.iter().flat_map(|key| self.remove(key)).collect()
    }

    /// Whether every kind was listed once.
    pub fn complete(&self) -> bool {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        WATCHED.iter().all(|kind| seen.listed.contains(kind))
    }

    pub fn get(&self, key: &Key) -> Option<Object> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.objects.get(key).and_then(|entry| entry.object.unpacked())
    }

    /// What an object was that has gone lately.
    pub fn gone(&self, key: &Key) -> Option<Object> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.gone.get(key).map(|(object, _)| object.clone())
    }

    /// Those that need a Secret or a ConfigMap.
    pub fn users_of(&self, namespace: &str, kind: ReferenceKind, name: &str) -> Vec<Key> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        seen.linked(namespace, Link::Uses(kind, name.to_owned())).map(|(key, _)| key.clone()).collect()
    }

    /// Those that take their program from that object.
    pub fn users_of_source(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Vec<Key> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let link = Link::From { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
        seen.linked(namespace, link).map(|(key, _)| key.clone()).collect()
    }

    /// The Stacks that require a Stack.
    pub fn dependents(&self, namespace: &str, stack: &str) -> Vec<Stack> {
        self.stacks(namespace, Link::Requires(stack.to_owned()))
    }

    /// The Stacks of a Pulumi stack, but for one.
    pub fn namesakes(&self, namespace: &str, pulumi_stack: &str, but: &str) -> Vec<Stack> {
        let mut found = self.stacks(namespace, Link::Deploys(pulumi_stack.to_owned()));
        found.retain(|stack| stack.metadata.name.as_deref() != Some(but));
        found
    }

    /// What each Stack requires that a Stack requires, directly or not.
    pub fn requirements(&self, namespace: &str, stack: &str) -> BTreeMap<String, Vec<String>> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let mut found = BTreeMap::new();
        let mut open = vec![stack.to_owned()];
        while let Some(name) = open.pop() {
            let key = Key { kind: Kind::Stack, namespace: namespace.to_owned(), name };
            if found.contains_key(&key.name) {
                continue;
            }
            let links = seen.objects.get(&key).into_iter().flat_map(|entry| &entry.links);
            let required: Vec<String> = links
                .filter_map(|link| match link {
                    Link::Requires(other) => Some(other.clone()),
                    _ => None,
                })
                .collect();
            open.extend(required.iter().cloned());
            found.insert(key.name, required);
        }
        found
    }

    fn stacks(&self, namespace: &str, link: Link) -> Vec<Stack> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let found = seen.linked(namespace, link).filter_map(|(key, _)| seen.object(key));
        found.filter_map(|object| if let Object::Stack(stack) = object { Some(*stack) } else { None }).collect()
    }

    /// The Updates of a Workspace that have not ended.
    pub fn updates_in(&self, namespace: &str, workspace: &str) -> Vec<Update> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let link = Link::OfWorkspace(workspace.to_owned());
        seen.updates(namespace, link, |traits| traits.unfinished)
    }

    /// The Updates of a Stack that carry our finalizer.
    pub fn updates_of(&self, namespace: &str, stack: &str) -> Vec<Update> {
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let link = Link::OfStack(stack.to_owned());
        seen.updates(namespace, link, |traits| traits.held)
    }
}

impl Seen {
    /// The objects with a relation, whatever their kind.
    pub(crate) fn linked(&self, namespace: &str, link: Link) -> impl Iterator<Item = (&Key, Traits)> {
        let keys = self.linked.get(&(namespace.to_owned(), link)).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.objects.get(key)?.traits)))
    }

    fn object(&self, key: &Key) -> Option<Object> {
        self.objects.get(key)?.object.unpacked()
    }

    fn updates(&self, namespace: &str, link: Link, which: fn(Traits) -> bool) -> Vec<Update> {
        let found = self.linked(namespace, link).filter(|(key, traits)| key.kind == Kind::Update && which(*traits));
        let found = found.filter_map(|(key, _)| self.object(key));
        found.filter_map(|object| if let Object::Update(update) = object { Some(*update) } else { None }).collect()
    }

    pub(crate) fn has(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    /// An Update that goes while it runs may have to be cancelled.
    fn remember(&mut self, key: &Key) {
        self.gone.retain(|_, (_, since)| since.elapsed() < REMEMBERED);
        if self.objects.get(key).is_some_and(|entry| entry.traits.running)
            && let Some(object) = self.object(key)
        {
            self.gone.insert(key.clone(), (object, Instant::now()));
        }
    }

    /// Yields the relations that the object had.
    fn remove(&mut self, key: &Key) -> Vec<Link> {
        let Some(entry) = self.objects.remove(key) else { return Vec::new() };
        for link in &entry.links {
            let place = (key.namespace.clone(), link.clone());
            if let Some(keys) = self.linked.get_mut(&place) {
                keys.remove(key);
                if keys.is_empty() {
                    self.linked.remove(&place);
                }
            }
        }
        entry.links
    }
}
