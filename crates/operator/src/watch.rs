//! Six watches feed the store and wake those whom a change concerns; two more only wake. What is not needed of an object
//! never gets beyond this file.

use std::{collections::BTreeSet, fmt::Debug, sync::Arc};

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, Pod, Secret},
};
use kube::{
    Api, Resource,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event, watcher},
    },
};
use pko_api::{Guarded, Program, Stack, Update, Workspace, labels};
use pko_core::{
    references::ReferenceKind,
    seen::{Key, Kind, Object, PodSeen, StatefulSetSeen},
};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::{
    cluster::Cluster,
    queue::Queue,
    store::{Link, Store},
    wake,
};

/// Objects in one answer to a list. Small, since what is decoded at once is held at once.
const PAGE: u32 = 100;
/// Metadata is small.
const REFERENCES_PAGE: u32 = 500;

/// Starts all watches. They end with the set.
pub fn start(cluster: &Cluster, store: &Arc<Store>, queue: &Arc<Queue>) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let all = Config::default().page_size(PAGE);
    let of_workspaces = all.clone().labels(&format!("{}={}", labels::AUTO_COMPONENT, labels::WORKSPACE));
    let feed = |kind| Feed { kind, store: Arc::clone(store), queue: Arc::clone(queue), present: BTreeSet::new() };
    watches.spawn(feed(Kind::Stack).follow(events::<Guarded<Stack>>(cluster, all.clone()), ours(Object::Stack)));
    watches.spawn(feed(Kind::Program).follow(events::<Guarded<Program>>(cluster, all.clone()), ours(Object::Program)));
    watches.spawn(
        feed(Kind::Workspace).follow(events::<Guarded<Workspace>>(cluster, all.clone()), ours(Object::Workspace)),
    );
    watches.spawn(feed(Kind::Update).follow(events::<Guarded<Update>>(cluster, all), ours(Object::Update)));
    watches.spawn(
        feed(Kind::StatefulSet).follow(events::<StatefulSet>(cluster, of_workspaces.clone()), |set: StatefulSet| {
            (Object::StatefulSet(StatefulSetSeen::from(&set)), wake::links_by_label(&set.metadata))
        }),
    );
    watches.spawn(feed(Kind::Pod).follow(events::<Pod>(cluster, of_workspaces), |pod: Pod| {
        (Object::Pod(PodSeen::from(&pod)), wake::links_by_label(&pod.metadata))
    }));
    watches.spawn(references::<Secret>(cluster, ReferenceKind::Secret, Arc::clone(store), Arc::clone(queue)));
    watches.spawn(references::<ConfigMap>(cluster, ReferenceKind::ConfigMap, Arc::clone(store), Arc::clone(queue)));
    watches
}

/// Wakes those that need a Secret or a ConfigMap when it changes. Only metadata is asked for, and nothing is kept.
fn references<K>(
    cluster: &Cluster,
    kind: ReferenceKind,
    store: Arc<Store>,
    queue: Arc<Queue>,
) -> impl Future<Output = ()> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let config = Config::default().page_size(REFERENCES_PAGE);
    let events = watcher(Api::<PartialObjectMeta<K>>::all(cluster.client()), config).default_backoff();
    async move {
        let mut events = std::pin::pin!(events);
        // Of the first list, all is known to be looked at anyway.
        let mut listed = false;
        while let Some(event) = events.next().await {
            let changed = match event {
                Ok(Event::Apply(object) | Event::Delete(object)) => object,
                Ok(Event::InitApply(object)) if listed => object,
                Ok(Event::InitDone) => {
                    listed = true;
                    continue;
                }
                Ok(Event::Init | Event::InitApply(_)) => continue,
                Err(error) => {
                    warn!(kind = kind.as_str(), "watching: {}", told(&error));
                    continue;
                }
            };
            let meta = changed.meta();
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            for key in store.users_of(namespace, kind, meta.name.as_deref().unwrap_or_default()) {
                queue.wake(key);
            }
        }
    }
}

/// One of our kinds, as the store keeps it.
pub(crate) fn seen<K>(guarded: Guarded<K>, readable: fn(Box<K>) -> Object) -> Object {
    match guarded.0 {
        Ok(object) => readable(Box::new(object)),
        Err(bad) => Object::Unreadable(bad),
    }
}

fn ours<K>(readable: fn(Box<K>) -> Object) -> impl Fn(Guarded<K>) -> (Object, Vec<Link>) {
    move |guarded| {
        let object = seen(guarded, readable);
        let links = wake::links(&object);
        (object, links)
    }
}

fn events<K>(cluster: &Cluster, config: Config) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watcher(Api::<K>::all(cluster.client()), config).default_backoff()
}

/// One kind on its way into the store.
struct Feed {
    kind: Kind,
    store: Arc<Store>,
    queue: Arc<Queue>,
    /// What a list that is under way has shown so far.
    present: BTreeSet<Key>,
}

impl Feed {
    async fn follow<K: Resource<DynamicType = ()>>(
        mut self,
        events: impl Stream<Item = watcher::Result<Event<K>>> + Send,
        reduce: impl Fn(K) -> (Object, Vec<Link>) + Send,
    ) {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            let woken = match event {
                Ok(Event::Init) => {
                    self.present.clear();
                    BTreeSet::new()
                }
                Ok(Event::InitApply(object)) => {
                    self.present.insert(self.key(&object));
                    self.put(object, &reduce)
                }
                Ok(Event::InitDone) => {
                    let present = std::mem::take(&mut self.present);
                    debug!(kind = self.kind.as_str(), objects = present.len(), "listed");
                    self.store.listed(self.kind, &present)
                }
                Ok(Event::Apply(object)) => self.put(object, &reduce),
                Ok(Event::Delete(object)) => self.store.remove(&self.key(&object)),
                Err(error) => {
                    warn!(kind = self.kind.as_str(), "watching: {}", told(&error));
                    BTreeSet::new()
                }
            };
            for key in woken {
                self.queue.wake(key);
            }
        }
    }

    fn put<K: Resource<DynamicType = ()>>(
        &self,
        mut object: K,
        reduce: &impl Fn(K) -> (Object, Vec<Link>),
    ) -> BTreeSet<Key> {
        let key = self.key(&object);
        object.meta_mut().managed_fields = None;
        let (object, links) = reduce(object);
        self.store.put(key, object, links)
    }

    fn key<K: Resource<DynamicType = ()>>(&self, object: &K) -> Key {
        Key {
            kind: self.kind,
            namespace: object.meta().namespace.clone().unwrap_or_default(),
            name: object.meta().name.clone().unwrap_or_default(),
        }
    }
}

/// Without the object that may be in it.
pub(crate) fn told(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => status.message.clone(),
            other => crate::cluster::innermost(other),
        },
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}
