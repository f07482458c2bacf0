//! The API server: what is stored, what changed, and under which conditions it lets itself be changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::Stack;
use pko_core::seen::Kind;
use serde_json::Value;

use super::things::{KINDS, NAMESPACE, Thing, Version, place};
use crate::chance::Chance;

/// Put on an object that waits for its dependents to go first.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// Why a request was not carried out, or nobody knows whether it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The object is not, or no longer, what the request was made for.
    Conflict(String),
    Forbidden(String),
    /// The network, the API server, an agent.
    Failed(&'static str),
}

/// One entry of the history that a watch replays.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) before: Option<Version>,
    pub(super) after: Option<Version>,
}

impl Change {
    /// The object that changed, as it is or was last.
    pub(super) fn thing(&self) -> &Version {
        match (&self.after, &self.before) {
            (Some(thing), _) | (None, Some(thing)) => thing,
            (None, None) => unreachable!("a change has a before or an after"),
        }
    }
}

/// Outputs of an Update, one of which is secret.
#[derive(Clone, Debug)]
pub(super) struct OutputsSecret {
    pub(super) owner_uid: String,
    pub(super) outputs: BTreeMap<String, Value>,
    pub(super) secret: BTreeSet<String>,
}

/// How an object is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deletion {
    Background,
    Foreground,
}

/// Everything stored.
#[derive(Debug, Default)]
pub(super) struct Api {
    counter: u64,
    live: [BTreeMap<String, Version>; 6],
    history: [Vec<Change>; 6],
    pub(super) secrets: BTreeMap<String, OutputsSecret>,
}

impl Api {
    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Version> {
        self.live[place(kind)].get(name)
    }

    /// The object of that name, if it is that very one.
    pub(super) fn same(&self, kind: Kind, name: &str, uid: &str) -> Option<&Version> {
        self.get(kind, name).filter(|thing| thing.uid() == uid)
    }

