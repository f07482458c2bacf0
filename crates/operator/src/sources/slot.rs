//! Something that takes time to find out, found out by one at a time. Who comes meanwhile shares what is found.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// What was found out last, and the work that finds out anew.
#[derive(Debug)]
pub(super) struct Slot<T> {
    gate: tokio::sync::Mutex<()>,
    last: Mutex<Option<Last<T>>>,
}

#[derive(Clone, Debug)]
struct Last<T> {
    found: T,
    /// It is as old as the beginning of the work.
    began: Instant,
    number: u64,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { gate: tokio::sync::Mutex::default(), last: Mutex::default() }
    }
}

impl<T: Clone> Slot<T> {
    /// What was found before, if that and its age are good enough; what somebody else is about to find; or what the
    /// work finds. It is not begun unless it is needed, and whoever waits takes over when it is given up.
    pub(super) async fn get(&self, good: impl Fn(&T, Duration) -> bool, work: impl Future<Output = T>) -> T {
        let before = self.lock().clone();
        if let Some(last) = &before
            && good(&last.found, last.began.elapsed())
        {
            return last.found.clone();
        }
        let number = before.map_or(0, |last| last.number);
        let _gate = self.gate.lock().await;
        let meanwhile = self.lock().clone().filter(|last| last.number > number);
        if let Some(last) = meanwhile {
            return last.found;
        }
        let began = Instant::now();
        let found = work.await;
        *self.lock() = Some(Last { found: found.clone(), began, number: number + 1 });
        found
    }

    /// What was found last, whatever its age.
    pub(super) fn last(&self) -> Option<T> {
        self.lock().as_ref().map(|last| last.found.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Last<T>>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering},
        },
    };

    use super::*;

    fn younger(than: u64) -> impl Fn(&u32, Duration) -> bool {
        move |_, age| age <= Duration::from_secs(than)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_young_enough_is_not_found_out_again() {
        let (slot, count) = (Slot::default(), Cell::new(0));
        let work = || async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            count.set(count.get() + 1);
            count.get()
        };
        assert_eq!(slot.get(younger(5), work()).await, 1);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(slot.get(younger(5), work()).await, 1, "five seconds after it began");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(slot.get(younger(5), work()).await, 2);
        assert_eq!(slot.last(), Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_while_it_is_found_out_shares_it_though_it_takes_long() {
        let (slot, count) = (Arc::<Slot<u32>>::default(), Arc::<AtomicU32>::default());
        let ask = || {
            let (slot, count) = (Arc::clone(&slot), Arc::clone(&count));
            tokio::spawn(async move {
                let work = async {
                    tokio::time::sleep(Duration::from_secs(20)).await;
                    count.fetch_add(1, Ordering::Relaxed) + 1
                };
                slot.get(younger(5), work).await
            })
        };
        let first = ask();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let others = [ask(), ask(), ask()];
        assert_eq!(first.await.unwrap(), 1);
        for other in others {
            assert_eq!(other.await.unwrap(), 1);
        }
        assert_eq!(ask().await.unwrap(), 2, "who comes later finds it too old");
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_one_who_finds_out_gives_up_the_next_goes_on() {
        let slot = Arc::<Slot<u32>>::default();
        let other = Arc::clone(&slot);
        let stuck = tokio::spawn(async move { other.get(younger(5), std::future::pending()).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let other = Arc::clone(&slot);
        let waits = tokio::spawn(async move { other.get(younger(5), async { 7 }).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        stuck.abort();
        assert_eq!(waits.await.unwrap(), 7);
    }
}
