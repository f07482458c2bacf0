//! A stack's configuration as calls of the CLI: as few as possible, in an order in which later items win, and with no
//! secret among their arguments.

use std::fmt;

use serde_json::value::RawValue;

use crate::{Call, project::literal_segment};

/// One item, its value already read from wherever it comes from.
#[derive(Clone, Debug)]
pub struct ConfigItem {
    pub key: String,
    /// The key is a path into a value.
    pub path: bool,
    pub value: ConfigValue,
    pub secret: bool,
}

#[derive(Clone)]
pub enum ConfigValue {
    Text(String),
    /// JSON text of a number, a boolean, a list or a map, with every digit as it was given.
    Json(Box<RawValue>),
}

/// Values may be secret, so none is shown.
impl fmt::Debug for ConfigValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text(…)",
            Self::Json(_) => "Json(…)",
        })
    }
}

impl ConfigValue {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Json(json) => json.get(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "could not parse {0} as a configuration key (configuration keys should be of the form `<namespace>:<name>`)"
    )]
    Key(String),
    #[error("config item {0:?}: path=true is incompatible with JSON values")]
    PathWithJson(String),
}

/// One call of the CLI that sets some items.
#[derive(Clone)]
pub enum ConfigStep {
    Plain { path: bool, pairs: Vec<(String, String)> },
    Json { document: String },
    Secret { path: bool, key: String, value: String },
}

impl fmt::Debug for ConfigStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain { path, pairs } => write!(f, "Plain(path: {path}, {} items)", pairs.len()),
            Self::Json { .. } => f.write_str("Json"),
            Self::Secret { path, key, .. } => write!(f, "Secret(path: {path}, {key})"),
        }
    }
}

impl ConfigStep {
    pub fn call<'a>(&'a self, stack: &'a str) -> Call<'a> {
        match self {
            Self::Plain { path, pairs } => Call::SetConfig { stack, path: *path, pairs },
            Self::Json { document } => Call::SetJsonConfig { stack, document },
            Self::Secret { path, key, .. } => Call::SetSecretConfig { stack, path: *path, key },
        }
    }

    /// What the call reads. The CLI takes one newline off the end, so one is put there.
    pub fn stdin(&self) -> Option<String> {
        match self {
            Self::Secret { value, .. } => Some(format!("{value}\n")),
            _ => None,
        }
    }

    /// Whether the CLI must be new enough for values that are not text.
    pub fn is_json(&self) -> bool {
        matches!(self, Self::Json { .. })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Plain,
    Path,
    Json,
    Secret,
}

struct Prepared<'a> {
    sort: Sort,
    key: Key,
    path: bool,
    value: &'a ConfigValue,
}

/// The calls that set these items of a project. Items are gathered by kind; where two of different kinds are about the
/// same key, their order counts and is kept.
pub fn plan(project: &str, items: &[ConfigItem]) -> Result<Vec<ConfigStep>, ConfigError> {
    let mut prepared = items.iter().map(|item| prepare(project, item)).collect::<Result<Vec<_>, _>>()?;
    if prepared.iter().any(|p| p.sort == Sort::Json) {
        // The document of the structured values takes the text ones along.
        for item in prepared.iter_mut().filter(|p| p.sort == Sort::Plain) {
            item.sort = Sort::Json;
        }
    }
    let meet = |a: &Prepared, b: &Prepared| a.sort != b.sort && a.key.root() == b.key.root();
    let ordered = prepared.iter().enumerate().any(|(i, a)| prepared[..i].iter().any(|b| meet(a, b)));
    if !ordered {
        let rank = |sort| [Sort::Json, Sort::Plain, Sort::Path, Sort::Secret].iter().position(|s| *s == sort);
        prepared.sort_by_key(|p| rank(p.sort));
    }
    Ok(prepared
        .chunk_by(|a, b| a.sort == b.sort && a.sort != Sort::Secret && !(a.sort == Sort::Json && a.key == b.key))
        .map(step)
        .collect())
}

