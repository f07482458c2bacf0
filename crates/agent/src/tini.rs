//! The first process of the workspace container: passes signals on to one child, takes care of orphans, and ends as the
//! child does.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};
use nix::{
    errno::Errno,
    sys::{
        prctl::set_child_subreaper,
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

/// What is passed on to the child.
const FORWARDED: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// Runs a program with arguments, of which one `--` is left out: PKO's pods have it after the program.
pub async fn run(mut args: Vec<OsString>) -> Result<ExitCode> {
    if let Some(at) = args.iter().position(|arg| arg == "--") {
        args.remove(at);
    }
    let (program, args) = args.split_first().context("tini needs a program to run")?;
    // Only the first process of a container gets orphans by itself.
    if std::process::id() != 1 {
        set_child_subreaper(true).context("asking for orphans")?;
    }
    // Caught before the child is there, so that none is missed. Blocking them instead would reach into the child: the
    // standard library leaves it the mask.
    let (tell, mut told) = mpsc::channel(FORWARDED.len());
    for kind in FORWARDED {
        let mut caught = signal(SignalKind::from_raw(kind as i32)).with_context(|| format!("catching {kind}"))?;
        let tell = tell.clone();
        tokio::spawn(async move { while caught.recv().await.is_some() && tell.send(kind).await.is_ok() {} });
    }
    let mut ended = signal(SignalKind::child()).context("catching the end of children")?;
    let child = Command::new(program)
        .args(args)
        .process_group(0)
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let child = Pid::from_raw(i32::try_from(child.id()).context("the child's identifier")?);
    loop {
        tokio::select! {
            _ = ended.recv() => if let Some(code) = reap(child)? {
                return Ok(ExitCode::from(code));
            },
            Some(signal) = told.recv() => {
                // A child that has ended meanwhile has no use for it.
                let _ = kill(child, signal);
            }
        }
    }
}

/// Collects all children that have ended; the exit code, if the child is among them.
fn reap(child: Pid) -> Result<Option<u8>> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => return Ok(Some(u8::try_from(code).unwrap_or(1))),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                return Ok(Some(u8::try_from(128 + signal as i32).unwrap_or(1)));
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(None),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("waiting for children"),
        }
    }
}
