//! A volume that outlives workspace pods and that the test can look into: a directory of this machine, which the
//! one-node cluster sees as well. It holds the state backend and the cloud of the test provider.

use std::{fs, os::unix::fs::chown, path::PathBuf, time::SystemTime};

use serde_json::{Value, json};

use super::{Backend, Namespace, variable};

/// Whom workspace pods run as.
const PULUMI_USER: u32 = 1000;

/// One operation in the test provider's ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerLine {
    pub operation: String,
    pub id: String,
    pub resource: String,
}

/// A claim named `state`. Its directory is removed when dropped; its objects go with the namespace.
#[derive(Debug)]
pub struct Volume {
    dir: PathBuf,
}

impl Volume {
    pub const CLAIM: &'static str = "state";

    pub fn new(namespace: &Namespace) -> Self {
        let name = namespace.name();
        let dir = PathBuf::from(variable("PKO_TEST_VOLUMES")).join(name);
        fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("creating {}: {error}", dir.display()));
        chown(&dir, Some(PULUMI_USER), Some(PULUMI_USER)).expect("a directory of ours can be given away");
        let (modes, size) = (json!(["ReadWriteOnce"]), json!({"storage": "100Mi"}));
        let volume = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "ownerReferences": [namespace.as_owner()]},
            "spec": {
                "accessModes": modes,
                "capacity": size,
                "storageClassName": "",
                "claimRef": {"namespace": name, "name": Self::CLAIM},
                "hostPath": {"path": dir, "type": "Directory"},
            },
        });
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": Self::CLAIM},
            "spec": {"accessModes": modes, "resources": {"requests": size}, "storageClassName": "", "volumeName": name},
        });
        super::Kubectl::new().apply(&volume.to_string());
        namespace.kubectl().apply(&claim.to_string());
        Self { dir }
    }

    /// Where the state backend is in a pod that mounts the volume at `/state`.
    pub fn backend_url() -> &'static str {
        "file:///state"
    }

    /// Where the provider's cloud is in such a pod.
    pub fn cloud_dir() -> &'static str {
        "/state/cloud"
    }

    pub fn backend(&self) -> Backend {
        Backend::new(self.dir.join(".pulumi"))
    }

    /// What a pod wrote into a file of the volume.
    pub fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(name)).ok()
    }

    /// Puts a file into the volume, for pods to find.
    pub fn put(&self, name: &str, text: &str) {
        let file = self.dir.join(name);
        fs::write(&file, text).unwrap_or_else(|error| panic!("writing {}: {error}", file.display()));
    }

    /// What the provider did, in order; nothing when it did nothing.
    pub fn ledger(&self) -> Vec<LedgerLine> {
        let text = fs::read_to_string(self.dir.join("cloud/ledger.jsonl")).unwrap_or_default();
        let line = |line: &str| {
            let entry: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("ledger: {line}: {error}"));
            let field = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            LedgerLine { operation: field("op"), id: field("id"), resource: field("name") }
        };
        // A line that is just being written has no end yet.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(line).collect()
    }

    /// When the provider last wrote something down.
    pub fn ledger_written(&self) -> SystemTime {
        let written = fs::metadata(self.dir.join("cloud/ledger.jsonl")).and_then(|file| file.modified());
        written.expect("the provider has written something down")
    }

    /// The things that exist in the provider's cloud, by their ids.
    pub fn things(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.join("cloud/things")).into_iter().flatten();
        let mut ids: Vec<String> = entries
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
            .collect();
        ids.sort();
        ids
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("{} was not removed: {error}", self.dir.display());
        }
    }
}