fn prepare<'a>(project: &str, item: &'a ConfigItem) -> Result<Prepared<'a>, ConfigError> {
    let structured = matches!(item.value, ConfigValue::Json(_));
    if item.path && structured {
        return Err(ConfigError::PathWithJson(item.key.clone()));
    }
    let key = Key::parse(project, &item.key)?;
    // A key that is already one quoted segment means what it says, not its quotes.
    let path = item.path || (key.name.starts_with("[\"") && key.name.ends_with("\"]"));
    let sort = match (item.secret, structured, path) {
        (true, ..) => Sort::Secret,
        (_, true, _) => Sort::Json,
        (.., true) => Sort::Path,
        _ => Sort::Plain,
    };
    Ok(Prepared { sort, key, path, value: &item.value })
}

fn step(items: &[Prepared]) -> ConfigStep {
    let first = &items[0];
    match first.sort {
        Sort::Secret => {
            ConfigStep::Secret { path: first.path, key: first.key.full(), value: first.value.text().to_owned() }
        }
        Sort::Plain | Sort::Path => ConfigStep::Plain {
            path: first.sort == Sort::Path,
            pairs: items.iter().map(|i| (i.key.full(), i.value.text().to_owned())).collect(),
        },
        Sort::Json => ConfigStep::Json { document: document(items) },
    }
}

/// Keys of structured values are paths to the CLI, and those of text values are not.
fn document(items: &[Prepared]) -> String {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Entry<'a> {
        value: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        object_value: Option<&'a RawValue>,
        secret: bool,
    }
    let mut entries: Vec<(String, Entry)> = Vec::new();
    for item in items {
        let (key, object_value) = match item.value {
            ConfigValue::Text(_) => (item.key.full(), None),
            ConfigValue::Json(json) => (item.key.quoted(item.path), Some(json.as_ref())),
        };
        entries.retain(|(known, _)| *known != key);
        entries.push((key, Entry { value: item.value.text(), object_value, secret: false }));
    }
    let body: Vec<String> = entries
        .iter()
        .map(|(key, entry)| {
            // Strings, booleans and JSON that was parsed before always encode.
            let text = |json: Result<String, serde_json::Error>| json.unwrap_or_default();
            format!("{}:{}", text(serde_json::to_string(key)), text(serde_json::to_string(entry)))
        })
        .collect();
    format!("{{{}}}", body.join(","))
}

#[derive(PartialEq, Eq)]
struct Key {
    namespace: String,
    name: String,
}

