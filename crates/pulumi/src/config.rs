//! A stack's configuration as calls of the CLI: as few as possible, in an order in which later items win, and with no
//! secret among their arguments.

use std::fmt;

use serde_json::value::RawValue;

use crate::{Call, calls::is_pair, project::literal_segment};

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
    #[error("config item {0:?}: the CLI cannot take apart a path in a namespace with a dot that is not the project's")]
    PathInDottedNamespace(String),
    #[error("config item {0:?}: the CLI has no way to write a key with a dot or a bracket that ends with a backslash")]
    Backslash(String),
    #[error("config item {0:?}: a plain value cannot hold a zero byte")]
    ZeroByte(String),
    #[error(
        "config item {0:?}: a structured value is longer than the {limit} KiB that the CLI can be given; make it text, \
         or several items",
        limit = ARGUMENT / 1024
    )]
    TooLong(String),
}

/// Linux takes 128 KiB in one argument, and a MiB or two in all of them.
const ARGUMENT: usize = 100 * 1024;
const ARGUMENTS: usize = 512 * 1024;

/// One call of the CLI that sets some items.
#[derive(Clone)]
pub enum ConfigStep {
    Plain {
        path: bool,
        pairs: Vec<(String, String)>,
    },
    Json {
        document: String,
    },
    /// A secret, or a text that does not fit among arguments: it is read from standard input.
    Alone {
        secret: bool,
        path: bool,
        key: String,
        value: String,
    },
}

impl fmt::Debug for ConfigStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain { path, pairs } => write!(f, "Plain(path: {path}, {} items)", pairs.len()),
            Self::Json { .. } => f.write_str("Json"),
            Self::Alone { secret, path, key, .. } => write!(f, "Alone(secret: {secret}, path: {path}, {key})"),
        }
    }
}

impl ConfigStep {
    pub fn call<'a>(&'a self, stack: &'a str) -> Call<'a> {
        match self {
            Self::Plain { path, pairs } => Call::SetConfig { stack, path: *path, pairs },
            Self::Json { document } => Call::SetJsonConfig { stack, document },
            Self::Alone { secret, path, key, .. } => Call::SetOneConfig { stack, secret: *secret, path: *path, key },
        }
    }

    /// What the call reads. The CLI takes one newline off the end, so one is put there.
    pub fn stdin(&self) -> Option<String> {
        match self {
            Self::Alone { value, .. } => Some(format!("{value}\n")),
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
    /// A call of its own.
    Alone,
}

struct Prepared<'a> {
    sort: Sort,
    key: Key,
    /// The key as the call has it.
    argument: String,
    path: bool,
    value: &'a ConfigValue,
    secret: bool,
}

/// The calls that set these items of a project. Items are gathered by kind; where two of different kinds are about the
/// same key, their order counts and is kept.
pub fn plan(project: &str, items: &[ConfigItem]) -> Result<Vec<ConfigStep>, ConfigError> {
    let mut prepared = items.iter().map(|item| prepare(project, item)).collect::<Result<Vec<_>, _>>()?;
    if prepared.iter().any(|p| p.sort == Sort::Json) {
        // The document of the structured values takes the text ones along.
        for item in prepared.iter_mut().filter(|p| p.sort == Sort::Plain) {
            item.sort = Sort::Json;
            if item.size() > ARGUMENT {
                // In a document it would be longer than an argument can be.
                item.sort = Sort::Alone;
            }
        }
    }
    let meet = |a: &Prepared, b: &Prepared| a.sort != b.sort && a.key.root() == b.key.root();
    let ordered = prepared.iter().enumerate().any(|(i, a)| prepared[..i].iter().any(|b| meet(a, b)));
    if !ordered {
        // A later call turns numbers and booleans of an earlier one into text, which means the same and looks worse.
        let rank = |sort| [Sort::Plain, Sort::Path, Sort::Alone, Sort::Json].iter().position(|s| *s == sort);
        prepared.sort_by_key(|p| rank(p.sort));
    }
    Ok(groups(&prepared).into_iter().map(step).collect())
}

/// Neighbours that one call can set.
fn groups<'a, 'b>(prepared: &'b [Prepared<'a>]) -> Vec<&'b [Prepared<'a>]> {
    let (mut groups, mut from, mut size) = (Vec::new(), 0, 0);
    for (at, item) in prepared.iter().enumerate() {
        let limit = if item.sort == Sort::Json { ARGUMENT } else { ARGUMENTS };
        let joins = at > from
            && prepared[at - 1].sort == item.sort
            && item.sort != Sort::Alone
            && !(item.sort == Sort::Json && prepared[at - 1].key == item.key)
            && size + item.size() <= limit;
        if !joins && at > from {
            groups.push(&prepared[from..at]);
            (from, size) = (at, 0);
        }
        size += item.size();
    }
    if from < prepared.len() {
        groups.push(&prepared[from..]);
    }
    groups
}

