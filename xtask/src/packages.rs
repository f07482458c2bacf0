//! The workspace as cargo itself describes it.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{host, paths};

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) targets: Vec<Target>,
    #[cfg(test)]
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    #[serde(default, rename = "required-features")]
    pub(crate) required_features: Vec<String>,
}

#[cfg(test)]
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
}

pub(crate) fn all() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let text = host::output(Command::new(env!("CARGO")).current_dir(paths::root()).args([
        "metadata",
        "--format-version=1",
        "--no-deps",
    ]))?;
    let metadata: Metadata = serde_json::from_str(&text).context("reading cargo metadata")?;
    Ok(metadata.packages)
}
