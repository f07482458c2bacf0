//! Making a container trust an authority of ours, as users do it: a ConfigMap, a mount of it, and `SSL_CERT_FILE`.

use serde_json::{Value, json};

const NAME: &str = "authorities";
const KEY: &str = "ca.pem";
const DIRECTORY: &str = "/etc/authorities";
/// Rolls a pod when the authority is another.
const ANNOTATION: &str = "localhost/authority";

/// The parts of a pod that trusts what the ConfigMap holds.
#[derive(Debug)]
pub struct Trust {
    pub volume: Value,
    pub mount: Value,
    pub env: Value,
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            volume: json!({"name": NAME, "configMap": {"name": NAME}}),
            mount: json!({"name": NAME, "mountPath": DIRECTORY, "readOnly": true}),
            env: json!({"name": "SSL_CERT_FILE", "value": format!("{DIRECTORY}/{KEY}")}),
        }
    }
}

/// The ConfigMap.
pub fn authorities(namespace: &str, pem: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace},
        "data": {KEY: pem},
    })
}

/// Makes the first container of a pod's template trust what the ConfigMap holds.
pub(super) fn trust(template: &mut Value, pem: &str) {
    let parts = Trust::default();
    template["metadata"]["annotations"][ANNOTATION] = json!(pem);
    push(&mut template["spec"]["volumes"], parts.volume);
    let container = &mut template["spec"]["containers"][0];
    push(&mut container["volumeMounts"], parts.mount);
    push(&mut container["env"], parts.env);
}

fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        none => *none = json!([item]),
    }
}
