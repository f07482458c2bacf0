//! Building a part with cargo, from its own lock file.

use std::{fs, path::Path, process::Command};

use anyhow::Result;

use super::pins::Part;
use crate::progress::{Step, run_logged};

/// Installs the part's crate and keeps its binaries.
pub(crate) fn build(part: &Part, work: &Path, out: &Path, step: &Step, log: &Path) -> Result<()> {
    // Beside the working directory, which is cleared first: an interrupted build goes on where it was.
    let target = work.with_extension("target");
    for (name, package) in part.binaries {
        run_logged(
            step,
            Command::new(env!("CARGO"))
                // Outside the clone, whose settings are not meant for it.
                .current_dir(work)
                .args(["install", "--locked", "--no-track", "--version", part.version, "--root"])
                .arg(work)
                .arg("--target-dir")
                .arg(&target)
                .arg(package),
            log,
        )?;
        fs::rename(work.join("bin").join(name), out.join(name))?;
    }
    Ok(fs::remove_dir_all(target)?)
}
