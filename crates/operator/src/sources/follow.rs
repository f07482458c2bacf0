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
use crate::{cluster::Cluster, queue::Queue, store::Store, watch};

/// Objects in one answer to a list.
const PAGE: u32 = 100;
/// Before a watch that failed is tried again, and at most; meanwhile Stacks look by themselves.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Which objects Stacks have asked for, by namespace and name, each with its mark; none while the first answer is
/// awaited.
type Marks = BTreeMap<(String, String), Option<u64>>;

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
    marks: Arc<Mutex<Marks>>,
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A question whose answer is awaited.
#[derive(Debug)]
pub(super) struct Asked {
    marks: Arc<Mutex<Marks>>,
    object: (String, String),
    before: Option<u64>,
}

impl Asked {
    /// Notes what was heard, unless the watch has shown something newer meanwhile.
    pub(super) fn heard(self, mark: u64) {
        if let Some(known) = lock(&self.marks).get_mut(&self.object).filter(|known| **known == self.before) {
            *known = Some(mark);
        }
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
            let marks = Arc::<Mutex<Marks>>::default();
            let follower = Follower {
                cluster: self.cluster.clone(),
                store: Arc::clone(&self.store),
                queue: Arc::clone(&self.queue),
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                marks: Arc::clone(&marks),
            };
            Watch { marks, task: tokio::spawn(follower.run()) }
        });
        let object = (namespace.to_owned(), name.to_owned());
        let before = *lock(&watch.marks).entry(object.clone()).or_default();
        Asked { marks: Arc::clone(&watch.marks), object, before }
    }

    /// Forgets objects that no Stack uses, and ends watches that are left without any.
    pub(super) fn tidy(&self) {
        lock(&self.kinds).retain(|(group, kind), watch| {
            let mut marks = lock(&watch.marks);
            marks.retain(|(namespace, name), _| !self.store.users_of_source(group, kind, namespace, name).is_empty());
            let used = !marks.is_empty();
            if !used {
                info!(group, kind, "no Stack uses such sources any more; they are not watched");
            }
            used
        });
    }
}

/// One watch at work.
struct Follower {
    cluster: Cluster,
    store: Arc<Store>,
    queue: Arc<Queue>,
    group: String,
    version: String,
    kind: String,
    marks: Arc<Mutex<Marks>>,
}

impl Follower {
    async fn run(self) {
        let mut wait = FIRST_WAIT;
        let mut said = String::new();
        loop {
            let why = match served::find(&self.cluster, &self.group, &self.version, &self.kind).await {
                Ok(Ok(served)) => {
                    let (listed, why) = self.follow(&served).await;
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
                debug!(group = self.group, kind = self.kind, "watching: {why}");
            } else {
                warn!(group = self.group, kind = self.kind, "watching: {why}");
                said = why;
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// Follows until something goes wrong. Says whether all objects were listed before, and what went wrong.
    async fn follow(&self, served: &Served) -> (bool, String) {
        let api: Api<DynamicObject> = Api::all_with(self.cluster.client(), &served.resource());
        let mut events = std::pin::pin!(watcher(api, Config::default().page_size(PAGE)));
        let mut listed = false;
        let mut present = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => present.clear(),
                Ok(Event::InitApply(object)) => {
                    let place = place(&object);
                    self.note(place.clone(), flux::mark(Some(&object.data["status"])));
                    present.insert(place);
                }
                Ok(Event::InitDone) => {
                    if !listed {
                        debug!(group = self.group, kind = self.kind, version = served.version, "watched");
                    }
                    listed = true;
                    let absent: Vec<_> = lock(&self.marks).keys().filter(|it| !present.contains(it)).cloned().collect();
                    for place in absent {
                        self.note(place, flux::mark(None));
                    }
                    present.clear();
                }
                Ok(Event::Apply(object)) => self.note(place(&object), flux::mark(Some(&object.data["status"]))),
                Ok(Event::Delete(object)) => self.note(place(&object), flux::mark(None)),
                Err(error) => return (listed, watch::told(&error)),
            }
        }
        (listed, "the watch has ended".to_owned())
    }

    /// Wakes those who use an object, if it is not as it was.
    fn note(&self, place: (String, String), mark: u64) {
        match lock(&self.marks).get_mut(&place) {
            Some(known) if *known != Some(mark) => *known = Some(mark),
            _ => return,
        }
        let (namespace, name) = place;
        for key in self.store.users_of_source(&self.group, &self.kind, &namespace, &name) {
            self.queue.wake(key);
        }
    }
}

fn place(object: &DynamicObject) -> (String, String) {
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

    fn follower(watches: &Watches) -> Follower {
        let kinds = lock(&watches.kinds);
        Follower {
            cluster: watches.cluster.clone(),
            store: Arc::clone(&watches.store),
            queue: Arc::clone(&watches.queue),
            group: "sources.test".to_owned(),
            version: "v1".to_owned(),
            kind: "Thing".to_owned(),
            marks: Arc::clone(&kinds.values().next().unwrap().marks),
        }
    }

    fn note(watches: &Watches, name: &str, mark: u64) {
        follower(watches).note(("team".to_owned(), name.to_owned()), mark);
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
        note(&watches, "a", 7);
        note(&watches, "b", 8);
        assert!(woken(&watches).await.is_empty(), "it was read as it is, and nobody asks for the other");
        note(&watches, "a", 8);
        assert_eq!(woken(&watches).await, ["web"]);
        note(&watches, "a", 8);
        assert!(woken(&watches).await.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_shown_while_an_older_answer_is_on_its_way_is_not_lost() {
        let watches = watches();
        put(&watches.store, "web", "a");
        let asked = ask(&watches, "a");
        note(&watches, "a", 8);
        assert_eq!(woken(&watches).await, ["web"]);
        asked.heard(7);
        assert_eq!(lock(&follower(&watches).marks).values().collect::<Vec<_>>(), [&Some(8)]);
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
        assert_eq!(lock(&follower(&watches).marks).len(), 1, "nobody uses the other");
        put(&watches.store, "web", "elsewhere");
        watches.tidy();
        assert!(lock(&watches.kinds).is_empty());
    }
}
