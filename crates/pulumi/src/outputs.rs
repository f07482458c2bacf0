//! A stack's outputs as JSON text, with every digit as the CLI wrote it.

use std::collections::BTreeMap;

use serde_json::{Value, value::RawValue};

/// How a secret appears in events, at any depth; the value itself is masked there.
const SECRET: &str = "\"4dabf18193072939515e22adb298388d\":\"1b47061264138c4ac30d75fd1eb44270\"";
const SIGNATURE: &str = "4dabf18193072939515e22adb298388d";
const OF_SECRETS: &str = "1b47061264138c4ac30d75fd1eb44270";

#[derive(Clone, PartialEq, Eq)]
pub struct Output {
    /// Compact JSON text.
    pub value: String,
    pub secret: bool,
}

/// The value may be secret, so it is not shown.
impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("secret", &self.secret).finish_non_exhaustive()
    }
}

/// Whether JSON text of an event holds a secret. The quotes cannot occur unescaped inside a string.
pub fn is_secret(json: &str) -> bool {
    json.contains(SECRET)
}

/// How the CLI itself shows a secret.
pub const MASK: &str = "[secret]";
/// How it shows what is not known before an update.
const UNKNOWN: &str = "[unknown]";
/// How that appears in events.
const NOT_KNOWN_YET: &str = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/// Outputs of events as one JSON object for people, without anything secret. Nothing, if one of them cannot be read.
pub fn masked(outputs: &BTreeMap<String, Box<RawValue>>) -> Option<String> {
    let value = |json: &RawValue| serde_json::from_str(json.get()).map(mask).ok();
    let all = outputs.iter().map(|(name, json)| Some((name.as_str(), value(json)?)));
    serde_json::to_string(&all.collect::<Option<BTreeMap<&str, Value>>>()?).ok()
}

fn mask(value: Value) -> Value {
    match value {
        Value::Object(fields) if fields.get(SIGNATURE) == Some(&Value::from(OF_SECRETS)) => MASK.into(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, mask(value))).collect(),
        Value::Array(items) => items.into_iter().map(mask).collect(),
        Value::String(text) if text == NOT_KNOWN_YET => UNKNOWN.into(),
        other => other,
    }
}

/// What `stack output --json --show-secrets` printed. `secret` says which outputs are.
pub fn outputs_of_cli(
    printed: &str,
    secret: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Output>, serde_json::Error> {
    let values: BTreeMap<String, Box<RawValue>> = serde_json::from_str(printed)?;
    let output = |name: String, value: &RawValue| {
        let output = Output { value: compact(value.get()), secret: secret(&name) };
        (name, output)
    };
    Ok(values.into_iter().map(|(name, value)| output(name, &value)).collect())
}

/// JSON text without the white space between its parts.
pub fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut quoted, mut escaped) = (false, false);
    for c in json.chars() {
        if quoted || !c.is_ascii_whitespace() {
            out.push(c);
        }
        if c == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && c == '\\' && !escaped;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_at_any_depth_and_nowhere_else() {
        let marker = format!("{{{SECRET},\"ciphertext\":\"[secret]\"}}");
        assert!(is_secret(&marker));
        assert!(is_secret(&format!("{{\"a\":[1,{marker}]}}")));
        assert!(!is_secret("\"[secret]\""));
        assert!(!is_secret(&serde_json::to_string(&marker).unwrap()), "a text that only looks like it");
    }

    #[test]
    fn what_is_shown_of_outputs_holds_no_secret_at_any_depth() {
        let marker = format!("{{{SECRET},\"ciphertext\":\"[secret]\",\"plaintext\":\"planted\"}}");
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let outputs = BTreeMap::from([
            ("deep".to_owned(), raw(&format!("{{\"a\":[1,{marker}]}}"))),
            ("hidden".to_owned(), raw(&marker)),
            ("later".to_owned(), raw(&format!("\"{NOT_KNOWN_YET}\""))),
            ("n".to_owned(), raw("9007199254740993")),
        ]);
        assert_eq!(
            masked(&outputs).unwrap(),
            r#"{"deep":{"a":[1,"[secret]"]},"hidden":"[secret]","later":"[unknown]","n":9007199254740993}"#
        );
    }

    #[test]
    fn values_are_compact_and_keep_their_digits() {
        let printed = "{\n  \"big\": 9007199254740993.10,\n  \"o\": {\n    \"a b\\\" \": [1, 2]\n  }\n}";
        let outputs = outputs_of_cli(printed, |name| name == "o").unwrap();
        assert_eq!(outputs["big"], Output { value: "9007199254740993.10".into(), secret: false });
        assert_eq!(outputs["o"], Output { value: "{\"a b\\\" \":[1,2]}".into(), secret: true });
        assert!(!format!("{outputs:?}").contains("9007"), "values are not shown");
    }
}