impl Prepared<'_> {
    /// How much room it takes among arguments, at least. JSON text is there twice, once with its quotes escaped.
    fn size(&self) -> usize {
        let (key, value) = (self.argument.len(), self.value.text());
        match self.sort {
            Sort::Json => key + 2 * value.len() + value.matches(['"', '\\']).count() + 64,
            _ => key + value.len() + 16,
        }
    }
}

fn prepare<'a>(project: &str, item: &'a ConfigItem) -> Result<Prepared<'a>, ConfigError> {
    let structured = matches!(item.value, ConfigValue::Json(_)) && !item.secret;
    let bad = |error: fn(String) -> ConfigError| Err(error(item.key.clone()));
    if item.path && matches!(item.value, ConfigValue::Json(_)) {
        return bad(ConfigError::PathWithJson);
    }
    let key = Key::parse(project, &item.key, item.path)?;
    // A key that is already one quoted segment means what it says, not its quotes.
    let path = item.path || (key.name.starts_with("[\"") && key.name.ends_with("\"]"));
    if !item.secret && item.value.text().contains('\0') {
        return bad(ConfigError::ZeroByte);
    }
    let argument = match (structured, path) {
        (true, _) if !path && key.name.ends_with('\\') && key.needs_quotes() => return bad(ConfigError::Backslash),
        (true, _) => key.quoted(path),
        // The CLI takes the first dot for the end of a path's first part, wherever it is. A name without a namespace is
        // the project's.
        (_, true) if key.namespace.contains('.') && key.namespace == project => key.name.clone(),
        (_, true) if key.namespace.contains('.') => return bad(ConfigError::PathInDottedNamespace),
        _ => key.full(),
    };
    let long = argument.len() + item.value.text().len() > ARGUMENT;
    let sort = match (item.secret, structured, path) {
        (true, ..) => Sort::Alone,
        (_, true, _) => Sort::Json,
        _ if long || !is_pair(&argument) => Sort::Alone,
        (.., true) => Sort::Path,
        _ => Sort::Plain,
    };
    let prepared = Prepared { sort, key, argument, path, value: &item.value, secret: item.secret };
    if sort == Sort::Json && prepared.size() > ARGUMENT {
        return bad(ConfigError::TooLong);
    }
    Ok(prepared)
}

