//! Configuration from the wire: values that are given, and values that are read where the agent runs.

use std::collections::HashMap;

use pko_proto::agent::{self, config_item::V, config_value_from::F};
use pko_pulumi::{Cli, ConfigItem, ConfigValue};
use prost_types::value::Kind;
use serde_json::value::RawValue;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadValue {
    #[error("missing value for environment variable: {0}")]
    Variable(String),
    #[error("unreadable path: {0}")]
    Path(String),
    #[error("invalid config value")]
    None,
    #[error("parsing {key:?} as JSON: {error}")]
    Json { key: String, error: String },
}

/// All items with their values. A null says nothing: it leaves the key as the program's own configuration has it. `exact`
/// has the JSON text of literals whose numbers the wire's own form does not hold, by their place.
pub(crate) fn read(
    cli: &Cli,
    items: &[agent::ConfigItem],
    exact: &HashMap<u32, String>,
) -> Result<Vec<ConfigItem>, (String, BadValue)> {
    let mut read = Vec::with_capacity(items.len());
    for (at, item) in (0_u32..).zip(items) {
        let value = match exact.get(&at) {
            Some(json) => from_json(&item.key, json.clone()),
            None => value(cli, item),
        };
        if let Some(value) = value.map_err(|bad| (item.key.clone(), bad))? {
            read.push(ConfigItem {
                key: item.key.clone(),
                path: item.path.unwrap_or_default(),
                value,
                secret: item.secret.unwrap_or_default(),
            });
        }
    }
    Ok(read)
}

fn value(cli: &Cli, item: &agent::ConfigItem) -> Result<Option<ConfigValue>, BadValue> {
    match item.v.as_ref().ok_or(BadValue::None)? {
        V::Value(value) => match value.kind.as_ref().ok_or(BadValue::None)? {
            Kind::NullValue(_) => Ok(None),
            Kind::StringValue(text) => Ok(Some(ConfigValue::Text(text.clone()))),
            _ => {
                let json = pko_proto::from_value(value).map_err(|_| BadValue::None)?;
                from_json(&item.key, json.to_string())
            }
        },
        V::ValueFrom(from) => {
            let text = match from.f.as_ref().ok_or(BadValue::None)? {
                F::Env(name) => cli.variable(name).ok_or_else(|| BadValue::Variable(name.clone()))?,
                F::Path(path) => read_file(path).map_err(|error| {
                    tracing::warn!(%error, path, "a configuration value cannot be read");
                    BadValue::Path(path.clone())
                })?,
            };
            // A secret is never parsed: it is the text that was given, whatever it looks like.
            let structured = from.json.unwrap_or_default() && !item.secret.unwrap_or_default();
            if structured { from_json(&item.key, text) } else { Ok(Some(ConfigValue::Text(text))) }
        }
    }
}

/// A regular file: anything else might never come to an end.
fn read_file(path: &str) -> std::io::Result<String> {
    if std::fs::metadata(path)?.is_file() {
        return std::fs::read_to_string(path);
    }
    Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a file"))
}

fn from_json(key: &str, text: String) -> Result<Option<ConfigValue>, BadValue> {
    // The parser's own words tell the place and never the text, which may be secret.
    let bad = |error: serde_json::Error| BadValue::Json { key: key.to_owned(), error: error.to_string() };
    let raw = RawValue::from_string(text).map_err(bad)?;
    Ok(match raw.get().as_bytes().first() {
        Some(b'n') => None,
        Some(b'"') => Some(ConfigValue::Text(serde_json::from_str(raw.get()).map_err(bad)?)),
        _ => Some(ConfigValue::Json(raw)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn item(v: Option<V>) -> agent::ConfigItem {
        agent::ConfigItem { key: "k".to_owned(), v, ..agent::ConfigItem::default() }
    }

    fn from(f: F, json: bool) -> agent::ConfigItem {
        item(Some(V::ValueFrom(agent::ConfigValueFrom { f: Some(f), json: Some(json) })))
    }

    fn shown(item: &agent::ConfigItem) -> Result<String, String> {
        let cli = Cli::new("/".into(), vec![("OBJECT".into(), " {\"a\": 10000000000000000000001}\n".into())]);
        let mut items = read(&cli, std::slice::from_ref(item), &HashMap::new()).map_err(|(_, bad)| bad.to_string())?;
        Ok(match items.pop().map(|i| i.value) {
            None => "nothing".to_owned(),
            Some(ConfigValue::Text(text)) => format!("text {text}"),
            Some(ConfigValue::Json(json)) => format!("json {}", json.get()),
        })
    }

    #[test]
    fn literals_keep_their_type() {
        for (json, expected) in [
            (json!("42"), "text 42"),
            (json!(42), "json 42"),
            (json!(true), "json true"),
            (json!([1, "a"]), "json [1,\"a\"]"),
            (json!(null), "nothing"),
        ] {
            let value = pko_proto::to_value(&json);
            assert_eq!(shown(&item(Some(V::Value(value)))).unwrap(), expected);
        }
    }

    #[test]
    fn values_are_read_where_the_agent_runs() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "bar\n").unwrap();
        let path = || F::Path(file.path().display().to_string());
        assert_eq!(shown(&from(path(), false)).unwrap(), "text bar\n", "as it is, to the last newline");
        assert_eq!(shown(&from(F::Env("OBJECT".into()), true)).unwrap(), "json {\"a\": 10000000000000000000001}");
        assert!(shown(&from(path(), true)).unwrap_err().starts_with("parsing \"k\" as JSON: "));
    }

    #[test]
    fn a_secret_is_never_parsed() {
        let secret = agent::ConfigItem { secret: Some(true), ..from(F::Env("OBJECT".into()), true) };
        assert_eq!(shown(&secret).unwrap(), "text  {\"a\": 10000000000000000000001}\n");
    }

    #[test]
    fn numbers_that_a_double_does_not_hold_come_as_text() {
        let literal = item(Some(V::Value(pko_proto::to_value(&json!({"n": 9_007_199_254_740_993_u64})))));
        let exact = HashMap::from([(1, "{\"n\":9007199254740993}".to_owned())]);
        let cli = Cli::new("/".into(), Vec::new());
        let items = read(&cli, &[literal.clone(), literal], &exact).unwrap();
        let text = |i: usize| match &items[i].value {
            ConfigValue::Json(json) => json.get().to_owned(),
            ConfigValue::Text(text) => text.clone(),
        };
        assert_eq!((text(0).as_str(), text(1).as_str()), ("{\"n\":9007199254740992.0}", "{\"n\":9007199254740993}"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        assert_eq!(
            shown(&from(F::Env("PKO_NO_SUCH".into()), false)).unwrap_err(),
            "missing value for environment variable: PKO_NO_SUCH"
        );
        assert_eq!(shown(&from(F::Path("/no/such".into()), false)).unwrap_err(), "unreadable path: /no/such");
        assert_eq!(shown(&item(None)).unwrap_err(), "invalid config value");
    }
}
