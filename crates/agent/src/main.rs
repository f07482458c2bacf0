//! The program in each workspace pod. In the init containers it brings itself and the sources onto the shared volume,
//! so that the image needs neither a shell nor `cp` and `ln`.

use std::{
    ffi::OsString,
    future::Future,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use pko_agent::{auth::ApiServer, init, place, serve, tini};
use tokio::signal::unix::{SignalKind, signal};
use tracing::level_filters::LevelFilter;

#[derive(Parser)]
#[command(name = "agent", about = "Runs Pulumi in a workspace pod", version)]
struct Cli {
    /// Log more
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(flatten)]
    api_server: ApiServer,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy this program onto the shared volume, where the workspace container starts it
    Bootstrap {
        /// The shared volume
        to: PathBuf,
    },
    /// Get the program's files
    Init(init::Args),
    /// Make the workspace a link to the directory that holds the project
    Link {
        /// The project's directory
        directory: PathBuf,
        /// Where the workspace container looks for it
        #[arg(long)]
        at: PathBuf,
    },
    /// Run Pulumi for whoever may ask for it
    Serve(serve::Args),
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().and_then(|path| Path::new(path).file_name()).unwrap_or_default();
    let outcome = if name == "tini" {
        block_on(tini::run(args.split_off(1)))
    } else {
        // Where tini does not swallow it, the `--` of PKO's pods arrives here.
        if args.get(1).is_some_and(|first| first == "--") {
            args.remove(1);
        }
        run(Cli::parse_from(args)).map(|()| ExitCode::SUCCESS)
    };
    outcome.unwrap_or_else(|error| {
        print_error(&error);
        ExitCode::FAILURE
    })
}

fn run(cli: Cli) -> Result<()> {
    let level = if cli.verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_ansi(false).init();
    match cli.command {
        Command::Bootstrap { to } => place::copy_self(&to),
        Command::Init(args) => block_on(until_signal(init::run(args))),
        Command::Link { directory, at } => place::link(&directory, &at),
        Command::Serve(args) => block_on(serve::run(args, &cli.api_server)),
        Command::Version => {
            print_version();
            Ok(())
        }
    }
}

/// Work that can be stopped at any moment. The first process of a container has to listen for signals itself.
async fn until_signal(work: impl Future<Output = Result<()>>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("preparing for signals")?;
    tokio::select! {
        done = work => done,
        _ = terminate.recv() => {
            tracing::info!("stopped by a signal");
            std::process::exit(143)
        }
    }
}

/// One thread is enough: the work is done by the CLI.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the runtime")?.block_on(work)
}

/// In one line, as it is read in a pod's log.
#[allow(clippy::print_stderr, reason = "this is where a command's failure is told")]
fn print_error(error: &anyhow::Error) {
    eprintln!("Error: {error:#}");
}

#[allow(clippy::print_stdout, reason = "the version is this command's answer")]
fn print_version() {
    println!("{}", env!("CARGO_PKG_VERSION"));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_are_spelt_as_pkos_pods_spell_them() {
        let line = "agent serve --workspace /share/workspace --skip-install --env-file /share/.env --auth-mode kube \
                    --kube-audience ws.ns --kube-workspace-namespace ns --kube-workspace-name ws --pulumi-log-level 9";
        assert!(matches!(Cli::parse_from(line.split_whitespace()).command, Command::Serve(_)));
    }
}
