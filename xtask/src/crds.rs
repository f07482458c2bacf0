//! `cargo xtask crds`: the CRDs that follow from the types in crates/api.

use std::process::Command;

use anyhow::{Result, bail};

use crate::paths;

pub(crate) fn run() -> Result<()> {
    let status = Command::new(env!("CARGO"))
        .current_dir(paths::root())
        .args(["run", "--quiet", "--package", "pko-api", "--example", "crds", "--", "deploy/crds"])
        .status()?;
    if !status.success() {
        bail!("writing deploy/crds failed");
    }
    Ok(())
}
