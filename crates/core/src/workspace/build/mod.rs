//! The Service and the StatefulSet of a Workspace, as they are applied. Pure and total: what a Workspace's spec may
//! hold leads to objects or to an [`Invalid`].

mod embedded;
mod environment;
mod fetch;
mod memo;
mod pod;
mod profile;
mod resources;
mod service;

use pko_api::{Workspace, annotations, labels, names, workspace::WorkspaceSpec};
use serde_json::{Value, json};

pub use crate::invalid::Invalid;
use crate::{digest, owner, settings::Settings};
pub use memo::{Memo, Planned};
pub use service::service;

/// A StatefulSet to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct StatefulSetPlan {
    /// The whole object.
    pub object: Value,
    /// What a pod of this StatefulSet has in its annotation [`annotations::REVISION_HASH`].
    pub revision_hash: String,
    /// What it has in [`annotations::SPEC_HASH`].
    pub spec_hash: String,
    /// What a pod gets in [`annotations::STACKS_HASH`] when it was made ready.
    pub stacks_hash: String,
}

/// The StatefulSet whose one pod is the Workspace.
pub fn stateful_set(workspace: &Workspace, settings: &Settings) -> Result<StatefulSetPlan, Invalid> {
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    let labels = labels::of_workspace(name);
    let mut template = pod::template(workspace, settings)?;
    let revision_hash = revision_hash(workspace, &template);
    let spec_hash = spec_hash(&workspace.spec);
    template["metadata"]["annotations"][annotations::REVISION_HASH] = json!(revision_hash);
    template["metadata"]["annotations"][annotations::SPEC_HASH] = json!(spec_hash);
    let mut object = json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": names::stateful_set(name),
            "namespace": workspace.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner::controller(owner::workspace(workspace))],
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "serviceName": names::service(name),
            // Under the ordered policy, a pod that cannot start is not replaced by one of the next revision.
            "podManagementPolicy": "Parallel",
        },
    });
    object["spec"]["template"] = template;
    let stacks_hash = digest::of(&json!(workspace.spec.stacks));
    Ok(StatefulSetPlan { object, revision_hash, spec_hash, stacks_hash })
}

/// Changes with whatever a pod runs, and with nothing else: neither with the Workspace's generation nor with the template
/// of its Service, and with its stacks only where these cannot be configured anew in the pod.
fn revision_hash(workspace: &Workspace, template: &Value) -> String {
    let spec = &workspace.spec;
    let stacks = (!configured_in_place(spec)).then_some(&spec.stacks);
    digest::of(&json!({
        "source": {
            "git": spec.git,
            "flux": spec.flux,
            "local": spec.local,
            "projectInfo": spec.project_info,
        },
        "template": template,
        "stacks": stacks,
    }))
}

/// Changes with what the user asked for, and not with what the operator makes of it.
fn spec_hash(spec: &WorkspaceSpec) -> String {
    let mut asked = json!(spec);
    if let Value::Object(members) = &mut asked {
        members.remove("serviceTemplate");
        if configured_in_place(spec) {
            members.remove("stacks");
        }
    }
    digest::of(&asked)
}

/// What the user's own init containers leave in the workspace may depend on anything.
fn configured_in_place(spec: &WorkspaceSpec) -> bool {
    let template = spec.pod_template.as_ref().and_then(|template| template.spec.as_ref());
    let of_template = template.and_then(|pod| pod.raw()["initContainers"].as_array());
    spec.init_containers.is_empty() && of_template.is_none_or(Vec::is_empty)
}