fn step(items: &[Prepared]) -> ConfigStep {
    let first = &items[0];
    let text = |item: &Prepared| item.value.text().to_owned();
    match first.sort {
        Sort::Alone => ConfigStep::Alone {
            secret: first.secret,
            path: first.path,
            key: first.argument.clone(),
            value: text(first),
        },
        Sort::Plain | Sort::Path => ConfigStep::Plain {
            path: first.sort == Sort::Path,
            pairs: items.iter().map(|item| (item.argument.clone(), text(item))).collect(),
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
        let key = item.argument.clone();
        let object_value = match item.value {
            ConfigValue::Text(_) => None,
            ConfigValue::Json(json) => Some(json.as_ref()),
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
    /// `name`, `namespace:name` or `namespace:config:name`. What a path has after its first part may hold anything.
    fn parse(project: &str, key: &str, path: bool) -> Result<Self, ConfigError> {
        let own = key.strip_prefix(project).and_then(|rest| rest.strip_prefix(':'));
        let (top, rest) = match own.unwrap_or(key) {
            key if path => key.split_at(key.find(['[', '.']).unwrap_or(key.len())),
            key => (key, ""),
        };
        let parts: Vec<&str> = top.split(':').collect();
        let (namespace, name) = match parts[..] {
            [name] => (project, name),
            ["config", name] if own.is_some() => (project, name),
            [namespace, name] | [namespace, "config", name] if own.is_none() => (namespace, name),
            _ => return Err(ConfigError::Key(key.to_owned())),
        };
        Ok(Self { namespace: namespace.to_owned(), name: format!("{name}{rest}") })
    }

    fn full(&self) -> String {
        format!("{}:{}", self.namespace, self.name)
    }

    fn needs_quotes(&self) -> bool {
        self.name.contains(['.', '[', ']', '"'])
    }

    fn quoted(&self, path: bool) -> String {
        if path || !self.needs_quotes() {
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
    fn a_path_in_a_project_with_a_dot_goes_without_its_namespace() {
        let of = |items: &[ConfigItem]| {
            let steps = plan("my.proj", items).map_err(|error| error.to_string())?;
            Ok::<_, String>(steps[0].call("dev").args()[5..].join(" "))
        };
        let paths = [path(text("a.b", "1")), path(text("my.proj:c[0]", "2"))];
        assert_eq!(of(&paths).unwrap(), "--path --plaintext a.b=1 --plaintext c[0]=2");
        assert_eq!(of(&[text("k", "v")]).unwrap(), "--plaintext my.proj:k=v");
        assert_eq!(of(&[path(text("a[\"b:c\"].d", "1"))]).unwrap(), "--path --plaintext a[\"b:c\"].d=1");
        assert!(of(&[text("o.p:[\"q\"]", "1")]).unwrap_err().contains("namespace with a dot"));
    }

    #[test]
    fn what_does_not_fit_among_arguments_is_read_from_standard_input() {
        let long = "x".repeat(ARGUMENT);
        let quotes = "k=\"1'=2";
        let steps = plan("shop", &[text("long", &long), text("k", "v"), text(quotes, "v")]).unwrap();
        let words: Vec<String> = steps.iter().map(|s| s.call("dev").args()[2..].join(" ")).collect();
        assert_eq!(
            words,
            [
                "set-all --stack dev --plaintext shop:k=v",
                "set --stack dev --plaintext -- shop:long",
                "set --stack dev --plaintext -- shop:k=\"1'=2",
            ]
        );
        assert_eq!(steps[1].stdin().unwrap().len(), ARGUMENT + 1);
    }

    #[test]
    fn many_values_are_set_in_several_calls() {
        let many: Vec<ConfigItem> = (0..20).map(|n| text(&format!("k{n}"), &"x".repeat(90_000))).collect();
        let steps = plan("shop", &many).unwrap();
        assert_eq!(steps.len(), 4);
        let structured: Vec<ConfigItem> =
            (0..20).map(|n| json(&format!("k{n}"), &format!("[\"{}\"]", "x".repeat(9_000)))).collect();
        let steps = plan("shop", &structured).unwrap();
        assert_eq!(steps.len(), 4);
        for step in &steps {
            assert!(step.call("dev").args().iter().all(|argument| argument.len() <= ARGUMENT));
        }
    }

    #[test]
    fn what_the_cli_cannot_be_given_is_refused_by_name() {
        let long = json("k", &format!("[\"{}\"]", "x".repeat(ARGUMENT)));
        for (item, words) in [(text("k", "a\0b"), "zero byte"), (long, "100 KiB"), (json("a.b\\", "[1]"), "backslash")]
        {
            let error = plan("shop", &[item]).unwrap_err().to_string();
            assert!(error.starts_with("config item ") && error.contains(words), "{error}");
        }
        assert_eq!(calls(&[secret(text("k", "a\0b"))]).len(), 1, "on standard input it can be anything");
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
