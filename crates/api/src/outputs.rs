//! Stack outputs as they are kept in a Secret and shown in a status.

use std::collections::BTreeSet;

/// What a status shows for a secret output.
pub const SECRET_PLACEHOLDER: &str = "[secret]";

/// The key of an output in the outputs Secret: what a Secret's key may not contain becomes `_`.
pub fn secret_key(output: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    output.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// Value of the annotation [`crate::annotations::SECRETS`]: the keys of secret outputs, sorted.
pub fn secret_keys_annotation<'a>(outputs: impl IntoIterator<Item = &'a str>) -> String {
    let keys: BTreeSet<String> = outputs.into_iter().map(secret_key).collect();
    serde_json::Value::from_iter(keys).to_string()
}
