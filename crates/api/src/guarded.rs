//! The last line against an object that does not decode at all.

use std::borrow::Cow;

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
pub struct Guarded<K>(pub Result<K, Unreadable>);

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
        Ok(Self(serde_json::from_str(text.get()).map_err(|_| Unreadable::of::<K>(text.get()))))
    }
}

impl Unreadable {
    /// Decodes once more, now tracking the path, which only the failing case should pay for.
    fn of<K: DeserializeOwned>(text: &str) -> Self {
        const LONGEST: usize = 200;
        let mut parser = serde_json::Deserializer::from_str(text);
        let why = match serde_path_to_error::deserialize::<_, K>(&mut parser) {
            Ok(_) => String::new(),
            Err(error) => {
                let path = error.path().to_string();
                let start: String = path.chars().take(LONGEST).collect();
                let more = if start.len() < path.len() { "…" } else { "" };
                format!("{start}{more}: {}", error.inner())
            }
        };
        Self { metadata: readable_metadata(text), why }
    }
}

/// As much of the metadata as decodes. Losing a label to a typo is better than losing the object.
fn readable_metadata(text: &str) -> ObjectMeta {
    #[derive(Default, Deserialize)]
    struct OnlyMetadata {
        #[serde(default)]
        metadata: Option<Box<RawValue>>,
    }
    let object: OnlyMetadata = serde_json::from_str(text).unwrap_or_default();
    let Some(raw) = object.metadata else { return ObjectMeta::default() };
    serde_json::from_str(raw.get()).unwrap_or_else(|_| {
        let fields: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let text = |field: &str| fields[field].as_str().map(str::to_owned);
        ObjectMeta {
            name: text("name"),
            namespace: text("namespace"),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..ObjectMeta::default()
        }
    })
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
