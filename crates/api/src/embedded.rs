//! Kubernetes' own types inside ours, carried as the JSON they were written in.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// JSON whose schema is that of `T`.
///
/// Not decoded on arrival, for two reasons. The API server admits what the type refuses, such as a
/// port of 99999999999 where the schema says `int32`, and that must not hide the object. And strategic
/// merge, which is where most of these values go, works on JSON: a detour through a type would drop
/// what it does not know and rewrite what it does, such as `cpu: 1` to `cpu: "1"`.
pub struct Embedded<T> {
    raw: Value,
    of: PhantomData<fn() -> T>,
}

/// Embedded JSON is not of the type it stands for.
#[derive(Debug, thiserror::Error)]
#[error("not a valid {of}: {source}")]
pub struct EmbeddedError {
    /// Name of the type, for example `EnvVar`.
    pub of: String,
    source: serde_json::Error,
}

impl<T> Embedded<T> {
    /// Wraps JSON as it is.
    pub const fn new(raw: Value) -> Self {
        Self { raw, of: PhantomData }
    }

    /// The JSON.
    pub const fn raw(&self) -> &Value {
        &self.raw
    }

    /// The JSON, to be changed in place.
    pub const fn raw_mut(&mut self) -> &mut Value {
        &mut self.raw
    }

    /// The JSON, given away.
    pub fn into_raw(self) -> Value {
        self.raw
    }
}

impl<T: DeserializeOwned> Embedded<T> {
    /// The JSON as the type; fails where the schema admits more than the type does.
    pub fn decode(&self) -> Result<T, EmbeddedError> {
        T::deserialize(&self.raw).map_err(|source| EmbeddedError { of: short_name::<T>(), source })
    }
}

impl<T: Serialize> Embedded<T> {
    /// Wraps a typed value.
    pub fn encode(value: &T) -> Result<Self, EmbeddedError> {
        serde_json::to_value(value).map(Self::new).map_err(|source| EmbeddedError { of: short_name::<T>(), source })
    }
}

fn short_name<T>() -> String {
    let full = std::any::type_name::<T>();
    full.rsplit("::").next().unwrap_or(full).to_owned()
}

impl<T> From<Value> for Embedded<T> {
    fn from(raw: Value) -> Self {
        Self::new(raw)
    }
}

// Written out, since deriving would demand the same of `T`.
impl<T> Clone for Embedded<T> {
    fn clone(&self) -> Self {
        Self::new(self.raw.clone())
    }
}

impl<T> fmt::Debug for Embedded<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(formatter)
    }
}

impl<T> Default for Embedded<T> {
    fn default() -> Self {
        Self::new(Value::Null)
    }
}

impl<T> PartialEq for Embedded<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<T> Serialize for Embedded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de, T> Deserialize<'de> for Embedded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::new)
    }
}

impl<T: JsonSchema> JsonSchema for Embedded<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
