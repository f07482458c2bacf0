//! The last line against an object that does not decode at all.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object of a watched kind that decodes whatever it holds, so that one unreadable object does
/// not end the list or watch it is part of. Decodes from JSON text only.
///
/// Serves the purpose of kube's `DeserializeGuard`, with differences that matter here: it does not
/// build every object twice; its error names the field; broken metadata does not defeat it; and
/// neither does nesting deeper than the parser allows, which an API server accepts in `spec.config`.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarded<K>(pub Result<K, Box<Unreadable>>);

/// An object of which only the metadata could be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct Unreadable {
    /// Where the object is; what of it could not be read is empty.
    pub metadata: ObjectMeta,
    /// The field and what is wrong with it.
    pub why: String,
}

impl<K> Guarded<K> {
    /// The object, if it could be read.
    pub fn readable(&self) -> Option<&K> {
        self.0.as_ref().ok()
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(serde_json::from_str(text.get()).or_else(|_| look_again(text.get()))))
    }
}

/// Fields in the order of their names, not parsed any further.
type Fields = BTreeMap<String, Box<RawValue>>;

/// Decodes without the managed fields, which mirror the nesting of the rest and are not needed, and
/// tracks the path, which only the failing case should pay for.
fn look_again<K: DeserializeOwned>(text: &str) -> Result<K, Box<Unreadable>> {
    let mut object: Fields = serde_json::from_str(text).unwrap_or_default();
    let mut metadata: Fields =
        object.get("metadata").and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    if metadata.remove("managedFields").is_some()
        && let Ok(rest) = RawValue::from_string(joined(&metadata))
    {
        object.insert("metadata".to_owned(), rest);
    }
    let text = if object.is_empty() { text.to_owned() } else { joined(&object) };
    let mut parser = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut parser)
        .map_err(|error| Box::new(Unreadable { why: worded(&error), metadata: readable(metadata) }))
}

/// As much of the metadata as decodes. Losing a label to a typo is better than losing the object.
fn readable(mut metadata: Fields) -> ObjectMeta {
    let decodes = |name: &str, value: &RawValue| {
        let alone = format!("{{{}:{}}}", Value::from(name), value.get());
        serde_json::from_str::<ObjectMeta>(&alone).is_ok()
    };
    metadata.retain(|name, value| decodes(name, value));
    serde_json::from_str(&joined(&metadata)).unwrap_or_default()
}

fn joined(fields: &Fields) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), value.get())).collect();
    format!("{{{}}}", fields.join(","))
}

/// The path, cut where it would flood a message, and the problem.
fn worded(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    const LONGEST: usize = 200;
    let path = error.path().to_string();
    let start: String = path.chars().take(LONGEST).collect();
    let more = if start.len() < path.len() { "…" } else { "" };
    format!("{start}{more}: {}", error.inner())
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|bad| &bad.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|bad| &mut bad.metadata, K::meta_mut)
    }
}
