//! Whether an object in the cluster still holds what was applied to it. The API server may have added defaults.

use serde_json::Value;

/// Whether everything in `wanted` is in `found`. Items of a list that have a name or key are told apart by it, and
/// others may have added some, which applying would not take away; other lists must agree item by item.
pub(crate) fn covers(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| found.get(key).is_some_and(|there| covers(there, value)))
        }
        (Value::Array(found), Value::Array(wanted)) if wanted.iter().all(|item| label(item).is_some()) => {
            wanted.iter().all(|item| found.iter().any(|there| label(there) == label(item) && covers(there, item)))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(there, value)| covers(there, value))
        }
        (found, wanted) => found == wanted,
    }
}

fn label(item: &Value) -> Option<&str> {
    item.get("name").or_else(|| item.get("key"))?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_that_were_added_do_not_matter_and_changes_do() {
        let wanted = json!({"image": "a", "env": [{"name": "x"}]});
        assert!(covers(&json!({"image": "a", "profile": "restricted", "env": [{"name": "x", "value": ""}]}), &wanted));
        assert!(!covers(&json!({"image": "b", "env": [{"name": "x"}]}), &wanted));
        assert!(covers(&json!({"image": "a", "env": [{"name": "y"}, {"name": "x"}]}), &wanted), "added by another");
        assert!(!covers(&json!({"image": "a", "env": [{"name": "y"}]}), &wanted));
        assert!(!covers(&json!([1, 2]), &json!([1])));
        assert!(!covers(&json!({"env": [{"name": "x"}]}), &wanted));
    }
}
