//! What the agent's programs have in common as commands.

use std::{future::Future, io, process::ExitCode};

use anyhow::{Context as _, Result};
use tracing::level_filters::LevelFilter;

/// Standard output belongs to what a command answers.
pub fn log_to_stderr(verbose: bool) {
    let level = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(false).init();
}

/// One thread is enough: the work is done by the CLI.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(work)
}

/// Tells a failure in one line, as it is read in a pod's log.
#[allow(clippy::print_stderr, reason = "this is where a command's failure is told")]
pub fn exit_code(outcome: Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("Error: {error:#}");
        ExitCode::FAILURE
    })
}
