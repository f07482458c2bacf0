//! Which object is looked at next. Each is looked at by one at a time; one that is woken meanwhile is looked at again.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pko_core::seen::Key;
use tokio::{sync::Notify, time::Instant};

/// The first wait after a failure; each further failure doubles it.
const FIRST_BACKOFF: Duration = Duration::from_millis(5);
const LONGEST_BACKOFF: Duration = Duration::from_mins(1);
/// Before an object is looked at again that was woken meanwhile: mostly by our own writes, and some of those may be
/// still on their way through the watches.
const CATCH_UP: Duration = Duration::from_millis(10);
/// A user may ask for waits that no clock can hold.
const LONGEST_WAIT: Duration = Duration::from_hours(24);
/// After a failure, a change shortens the wait to this and no further: it may be our own doing.
const LONGEST_AFTER_CHANGE: Duration = Duration::from_secs(1);
/// A conflict means that the watch is behind. It catches up soon, and usually wakes the object itself.
const FIRST_CONFLICT: Duration = Duration::from_millis(50);
const LONGEST_CONFLICT: Duration = Duration::from_millis(200);

/// Waits from here on are made longer by up to so many thousandths.
const SHORTEST_SCATTERED: Duration = Duration::from_secs(5);
const MOST_SCATTER: u64 = 100;

/// How looking at an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing to do until it is woken.
    Settled,
    /// To be looked at again after that time, or when it is woken.
    Again(Duration),
    /// Something else was written at the same time.
    Conflict,
    Failed,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Key>,
    /// By when they are due; the number tells those apart that are due at the same time.
    later: BTreeMap<(Instant, u64), Key>,
    known: HashMap<Key, Known>,
    count: u64,
}

#[derive(Debug, Default)]
struct Known {
    place: Place,
    failures: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Nowhere,
    Ready,
    Later(Instant, u64),
    InHand {
        woken: bool,
    },
}

impl Queue {
    /// Something that concerns an object has changed.
    pub fn wake(&self, key: Key) {
        let mut state = self.lock();
        let known = state.known.entry(key.clone()).or_default();
        let failures = known.failures;
        match known.place {
            Place::Ready => return,
            Place::InHand { ref mut woken } => {
                *woken = true;
                return;
            }
            Place::Nowhere => state.put_ready(key),
            Place::Later(due, number) => {
                let soon = Instant::now() + backoff(failures).min(LONGEST_AFTER_CHANGE);
                if failures == 0 {
                    state.later.remove(&(due, number));
                    state.put_ready(key);
                } else if soon < due {
                    state.later.remove(&(due, number));
                    state.put_later(key, soon);
                }
            }
        }
        drop(state);
        self.news.notify_one();
    }

    /// The next object that is due. It stays in hand until [`Queue::done`].
    pub async fn next(&self) -> Key {
        loop {
            let due = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.known.entry(key.clone()).or_default().place = Place::InHand { woken: false };
                    return key;
                }
                state.later.first_key_value().map(|((due, _), _)| *due)
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        () = self.news.notified() => {}
                    }
                }
                None => self.news.notified().await,
            }
        }
    }

    /// An object was looked at.
    pub fn done(&self, key: &Key, ended: Ended) {
        let mut state = self.lock();
        let Some(known) = state.known.get_mut(key) else { return };
        let woken = known.place == Place::InHand { woken: true };
        known.place = Place::Nowhere;
        known.failures = match ended {
            Ended::Settled | Ended::Again(_) => 0,
            Ended::Conflict | Ended::Failed => known.failures.saturating_add(1),
        };
        let wait = match ended {
            Ended::Settled | Ended::Again(_) if woken => Some(CATCH_UP),
            Ended::Settled => None,
            Ended::Again(wait) => Some(scattered(wait)),
            Ended::Conflict => Some(conflict(known.failures)),
            Ended::Failed if woken => Some(backoff(known.failures).min(LONGEST_AFTER_CHANGE)),
            Ended::Failed => Some(backoff(known.failures)),
        };
        match wait {
            None => drop(state.known.remove(key)),
            Some(wait) => state.put_later(key.clone(), Instant::now() + wait.min(LONGEST_WAIT)),
        }
        drop(state);
        self.news.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put_ready(&mut self, key: Key) {
        self.known.entry(key.clone()).or_default().place = Place::Ready;
        self.ready.push_back(key);
    }

    fn put_later(&mut self, key: Key, due: Instant) {
        self.count += 1;
        self.known.entry(key.clone()).or_default().place = Place::Later(due, self.count);
        self.later.insert((due, self.count), key);
    }

    fn promote(&mut self, now: Instant) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let key = first.remove();
            self.put_ready(key);
        }
    }
}

/// Objects that were decided about together are not looked at again together.
fn scattered(wait: Duration) -> Duration {
    if wait < SHORTEST_SCATTERED {
        return wait;
    }
    let random = RandomState::new().build_hasher().finish() % MOST_SCATTER;
    wait + wait.mul_f64(f64::from(u32::try_from(random).unwrap_or_default()) / 1000.0)
}

