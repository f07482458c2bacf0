//! Watches of the kinds that Stacks take their programs from: one for each, from its first use until no Stack uses it. Of
//! an object only a number is kept, and only while a Stack uses it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::StreamExt as _;
use kube::{
    Api, ResourceExt as _,
    core::DynamicObject,
    runtime::watcher::{Config, Event, watcher},
};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};

use super::{
    flux,
    served::{self, Served},
};
use crate::{cluster::Cluster, queue::Queue, store::Store, watch::told};

/// Objects in one answer to a list.
const PAGE: u32 = 100;
/// Before a watch that failed is tried again, and at most; meanwhile Stacks look by themselves.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// All watches.
#[derive(Debug)]
pub(super) struct Watches {
    cluster: Cluster,
    store: Arc<Store>,
    queue: Arc<Queue>,
    kinds: Mutex<HashMap<(String, String), Watch>>,
}

/// Ends when it is dropped.
#[derive(Debug)]
struct Watch {
    followed: Arc<Followed>,
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Namespace and name of an object.
type Place = (String, String);

/// A kind, and which objects of it Stacks have asked for.
#[derive(Debug)]
struct Followed {
    store: Arc<Store>,
    queue: Arc<Queue>,
    group: String,
    kind: String,
    /// The mark of each, once one is known.
    marks: Mutex<BTreeMap<Place, Option<u64>>>,
}

/// A question whose answer is awaited.
#[derive(Debug)]
pub(super) struct Asked {
    followed: Arc<Followed>,
    place: Place,
}

impl Asked {
    /// Notes the answer.
    pub(super) fn heard(self, mark: u64) {
        self.followed.note(self.place, mark);
    }
}

impl Watches {
    pub(super) fn new(cluster: Cluster, store: Arc<Store>, queue: Arc<Queue>) -> Self {
        Self { cluster, store, queue, kinds: Mutex::default() }
    }

    /// Says that an object is about to be read. From now on, no change of it is missed.
    pub(super) fn ask(&self, group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> Asked {
        let mut kinds = lock(&self.kinds);
        let watch = kinds.entry((group.to_owned(), kind.to_owned())).or_insert_with(|| {
            let followed = Arc::new(Followed {
                store: Arc::clone(&self.store),
                queue: Arc::clone(&self.queue),
                group: group.to_owned(),
                kind: kind.to_owned(),
                marks: Mutex::default(),
            });
            let task = tokio::spawn(follow(self.cluster.clone(), version.to_owned(), Arc::clone(&followed)));
            Watch { followed, task }
        });
        let place = (namespace.to_owned(), name.to_owned());
        lock(&watch.followed.marks).entry(place.clone()).or_default();
        Asked { followed: Arc::clone(&watch.followed), place }
    }

    /// Forgets objects that no Stack uses, and ends watches that are left without any.
    pub(super) fn tidy(&self) {
        lock(&self.kinds).retain(|(group, kind), watch| {
            let used = watch.followed.used();
            if !used {
                info!(group, kind, "no Stack uses such sources any more; they are not watched");
            }
            used
        });
    }
}

impl Followed {
    /// Whoever reads or sees an object notes its mark. If it is another than the one before, all who use the object are
    /// woken: what was noted last may be older than what was noted before, and some have seen only one of the two.
    fn note(&self, place: Place, mark: u64) {
        match lock(&self.marks).get_mut(&place) {
            Some(known) if *known != Some(mark) => {
                if known.replace(mark).is_none() {
                    return;
                }
            }
            _ => return,
        }
        let (namespace, name) = place;
        for key in self.store.users_of_source(&self.group, &self.kind, &namespace, &name) {
            self.queue.wake(key);
        }
    }

