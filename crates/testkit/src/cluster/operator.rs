//! The operator as deploy/install puts it into a cluster, with the image of this test run.

use std::{fs, sync::OnceLock};

use serde_json::{Value, json};

use super::{
    Kubectl, install_crds,
    trust::{authorities, trust},
    variable,
};

/// Where deploy/install puts the operator.
pub const OPERATOR_NAMESPACE: &str = "pulumi-kubernetes-operator";
/// Its service account.
pub const ACCOUNT: &str = "controller-manager";
const DEPLOYMENT: &str = "deployment/controller-manager";

/// The objects of deploy/install as `cargo xtask test` rendered them.
pub(crate) fn manifests() -> Vec<Value> {
    let file = variable("PKO_TEST_INSTALL");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("reading {file}: {error}"));
    let mut list: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    match list["items"].take() {
        Value::Array(items) => items,
        other => panic!("{file} holds no list but {other}"),
    }
}

/// The Deployment among the manifests.
pub(crate) fn deployment() -> Value {
    manifests().into_iter().find(|o| o["kind"] == "Deployment").expect("deploy/install holds a Deployment")
}

/// Installs the kinds and the operator and waits until it is ready; once per test program. It stays: the next test
/// run takes it away before it begins.
pub fn install_operator() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| install(&manifests()));
}

/// The same with an operator that trusts this authority, as users would tell it to. The next program that installs the
/// operator as it is takes that back.
pub fn install_operator_trusting(authority: &str) {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let mut objects = manifests();
        let place = objects.iter().position(|o| o["kind"] == "Deployment").expect("there is a Deployment");
        trust(&mut objects[place]["spec"]["template"], authority);
        objects.insert(place, authorities(OPERATOR_NAMESPACE, authority));
        install(&objects);
    });
}

fn install(objects: &[Value]) {
    install_crds();
    apply(objects);
    let kubectl = Kubectl::new().in_namespace(OPERATOR_NAMESPACE);
    if let Err(error) = kubectl.try_run(&["rollout", "status", DEPLOYMENT, "--timeout=120s"]) {
        let pods = kubectl.try_run(&["describe", "pods"]).unwrap_or_else(|e| e);
        panic!("the operator did not become ready: {error}\n{pods}\n{}", operator_log());
    }
}

/// Installs the kinds, the namespace, the account and its permissions.
pub fn install_permissions() {
    install_crds();
    let all_but_deployment: Vec<Value> = manifests().into_iter().filter(|o| o["kind"] != "Deployment").collect();
    apply(&all_but_deployment);
}

/// Ends an operator that runs in the cluster, so that another may take its place.
pub(crate) fn end() {
    let kubectl = Kubectl::new().in_namespace(OPERATOR_NAMESPACE);
    // The Deployment is gone when its pods are.
    kubectl.run(&["delete", DEPLOYMENT, "--ignore-not-found", "--cascade=foreground", "--timeout=90s"]);
}

/// What the operator in the cluster has said lately.
pub fn operator_log() -> String {
    let kubectl = Kubectl::new().in_namespace(OPERATOR_NAMESPACE);
    kubectl.try_run(&["logs", DEPLOYMENT, "--tail=2000"]).unwrap_or_else(|error| error)
}

fn apply(objects: &[Value]) {
    Kubectl::new().apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string());
}
