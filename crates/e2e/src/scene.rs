//! A namespace in which Stacks can run: an account for their pods, a passphrase, a volume for their state.

use std::time::Duration;

use pko_testkit::cluster::{Kubectl, Namespace, Volume, condition, read, variable, wait_for};
use serde_json::{Value, json};

/// In a Secret of every scene; must be nowhere else.
pub const PASSPHRASE: &str = "planted-passphrase-7";

/// The Pulumi stack of a scene's Stacks.
pub const STACK: &str = "dev";

const PATIENCE: Duration = Duration::from_mins(2);

/// Goes away when dropped.
#[derive(Debug)]
pub struct Scene {
    namespace: Namespace,
    volume: Volume,
}

impl Scene {
    pub fn new(subject: &str) -> Self {
        let namespace = Namespace::with_labels(subject, &[("pod-security.kubernetes.io/enforce", "restricted")]);
        let volume = Volume::new(&namespace);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "pulumi"}});
        let delegator = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("{}:pulumi", namespace.name()), "ownerReferences": [namespace.as_owner()]},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
            "subjects": [{"kind": "ServiceAccount", "name": "pulumi", "namespace": namespace.name()}],
        });
        namespace.kubectl().apply(&account.to_string());
        Kubectl::new().apply(&delegator.to_string());
        let scene = Self { namespace, volume };
        scene.apply_secret("passphrase", &json!({"text": PASSPHRASE}));
        scene
    }

    pub fn kubectl(&self) -> &Kubectl {
        self.namespace.kubectl()
    }

    pub fn namespace(&self) -> &str {
        self.namespace.name()
    }

    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Creates or changes a Program.
    pub fn apply_program(&self, name: &str, program: &Value) {
        let object =
            json!({"apiVersion": "pulumi.com/v1", "kind": "Program", "metadata": {"name": name}, "program": program});
        self.kubectl().apply(&object.to_string());
    }

    /// Creates or changes a Stack of a Program of the same name, with more fields of the spec.
    pub fn apply_stack(&self, name: &str, more: &Value) {
        let mut source = json!({"programRef": {"name": name}});
        add(&mut source, more);
        self.apply_stack_from(name, &source);
    }

    /// Creates or changes a Stack with a source and more fields of the spec.
    pub fn apply_stack_from(&self, name: &str, source: &Value) {
        let mut spec = json!({
            "stack": STACK,
            "serviceAccountName": "pulumi",
            "backend": Volume::backend_url(),
            "secretsProvider": "passphrase",
            "envRefs": {
                "PULUMI_CONFIG_PASSPHRASE": {"type": "Secret", "secret": {"name": "passphrase", "key": "text"}},
                "PKOTEST_CLOUD": {"type": "Literal", "literal": {"value": Volume::cloud_dir()}},
            },
            "workspaceTemplate": Self::workspace_template(&json!({}), &json!({})),
        });
        add(&mut spec, source);
        let object = json!({"apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": {"name": name}, "spec": spec});
        self.kubectl().apply(&object.to_string());
    }

    /// Creates or changes a Secret.
    pub fn apply_secret(&self, name: &str, values: &Value) {
        let metadata = json!({"name": name});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values});
        self.kubectl().apply(&secret.to_string());
    }

    /// The template of a scene's Workspaces, with more fields of the Workspace's spec and of the pod's.
    pub fn workspace_template(of_workspace: &Value, of_pod: &Value) -> Value {
        let mut pod = json!({
            "containers": [{"name": "pulumi", "volumeMounts": [{"name": "state", "mountPath": "/state"}]}],
            "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": Volume::CLAIM}}],
        });
        add(&mut pod, of_pod);
        let mut spec = json!({
            "image": variable("PKO_TEST_WORKSPACE_IMAGE"),
            "imagePullPolicy": "Never",
            "podTemplate": {"spec": pod},
        });
        add(&mut spec, of_workspace);
        json!({"spec": spec})
    }

    /// Waits until a Stack is ready by another update than the one named; returns the Stack.
    pub fn until_updated(&self, name: &str, not: &str) -> Value {
        wait_for(&format!("Stack {name} to be ready by a new update"), PATIENCE, || {
            let stack = read(self.kubectl(), "stack", name)?;
            let last = &stack["status"]["lastUpdate"];
            let done = condition(&stack, "Ready")["status"] == "True"
                && stack["status"]["observedGeneration"] == stack["metadata"]["generation"]
                && last["state"] == "succeeded"
                && last["name"].as_str().is_some_and(|name| name != not);
            if done { Ok(stack) } else { Err(stack["status"].to_string()) }
        })
    }

    /// Waits until a Stack cannot go on for a reason; returns it.
    pub fn until_stalled(&self, name: &str, reason: &str) -> Value {
        wait_for(&format!("Stack {name} to be stalled by {reason}"), PATIENCE, || {
            let stack = read(self.kubectl(), "stack", name)?;
            let stalled = condition(&stack, "Stalled");
            let is_so = stalled["status"] == "True" && stalled["reason"] == reason;
            if is_so { Ok(stack) } else { Err(stack["status"].to_string()) }
        })
    }

    /// Runs the CLI in a workspace's pod as a user would, with the stack that is selected there.
    pub fn pulumi(&self, workspace: &str, args: &[&str]) -> String {
        let pod = format!("{workspace}-workspace-0");
        self.kubectl().run(&[&["exec", &pod, "-c", "pulumi", "--", "pulumi"], args].concat())
    }
}

/// Puts fields into an object, in the place of those of the same name.
fn add(object: &mut Value, fields: &Value) {
    for (name, value) in fields.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}
