//! Staying with one process of the CLI until it ends: passing wishes on to it, and following its events.

use std::{future::pending, time::Duration};

use pko_pulumi::{Cannot, Ended, EventLog, Running, Summary};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::entry::{Entry, Wish};

/// How often the event log is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long an interrupt waits for the first event. Before it the CLI may hold its lock and not listen yet: it would end on
/// the spot, and the lock would stay.
const DEAF: Duration = Duration::from_secs(5);
/// How long the CLI may wind down when the end is forced.
const GRACE: Duration = Duration::from_secs(10);

/// The events of a process, if it writes any.
pub(crate) struct Following {
    log: EventLog,
    pub(crate) summary: Summary,
}

impl Following {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self { log: EventLog::new(&entry.page.events()), summary: Summary::default() }
    }

    /// True when there is more to read right away.
    fn look(&mut self, entry: &Entry) -> bool {
        let before = self.summary.seen;
        let more = self.log.read(|line| self.summary.take(line)).unwrap_or_else(|error| {
            tracing::warn!(%error, run = entry.start.run_id, "the event log cannot be read");
            false
        });
        if self.summary.seen > before {
            entry.note(&self.summary);
        }
        more
    }
}

/// For the next agent, which comes too late to read it.
fn note_permalink(entry: &Entry, permalink: Option<&str>) {
    if let Some(Err(error)) = permalink.map(|link| entry.page.note_permalink(link)) {
        tracing::warn!(%error, run = entry.start.run_id, "the permalink could not be noted in the journal");
    }
}

pub(crate) async fn supervise(
    entry: &Entry,
    mut running: Running,
    mut following: Option<&mut Following>,
) -> Result<Ended, Cannot> {
    let mut wishes = entry.wishes();
    let mut interrupted = false;
    let mut asked: Option<Instant> = None;
    let mut kill_at: Option<Instant> = None;
    let mut permalink = None;
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let wish = *wishes.borrow_and_update();
        if wish > Wish::None && !interrupted {
            let waited = asked.get_or_insert_with(Instant::now).elapsed();
            let began = following.as_ref().is_none_or(|following| following.summary.seen > 0);
            if began || waited >= DEAF {
                interrupted = true;
                tracing::info!(run = entry.start.run_id, ?wish, "interrupting the CLI");
                running.interrupt();
            }
        }
        if wish == Wish::Forced && kill_at.is_none() {
            kill_at = Some(Instant::now() + GRACE);
        }
        let time_is_up = async {
            match kill_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = running.exit() => break,
            _ = ticks.tick(), if following.is_some() => {
                if let Some(following) = &mut following {
                    following.look(entry);
                }
                if permalink.is_none() {
                    permalink = running.permalink();
                    note_permalink(entry, permalink.as_deref());
                }
            }
            _ = wishes.changed() => {}
            () = time_is_up => {
                tracing::warn!(run = entry.start.run_id, "killing the CLI, which did not wind down in time");
                running.kill();
                kill_at = Some(Instant::now() + GRACE);
            }
        }
    }
    if let Some(following) = following {
        while following.look(entry) {
            tokio::task::yield_now().await;
        }
    }
    running.wait().await
}
