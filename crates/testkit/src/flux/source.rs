//! A Flux source of a test.

use std::time::Duration;

use serde_json::{Value, json};

use super::FluxController;
use crate::cluster::{Kubectl, condition, read, wait_for};

/// The group and version of Flux's sources.
const API_VERSION: &str = "source.toolkit.fluxcd.io/v1";
/// Whoever adds this to a source makes the controller look at once.
const LOOK: &str = "reconcile.fluxcd.io/requestedAt";

const PATIENCE: Duration = Duration::from_secs(30);

/// Deleted when dropped, while there is a controller that lets it go.
#[derive(Debug)]
pub struct FluxSource<'a> {
    controller: &'a FluxController,
    kubectl: &'a Kubectl,
    kind: &'static str,
    name: String,
    looks: u32,
}

impl<'a> FluxSource<'a> {
    /// Creates it. Left to itself the controller would look again only when the test is long over.
    pub(super) fn new(
        controller: &'a FluxController,
        kubectl: &'a Kubectl,
        kind: &'static str,
        name: &str,
        spec: &Value,
    ) -> Self {
        let mut spec = spec.clone();
        spec["interval"] = json!("1h");
        let metadata = json!({"name": name});
        let object = json!({"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec});
        kubectl.apply(&object.to_string());
        Self { controller, kubectl, kind, name: name.to_owned(), looks: 0 }
    }

    /// What a Stack has in `spec.fluxSource.sourceRef`.
    pub fn reference(&self) -> Value {
        json!({"apiVersion": API_VERSION, "kind": self.kind, "name": self.name})
    }

    /// Makes the controller look whether there is something new.
    pub fn look(&mut self) {
        self.looks += 1;
        let (source, value) = (self.resource(), format!("{LOOK}={}", self.looks));
        self.kubectl.run(&["annotate", "--overwrite", &source, &value]);
    }

    /// Waits until it has an artifact of another revision than the one named; returns that.
    pub fn until_revision(&self, not: &str) -> String {
        wait_for(&format!("a revision of {} {}", self.kind, self.name), PATIENCE, || {
            let object = read(self.kubectl, &self.kind.to_lowercase(), &self.name)?;
            let revision = object["status"]["artifact"]["revision"].as_str().unwrap_or_default();
            let ready = condition(&object, "Ready")["status"] == "True";
            if ready && !revision.is_empty() && revision != not {
                Ok(revision.to_owned())
            } else {
                Err(object["status"].to_string())
            }
        })
    }

    /// Deletes it before the test is over.
    pub fn delete(self) {
        drop(self);
    }

    fn resource(&self) -> String {
        format!("{}.source.toolkit.fluxcd.io/{}", self.kind.to_lowercase(), self.name)
    }
}

impl Drop for FluxSource<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let seen = self.kubectl.try_run(&["get", &self.resource(), "-o", "yaml"]).unwrap_or_else(|error| error);
            eprintln!("== {}\n{seen}\n== log of source-controller\n{}", self.resource(), self.controller.log());
        }
        let deleted = self.kubectl.try_run(&["delete", &self.resource(), "--ignore-not-found", "--timeout=20s"]);
        if let Err(error) = deleted {
            eprintln!("{} was not deleted: {error}", self.resource());
        }
    }
}
