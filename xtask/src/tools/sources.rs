//! The sources of ours in `xtask/parts`.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use super::pins::{Part, Recipe};
use crate::paths;

/// The files of ours that a part is made from, without tests and leftovers of editors.
pub(crate) fn of(part: &Part) -> Result<Vec<PathBuf>> {
    if !matches!(part.recipe, Recipe::OwnMain(_) | Recipe::OwnModule) {
        return Ok(Vec::new());
    }
    let dir = paths::root().join("xtask/parts").join(part.name);
    let mut files = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().display().to_string();
        let is_source = path.extension().is_some_and(|e| e == "go" || e == "mod" || e == "sum");
        if is_source && !name.ends_with("_test.go") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
