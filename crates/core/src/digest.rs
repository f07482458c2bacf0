//! Digests of JSON: equal values have equal digests, however their members are ordered.

use std::fmt::Write as _;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// How many hexadecimal digits a digest has; as many as the annotation values of PKO.
const LENGTH: usize = 32;

/// The first half of the SHA-256 of the canonical text.
pub fn of(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    let mut hex = String::with_capacity(LENGTH);
    for byte in Sha256::digest(text.as_bytes()).iter().take(LENGTH / 2) {
        // Writing to a String does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// JSON without spaces, members sorted by name. Sorted here, because whether serde_json's maps are sorted depends on
/// which features the crates of a build happen to ask for.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            text.push('{');
            for (position, (name, member)) in sorted.into_iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                let _ = write!(text, "{}:", Value::from(name.as_str()));
                canonical(member, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    text.push(',');
                }
                canonical(item, text);
            }
            text.push(']');
        }
        plain => {
            let _ = write!(text, "{plain}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_members_does_not_matter_and_that_of_items_does() {
        let forth: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": 2, "d": "\""}}"#).unwrap();
        let back: Value = serde_json::from_str(r#"{"b": {"d": "\"", "c": 2}, "a": 1}"#).unwrap();
        assert_eq!(of(&forth), of(&back));
        assert_ne!(of(&json!([1, 2])), of(&json!([2, 1])));
    }

    #[test]
    fn a_digest_stays_the_same_from_release_to_release() {
        // SHA-256 of `{"a":[1,"x"],"b":null}`; another value here would renew every pod of a cluster.
        assert_eq!(of(&json!({"b": null, "a": [1, "x"]})), "854ef06dc57f5dfed10206344ab2d02e");
    }
}
