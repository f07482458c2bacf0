//! Merging of a Stack's templates over generated objects.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::Invalid;
use crate::merge::{self, Schema};

/// Metadata that a template may set. The rest identifies an object or is the API server's.
const METADATA: [&str; 5] = ["name", "labels", "annotations", "ownerReferences", "finalizers"];

/// The generated object with the template of that field merged over it.
pub(super) fn merged<T: Serialize + DeserializeOwned>(
    generated: T,
    template: Option<&Value>,
    field: &str,
    of: Schema,
) -> Result<T, Invalid> {
    let Some(template) = template.filter(|template| !template.is_null()) else {
        return Ok(generated);
    };
    let generated = serde_json::to_value(generated).map_err(|_| broken(field))?;
    let template = mergeable(template, &generated, field)?;
    let merged = merge::strategic(generated, &template, of).map_err(|error| {
        let dot = if error.path.is_empty() { "" } else { "." };
        Invalid::new(format!("{field}{dot}{error}; correct the template"))
    })?;
    decoded(&merged, field)
}

/// The part of a template that says something about the object.
fn mergeable(template: &Value, generated: &Value, field: &str) -> Result<Value, Invalid> {
    let mut template = template.clone();
    let Some(members) = template.as_object_mut() else {
        return Err(Invalid::new(format!("{field}: must be a map, like the object that it customises")));
    };
    // A null inside deletes what was generated; of the whole metadata or spec, it can only mean nothing.
    members.retain(|name, value| name != "status" && !value.is_null());
    for word in ["apiVersion", "kind"] {
        let given = members.remove(word);
        if given.is_some_and(|given| !given.is_null() && given != "" && given != generated[word]) {
            let right = generated[word].as_str().unwrap_or_default();
            return Err(Invalid::new(format!("{field}.{word}: must be {right}, or left out")));
        }
    }
    if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
        let namespace = metadata.get("namespace").filter(|given| !given.is_null() && *given != "");
        if namespace.is_some_and(|given| *given != generated["metadata"]["namespace"]) {
            return Err(Invalid::new(format!(
                "{field}.metadata.namespace: must be the Stack's own namespace, or left out"
            )));
        }
        metadata.retain(|name, value| METADATA.contains(&name.as_str()) && *value != "");
    }
    Ok(template)
}

/// The error names the place and quotes nothing, since values may be secret.
fn decoded<T: DeserializeOwned>(object: &Value, field: &str) -> Result<T, Invalid> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { field.to_owned() } else { format!("{field}.{path}") };
        Invalid::new(format!(
            "{place}: its value has the wrong type; `kubectl explain stack.{field}` shows what is allowed"
        ))
    })
}

fn broken(field: &str) -> Invalid {
    Invalid::new(format!("{field}: the object that it customises cannot be written as JSON"))
}
