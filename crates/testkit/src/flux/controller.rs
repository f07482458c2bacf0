//! Flux's source-controller as a process of this machine, for all namespaces of the cluster under test.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

use super::FluxSource;
use crate::{
    cluster::{Kubectl, host_address, variable, wait_for},
    process::{Process, free_address},
};

const KINDS: &[&str] = &[
    "crd/gitrepositories.source.toolkit.fluxcd.io",
    "crd/ocirepositories.source.toolkit.fluxcd.io",
    "crd/buckets.source.toolkit.fluxcd.io",
];

/// Gone when dropped. Its kinds stay in the cluster.
#[derive(Debug)]
pub struct FluxController {
    process: Process,
}

impl FluxController {
    /// Installs its kinds and starts it.
    pub fn start() -> Self {
        let part = PathBuf::from(variable("PKO_TEST_SOURCE_CONTROLLER"));
        install_kinds(&part.join("crds"));
        let host = host_address();
        let (artifacts, health) = (free_address(host), free_address(host));
        let dir = TempDir::new().unwrap();
        let storage = dir.path().join("artifacts");
        fs::create_dir(&storage).unwrap();
        let arguments = [
            format!("--storage-path={}", storage.display()),
            format!("--storage-addr={artifacts}"),
            format!("--storage-adv-addr={artifacts}"),
            format!("--health-addr={health}"),
            "--metrics-addr=0".to_owned(),
            "--events-addr=".to_owned(),
            "--watch-all-namespaces=true".to_owned(),
            "--enable-leader-election=false".to_owned(),
            "--log-level=debug".to_owned(),
        ];
        let kubeconfig = variable("KUBECONFIG");
        let environment = [("KUBECONFIG", kubeconfig.as_str()), ("RUNTIME_NAMESPACE", "default")];
        let process = Process::start(dir, &part.join("source-controller"), arguments, &environment, artifacts);
        Self { process }
    }

    /// Creates a source, which goes before the controller does.
    pub fn source<'a>(&'a self, kubectl: &'a Kubectl, kind: &'static str, name: &str, spec: &Value) -> FluxSource<'a> {
        FluxSource::new(self, kubectl, kind, name, spec)
    }

    /// What it said.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

fn install_kinds(dir: &Path) {
    let kubectl = Kubectl::new();
    kubectl.run(&["apply", "--server-side", "--force-conflicts", "-f", &dir.display().to_string()]);
    let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
    wait_for("the kinds of Flux", Duration::from_mins(1), || kubectl.try_run(&[&wait[..], KINDS].concat()));
}
