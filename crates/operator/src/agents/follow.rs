//! One small task per active run, which wakes who asked when the run ends or gets further. Nothing depends on it: a run
//! that nobody follows is looked at again after a while.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use pko_core::{
    ask::{RunSeen, RunState},
    seen::{Key, PodRef},
};
use pko_proto::runs::{AttachRequest, Phase, attach_response::What};
use tokio::sync::watch;
use tonic::{Code, Status};
use tracing::debug;

use super::{Agents, in_time, runs};
use crate::queue::Queue;

/// The first wait after a stream broke; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Streams that break in a row, without a word, before following is given up.
const MOST_BREAKS: u32 = 6;
/// Agents send a sign of life every ten seconds.
const SILENCE: Duration = Duration::from_mins(1);

/// The tasks, by pod and run.
pub struct Followers {
    agents: Arc<Agents>,
    queue: Arc<Queue>,
    active: Mutex<HashSet<(String, String)>>,
}

impl fmt::Debug for Followers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Followers").finish_non_exhaustive()
    }
}

/// How a stream ended.
enum End {
    /// There is nothing more to follow.
    Over,
    Broken {
        heard: bool,
    },
}

impl Followers {
    pub fn new(agents: Arc<Agents>, queue: Arc<Queue>) -> Self {
        Self { agents, queue, active: Mutex::default() }
    }

    /// Follows a run, unless it is followed already.
    pub fn follow(self: &Arc<Self>, key: &Key, pod: &PodRef, run_id: &str) {
        let name = (pod.uid.clone(), run_id.to_owned());
        if !self.active.lock().unwrap_or_else(PoisonError::into_inner).insert(name) {
            return;
        }
        let streamed = self.agents.watch(pod, run_id);
        tokio::spawn(Arc::clone(self).until_over(key.clone(), pod.clone(), run_id.to_owned(), streamed));
    }

    async fn until_over(
        self: Arc<Self>,
        key: Key,
        pod: PodRef,
        run_id: String,
        streamed: Option<watch::Receiver<RunSeen>>,
    ) {
        match streamed {
            Some(run) => self.until_streamed(&key, run).await,
            None => self.until_ended(&key, &pod, &run_id).await,
        }
        // First forgotten and then woken, so that it can be followed again.
        self.active.lock().unwrap_or_else(PoisonError::into_inner).remove(&(pod.uid, run_id));
        self.queue.wake(key);
    }

    /// Stays with a run that is streamed by this operator itself.
    async fn until_streamed(&self, key: &Key, mut run: watch::Receiver<RunSeen>) {
        while matches!(run.borrow_and_update().state, RunState::Running(_)) && run.changed().await.is_ok() {
            self.queue.wake(key.clone());
        }
    }

    /// Stays with a run of an agent that has Runs, over as many streams as it takes.
    async fn until_ended(&self, key: &Key, pod: &PodRef, run_id: &str) {
        let mut phase = None;
        let mut breaks = 0;
        while breaks < MOST_BREAKS {
            match self.attached(key, pod, run_id, &mut phase).await {
                Ok(End::Over) => break,
                Ok(End::Broken { heard: true }) => breaks = 1,
                Ok(End::Broken { heard: false }) => breaks += 1,
                Err(status) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => breaks += 1,
                Err(status) => {
                    debug!(%key, run = run_id, "not followed any longer: {}", runs::why(&status));
                    break;
                }
            }
            // Whoever asked finds out what happened, and how to go on.
            self.queue.wake(key.clone());
            let doubled = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(breaks - 1));
            tokio::time::sleep(doubled.min(LONGEST_WAIT)).await;
        }
    }

    /// Reads one stream to its end.
    async fn attached(&self, key: &Key, pod: &PodRef, run_id: &str, phase: &mut Option<Phase>) -> Result<End, Status> {
        let message = AttachRequest { run_id: run_id.to_owned(), after_seq: 0, outputs: false };
        let request = self.agents.lines.request(&key.namespace, pod, message).await;
        let request = request.map_err(|failure| Status::unavailable(failure.to_string()))?;
        let mut stream = in_time(self.agents.lines.runs(pod).attach(request)).await?.into_inner();
        let mut heard = false;
        loop {
            let what = match tokio::time::timeout(SILENCE, stream.message()).await {
                Ok(Ok(Some(response))) => response.what,
                Ok(Err(status)) if !heard => return Err(status),
                Ok(Ok(None) | Err(_)) | Err(_) => return Ok(End::Broken { heard }),
            };
            heard = true;
            self.agents.lines.touch(pod);
            match what {
                Some(What::Ended(_)) => return Ok(End::Over),
                Some(What::Progress(progress)) => {
                    let now = Some(progress.phase());
                    if phase.is_some() && *phase != now {
                        self.queue.wake(key.clone());
                    }
                    *phase = now;
                }
                Some(What::Heartbeat(_) | What::Output(_)) | None => {}
            }
        }
    }
}