fn backoff(failures: u32) -> Duration {
    let doubled = 2_u32.checked_pow(failures.saturating_sub(1)).and_then(|times| FIRST_BACKOFF.checked_mul(times));
    doubled.map_or(LONGEST_BACKOFF, |wait| wait.min(LONGEST_BACKOFF))
}

fn conflict(failures: u32) -> Duration {
    FIRST_CONFLICT.saturating_mul(failures).min(LONGEST_CONFLICT)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pko_core::seen::Kind;

    use super::*;

    fn key(name: &str) -> Key {
        Key { kind: Kind::Stack, namespace: "team".to_owned(), name: name.to_owned() }
    }

    /// The next key, and after how many milliseconds it came; nothing if none comes within a day.
    async fn next(queue: &Queue) -> Option<(String, u128)> {
        let start = Instant::now();
        let next = tokio::time::timeout(Duration::from_hours(24), queue.next()).await.ok()?;
        Some((next.name, start.elapsed().as_millis()))
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_woken_twice_is_looked_at_once() {
        let queue = Queue::default();
        queue.wake(key("a"));
        queue.wake(key("b"));
        queue.wake(key("a"));
        assert_eq!(next(&queue).await, Some(("a".to_owned(), 0)));
        assert_eq!(next(&queue).await, Some(("b".to_owned(), 0)));
        queue.done(&key("a"), Ended::Settled);
        queue.done(&key("b"), Ended::Settled);
        assert_eq!(next(&queue).await, None);
        assert!(queue.lock().known.is_empty(), "what is settled takes no memory");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_in_hand_is_not_given_to_another() {
        let queue = Queue::default();
        queue.wake(key("a"));
        next(&queue).await;
        queue.wake(key("a"));
        assert_eq!(next(&queue).await, None);
        queue.done(&key("a"), Ended::Settled);
        assert_eq!(next(&queue).await, Some(("a".to_owned(), 10)), "it was woken meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_comes_again_after_its_time() {
        let queue = Queue::default();
        queue.wake(key("a"));
        next(&queue).await;
        queue.done(&key("a"), Ended::Again(Duration::from_secs(3)));
        assert_eq!(next(&queue).await, Some(("a".to_owned(), 3_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn long_waits_are_scattered_a_little() {
        let queue = Queue::default();
        let mut waits = Vec::new();
        for _ in 0..20 {
            queue.wake(key("a"));
            next(&queue).await;
            queue.done(&key("a"), Ended::Again(Duration::from_mins(1)));
            waits.push(next(&queue).await.unwrap().1);
            queue.done(&key("a"), Ended::Settled);
        }
        assert!(waits.iter().all(|wait| (60_000..=66_000).contains(wait)), "{waits:?}");
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 1, "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_comes_before_the_time() {
        let queue = Arc::new(Queue::default());
        queue.wake(key("a"));
        next(&queue).await;
        queue.done(&key("a"), Ended::Again(Duration::from_secs(30)));
        let waking = Arc::clone(&queue);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            waking.wake(key("a"));
        });
        assert_eq!(next(&queue).await, Some(("a".to_owned(), 2_000)));
        queue.done(&key("a"), Ended::Settled);
        assert_eq!(next(&queue).await, None, "the time that was set before does not count any more");
    }

    #[tokio::test(start_paused = true)]
    async fn waits_double_with_failures_up_to_a_minute_and_begin_anew_after_success() {
        let queue = Queue::default();
        queue.wake(key("a"));
        next(&queue).await;
        let mut waits = Vec::new();
        for _ in 0..16 {
            queue.done(&key("a"), Ended::Failed);
            waits.push(next(&queue).await.unwrap().1);
        }
        assert_eq!(waits[..4], [5, 10, 20, 40]);
        assert_eq!(waits[14..], [60_000, 60_000]);
        queue.done(&key("a"), Ended::Again(Duration::from_secs(1)));
        next(&queue).await;
        queue.done(&key("a"), Ended::Failed);
        assert_eq!(next(&queue).await, Some(("a".to_owned(), 5)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_shortens_the_wait_after_failures_but_does_not_end_it() {
        let queue = Queue::default();
        queue.wake(key("a"));
        next(&queue).await;
        for _ in 0..15 {
            queue.done(&key("a"), Ended::Failed);
            next(&queue).await;
        }
        queue.wake(key("a"));
        queue.done(&key("a"), Ended::Failed);
        assert_eq!(next(&queue).await, Some(("a".to_owned(), 1_000)));
        queue.done(&key("a"), Ended::Failed);
        queue.wake(key("a"));
        assert_eq!(next(&queue).await, Some(("a".to_owned(), 1_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_is_tried_again_soon() {
        let queue = Queue::default();
        queue.wake(key("a"));
        next(&queue).await;
        let mut waits = Vec::new();
        for _ in 0..6 {
            queue.done(&key("a"), Ended::Conflict);
            waits.push(next(&queue).await.unwrap().1);
        }
        assert_eq!(waits, [50, 100, 150, 200, 200, 200]);
    }
}
