//! Runs in pods whose agents do not have Runs, such as those that PKO left behind. Here the operator does what the agent
//! does elsewhere: each run is a task that makes PKO's calls and keeps what came of them in memory. So these runs do end
//! with the operator, as they did with PKO's; whoever asks the next one for such a run hears that it is not known.

mod calls;
mod entry;
mod errors;
mod events;
mod init;
mod operation;
mod pace;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use pko_core::{
    ask::{Failure, Phase, RunSeen},
    seen::PodRef,
};
use pko_proto::runs::start_request::Operation as Wanted;
use tonic::Status;

use self::operation::Done;
use super::runs;

pub(super) use calls::Calls;
pub(super) use entry::Entry;
pub(super) use pace::{LARGEST_RESULT, Paced};

/// How long the end of a run is kept after it was last asked for. Longer than any wait before a run is looked at again.
const KEPT: Duration = Duration::from_mins(15);
/// PKO's agent interrupts the CLI of a call whose client is gone, and kills it ten seconds later.
const WIND_DOWN: Duration = Duration::from_secs(12);

/// The runs, by the UID of their pod and by their identifier.
#[derive(Debug)]
pub(super) struct Streamed {
    pods: Mutex<HashMap<String, BTreeMap<String, Arc<Entry>>>>,
    wind_down: Duration,
}

impl Default for Streamed {
    fn default() -> Self {
        Self { pods: Mutex::default(), wind_down: WIND_DOWN }
    }
}

impl Streamed {
    pub(super) fn find(&self, pod: &PodRef, run_id: &str) -> Option<Arc<Entry>> {
        let entry = self.lock().get(&pod.uid)?.get(run_id).cloned()?;
        entry.asked_for();
        Some(entry)
    }

    /// The latest attempt among the runs whose identifiers begin so.
    pub(super) fn latest(&self, pod: &PodRef, prefix: &str) -> Option<Arc<Entry>> {
        let pods = self.lock();
        let attempts = pods.get(&pod.uid)?.iter().filter_map(|(id, run)| Some((runs::attempt(id, prefix)?, run)));
        let entry = attempts.max_by_key(|(attempt, _)| *attempt)?.1;
        entry.asked_for();
        Some(Arc::clone(entry))
    }

    /// Starts a run, unless it was started before. An agent that does not speak to us is not given one.
    pub(super) async fn start(&self, calls: Calls, run_id: &str, wanted: Wanted) -> Result<RunSeen, Status> {
        let version = calls.version().await?;
        let mut pods = self.lock();
        let in_pod = pods.entry(calls.pod().uid.clone()).or_default();
        if let Some(entry) = in_pod.get(run_id) {
            return Ok(entry.seen());
        }
        if let Some((active, _)) = in_pod.iter().find(|(_, entry)| !entry.has_ended()) {
            let text = format!("run {active} is active; only one run is active at a time");
            return Err(Status::failed_precondition(text));
        }
        let phase = if matches!(wanted, Wanted::Init(_)) { Phase::Installing } else { Phase::Initializing };
        let entry = Arc::new(Entry::new(run_id, phase, version));
        in_pod.insert(run_id.to_owned(), Arc::clone(&entry));
        drop(pods);
        let seen = entry.seen();
        tokio::spawn(see_through(entry, calls, wanted, self.wind_down));
        Ok(seen)
    }

    pub(super) fn tidy(&self) {
        let mut pods = self.lock();
        pods.retain(|_, in_pod| {
            in_pod.retain(|_, entry| !entry.has_ended() || entry.unasked_for() < KEPT);
            !in_pod.is_empty()
        });
        pods.shrink_to_fit();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, BTreeMap<String, Arc<Entry>>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stays with a run to its end. One that was canceled or cut off ends when the CLI surely has: until then nobody may start
/// another, which would find the stack locked.
async fn see_through(entry: Arc<Entry>, calls: Calls, wanted: Wanted, wind_down: Duration) {
    // A call is canceled by dropping it.
    let ended = tokio::select! {
        ended = work(&entry, &calls, wanted) => ended,
        () = entry.is_canceled() => Err(errors::canceled()),
    };
    if ended.as_ref().is_err_and(errors::leaves_cli_behind) {
        entry.set_phase(Phase::Finishing);
        tokio::time::sleep(wind_down).await;
    }
    entry.end(ended);
}

async fn work(entry: &Entry, calls: &Calls, wanted: Wanted) -> Result<Done, Failure> {
    match wanted {
        Wanted::Init(init) => init::run(entry, calls, init).await.map(|()| Done::default()),
        Wanted::Preview(preview) => operation::preview(entry, calls, preview).await,
        Wanted::Up(up) => operation::up(entry, calls, up).await,
        Wanted::Refresh(refresh) => operation::refresh(entry, calls, refresh).await,
        Wanted::Destroy(destroy) => operation::destroy(entry, calls, destroy).await,
    }
}

#[cfg(test)]
mod tests;
