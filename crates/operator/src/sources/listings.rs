//! Looks at repositories that are shared by all who want to know the same: with the same credentials, the same ref of the
//! same repository. Who has asked before is woken when another commit is found.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pko_core::{ask::GitTrouble, seen::Key};
use tokio::time::Instant;

use super::slot::Slot;
use crate::queue::Queue;

/// A failure is told to others no longer than this.
const FAILURE_SHARED: Duration = Duration::from_secs(5);
/// What nobody has asked for in this time is forgotten.
const FORGOTTEN: Duration = Duration::from_hours(1);

/// A commit, or why there is none.
pub(super) type Outcome = Result<String, GitTrouble>;

/// What is looked at, and with what. Addresses may hold passwords, so it is never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Subject {
    pub(super) url: String,
    pub(super) reference: String,
    /// Of all that was given to read it with.
    pub(super) credentials: [u8; 32],
}

pub(super) struct Listings {
    entries: Mutex<HashMap<Subject, Entry>>,
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Entry {
    slot: Arc<Slot<Outcome>>,
    askers: BTreeMap<Key, Instant>,
    /// What was found last, also if nothing could be found since.
    commit: Option<String>,
}

impl fmt::Debug for Listings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Listings").field("entries", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Listings {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { entries: Mutex::default(), queue }
    }

    /// What others have found out lately, or are finding out, or what the work finds.
    pub(super) async fn get(
        &self,
        subject: Subject,
        asker: &Key,
        max_age: Duration,
        work: impl Future<Output = Outcome>,
    ) -> Outcome {
        let slot = {
            let mut entries = self.lock();
            let entry = entries.entry(subject.clone()).or_default();
            entry.askers.insert(asker.clone(), Instant::now());
            Arc::clone(&entry.slot)
        };
        let good = |outcome: &Outcome, age: Duration| match outcome {
            Ok(_) => age <= max_age,
            Err(_) => age <= max_age.min(FAILURE_SHARED),
        };
        let noted = async {
            let outcome = work.await;
            if let Ok(commit) = &outcome {
                self.note(&subject, asker, commit);
            }
            outcome
        };
        slot.get(good, noted).await
    }

    /// Forgets what nobody asks for any more.
    pub(super) fn tidy(&self) {
        self.lock().retain(|_, entry| {
            entry.askers.retain(|_, asked| asked.elapsed() < FORGOTTEN);
            !entry.askers.is_empty()
        });
    }

    fn note(&self, subject: &Subject, asker: &Key, commit: &str) {
        let others: Vec<Key> = {
            let mut entries = self.lock();
            let Some(entry) = entries.get_mut(subject) else { return };
            let before = entry.commit.replace(commit.to_owned());
            let is_news = before.is_some_and(|before| before != commit);
            entry.askers.keys().filter(|other| is_news && *other != asker).cloned().collect()
        };
        for other in others {
            self.queue.wake(other);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Subject, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use pko_core::seen::Kind;

    use super::*;

    fn key(name: &str) -> Key {
        Key { kind: Kind::Stack, namespace: "team".to_owned(), name: name.to_owned() }
    }

    fn subject(reference: &str) -> Subject {
        Subject { url: "https://git.test/a".to_owned(), reference: reference.to_owned(), credentials: [0; 32] }
    }

    struct Scene {
        listings: Arc<Listings>,
        queue: Arc<Queue>,
        looks: Arc<AtomicU32>,
    }

    impl Scene {
        fn new() -> Self {
            let queue = Arc::<Queue>::default();
            let listings = Arc::new(Listings::new(Arc::clone(&queue)));
            Self { listings, queue, looks: Arc::default() }
        }

        /// Asks with a look that takes a second.
        async fn ask(&self, who: &str, max_age: u64, found: Outcome) -> Outcome {
            self.ask_about(subject("main"), who, max_age, found).await
        }

        async fn ask_about(&self, subject: Subject, who: &str, max_age: u64, found: Outcome) -> Outcome {
            let work = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.looks.fetch_add(1, Ordering::Relaxed);
                found
            };
            self.listings.get(subject, &key(who), Duration::from_secs(max_age), work).await
        }

        fn looks(&self) -> u32 {
            self.looks.load(Ordering::Relaxed)
        }

        async fn woken(&self) -> Vec<String> {
            let mut woken = Vec::new();
            while let Ok(next) = tokio::time::timeout(Duration::from_millis(1), self.queue.next()).await {
                woken.push(next.name);
            }
            woken.sort();
            woken
        }
    }

    #[allow(clippy::unnecessary_wraps, reason = "what a look yields that finds something")]
    fn found(commit: &str) -> Outcome {
        Ok(commit.to_owned())
    }

    fn failed() -> Outcome {
        Err(GitTrouble::Unavailable("away".to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn one_look_serves_all_for_as_long_as_each_allows() {
        let scene = Scene::new();
        assert_eq!(scene.ask("a", 54, found("1")).await, found("1"));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(scene.ask("b", 54, found("2")).await, found("1"));
        assert_eq!(scene.looks(), 1);
        assert_eq!(scene.ask("c", 5, found("2")).await, found("2"), "somebody waits for it");
        assert_eq!(scene.ask("a", 54, found("3")).await, found("2"), "others have that of it");
        assert_eq!(scene.looks(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_under_way_are_shared() {
        let scene = Scene::new();
        let (a, b) = tokio::join!(scene.ask("a", 5, found("1")), scene.ask("b", 5, found("2")));
        assert_eq!((a, b, scene.looks()), (found("1"), found("1"), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn other_refs_and_other_credentials_are_looked_at_by_themselves() {
        let scene = Scene::new();
        scene.ask("a", 54, found("1")).await.unwrap();
        let others = [
            subject("next"),
            Subject { url: "https://git.test/b".to_owned(), ..subject("main") },
            Subject { credentials: [1; 32], ..subject("main") },
        ];
        for (looks, other) in (2..).zip(others) {
            assert_eq!(scene.ask_about(other, "a", 54, found("2")).await, found("2"));
            assert_eq!(scene.looks(), looks);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shared_for_a_few_seconds() {
        let scene = Scene::new();
        assert_eq!(scene.ask("a", 54, failed()).await, failed());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(scene.ask("b", 54, found("1")).await, failed());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(scene.ask("b", 54, found("1")).await, found("1"));
        assert_eq!(scene.ask("a", 54, failed()).await, found("1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_commit_wakes_those_who_had_asked_and_only_them() {
        let scene = Scene::new();
        scene.ask("a", 5, found("1")).await.unwrap();
        scene.ask("b", 5, found("1")).await.unwrap();
        scene.ask_about(subject("next"), "other", 5, found("1")).await.unwrap();
        assert!(scene.woken().await.is_empty(), "nothing is new");
        tokio::time::advance(Duration::from_secs(10)).await;
        scene.ask("a", 5, found("1")).await.unwrap();
        assert!(scene.woken().await.is_empty(), "nothing has changed");
        tokio::time::advance(Duration::from_secs(10)).await;
        scene.ask("c", 5, failed()).await.unwrap_err();
        tokio::time::advance(Duration::from_secs(10)).await;
        scene.ask("c", 5, found("2")).await.unwrap();
        assert_eq!(scene.woken().await, ["a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_asks_for_in_an_hour_is_forgotten() {
        let scene = Scene::new();
        scene.ask("a", 54, found("1")).await.unwrap();
        scene.ask_about(subject("next"), "a", 54, found("1")).await.unwrap();
        tokio::time::advance(Duration::from_mins(40)).await;
        scene.ask("b", 54, found("1")).await.unwrap();
        tokio::time::advance(Duration::from_mins(40)).await;
        scene.listings.tidy();
        let entries = scene.listings.lock();
        let [entry] = entries.values().collect::<Vec<_>>()[..] else { panic!("one is left") };
        assert_eq!(entry.askers.keys().map(|key| key.name.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    #[tokio::test]
    async fn nothing_of_what_is_looked_at_is_printed() {
        let scene = Scene::new();
        let subject = Subject { url: "https://me:hunter2@git.test/a".to_owned(), ..subject("main") };
        scene.ask_about(subject, "a", 54, found("1")).await.unwrap();
        assert_eq!(format!("{:?}", scene.listings), "Listings { entries: 1, .. }");
    }
}
