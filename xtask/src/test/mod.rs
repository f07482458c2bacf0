//! `cargo xtask test`: every level, cheapest first, and one summary. A test's level is in the name of its target:
//! `tests/l4_kubectl.rs` is L4; tests inside `src` are L0.

mod checks;
pub(crate) mod environment;
mod promised;
mod report;
pub(crate) mod targets;

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Instant,
};

use anyhow::{Context, Result};
use clap::ValueEnum as _;
use report::{Row, Tally};

use crate::{
    cluster::Target,
    image, paths,
    progress::{Step, run_logged},
    tools,
};

/// The feature of tests that need this machine's one-node cluster: they reach into it, or start one themselves.
const OWN_CLUSTER: &str = "own-cluster";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Levels to run; all when none is named
    #[arg(value_enum, ignore_case = true)]
    levels: Vec<Level>,
    /// Run only tests whose name contains this
    #[arg(long)]
    only: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    /// Formatting, lints, generated files, unit tests
    #[value(name = "L0")]
    L0,
    /// Properties of decisions and types
    #[value(name = "L1")]
    L1,
    /// The simulated cluster
    #[value(name = "L2")]
    L2,
    /// The agent with the real CLI, real git
    #[value(name = "L3")]
    L3,
    /// A real API server
    #[value(name = "L4")]
    L4,
    /// The product on a real cluster
    #[value(name = "L5")]
    L5,
}

impl Level {
    const ALL: [Self; 6] = [Self::L0, Self::L1, Self::L2, Self::L3, Self::L4, Self::L5];

    fn name(self) -> &'static str {
        ["L0", "L1", "L2", "L3", "L4", "L5"][self as usize]
    }

    /// As the command line's help has it.
    fn what(self) -> String {
        self.to_possible_value().and_then(|value| Some(value.get_help()?.to_string())).unwrap_or_default()
    }

    fn needs_cluster(self) -> bool {
        matches!(self, Self::L4 | Self::L5)
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let began = Instant::now();
    let levels: Vec<Level> =
        Level::ALL.into_iter().filter(|l| args.levels.is_empty() || args.levels.contains(l)).collect();
    let targets = targets::all()?;
    // What earlier failures left would be taken for this run's.
    let dumps = environment::dumps();
    if dumps.exists() {
        std::fs::remove_dir_all(dumps)?;
    }
    let mut target = None;
    let mut rows = Vec::new();
    for level in levels {
        eprintln!("{}: {}", level.name(), level.what());
        let began = Instant::now();
        let row = match run_level(level, args.only.as_deref(), &targets, &mut target) {
            Ok((tally, note)) => Row { level, tally, note, took: began.elapsed() },
            // What keeps a level from running at all is a failure of that level, not of the others.
            Err(error) => {
                eprintln!("{error:#}");
                Row {
                    level,
                    tally: Tally { failed: 1, ..Tally::default() },
                    note: "could not run".to_owned(),
                    took: began.elapsed(),
                }
            }
        };
        rows.push(row);
    }
    if let Some(only) = args.only.as_deref().filter(|_| rows.iter().all(|r| r.tally == Tally::default())) {
        anyhow::bail!("no test of these levels has {only:?} in its name");
    }
    report::print(&rows, began.elapsed());
    Ok(if rows.iter().all(|r| r.tally.failed == 0) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_level(
    level: Level,
    only: Option<&str>,
    targets: &[targets::TestTarget],
    target: &mut Option<Target>,
) -> Result<(Tally, String)> {
    let mut chosen: Vec<&targets::TestTarget> = targets.iter().filter(|t| t.level == level).collect();
    if chosen.is_empty() && level != Level::L0 {
        return Ok((Tally::default(), "no tests yet".to_owned()));
    }
    let mut tally = Tally::default();
    let mut note = String::new();
    let mut env: Vec<(&str, String)> = Vec::new();
    if level.needs_cluster() {
        if let Some(obstacle) = Target::obstacle()? {
            return Ok((
                Tally { skipped: chosen.len(), ..Tally::default() },
                format!("test files skipped: {obstacle}"),
            ));
        }
        if target.is_none() {
            let found = Target::get()?;
            environment::clear(&found)?;
            *target = Some(found);
        }
        let target = target.as_ref().context("the cluster was just started")?;
        if level == Level::L5 {
            image::ensure_loaded(target, false)?;
        }
        env = environment::variables(target, level, false)?;
        if level == Level::L5 && matches!(target, Target::Ours { .. }) {
            env.extend(environment::of_sources()?);
        }
        if let Target::Foreign(_) = target {
            let all = chosen.len();
            chosen.retain(|t| !t.features.iter().any(|f| f == OWN_CLUSTER));
            tally.skipped += all - chosen.len();
            if chosen.len() < all {
                "tests of the one-node cluster skipped: KUBECONFIG names another".clone_into(&mut note);
            }
        }
    }
    if level == Level::L3 {
        tools::packages(&tools::SOURCE_PACKAGES)?;
        env = environment::of_the_cli()?;
    }
    if level == Level::L0 && only.is_none() {
        tally += checks::run()?;
    }
    let (tests, printed) = cargo_test(level, only, &chosen, &env)?;
    tally += tests;
    if only.is_none() && tally.skipped == 0 {
        for name in promised::missing(level, &printed)? {
            eprintln!("docs/testing.md names {name} as proof, but no test of that name has passed");
            tally.failed += 1;
        }
    }
    Ok((tally, note))
}

/// A new file for what a check or a level prints.
fn empty_log(name: &str) -> Result<PathBuf> {
    let logs = paths::root().join("target/test-logs");
    std::fs::create_dir_all(&logs)?;
    let log = logs.join(format!("{name}.log"));
    std::fs::write(&log, "")?;
    Ok(log)
}

fn cargo_test(
    level: Level,
    only: Option<&str>,
    chosen: &[&targets::TestTarget],
    env: &[(&str, String)],
) -> Result<(Tally, String)> {
    let log = empty_log(level.name())?;
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(paths::root())
        .args(["test", "--locked", "--no-fail-fast"])
        .envs(env.iter().map(|(k, v)| (k, v)));
    if level == Level::L2 {
        // The only level whose time is spent in our own code.
        command.args(["--profile", "sim"]);
        let packages: BTreeSet<&str> = chosen.iter().map(|target| target.package.as_str()).collect();
        command.args(packages.into_iter().flat_map(|package| ["--package", package]));
    } else {
        // The whole workspace: cargo then resolves features once, and builds dependencies once.
        command.arg("--workspace");
    }
    if level == Level::L0 {
        command.args(["--lib", "--bins"]);
    }
    for target in chosen {
        command.args(["--test", &target.name]);
        for feature in &target.features {
            command.args(["--features", &format!("{}/{feature}", target.package)]);
        }
    }
    // What the simulation met is of interest also when all is well.
    let shows = (level == Level::L2).then_some("--show-output");
    command.arg("--").args(only).args(shows);
    let step = Step::begin(format!("{} cargo test", level.name()));
    let outcome = run_logged(&step, &mut command, &log);
    let text = std::fs::read_to_string(&log)?;
    let mut tally = report::count(&text);
    if level == Level::L2 {
        eprint!("{}", report::histories(&text));
    }
    if outcome.is_err() {
        eprintln!("{text}");
        // A failure that no test reported is one that kept tests from being built or run.
        tally.failed = tally.failed.max(1);
    }
    if only.is_none() && tally == Tally::default() {
        eprintln!("the test files of {} hold no test", level.name());
        tally.failed = 1;
    }
    step.done(&format!("{} passed, {} failed", tally.passed, tally.failed));
    Ok((tally, text))
}
