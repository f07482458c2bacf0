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

/// Everything that is being decided.
#[derive(Clone, Debug)]
pub struct Reconciles {
    places: Arc<Semaphore>,
    most: u32,
}

impl Reconciles {
    /// At most so many at a time.
    pub fn new(most: u32) -> Self {
        Self { places: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// Reconciles for ever.
    pub async fn run(&self, shell: Arc<Live>, queue: Arc<Queue>) {
        loop {
            let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
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
        let all = self.places.acquire_many(self.most);
        if tokio::time::timeout(GRACE, all).await.is_err() {
            warn!("reconciles were still under way after {GRACE:?}; whoever comes next repeats them");
        }
    }
}

async fn one(shell: &Live, key: &Key) -> Ended {
    match driver::reconcile(shell, key).await {
        Ok(Then::AwaitChange) => Ended::Settled,
        Ok(Then::Requeue(after)) => Ended::Again(after),
        Err(Stopped::Shell(failure)) => failed(key, &failure),
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
