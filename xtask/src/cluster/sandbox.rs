//! The image of pod sandboxes, without which no pod starts: a shell that sleeps.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Cluster, import};
use crate::archive::{self, Entry, Image};

pub(crate) const IMAGE: &str = "localhost/pause:1";

pub(crate) fn is_loaded(cluster: &Cluster) -> bool {
    mark(cluster).exists()
}

/// Makes the image and gives it to containerd, once in a cluster's life.
pub(crate) fn load(cluster: &Cluster) -> Result<()> {
    if is_loaded(cluster) {
        return Ok(());
    }
    let loaded = mark(cluster);
    let busybox = Path::new("/bin/busybox").canonicalize().context("finding the shell of busybox-static")?;
    let entries = [Entry::File { path: "/bin/busybox".into(), from: busybox, mode: 0o755, owner: 0 }];
    let image = Image { name: IMAGE, entrypoint: &["/bin/busybox", "sleep", "infinity"], user: "", env: &[] };
    let unloaded = loaded.with_extension("unloaded");
    archive::write(&[image], &entries, &unloaded)?;
    import(cluster, &unloaded)?;
    Ok(std::fs::rename(unloaded, loaded)?)
}

fn mark(cluster: &Cluster) -> PathBuf {
    cluster.loaded_mark("pause.tar")
}
