//! The Service and the StatefulSet of a Workspace, as they are applied. Pure and total: what a Workspace's spec may
//! hold leads to objects or to an [`Invalid`].

mod embedded;
mod environment;
mod fetch;
mod pod;
mod profile;
mod resources;
mod service;

use pko_api::{Workspace, annotations, labels, names};
use serde_json::{Value, json};

pub use crate::invalid::Invalid;
use crate::{digest, owner, settings::Settings};
pub use service::service;

/// A StatefulSet to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct StatefulSetPlan {
    /// The whole object.
    pub object: Value,
    /// What a pod of this StatefulSet has in its annotation [`annotations::REVISION_HASH`].
    pub revision_hash: String,
}

/// The StatefulSet whose one pod is the Workspace.
pub fn stateful_set(workspace: &Workspace, settings: &Settings) -> Result<StatefulSetPlan, Invalid> {
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    let labels = labels::of_workspace(name);
    let mut template = pod::template(workspace, settings)?;
    let revision_hash = revision_hash(workspace, &template);
    template["metadata"]["annotations"][annotations::REVISION_HASH] = json!(revision_hash);
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
    Ok(StatefulSetPlan { object, revision_hash })
}

/// Changes with whatever a pod runs, or was initialised with, and with nothing else: neither with the Workspace's
/// generation nor with the template of its Service.
fn revision_hash(workspace: &Workspace, template: &Value) -> String {
    let spec = &workspace.spec;
    digest::of(&json!({
        "source": {
            "git": spec.git,
            "flux": spec.flux,
            "local": spec.local,
            "projectInfo": spec.project_info,
        },
        "template": template,
        "stacks": spec.stacks,
    }))
}
