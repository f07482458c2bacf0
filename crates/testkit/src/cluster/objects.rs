//! Objects of the cluster as JSON, and what is looked for in them.

use serde_json::Value;

use super::Kubectl;

/// One object, or the standard error of kubectl.
pub fn read(kubectl: &Kubectl, kind: &str, name: &str) -> Result<Value, String> {
    decode(&kubectl.try_run(&["get", kind, name, "-o", "json", "--show-managed-fields"])?)
}

/// All objects of one or several kinds in a namespace, as `kubectl get` names them.
pub fn list(kubectl: &Kubectl, kinds: &str) -> Result<Vec<Value>, String> {
    match decode(&kubectl.try_run(&["get", kinds, "-o", "json"])?)?["items"].take() {
        Value::Array(items) => Ok(items),
        other => Err(format!("kubectl get {kinds} gave no list but {other}")),
    }
}

/// A condition of an object's status; null when it is absent.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

fn decode(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("kubectl printed no JSON ({error}): {text}"))
}
