//! Events as users see them: core/v1, and one that is repeated within a while is counted instead of written again. That
//! one cannot be written is no reason to stop.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{events::Event, managers};
use pko_core::{effect::Target, seen::Key};
use serde_json::{Value, json};
use tracing::debug;

use super::writes::recorder;
use crate::cluster::{At, Cause, Cluster, Failure, Resource, resources};

/// Within that time the same is said by counting.
const SAME: Duration = Duration::from_mins(10);
const MOST_KNOWN: usize = 1024;

/// What makes an event the same: the object, the reason and the message.
type Said = (String, &'static str, String);

#[derive(Debug)]
pub(super) struct Events {
    cluster: Cluster,
    known: Mutex<Known>,
}

/// The latest events, oldest first.
#[derive(Debug, Default)]
struct Known {
    events: HashMap<Said, Published>,
    order: VecDeque<Said>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Published {
    name: String,
    count: i32,
    last: Timestamp,
}

impl Events {
    pub(super) fn new(cluster: Cluster) -> Self {
        Self { cluster, known: Mutex::default() }
    }

    /// Tells users something about an object, as decided about another or the same one.
    pub(super) async fn publish(&self, by: &Key, on: &Target, event: &Event) {
        let now = Timestamp::now();
        let said = (on.uid.clone(), event.reason, event.message.clone());
        let published = self.known.lock().unwrap_or_else(PoisonError::into_inner).say(said, &on.name, now);
        let at = At::new(&resources::EVENTS, &by.namespace, &published.name);
        let whole = whole(by, on, event, &published, now);
        let outcome = if published.count == 1 {
            self.cluster.create(&at, managers::OPERATOR, &whole).await
        } else {
            self.repeat(&at, &published, now, &whole).await
        };
        if let Err(failure) = outcome {
            debug!("an event was not published: {failure}");
        }
    }

    async fn repeat(
        &self,
        at: &At<'_>,
        published: &Published,
        now: Timestamp,
        whole: &Value,
    ) -> Result<crate::cluster::Written, Failure> {
        let body = json!({"count": published.count, "lastTimestamp": Time(now)});
        match self.cluster.merge(at, managers::OPERATOR, &body).await {
            // Events are kept for an hour, or less.
            Err(failure) if failure.cause == Cause::NotFound => {
                self.cluster.create(at, managers::OPERATOR, whole).await
            }
            other => other,
        }
    }
}

impl Known {
    /// Counts what was said before, lately; names what was not.
    fn say(&mut self, said: Said, object: &str, now: Timestamp) -> Published {
        let before = self
            .events
            .get_mut(&said)
            .filter(|before| Duration::try_from(now.duration_since(before.last)).unwrap_or_default() < SAME);
        if let Some(before) = before {
            before.count = before.count.saturating_add(1);
            before.last = now;
            return before.clone();
        }
        let published = Published { name: format!("{object}.{:x}", now.as_nanosecond()), count: 1, last: now };
        if self.events.insert(said.clone(), published.clone()).is_none() {
            self.order.push_back(said);
        }
        if self.order.len() > MOST_KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.events.remove(&oldest);
        }
        published
    }
}

fn whole(by: &Key, on: &Target, event: &Event, published: &Published, now: Timestamp) -> Value {
    let source = recorder(by.kind);
    let resource = Resource::of(on.kind);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": published.name, "namespace": by.namespace},
        "involvedObject": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": by.namespace,
            "name": on.name,
            "uid": on.uid,
            "resourceVersion": on.resource_version,
        },
        "reason": event.reason,
        "message": event.message,
        "type": event.kind.as_str(),
        "source": {"component": source},
        "reportingComponent": source,
        "count": published.count,
        "firstTimestamp": Time(now),
        "lastTimestamp": Time(now),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + minute * 60).unwrap()
    }

    fn said(uid: &str, message: &str) -> Said {
        (uid.to_owned(), "Reason", message.to_owned())
    }

    #[test]
    fn the_same_is_counted_for_ten_minutes() {
        let mut known = Known::default();
        let first = known.say(said("u", "a"), "web", at(0));
        let second = known.say(said("u", "a"), "web", at(9));
        assert_eq!((second.name == first.name, second.count), (true, 2));
        assert_eq!(known.say(said("u", "a"), "web", at(18)).count, 3, "counted from the last time");
        let later = known.say(said("u", "a"), "web", at(40));
        assert_eq!((later.name == first.name, later.count), (false, 1));
    }

    #[test]
    fn another_object_or_message_is_another_event() {
        let mut known = Known::default();
        known.say(said("u", "a"), "web", at(0));
        assert_eq!(known.say(said("v", "a"), "web", at(0)).count, 1);
        assert_eq!(known.say(said("u", "b"), "web", at(0)).count, 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut known = Known::default();
        for number in 0..3 * MOST_KNOWN {
            known.say(said("u", &number.to_string()), "web", at(0));
        }
        assert_eq!((known.events.len(), known.order.len()), (MOST_KNOWN, MOST_KNOWN));
        assert_eq!(known.say(said("u", "0"), "web", at(1)).count, 1, "the oldest was forgotten");
    }
}
