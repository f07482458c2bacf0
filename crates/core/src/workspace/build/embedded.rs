//! Checks of the JSON that users embed in a Workspace. The schema admits more than Kubernetes' types can hold.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Invalid;

/// Whether the JSON can be read as that type. The error names the place and quotes nothing, since values may be secret.
pub(super) fn check<T: DeserializeOwned>(field: &str, raw: &Value) -> Result<(), Invalid> {
    let mut readable = raw.clone();
    quantities_as_text(&mut readable);
    let error = match serde_path_to_error::deserialize::<_, T>(&readable) {
        Ok(_) => return Ok(()),
        Err(error) => error.path().to_string(),
    };
    let place = match error.as_str() {
        "." => field.to_owned(),
        path => format!("{field}.{path}").replace(".[", "["),
    };
    Err(Invalid::new(format!(
        "{place}: its value has the wrong type or is out of range; `kubectl explain pod.spec` shows what is allowed"
    )))
}

/// Kubernetes reads `cpu: 1` and `cpu: "1"` alike; the type that checks knows only the second.
fn quantities_as_text(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), &mut *member) {
                    ("requests" | "limits" | "overhead", Value::Object(quantities)) => {
                        quantities.values_mut().for_each(number_as_text);
                    }
                    ("sizeLimit" | "divisor", quantity) => number_as_text(quantity),
                    _ => quantities_as_text(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(quantities_as_text),
        _ => {}
    }
}

fn number_as_text(value: &mut Value) {
    if value.is_number() {
        *value = Value::String(value.to_string());
    }
}
