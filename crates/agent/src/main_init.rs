//! `agent init`, a program of its own: what fetches git repositories is large, and the agent that stays in the pod need
//! not carry it in its memory.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Parser;
use pko_agent::{
    command::{block_on, exit_code, log_to_stderr},
    init,
};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(name = "agent init", bin_name = "agent init", about = "Gets a program's files", version)]
struct Cli {
    /// Log more
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    init: init::Args,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log_to_stderr(cli.verbose);
    exit_code(block_on(until_signal(cli.init)))
}

/// Fetching may be stopped at any moment. The first process of a container has to listen for signals itself.
async fn until_signal(args: init::Args) -> Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate()).context("preparing for signals")?;
    tokio::select! {
        done = init::run(args) => done.map(|()| ExitCode::SUCCESS),
        _ = terminate.recv() => {
            tracing::info!("stopped by a signal");
            std::process::exit(143)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }
}
