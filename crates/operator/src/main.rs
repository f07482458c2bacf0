//! The operator's binary.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Parser;
use pko_operator::{
    explain,
    flags::{Cli, Command, variable},
    logs,
    operator::{self, End},
};

/// Reconciles wait for answers; two threads are plenty.
const WORKERS: usize = 2;

fn main() -> ExitCode {
    let cli = Cli::parse_from(Cli::arguments(std::env::args()));
    match run(cli) {
        Ok(code) => code,
        Err(error) => {
            print_error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let flags = cli.flags.completed(variable);
    if let Some(Command::Version) = cli.command {
        print(env!("CARGO_PKG_VERSION"));
        return Ok(ExitCode::SUCCESS);
    }
    rustls::crypto::ring::default_provider().install_default().map_err(|_| anyhow!("TLS is set up twice; a bug"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    if let Some(Command::Explain { kind, object }) = cli.command {
        print(&runtime.block_on(explain::explain(&flags, kind, &object))?);
        return Ok(ExitCode::SUCCESS);
    }
    logs::start(&flags);
    match runtime.block_on(operator::run(flags))? {
        // Without waiting for anything that may still write.
        End::Lost => std::process::exit(1),
        End::Told => {
            runtime.shutdown_background();
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[allow(clippy::print_stdout, reason = "the answer of a command")]
fn print(text: &str) {
    println!("{text}");
}

#[allow(clippy::print_stderr, reason = "where errors of commands go")]
fn print_error(error: &anyhow::Error) {
    eprintln!("manager: {error:#}");
}
