//! What the API server said about tokens, for a while. Tokens themselves are not kept, only keyed digests of them, and
//! no token is asked about twice at the same time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Result, anyhow};
use ring::{hmac, rand::SystemRandom};
use tokio::time::Instant;

use super::review::{self, Denial, Finding};

/// How long a yes is believed: as long as a caller keeps access after losing it.
const YES: Duration = Duration::from_mins(5);
/// How long a no is believed. Someone may be waiting for a permission that was just given.
const NO: Duration = Duration::from_secs(5);
/// One operator calls, with a token an hour; everything beyond is guesses.
const MOST_TOKENS: usize = 256;

type Key = [u8; 32];

/// What a caller gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict(pub(super) Result<(), Denial>);

/// Locked while the API server is asked.
type Slot = tokio::sync::Mutex<Option<Kept>>;

#[derive(Debug)]
struct Kept {
    verdict: Verdict,
    found: Instant,
    until: Instant,
}

#[derive(Debug)]
pub(super) struct Cache {
    key: hmac::Key,
    most: usize,
    slots: Mutex<HashMap<Key, Arc<Slot>>>,
}

impl Cache {
    pub(super) fn new() -> Result<Self> {
        Self::with_room(MOST_TOKENS)
    }

    fn with_room(most: usize) -> Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow!("the system gives no random numbers for a key"))?;
        Ok(Self { key, most, slots: Mutex::default() })
    }

    /// The verdict on a token, from `ask` if it is not known. A caller that goes away while asking leaves the question
    /// to the next one who waits.
    pub(super) async fn get<F>(&self, token: &str, now: impl Fn() -> Instant, ask: impl FnOnce() -> F) -> Verdict
    where
        F: Future<Output = Finding>,
    {
        let came = now();
        let slot = self.slot(token, came);
        let mut kept = slot.lock().await;
        // What was found while we waited is ours, too: a server that does not answer keeps nobody waiting twice.
        if let Some(kept) = kept.as_ref().filter(|kept| now() < kept.until || came < kept.found) {
            return kept.verdict.clone();
        }
        let (verdict, believed) = match ask().await {
            Finding::Allowed => (Verdict(Ok(())), YES.min(remaining(token, SystemTime::now()))),
            Finding::Denied(denial) => (Verdict(Err(denial)), NO),
            Finding::Failed(denial) => (Verdict(Err(denial)), Duration::ZERO),
        };
        let found = now();
        *kept = Some(Kept { verdict: verdict.clone(), found, until: found + believed });
        verdict
    }

    fn slot(&self, token: &str, now: Instant) -> Arc<Slot> {
        let mut key = Key::default();
        key.copy_from_slice(hmac::sign(&self.key, token.as_bytes()).as_ref());
        // Nothing is left half-done by a panic under this lock.
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= self.most && !slots.contains_key(&key) {
            make_room(&mut slots, self.most, now);
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

/// Removes what is out of date, and then what will be soonest. What someone waits for stays, so that nobody asks the
/// same twice; there are no more of those than calls.
fn make_room(slots: &mut HashMap<Key, Arc<Slot>>, most: usize, now: Instant) {
    let until = |slot: &Arc<Slot>| match Arc::strong_count(slot) {
        1 => Some(slot.try_lock().ok()?.as_ref().map_or(now, |kept| kept.until)),
        _ => None,
    };
    slots.retain(|_, slot| until(slot).is_none_or(|until| now < until));
    if slots.len() >= most {
        let soonest = slots.iter().filter_map(|(key, slot)| Some((until(slot)?, *key))).min();
        if let Some((_, key)) = soonest {
            slots.remove(&key);
        }
    }
}

/// How long a token still says that it is good for; for ever when it does not say.
fn remaining(token: &str, now: SystemTime) -> Duration {
    let Some(ends) = review::expiry(token) else { return Duration::MAX };
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(ends).saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use tonic::Code;

    use super::*;

    fn denial() -> Denial {
        Denial { code: Code::PermissionDenied, text: "forbidden".to_owned() }
    }

    /// A cache whose questions are counted, with a clock that stands still unless it is moved.
    struct Counted {
        cache: Cache,
        asked: AtomicUsize,
    }

    impl Counted {
        fn new(most: usize) -> Self {
            Self { cache: Cache::with_room(most).unwrap(), asked: AtomicUsize::new(0) }
        }

        async fn get(&self, token: &str, finding: Finding) -> Verdict {
            let ask = || async {
                self.asked.fetch_add(1, Ordering::SeqCst);
                finding
            };
            self.cache.get(token, Instant::now, ask).await
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_yes_is_believed_for_five_minutes() {
        let counted = Counted::new(8);
        for _ in 0..3 {
            assert_eq!(counted.get("token", Finding::Allowed).await, Verdict(Ok(())));
        }
        assert_eq!(counted.asked(), 1);
        tokio::time::advance(YES).await;
        assert_eq!(counted.get("token", Finding::Denied(denial())).await, Verdict(Err(denial())));
        assert_eq!(counted.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_no_is_believed_for_seconds() {
        let counted = Counted::new(8);
        for _ in 0..3 {
            assert_eq!(counted.get("token", Finding::Denied(denial())).await, Verdict(Err(denial())));
        }
        assert_eq!(counted.asked(), 1);
        tokio::time::advance(NO).await;
        assert_eq!(counted.get("token", Finding::Allowed).await, Verdict(Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_to_ask_is_forgotten_at_once() {
        let counted = Counted::new(8);
        assert_eq!(counted.get("token", Finding::Failed(denial())).await, Verdict(Err(denial())));
        assert_eq!(counted.get("token", Finding::Allowed).await, Verdict(Ok(())));
        assert_eq!(counted.asked(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_not_believed_beyond_its_own_end() {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let token = |ends: u64| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(format!("{{\"exp\":{ends}}}")));
        let counted = Counted::new(8);
        let (ended, soon, late) = (token(seconds - 1), token(seconds + 60), token(seconds + 3600));
        for token in [&ended, &ended] {
            counted.get(token, Finding::Allowed).await;
        }
        assert_eq!(counted.asked(), 2, "what has ended is asked about each time");
        counted.get(&soon, Finding::Allowed).await;
        counted.get(&late, Finding::Allowed).await;
        tokio::time::advance(Duration::from_secs(61)).await;
        counted.get(&late, Finding::Allowed).await;
        assert_eq!(counted.asked(), 4);
        counted.get(&soon, Finding::Allowed).await;
        assert_eq!(counted.asked(), 5);
    }

    #[tokio::test]
    async fn callers_with_the_same_token_ask_once_and_others_do_not_wait() {
        let cache = Arc::new(Cache::new().unwrap());
        let (answer, wait) = tokio::sync::oneshot::channel();
        let asking = tokio::spawn({
            let cache = Arc::clone(&cache);
            async move { cache.get("token", Instant::now, || async { wait.await.unwrap() }).await }
        });
        // Once the first one holds its slot, the others find it.
        while cache.slots.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        let others: Vec<_> = (0..10)
            .map(|_| {
                let cache = Arc::clone(&cache);
                tokio::spawn(async move {
                    cache.get("token", Instant::now, || async { panic!("asked a second time") }).await
                })
            })
            .collect();
        let elsewhere = cache.get("other", Instant::now, || async { Finding::Denied(denial()) }).await;
        assert_eq!(elsewhere, Verdict(Err(denial())));
        answer.send(Finding::Allowed).unwrap();
        assert_eq!(asking.await.unwrap(), Verdict(Ok(())));
        for other in others {
            assert_eq!(other.await.unwrap(), Verdict(Ok(())));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn callers_who_waited_share_a_failure() {
        let cache = Cache::new().unwrap();
        let slow = || async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            Finding::Failed(denial())
        };
        let unasked = || async { panic!("asked a second time") };
        let began = Instant::now();
        let (first, second) =
            tokio::join!(cache.get("token", Instant::now, slow), cache.get("token", Instant::now, unasked));
        assert_eq!((first, second), (Verdict(Err(denial())), Verdict(Err(denial()))));
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_leaves_the_question_to_the_next() {
        let cache = Cache::new().unwrap();
        {
            let abandoned = cache.get("token", Instant::now, std::future::pending);
            tokio::select! {
                biased;
                _ = abandoned => panic!("nobody answered"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert_eq!(cache.get("token", Instant::now, || async { Finding::Allowed }).await, Verdict(Ok(())));
    }

    #[tokio::test(start_paused = true)]
    async fn the_cache_does_not_grow_with_guesses() {
        let counted = Counted::new(4);
        counted.get("operator", Finding::Allowed).await;
        for guess in 0..100 {
            counted.get(&format!("guess {guess}"), Finding::Denied(denial())).await;
            assert!(counted.cache.slots.lock().unwrap().len() <= 4);
        }
        let asked = counted.asked();
        counted.get("operator", Finding::Allowed).await;
        assert_eq!(counted.asked(), asked, "what is good for longer stays");
    }

    #[tokio::test]
    async fn no_token_is_kept() {
        let counted = Counted::new(4);
        counted.get("sesame", Finding::Allowed).await;
        assert!(!format!("{:?}", counted.cache).contains("sesame"));
        let key = *counted.cache.slots.lock().unwrap().keys().next().unwrap();
        let other = Counted::new(4);
        other.get("sesame", Finding::Allowed).await;
        assert!(!other.cache.slots.lock().unwrap().contains_key(&key), "another process has another key");
    }
}