    /// UID of the Stack object that something was made for: its owner, or, without an owner, the Stack of that name.
    pub(super) fn stack_uid(&self, thing: &Thing) -> Option<String> {
        let owners = thing.meta().owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.kind == Stack::KIND).map(|owner| owner.uid.clone());
        owner.or_else(|| Some(self.get(Kind::Stack, thing.stack_name()?)?.uid().to_owned()))
    }

    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = &Version> {
        self.live[place(kind)].values()
    }

    pub(super) fn history(&self, kind: Kind) -> &[Change] {
        &self.history[place(kind)]
    }

    /// What a fresh list yields, and where the watch goes on after it.
    pub(super) fn list(&self, kind: Kind) -> (BTreeMap<String, Version>, usize) {
        (self.live[place(kind)].clone(), self.history[place(kind)].len())
    }

    fn next(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Stores a new object.
    pub(super) fn create(&mut self, mut thing: Thing, now: Timestamp) -> Result<Version, Refused> {
        if self.get(thing.kind(), thing.name()).is_some() {
            return Err(Refused::Conflict(format!("{} {} exists already", thing.kind().as_str(), thing.name())));
        }
        let uid = format!("uid-{}", self.next());
        let version = self.next().to_string();
        let meta = thing.meta_mut();
        meta.namespace = Some(NAMESPACE.to_owned());
        meta.uid = Some(uid);
        meta.resource_version = Some(version);
        meta.generation = Some(1);
        meta.creation_timestamp = Some(Time(now));
        let thing = Rc::new(thing);
        self.live[place(thing.kind())].insert(thing.name().to_owned(), Rc::clone(&thing));
        self.history[place(thing.kind())].push(Change { before: None, after: Some(Rc::clone(&thing)) });
        Ok(thing)
    }

    /// Stores a change of an object, unless it changes nothing. An object that is being deleted goes with its last
    /// finalizer; a pod goes when its kubelet says so.
    pub(super) fn store(&mut self, mut after: Thing) -> String {
        let kind = place(after.kind());
        let Some(before) = self.live[kind].get(after.name()).cloned() else { return String::new() };
        if *before == after {
            return before.version().to_owned();
        }
        if before.asks_otherwise(&after) || before.deleting() != after.deleting() {
            let generation = before.meta().generation.unwrap_or_default() + 1;
            after.meta_mut().generation = Some(generation);
        }
        let version = self.next().to_string();
        after.meta_mut().resource_version = Some(version.clone());
        if after.deleting() && after.finalizers().is_empty() && after.kind() != Kind::Pod {
            self.remove(after.kind(), after.name());
            return version;
        }
        let after = Rc::new(after);
        self.live[kind].insert(after.name().to_owned(), Rc::clone(&after));
        self.history[kind].push(Change { before: Some(before), after: Some(after) });
        version
    }

    /// Takes an object out at once.
    pub(super) fn remove(&mut self, kind: Kind, name: &str) {
        self.next();
        if let Some(before) = self.live[place(kind)].remove(name) {
            self.history[place(kind)].push(Change { before: Some(before), after: None });
        }
    }

    /// What a DELETE does: at once, or as soon as nobody holds the object any more.
    pub(super) fn delete(&mut self, kind: Kind, name: &str, how: Deletion, now: Timestamp) {
        let Some(thing) = self.get(kind, name).cloned() else { return };
        if thing.deleting() {
            return;
        }
        if kind != Kind::Pod && how == Deletion::Background && thing.finalizers().is_empty() {
            self.remove(kind, name);
            return;
        }
        let mut after = (*thing).clone();
        let meta = after.meta_mut();
        meta.deletion_timestamp = Some(Time(now));
        if how == Deletion::Foreground && kind != Kind::Pod {
            meta.finalizers.get_or_insert_default().push(FOREGROUND.to_owned());
        }
        self.store(after);
    }

    /// One act of the garbage collector, if there is one to do.
    pub(super) fn collect(&mut self, chance: &mut Chance, now: Timestamp) -> Option<String> {
        let orders = self.garbage();
        if orders.is_empty() {
            return None;
        }
        let order = chance.pick(&orders).clone();
        let told = format!("garbage collector: {order:?}");
        match order {
            Order::Delete(kind, name, how) => self.delete(kind, &name, how, now),
            Order::Strip(kind, name, uids) => {
                let mut after = (**self.get(kind, &name)?).clone();
                after.meta_mut().owner_references.get_or_insert_default().retain(|owner| !uids.contains(&owner.uid));
                self.store(after);
            }
            Order::LetGo(kind, name) => {
                let mut after = (**self.get(kind, &name)?).clone();
                after.meta_mut().finalizers.get_or_insert_default().retain(|finalizer| finalizer != FOREGROUND);
                self.store(after);
            }
            Order::DropSecret(name) => {
                self.secrets.remove(&name);
            }
        }
        Some(told)
    }

    fn garbage(&self) -> Vec<Order> {
        // By UID: whether it waits for its dependents.
        let owners: BTreeMap<&str, bool> = KINDS
            .into_iter()
            .flat_map(|kind| self.all(kind))
            .map(|thing| (thing.uid(), thing.finalizers().iter().any(|name| name == FOREGROUND)))
            .collect();
        let mut blocked: BTreeSet<&str> = BTreeSet::new();
        let mut orders = Vec::new();
        for thing in KINDS.into_iter().flat_map(|kind| self.all(kind)) {
            let references = thing.meta().owner_references.as_deref().unwrap_or_default();
            if references.is_empty() {
                continue;
            }
            let solid = references.iter().any(|owner| owners.get(owner.uid.as_str()) == Some(&false));
            let going = |uid: &str| owners.get(uid).copied().unwrap_or(true);
            let waits = references.iter().any(|owner| owners.get(owner.uid.as_str()) == Some(&true));
            blocked.extend(
                references.iter().filter(|owner| owner.block_owner_deletion == Some(true)).map(|o| o.uid.as_str()),
            );
            if solid {
                let strip: Vec<String> =
                    references.iter().filter(|owner| going(&owner.uid)).map(|owner| owner.uid.clone()).collect();
                if !strip.is_empty() {
                    orders.push(Order::Strip(thing.kind(), thing.name().to_owned(), strip));
                }
            } else if !thing.deleting() {
                let how = if waits { Deletion::Foreground } else { Deletion::Background };
                orders.push(Order::Delete(thing.kind(), thing.name().to_owned(), how));
            }
        }
        for thing in KINDS.into_iter().flat_map(|kind| self.all(kind)) {
            if owners.get(thing.uid()) == Some(&true) && !blocked.contains(thing.uid()) {
                orders.push(Order::LetGo(thing.kind(), thing.name().to_owned()));
            }
        }
        let orphaned = self.secrets.iter().filter(|(_, secret)| !owners.contains_key(secret.owner_uid.as_str()));
        orders.extend(orphaned.map(|(name, _)| Order::DropSecret(name.clone())));
        orders
    }
}

/// What the garbage collector finds to do.
#[derive(Clone, Debug)]
enum Order {
    Delete(Kind, String, Deletion),
    /// Takes owners off that are gone, or that wait for their dependents while another owner does not.
    Strip(Kind, String, Vec<String>),
    /// All dependents are gone.
    LetGo(Kind, String),
    DropSecret(String),
}
