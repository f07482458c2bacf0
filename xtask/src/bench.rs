//! `cargo xtask bench`: speeds as ratios to the bare CLI, taken in one run.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::{paths, test};

/// Pairs of the bare CLI and the agent, one after the other.
const PAIRS: &str = "20";

pub(crate) fn run() -> Result<ExitCode> {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(paths::root())
        .args(["test", "--quiet", "--locked", "--package", "pko-agent", "--test", "l3_bench", "--", "--nocapture"])
        .envs(test::environment::of_the_cli()?)
        .env("PKO_BENCH_PAIRS", PAIRS);
    let ended = command.status().context("running cargo")?;
    Ok(if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
