//! `cargo xtask soak`: the test files `l5_soak_*` at their full size, in the surroundings of `cargo xtask test L5`, of
//! which each takes one short round.

use std::{
    process::{Command, ExitCode},
    time::SystemTime,
};

use anyhow::{Result, bail};

use crate::{
    cluster::Target,
    image, paths,
    test::{self, Level, environment},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum)]
    name: Name,
    /// How many rounds of kills, Stacks of a fleet, or Stacks left alone
    #[arg(long)]
    rounds: Option<u32>,
    /// For how long Stacks are left alone
    #[arg(long)]
    seconds: Option<u32>,
    /// What the moments of kills are drawn from; another each time unless it is given
    #[arg(long)]
    seed: Option<u64>,
    /// With the operator's binaries as they ship
    #[arg(long)]
    release: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    /// The manager, agents, the CLI and pods are killed at any moment
    Kills,
    /// Many updates at once: the manager's memory, and how soon it answers
    Fleet,
    /// Ready Stacks are left alone: nothing is written
    Steady,
}

impl Name {
    fn target(self) -> &'static str {
        match self {
            Self::Kills => "l5_soak_kills",
            Self::Fleet => "l5_soak_fleet",
            Self::Steady => "l5_soak_steady",
        }
    }

    fn rounds(self) -> u32 {
        match self {
            Self::Kills | Self::Steady => 50,
            Self::Fleet => 200,
        }
    }
}

/// For how long Stacks are left alone.
const SECONDS: u32 = 300;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(obstacle) = Target::obstacle()? {
        bail!(obstacle);
    }
    let target = Target::get()?;
    if let Target::Foreign(kubeconfig) = &target {
        bail!("a soak reaches into the one-node cluster, and KUBECONFIG={} names another", kubeconfig.display());
    }
    environment::clear(&target)?;
    image::ensure_loaded(&target, args.release)?;
    let mut env = environment::variables(&target, Level::L5, args.release)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
    env.extend([
        ("PKO_SOAK_ROUNDS", args.rounds.unwrap_or(args.name.rounds()).to_string()),
        ("PKO_SOAK_SECONDS", args.seconds.unwrap_or(SECONDS).to_string()),
        ("PKO_SOAK_SEED", args.seed.unwrap_or(now).to_string()),
    ]);
    let mut command = Command::new(env!("CARGO"));
    // As the test run has it, so that nothing is built twice.
    command.current_dir(paths::root()).args(["test", "--quiet", "--locked", "--workspace"]);
    for target in test::targets::all()?.iter().filter(|target| target.name == args.name.target()) {
        command.args(["--test", &target.name]);
        command.args(target.features.iter().flat_map(|f| ["--features".to_owned(), format!("{}/{f}", target.package)]));
    }
    let ended = command.args(["--", "--nocapture"]).envs(env).status()?;
    Ok(if ended.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
