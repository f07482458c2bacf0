//! Parts in the cache. A part appears there whole or not at all.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use super::{
    crates, go,
    pins::{Part, Recipe},
};
use crate::{paths, progress::Step};

/// Where the binaries of a part are once it is built. Sources of ours count as part of the version.
pub(crate) fn installed_dir(part: &Part) -> Result<PathBuf> {
    let mut name = format!("{}-{}", part.name, part.version);
    if let Some(sources) = own_sources(part) {
        write!(name, "-{}", digest_of(&sources)?)?;
    }
    Ok(paths::cache()?.join("parts").join(name))
}

pub(crate) fn build(part: &Part, position: &str) -> Result<()> {
    let target = installed_dir(part)?;
    if target.exists() {
        return Ok(());
    }
    let cache = paths::cache()?;
    let work = cache.join("work").join(part.name);
    let logs = cache.join("logs");
    let unfinished = cache.join("parts").join(format!(".{}-unfinished", part.name));
    for dir in [&work, &unfinished] {
        if dir.exists() {
            fs::remove_dir_all(dir)?;
        }
    }
    for dir in [&work, &unfinished, &logs] {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    }
    let log = logs.join(format!("{}.log", part.name));
    let step = Step::begin(format!("{position} building {} {}", part.name, part.version));
    match part.recipe {
        Recipe::Crate => crates::build(part, &work, &unfinished, &step, &log)?,
        _ => go::build(part, &work, &unfinished, &step, &log)?,
    }
    for (name, _) in part.binaries {
        if !unfinished.join(name).is_file() {
            bail!("building {} gave no {name}", part.name);
        }
    }
    fs::rename(&unfinished, &target).with_context(|| format!("moving the finished part to {}", target.display()))?;
    fs::remove_dir_all(&work)?;
    step.done("built");
    Ok(())
}

/// The folder in the clone that a part is made from, if it is.
pub(crate) fn own_sources(part: &Part) -> Option<PathBuf> {
    matches!(part.recipe, Recipe::OwnMain(_) | Recipe::OwnModule)
        .then(|| paths::root().join("xtask/parts").join(part.name))
}

fn digest_of(dir: &Path) -> Result<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir)
        .with_context(|| format!("reading {}", dir.display()))?
        .map(|e| Ok(e?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        digest.update(file.file_name().context("a file has a name")?.as_encoded_bytes());
        digest.update(fs::read(&file)?);
    }
    Ok(crate::image::hex(&digest.finalize())[..12].to_owned())
}
