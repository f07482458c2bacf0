//! The volume that keeps Pulumi's state when a workspace pod is renewed. The one-node cluster has nobody who makes
//! volumes, so there it is a directory of this machine; another cluster makes one by its default storage class.

use std::{fs, os::unix::fs::chown, path::PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{NAMESPACE, kubectl::Kubectl};
use crate::cluster::Target;

const CLAIM: &str = "state";
const VOLUME: &str = "pulumi-demo-state";
/// Whom workspace pods run as.
const PULUMI_USER: u32 = 1000;

/// The claim, and the volume where we make it.
pub(crate) fn claim(target: &Target) -> Result<Value> {
    let resources = json!({"storage": "100Mi"});
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": resources}},
    });
    let Some(dir) = directory(target) else {
        return Ok(claim);
    };
    fs::create_dir_all(&dir).with_context(|| format!("creating {}", dir.display()))?;
    chown(&dir, Some(PULUMI_USER), Some(PULUMI_USER)).with_context(|| format!("giving {} to pods", dir.display()))?;
    claim["spec"]["storageClassName"] = json!("");
    claim["spec"]["volumeName"] = json!(VOLUME);
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": VOLUME},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": resources,
            "storageClassName": "",
            "claimRef": {"namespace": NAMESPACE, "name": CLAIM},
            "hostPath": {"path": dir, "type": "Directory"},
        },
    });
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": [volume, claim]}))
}

/// Takes away what an earlier demo left of it.
pub(crate) fn remove(kubectl: &Kubectl, target: &Target) -> Result<()> {
    let Some(dir) = directory(target) else {
        return Ok(());
    };
    let found = kubectl.read(&["get", "persistentvolume", VOLUME, "--ignore-not-found", "-o", "name"])?;
    if !found.trim().is_empty() {
        kubectl.run(&["delete", "persistentvolume", VOLUME, "--timeout=60s"])?;
    }
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("removing {}", dir.display()))?;
    }
    Ok(())
}

fn directory(target: &Target) -> Option<PathBuf> {
    match target {
        Target::Foreign(_) => None,
        Target::Ours { cluster, .. } => Some(cluster.volumes().join("demo")),
    }
}
