//! Locks that our own CLI has left on a stack. `pulumi cancel` removes all there are, so it is called only when every one
//! of them is known to be left by a process that is gone.

use std::{fs, sync::Arc};

use jiff::Timestamp;
use pko_pulumi::{Call, Cannot, Ended, Lock, Wiring};

use super::{
    entry::Entry,
    record::{End, Reason},
    supervise::supervise,
};
use crate::workspace::Workspace;

/// A process of the CLI that held a stack for some time and is gone.
struct Gone {
    pid: i32,
    from: Timestamp,
    to: Timestamp,
}

impl Gone {
    /// Nothing, if the process of a run is not known, may live, or never came to hold the stack.
    fn of(run: &Entry) -> Option<Self> {
        let End { time: to, failure, .. } = run.end()?;
        if !["up", "refresh", "destroy"].contains(&run.start.operation.as_str())
            || failure.is_some_and(|failure| failure.reason == Reason::UpdateConflict)
        {
            return None;
        }
        let process = run.page.process()?;
        // In a new container the same number is another process, which its start time tells.
        (!process.is_alive()).then_some(Self { pid: process.pid, from: run.start.time, to })
    }

    /// The CLI tells the time of a lock without its fraction of a second.
    fn made(&self, lock: &Lock) -> bool {
        lock.pid == self.pid && (self.from.as_second()..=self.to.as_second()).contains(&lock.since.as_second())
    }
}

fn all_left_by(gone: &[Gone], host: &str, locks: &[Lock]) -> bool {
    let left = |lock: &Lock| lock.host == host && gone.iter().any(|process| process.made(lock));
    !locks.is_empty() && locks.iter().all(left)
}

/// Whether the stack is locked by nobody but processes of earlier runs that are gone. `ended` was refused the stack.
pub(crate) fn are_our_own(ended: &Ended, earlier: &[Arc<Entry>]) -> bool {
    let (Some(locks), Some(host)) = (pko_pulumi::locks(&ended.stderr), hostname()) else { return false };
    let gone: Vec<Gone> = earlier.iter().filter_map(|run| Gone::of(run)).collect();
    all_left_by(&gone, &host, &locks)
}

/// The name that the CLI writes into a lock: in a pod, the pod's.
fn hostname() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Removes all locks of a stack. Says whether that is done.
pub(crate) async fn clear(entry: &Entry, workspace: &Workspace, stack: &str) -> Result<bool, Cannot> {
    tracing::info!(run = entry.start.run_id, stack, "removing the lock that a CLI of an earlier run has left");
    let running = workspace.cli.start(&Call::Cancel { stack }, None, Wiring::Pipes)?;
    Ok(supervise(entry, running, None).await?.succeeded())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_millisecond(second * 1000 + 700).unwrap()
    }

    fn lock(host: &str, pid: i32, since: i64) -> Lock {
        let since = Timestamp::from_second(since).unwrap();
        Lock { user: "root".to_owned(), host: host.to_owned(), pid, since }
    }

    #[test]
    fn locks_are_ours_only_if_each_was_made_here_by_a_process_that_is_gone_in_its_time() {
        let gone = [Gone { pid: 7, from: at(100), to: at(200) }, Gone { pid: 8, from: at(300), to: at(300) }];
        let ours = |locks: &[Lock]| all_left_by(&gone, "pod", locks);
        assert!(ours(&[lock("pod", 7, 150)]));
        assert!(ours(&[lock("pod", 7, 100), lock("pod", 7, 200)]), "the lock's time has no fraction");
        assert!(ours(&[lock("pod", 7, 150), lock("pod", 8, 300)]), "two of ours");
        for (why, locks) in [
            ("there is none", vec![]),
            ("another host", vec![lock("other", 7, 150)]),
            ("another process", vec![lock("pod", 9, 150)]),
            ("before the run", vec![lock("pod", 7, 99)]),
            ("after the run", vec![lock("pod", 7, 201)]),
            ("the time of another run", vec![lock("pod", 8, 150)]),
            ("one of ours and one of someone else", vec![lock("pod", 7, 150), lock("other", 7, 150)]),
        ] {
            assert!(!ours(&locks), "{why}");
        }
    }
}