impl Key {
    /// `name`, `namespace:name` or `namespace:config:name`.
    fn parse(project: &str, key: &str) -> Result<Self, ConfigError> {
        let parts: Vec<&str> = key.split(':').collect();
        let (namespace, name) = match parts[..] {
            [name] => (project, name),
            [namespace, name] | [namespace, "config", name] => (namespace, name),
            _ => return Err(ConfigError::Key(key.to_owned())),
        };
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    fn full(&self) -> String {
        format!("{}:{}", self.namespace, self.name)
    }

    fn quoted(&self, path: bool) -> String {
        if path || !self.name.contains(['.', '[', ']', '"']) {
            return self.full();
        }
        format!("{}:{}", self.namespace, literal_segment(&self.name))
    }

    /// Namespace and first segment: what two keys share when they are about the same entry.
    fn root(&self) -> (&str, &str) {
        let name = self.name.strip_prefix("[\"").unwrap_or(&self.name);
        (&self.namespace, name.split(['.', '[', '"']).next().unwrap_or(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: &str, value: &str) -> ConfigItem {
        ConfigItem { key: key.into(), path: false, value: ConfigValue::Text(value.into()), secret: false }
    }

    fn json(key: &str, value: &str) -> ConfigItem {
        let raw = RawValue::from_string(value.to_owned()).unwrap();
        ConfigItem { value: ConfigValue::Json(raw), ..text(key, "") }
    }

    fn secret(item: ConfigItem) -> ConfigItem {
        ConfigItem { secret: true, ..item }
    }

    fn path(item: ConfigItem) -> ConfigItem {
        ConfigItem { path: true, ..item }
    }

    fn calls(items: &[ConfigItem]) -> Vec<String> {
        let steps = plan("shop", items).unwrap();
        let words = |s: &ConfigStep| s.call("dev").args()[3..].join(" ");
        steps.iter().map(|s| words(s) + &s.stdin().map(|i| format!(" < {i:?}")).unwrap_or_default()).collect()
    }

    #[test]
    fn without_items_there_is_nothing_to_call() {
        assert!(calls(&[]).is_empty());
    }

    #[test]
    fn text_values_are_set_in_one_call_under_literal_keys() {
        assert_eq!(
            calls(&[text("a.b", "1"), text("aws:config:region", "x"), text("k", "v")]),
            ["--stack dev --plaintext shop:a.b=1 --plaintext aws:region=x --plaintext shop:k=v"]
        );
    }

    #[test]
    fn paths_keep_their_order_and_quoted_segments_are_paths() {
        assert_eq!(
            calls(&[path(text("l[0]", "1")), path(text("l[1]", "2")), text("[\"already.escaped\"]", "v")]),
            ["--stack dev --path --plaintext shop:l[0]=1 --plaintext shop:l[1]=2 \
              --plaintext shop:[\"already.escaped\"]=v"]
        );
    }

    #[test]
    fn structured_values_take_text_values_along_and_keep_every_digit() {
        assert_eq!(
            calls(&[text("name", "x"), json("count", "9007199254740993"), json("a.b", "[1]")]),
            ["--stack dev --json {\"shop:name\":{\"value\":\"x\",\"secret\":false},\
              \"shop:count\":{\"value\":\"9007199254740993\",\"objectValue\":9007199254740993,\"secret\":false},\
              \"shop:[\\\"a.b\\\"]\":{\"value\":\"[1]\",\"objectValue\":[1],\"secret\":false}}"]
        );
    }

    #[test]
    fn secrets_go_by_standard_input_one_by_one() {
        assert_eq!(
            calls(&[secret(text("t", "s3cr3t\n")), text("k", "v"), secret(json("o", "{\"a\":1}"))]),
            [
                "--stack dev --plaintext shop:k=v",
                "--stack dev --secret -- shop:t < \"s3cr3t\\n\\n\"",
                "--stack dev --secret -- shop:o < \"{\\\"a\\\":1}\\n\"",
            ]
        );
    }

    #[test]
    fn a_secret_inside_a_plain_value_is_set_after_it() {
        assert_eq!(
            calls(&[secret(path(text("db.old", "x"))), path(text("db.host", "h")), secret(path(text("db.pw", "p")))]),
            [
                "--stack dev --secret --path -- shop:db.old < \"x\\n\"",
                "--stack dev --path --plaintext shop:db.host=h",
                "--stack dev --secret --path -- shop:db.pw < \"p\\n\"",
            ]
        );
    }

    #[test]
    fn the_later_of_two_equal_keys_wins() {
        assert_eq!(
            calls(&[json("a", "1"), json("a", "2")]),
            [
                "--stack dev --json {\"shop:a\":{\"value\":\"1\",\"objectValue\":1,\"secret\":false}}",
                "--stack dev --json {\"shop:a\":{\"value\":\"2\",\"objectValue\":2,\"secret\":false}}",
            ]
        );
        assert_eq!(
            calls(&[json("a", "1"), json("b", "1"), json("a", "2")]),
            ["--stack dev --json {\"shop:b\":{\"value\":\"1\",\"objectValue\":1,\"secret\":false},\
              \"shop:a\":{\"value\":\"2\",\"objectValue\":2,\"secret\":false}}"]
        );
    }

    #[test]
    fn bad_keys_and_paths_with_structure_are_refused() {
        assert_eq!(
            plan("shop", &[text("a:b:c", "v")]).unwrap_err().to_string(),
            "could not parse a:b:c as a configuration key (configuration keys should be of the form \
             `<namespace>:<name>`)"
        );
        assert_eq!(
            plan("shop", &[path(json("a.b", "1"))]).unwrap_err().to_string(),
            "config item \"a.b\": path=true is incompatible with JSON values"
        );
    }

    #[test]
    fn nothing_that_is_printed_shows_a_value() {
        let items = [secret(text("t", "planted")), text("k", "planted"), json("j", "\"planted\"")];
        let shown = format!("{items:?} {:?}", plan("shop", &items).unwrap());
        assert!(!shown.contains("planted"), "{shown}");
    }
}
