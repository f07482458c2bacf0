//! Takes objects from the queue and has the core decide about them, several at a time.

use std::{sync::Arc, time::Duration};

use pko_core::{
    driver::{self, Stopped},
    seen::Key,
    step::Then,
};
use tokio::sync::Semaphore;
use tracing::{debug, error, warn};

use crate::{
    cluster::{Cause, Failure},
    queue::{Ended, Queue},
    shell::Live,
};

/// How long reconciles that are under way are given when the operator ends.
const GRACE: Duration = Duration::from_secs(5);

/// How many objects are decided about at a time.
#[derive(Clone, Debug)]
pub struct Places {
    free: Arc<Semaphore>,
    most: u32,
}

impl Places {
    /// At most so many at a time.
    pub fn new(most: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// Gives the own place to others for as long as something else is waited for.
    pub async fn lend<T>(&self, work: impl Future<Output = T>) -> T {
        self.free.add_permits(1);
        let done = work.await;
        if let Ok(place) = self.free.acquire().await {
            place.forget();
        }
        done
    }
}

/// Everything that is being decided.
#[derive(Clone, Debug)]
pub struct Reconciles {
    places: Places,
}

impl Reconciles {
    pub const fn new(places: Places) -> Self {
        Self { places }
    }

    /// Reconciles for ever.
    pub async fn run(&self, shell: Arc<Live>, queue: Arc<Queue>) {
        loop {
            let Ok(place) = Arc::clone(&self.places.free).acquire_owned().await else { return };
            let key = queue.next().await;
            let (shell, queue) = (Arc::clone(&shell), Arc::clone(&queue));
            tokio::spawn(async move {
                let ended = one(&shell, &key).await;
                queue.done(&key, ended);
                drop(place);
            });
        }
    }

    /// Waits for those under way, for a while.
    pub async fn finish(&self) {
        let all = self.places.free.acquire_many(self.places.most);
        if tokio::time::timeout(GRACE, all).await.is_err() {
            warn!("reconciles were still under way after {GRACE:?}; whoever comes next repeats them");
        }
    }
}

async fn one(shell: &Live, key: &Key) -> Ended {
    match driver::reconcile(shell, key).await {
        // What was refused before was told; it is no longer so.
        Ok(_) if shell.note_refusal(key, None) => Ended::Again(Duration::ZERO),
        Ok(Then::AwaitChange) => Ended::Settled,
        Ok(Then::Requeue(after)) => Ended::Again(after),
        Err(Stopped::Shell(failure)) => {
            if let Some(refusal) = failure.refusal() {
                shell.note_refusal(key, Some(refusal));
            }
            failed(key, &failure)
        }
        Err(Stopped::Endless) => {
            error!(object = %key, "the decision does not come to an end; this is a bug");
            Ended::Failed
        }
    }
}

fn failed(key: &Key, failure: &Failure) -> Ended {
    match failure.cause {
        Cause::Conflict => {
            debug!(object = %key, "{failure}");
            Ended::Conflict
        }
        // What is in such a namespace goes soon, and nothing is to be done about it.
        Cause::NamespaceTerminating => {
            debug!(object = %key, "{failure}");
            Ended::Failed
        }
        _ => {
            warn!(object = %key, "{failure}");
            Ended::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_is_lent_while_an_agent_is_waited_for() {
        let places = Places::new(1);
        let own = places.free.acquire().await.unwrap();
        assert!(places.free.try_acquire().is_err(), "there is only one");
        let other = places.lend(async { places.free.try_acquire().is_ok() }).await;
        assert!(other, "somebody else could go on");
        assert!(places.free.try_acquire().is_err(), "and then the place was taken back");
        drop(own);
        assert_eq!(places.free.available_permits(), 1);
    }
}
