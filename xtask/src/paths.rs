//! Where things are: the clone, and the cache outside it that all clones on this machine share.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of this clone.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root of the clone")
}

/// `$PKO_TOOLS_DIR`, or `pko-tools` in the user's cache directory.
pub(crate) fn cache() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("PKO_TOOLS_DIR") {
        return std::path::absolute(dir).context("resolving PKO_TOOLS_DIR");
    }
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither PKO_TOOLS_DIR nor HOME is set")?).join(".cache")
        }
    };
    Ok(base.join("pko-tools"))
}

/// A file held locked until the value is dropped, so that two commands do not build or start the same thing.
pub(crate) struct Lock {
    _file: std::fs::File,
}

impl Lock {
    pub(crate) fn take(name: &str) -> Result<Self> {
        let dir = cache()?;
        std::fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
        let path = dir.join(format!("{name}.lock"));
        let file = std::fs::File::create(&path).with_context(|| format!("opening {}", path.display()))?;
        if file.try_lock().is_err() {
            eprintln!("waiting for another cargo xtask to finish with {name} ({})", path.display());
            file.lock().with_context(|| format!("locking {}", path.display()))?;
        }
        Ok(Self { _file: file })
    }
}
