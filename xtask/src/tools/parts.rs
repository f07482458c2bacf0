//! Parts in the cache. A part appears there whole or not at all.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};

use super::{
    crates, go,
    pins::{Part, Recipe},
    sources,
};
use crate::{digest, paths, progress::Step};

/// Where the binaries of a part are once it is built: by its version, and by all else that goes into it.
pub(crate) fn installed_dir(part: &Part) -> Result<PathBuf> {
    let mut made_from = format!("{:?} {:?} {:?}", part.recipe, part.binaries, part.stamps).into_bytes();
    for file in sources::of(part)? {
        made_from.extend(file.file_name().context("a file has a name")?.as_encoded_bytes());
        made_from.extend(fs::read(&file)?);
    }
    let digest = digest::short(made_from);
    Ok(paths::cache()?.join("parts").join(format!("{}-{}-{digest}", part.name, part.version)))
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
