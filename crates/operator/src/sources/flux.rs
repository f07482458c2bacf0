//! Flux sources, and whatever else has such an artifact: read as they are, by their names.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pko_api::conditions::ConditionType;
use pko_core::ask::{SourceRef, SourceSeen};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    follow::Watches,
    served::{self, Served},
};
use crate::{
    cluster::{Cause, Cluster, Failure, is_segment},
    queue::Queue,
    store::Store,
};

/// How long it is believed that a kind is where it was found.
const BELIEVED: Duration = Duration::from_mins(10);

/// Reads sources.
#[derive(Debug)]
pub struct Flux {
    cluster: Cluster,
    places: Mutex<HashMap<SourceKind, (Served, Instant)>>,
    watches: Option<Watches>,
}

/// A kind as a Stack names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SourceKind {
    group: String,
    version: String,
    kind: String,
}

impl Flux {
    /// Reads, and watches nothing.
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, places: Mutex::default(), watches: None }
    }

    /// Watches a kind from its first use, and wakes the Stacks whose source has changed.
    pub fn watching(cluster: Cluster, store: Arc<Store>, queue: Arc<Queue>) -> Self {
        let watches = Some(Watches::new(cluster.clone(), store, queue));
        Self { watches, ..Self::new(cluster) }
    }

    /// What a source has to offer.
    pub async fn read(&self, namespace: &str, source: &SourceRef) -> Result<SourceSeen, Failure> {
        let SourceRef { api_version, kind, name } = source;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = SourceKind { group: group.to_owned(), version: version.to_owned(), kind: kind.clone() };
        let asked = self.watches.as_ref().map(|watches| watches.ask(group, version, &kind.kind, namespace, name));
        let (seen, mark) = self.look(namespace, &kind, name).await?;
        if let Some(asked) = asked {
            asked.heard(mark);
        }
        Ok(seen)
    }

    /// Ends the watches of kinds that no Stack uses any more.
    pub fn tidy(&self) {
        if let Some(watches) = &self.watches {
            watches.tidy();
        }
    }

    /// A source, and its mark.
    async fn look(&self, namespace: &str, kind: &SourceKind, name: &str) -> Result<(SourceSeen, u64), Failure> {
        if !is_segment(name) {
            return Ok((SourceSeen::Missing(format!("{name:?} is no name of an object")), mark(None)));
        }
        let known = self.lock().get(kind).filter(|(_, since)| since.elapsed() < BELIEVED).map(|(it, _)| it.clone());
        if let Some(served) = known {
            match self.get(&served, namespace, name).await? {
                Got::Nowhere => drop(self.lock().remove(kind)),
                Got::Seen(seen, mark) => return Ok((seen, mark)),
            }
        }
        let served = match served::find(&self.cluster, &kind.group, &kind.version, &kind.kind).await? {
            Ok(served) => served,
            Err(why) => return Ok((SourceSeen::Unreadable(why), mark(None))),
        };
        self.lock().insert(kind.clone(), (served.clone(), Instant::now()));
        Ok(match self.get(&served, namespace, name).await? {
            Got::Seen(seen, mark) => (seen, mark),
            Got::Nowhere => {
                let why = format!("{} of {} is served no longer; it is looked for again", kind.kind, kind.group);
                (SourceSeen::Unreadable(why), mark(None))
            }
        })
    }

    async fn get(&self, served: &Served, namespace: &str, name: &str) -> Result<Got, Failure> {
        let Served { group, kind, plural, .. } = served;
        let what = format!("{kind} {namespace}/{name}");
        match self.cluster.get_at::<Value>(&served.path(namespace, name), &what).await {
            Ok(object) => Ok(Got::Seen(seen(&object["status"]), mark(Some(&object["status"])))),
            Err(failure) if failure.cause == Cause::NotFound => {
                // Of a kind that is gone, the server says nothing about the object.
                if !failure.why().contains(&format!("\"{name}\" not found")) {
                    return Ok(Got::Nowhere);
                }
                Ok(Got::Seen(SourceSeen::Missing(failure.why().to_owned()), mark(None)))
            }
            Err(failure) if failure.cause == Cause::Forbidden => {
                let why = format!(
                    "{failure}; for such a source its rules need one with apiGroups [{group}], resources [{plural}] and \
                     verbs [get, list, watch]"
                );
                Ok(Got::Seen(SourceSeen::Unreadable(why), mark(None)))
            }
            Err(failure) => Err(failure),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SourceKind, (Served, Instant)>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Got {
    Seen(SourceSeen, u64),
    /// The server has no such kind at that place.
    Nowhere,
}

/// What a source's status says.
fn seen(status: &Value) -> SourceSeen {
    let text = |member: &str| status["artifact"][member].as_str().unwrap_or_default().to_owned();
    let (url, revision, digest) = (text("url"), text("revision"), text("digest"));
    if url.is_empty() || revision.is_empty() {
        return SourceSeen::Empty { why: told(status).to_owned() };
    }
    SourceSeen::Artifact { url, revision, digest }
}

/// What a source says about itself.
fn told(status: &Value) -> &str {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().find(|condition| condition["type"] == ConditionType::READY.as_str());
    ready.and_then(|ready| ready["message"].as_str()).unwrap_or_default()
}

/// A number that changes with all that a Stack can see of a source; of one that is not there, always the same.
pub(super) fn mark(status: Option<&Value>) -> u64 {
    let Some(status) = status else { return 0 };
    let mut hasher = DefaultHasher::new();
    match seen(status) {
        SourceSeen::Artifact { url, revision, digest } => (url, revision, digest).hash(&mut hasher),
        SourceSeen::Empty { why } | SourceSeen::Missing(why) | SourceSeen::Unreadable(why) => why.hash(&mut hasher),
    }
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_artifact_has_an_address_and_a_revision() {
        let whole = json!({"url": "http://s/a.tar.gz", "revision": "main@sha1:1", "digest": "sha256:2", "size": 3});
        let expected = SourceSeen::Artifact {
            url: "http://s/a.tar.gz".to_owned(),
            revision: "main@sha1:1".to_owned(),
            digest: "sha256:2".to_owned(),
        };
        assert_eq!(seen(&json!({"artifact": whole})), expected);
        let conditions = json!([{"type": "Reconciling"}, {"type": "Ready", "message": "authentication required"}]);
        for artifact in [json!(null), json!({}), json!({"url": "u"}), json!({"revision": "r"}), json!("odd")] {
            let status = json!({"artifact": artifact, "conditions": conditions});
            assert_eq!(seen(&status), SourceSeen::Empty { why: "authentication required".to_owned() });
        }
        for status in [json!(null), json!({}), json!({"conditions": [{"type": "Ready"}]})] {
            assert_eq!(seen(&status), SourceSeen::Empty { why: String::new() });
        }
    }

    #[test]
    fn a_mark_changes_with_what_a_stack_can_see() {
        let of = |revision: &str, digest: &str, size: i32| {
            let artifact = json!({"url": "u", "revision": revision, "digest": digest, "size": size});
            mark(Some(&json!({"artifact": artifact, "observedGeneration": size})))
        };
        assert_eq!(of("1", "a", 1), of("1", "a", 2));
        let marks = [of("1", "a", 1), of("2", "a", 1), of("1", "b", 1), mark(Some(&json!({}))), mark(None)];
        for (at, one) in marks.iter().enumerate() {
            assert!(!marks[at + 1..].contains(one), "{marks:?}");
        }
    }
}
