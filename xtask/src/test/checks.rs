//! Checks that are not tests of Rust code: formatting, lints, licences, and the Go module of the test provider.

use std::process::Command;

use anyhow::Result;

use super::report::Tally;
use crate::{
    paths,
    progress::{Step, run_logged},
    tools,
};

pub(crate) fn run() -> Result<Tally> {
    let root = paths::root();
    let provider = root.join("xtask/parts/provider");
    let mut tally = Tally::default();
    let cargo = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(root).args(args);
        command
    };
    let go = |args: &[&str]| {
        let mut command = Command::new("go");
        // The flags of the part's own build, so that Go compiles its dependencies once.
        command.current_dir(&provider).env("CGO_ENABLED", "0").env("GOFLAGS", "-buildvcs=false").args(args);
        command
    };
    let deny = || {
        let mut command = Command::new(tools::binary("cargo-deny", "cargo-deny")?);
        command.current_dir(root).args(["check", "licenses", "bans", "sources"]);
        Ok(command)
    };
    let clippy = ["clippy", "--locked", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    let checks: [(&str, Result<Command>); 4] = [
        ("rustfmt", Ok(cargo(&["fmt", "--all", "--check"]))),
        ("clippy", Ok(cargo(&clippy))),
        ("licences", deny()),
        ("provider", Ok(go(&["test", "-trimpath", "./..."]))),
    ];
    for (name, command) in checks {
        let step = Step::begin(name);
        let log = super::empty_log(name)?;
        match command.and_then(|mut command| run_logged(&step, &mut command, &log)) {
            Ok(()) => {
                tally.passed += 1;
                step.done("passed");
            }
            Err(error) => {
                tally.failed += 1;
                step.done("failed");
                eprintln!("{error:#}");
            }
        }
    }
    Ok(tally)
}
