//! Debian packages: installed when we are root, named when we are not.

use std::process::Command;

use anyhow::{Result, bail};

use super::pins::Packages;
use crate::{
    host, paths,
    paths::Lock,
    progress::{Step, run_logged},
};

/// Those of a group that are not installed.
pub(crate) fn missing(group: &Packages) -> Vec<&'static str> {
    group.packages.iter().copied().filter(|p| !is_installed(p)).collect()
}

pub(crate) fn ensure(group: &Packages) -> Result<()> {
    if missing(group).is_empty() {
        return Ok(());
    }
    let _lock = Lock::take("apt")?;
    let missing = missing(group);
    if missing.is_empty() {
        return Ok(());
    }
    if !host::is_root() {
        bail!(
            "these Debian packages are missing; install them with: sudo apt-get install --no-install-recommends {}",
            missing.join(" ")
        );
    }
    let logs = paths::cache()?.join("logs");
    std::fs::create_dir_all(&logs)?;
    let log = logs.join("apt.log");
    let step = Step::begin(format!("Debian packages {}", missing.join(" ")));
    run_logged(&step, Command::new("apt-get").args(["update", "--quiet"]), &log)?;
    run_logged(
        &step,
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            // Rather fail than take away what is there, such as another containerd.
            .args(["install", "--yes", "--quiet", "--no-install-recommends", "--no-remove"])
            .args(&missing),
        &log,
    )?;
    step.done("installed");
    Ok(())
}

fn is_installed(package: &str) -> bool {
    host::output(Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]))
        .is_ok_and(|s| s == "installed")
}
