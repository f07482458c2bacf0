//! The Service through which the operator reaches a Workspace's agent.

use pko_api::{Workspace, labels, names};
use serde_json::{Value, json};

use crate::owner;

/// The whole Service. The Workspace's template adds labels and annotations, but does not replace the operator's.
pub fn service(workspace: &Workspace) -> Value {
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    let selector = labels::of_workspace(name);
    let template = workspace.spec.service_template.as_ref().and_then(|template| template.metadata.as_ref());
    let mut labels = template.map(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.extend(selector.clone());
    let mut service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names::service(name),
            "namespace": workspace.metadata.namespace,
            "labels": labels,
            "ownerReferences": [owner::controller(owner::workspace(workspace))],
        },
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            "ports": [{"name": names::AGENT_PORT_NAME, "port": names::AGENT_PORT}],
        },
    });
    if let Some(metadata) = template.filter(|metadata| !metadata.annotations.is_empty()) {
        service["metadata"]["annotations"] = json!(metadata.annotations);
    }
    service
}