    /// Whether any of the objects is still used by a Stack. Others are forgotten.
    fn used(&self) -> bool {
        let mut marks = lock(&self.marks);
        let users = |(namespace, name): &Place| self.store.users_of_source(&self.group, &self.kind, namespace, name);
        marks.retain(|place, _| !users(place).is_empty());
        !marks.is_empty()
    }
}

/// Watches a kind for ever, also one that is not there yet.
async fn follow(cluster: Cluster, version: String, followed: Arc<Followed>) {
    let Followed { group, kind, .. } = &*followed;
    let mut wait = FIRST_WAIT;
    let mut said = String::new();
    loop {
        let why = match served::find(&cluster, group, &version, kind).await {
            Ok(Ok(served)) => {
                let (listed, why) = watch(&cluster, &served, &followed).await;
                if listed {
                    wait = FIRST_WAIT;
                }
                why
            }
            Ok(Err(why)) => why,
            Err(failure) => failure.to_string(),
        };
        // What stays the same is said once.
        if why == said {
            debug!(group, kind, "watching: {why}");
        } else {
            warn!(group, kind, "watching: {why}");
            said = why;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Watches until something goes wrong. Says whether all objects were listed before, and what went wrong.
async fn watch(cluster: &Cluster, served: &Served, followed: &Followed) -> (bool, String) {
    let api: Api<DynamicObject> = Api::all_with(cluster.client(), &served.resource());
    let mut events = std::pin::pin!(watcher(api, Config::default().page_size(PAGE)));
    let mut listed = false;
    let mut present = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => present.clear(),
            Ok(Event::InitApply(object)) => {
                present.insert(place(&object));
                followed.note(place(&object), flux::mark(Some(&object.data["status"])));
            }
            Ok(Event::InitDone) => {
                debug!(group = served.group, kind = served.kind, version = served.version, "listed");
                listed = true;
                let absent = |place: &&Place| !present.contains(*place);
                let absent: Vec<Place> = lock(&followed.marks).keys().filter(absent).cloned().collect();
                for place in absent {
                    followed.note(place, flux::mark(None));
                }
                present.clear();
            }
            Ok(Event::Apply(object)) => followed.note(place(&object), flux::mark(Some(&object.data["status"]))),
            Ok(Event::Delete(object)) => followed.note(place(&object), flux::mark(None)),
            Err(error) => return (listed, told(&error)),
        }
    }
    (listed, "the watch has ended".to_owned())
}

fn place(object: &DynamicObject) -> Place {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use kube::{Client, Config as ClientConfig};
    use pko_core::seen::{Key, Kind, Object};
    use serde_json::json;

    use super::*;
    use crate::store::Link;

    fn key(name: &str) -> Key {
        Key { kind: Kind::Stack, namespace: "team".to_owned(), name: name.to_owned() }
    }

    /// A Stack that takes its program from a Thing.
    fn put(store: &Store, name: &str, source: &str) {
        let stack = json!({"metadata": {"name": name, "namespace": "team"}, "spec": {"stack": "dev"}});
        let (group, kind) = ("sources.test".to_owned(), "Thing".to_owned());
        let link = Link::From { group, kind, name: source.to_owned() };
        store.put(key(name), Object::Stack(serde_json::from_value(stack).unwrap()), vec![link]);
    }

    /// Watches of a server that is not there.
    fn watches() -> Watches {
        // Another test of this program may have been faster.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_from(ClientConfig::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        Watches::new(Cluster::new(client, Duration::from_secs(1)), Arc::default(), Arc::default())
    }

    fn ask(watches: &Watches, name: &str) -> Asked {
        watches.ask("sources.test", "v1", "Thing", "team", name)
    }

    fn followed(watches: &Watches) -> Arc<Followed> {
        Arc::clone(&lock(&watches.kinds).values().next().unwrap().followed)
    }

    /// What the watch shows.
    fn show(watches: &Watches, name: &str, mark: u64) {
        followed(watches).note(("team".to_owned(), name.to_owned()), mark);
    }

    async fn woken(watches: &Watches) -> Vec<String> {
        let mut woken = Vec::new();
        while let Ok(next) = tokio::time::timeout(Duration::from_millis(10), watches.queue.next()).await {
            watches.queue.done(&next, crate::queue::Ended::Settled);
            woken.push(next.name);
        }
        woken
    }

    #[tokio::test(start_paused = true)]
    async fn stacks_are_woken_by_what_they_have_not_seen_yet() {
        let watches = watches();
        put(&watches.store, "web", "a");
        ask(&watches, "a").heard(7);
        show(&watches, "a", 7);
        show(&watches, "b", 8);
        assert!(woken(&watches).await.is_empty(), "it was read as it is, and nobody asks for the other");
        show(&watches, "a", 8);
        assert_eq!(woken(&watches).await, ["web"]);
        show(&watches, "a", 8);
        assert!(woken(&watches).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_shown_while_an_answer_is_awaited_wakes_only_if_it_is_another() {
        let watches = watches();
        put(&watches.store, "web", "a");
        put(&watches.store, "second", "b");
        let (a, b) = (ask(&watches, "a"), ask(&watches, "b"));
        show(&watches, "a", 7);
        show(&watches, "b", 7);
        assert!(woken(&watches).await.is_empty());
        a.heard(7);
        b.heard(6);
        assert_eq!(woken(&watches).await, ["second"], "its answer is older than what was shown");
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_stack_reads_wakes_the_others() {
        let watches = watches();
        put(&watches.store, "second", "a");
        put(&watches.store, "web", "a");
        ask(&watches, "a").heard(7);
        ask(&watches, "a").heard(8);
        assert_eq!(woken(&watches).await, ["second", "web"]);
        show(&watches, "a", 8);
        ask(&watches, "a").heard(8);
        assert!(woken(&watches).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_is_watched_once_and_for_as_long_as_a_stack_uses_it() {
        let watches = watches();
        put(&watches.store, "web", "a");
        ask(&watches, "a");
        ask(&watches, "b");
        watches.ask("sources.test", "v1beta1", "Thing", "team", "a");
        watches.tidy();
        assert_eq!(lock(&watches.kinds).len(), 1);
        assert_eq!(lock(&followed(&watches).marks).len(), 1, "nobody uses the other");
        put(&watches.store, "web", "elsewhere");
        watches.tidy();
        assert!(lock(&watches.kinds).is_empty());
    }
}
