//! A namespace for one test. When the test fails, everything in it is written down before it goes.

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::{Kubectl, read};

/// Deleted when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    kubectl: Kubectl,
}

impl Namespace {
    /// A new namespace whose name begins with the subject of the test.
    pub fn new(subject: &str) -> Self {
        Self::with_labels(subject, &[])
    }

    pub fn with_labels(subject: &str, labels: &[(&str, &str)]) -> Self {
        let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let name = format!("{subject}-{:x}", moment & 0xffff_ffff);
        let all = Kubectl::new();
        all.run(&["create", "namespace", &name]);
        for (key, value) in labels {
            all.run(&["label", "namespace", &name, &format!("{key}={value}")]);
        }
        let kubectl = Kubectl::new().in_namespace(&name);
        Self { name, kubectl }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// As the owner of objects outside namespaces that are to go with it.
    pub fn as_owner(&self) -> Value {
        let own = read(&Kubectl::new(), "namespace", &self.name).unwrap_or_else(|error| panic!("{error}"));
        json!({"apiVersion": "v1", "kind": "Namespace", "name": self.name, "uid": own["metadata"]["uid"]})
    }

    /// Nobody may be there to finalise what a test leaves, and the namespace would stay for ever.
    fn drop_finalizers(&self) {
        let kept = self.kubectl.try_run(&["get", "stacks,updates", "-o", "name"]).unwrap_or_default();
        for object in kept.lines() {
            let patch = r#"{"metadata":{"finalizers":[]}}"#;
            // It may have gone by itself meanwhile.
            let _ = self.kubectl.try_run(&["patch", object, "--type=merge", "-p", patch]);
        }
    }

    /// Objects, events and logs, as a developer would look at them.
    fn dump(&self) -> String {
        let mut text = format!("namespace {}\n", self.name);
        let mut section = |title: &str, args: &[&str]| {
            let answer = self.kubectl.try_run(args).unwrap_or_else(|error| error);
            let _ = write!(text, "\n== {title}\n{answer}\n");
        };
        section("overview", &["get", "all,configmap,secret,serviceaccount,persistentvolumeclaim", "-o", "wide"]);
        section("kinds of the operator", &["get", "pulumi", "-o", "yaml"]);
        section("workloads", &["get", "statefulset,service,pod", "-o", "yaml"]);
        section("events", &["get", "events", "--sort-by=.lastTimestamp"]);
        section("description of pods", &["describe", "pods"]);
        for pod in self.kubectl.try_run(&["get", "pods", "-o", "name"]).unwrap_or_default().lines() {
            section(&format!("logs of {pod}"), &["logs", pod, "--all-containers", "--prefix", "--tail=500"]);
            section(
                &format!("logs of {pod} before its restart"),
                &["logs", pod, "--all-containers", "--prefix", "--tail=200", "--previous"],
            );
        }
        text
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let dump = self.dump();
            let dir = PathBuf::from(std::env::var_os("PKO_TEST_DUMPS").unwrap_or_else(|| std::env::temp_dir().into()));
            let file = dir.join(format!("{}.txt", self.name));
            let kept = fs::create_dir_all(&dir).and_then(|()| fs::write(&file, &dump));
            eprintln!("{dump}\n(the above is in {}: {kept:?})", file.display());
        }
        // An operator would put its finalizer back on a Stack that is not being deleted.
        let _ = self.kubectl.try_run(&["delete", "stacks", "--all", "--wait=false"]);
        if let Err(error) = Kubectl::new().try_run(&["delete", "namespace", &self.name, "--wait=false"]) {
            eprintln!("namespace {} was not deleted: {error}", self.name);
        }
        self.drop_finalizers();
    }
}
