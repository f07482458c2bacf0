//! Values that the schema lets through and the program may still refuse.
//!
//! A refusal concerns one field of one object: it is kept as data and reported on that object,
//! instead of failing the decoding of the list or watch event the object came in.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::GoDuration;
use crate::lenient::whole_number;

/// A usable value, or what was written instead and why it cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub enum Checked<T> {
    /// What was written is of the type.
    Good(T),
    /// What was written is not.
    Bad {
        /// The JSON as it came; re-encoding yields it again.
        raw: Value,
        /// What is wrong with it, in words for the user; does not name the field.
        why: String,
    },
}

/// A type that JSON can be checked against.
pub trait Check: Sized {
    /// The value, or in words for the user why the JSON is none.
    fn check(raw: &Value) -> Result<Self, String>;

    /// What the CRD admits, which is more than [`Check::check`] does.
    fn schema() -> Schema;
}

impl<T> Checked<T> {
    /// The value, if usable.
    pub const fn good(&self) -> Option<&T> {
        match self {
            Self::Good(value) => Some(value),
            Self::Bad { .. } => None,
        }
    }

    /// Why there is no usable value.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Good(_) => None,
            Self::Bad { why, .. } => Some(why),
        }
    }

    /// The value, or why there is none.
    pub fn as_result(&self) -> Result<&T, &str> {
        match self {
            Self::Good(value) => Ok(value),
            Self::Bad { why, .. } => Err(why),
        }
    }
}

impl<T: Check> Checked<T> {
    /// Checks a JSON value.
    pub fn of(raw: Value) -> Self {
        match T::check(&raw) {
            Ok(value) => Self::Good(value),
            Err(why) => Self::Bad { raw, why },
        }
    }
}

impl<T> From<T> for Checked<T> {
    fn from(value: T) -> Self {
        Self::Good(value)
    }
}

impl<'de, T: Check> Deserialize<'de> for Checked<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::of)
    }
}

impl<T: Serialize> Serialize for Checked<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Good(value) => value.serialize(serializer),
            Self::Bad { raw, .. } => raw.serialize(serializer),
        }
    }
}

impl<T: Check> JsonSchema for Checked<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Checked".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::schema()
    }
}

impl Check for GoDuration {
    fn check(raw: &Value) -> Result<Self, String> {
        const HOW: &str = r#"write it with units, for example "90s", "15m" or "1h30m""#;
        let Value::String(text) = raw else {
            return Err(format!("a duration must be a string, found {}; {HOW}", describe(raw)));
        };
        text.parse().map_err(|error| format!("{error}; {HOW}"))
    }

    fn schema() -> Schema {
        json_schema!({"type": "string"})
    }
}

/// A map of anything. Its values may be confidential, so they are never quoted.
impl Check for BTreeMap<String, Value> {
    fn check(raw: &Value) -> Result<Self, String> {
        match raw {
            Value::Object(entries) => Ok(entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
            other => Err(format!("must be a map from keys to values, found {}", kind_of(other))),
        }
    }

    fn schema() -> Schema {
        json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

impl Check for i64 {
    fn check(raw: &Value) -> Result<Self, String> {
        number_between(raw, Self::MIN, Self::MAX)
    }

    fn schema() -> Schema {
        json_schema!({"type": "integer", "format": "int64"})
    }
}

impl Check for i32 {
    fn check(raw: &Value) -> Result<Self, String> {
        number_between(raw, Self::MIN, Self::MAX)
    }

    fn schema() -> Schema {
        json_schema!({"type": "integer", "format": "int32"})
    }
}

/// The schema says `int32`: that is what the reference CRD has, and it admits negative numbers.
impl Check for u32 {
    fn check(raw: &Value) -> Result<Self, String> {
        number_between(raw, Self::MIN, Self::MAX)
    }

    fn schema() -> Schema {
        json_schema!({"type": "integer", "format": "int32"})
    }
}

fn number_between<N>(raw: &Value, least: N, most: N) -> Result<N, String>
where
    N: TryFrom<i64> + fmt::Display + Copy,
{
    whole_number(raw)
        .and_then(|number| N::try_from(number).ok())
        .ok_or_else(|| format!("must be a whole number from {least} to {most}, found {}", describe(raw)))
}

fn kind_of(raw: &Value) -> &'static str {
    match raw {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// Names a small value itself, and the kind of any other.
fn describe(raw: &Value) -> String {
    match raw {
        Value::Bool(_) | Value::Number(_) => raw.to_string(),
        other => kind_of(other).to_owned(),
    }
}

/// A field whose value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path from the object's root, for example `spec.prerequisites[0].requirement.succeededWithinDuration`.
    pub field: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.why)
    }
}

impl Problem {
    /// The problem of an optional field, if it has one.
    pub(crate) fn of<T>(field: &str, value: Option<&Checked<T>>) -> Option<Self> {
        let why = value?.why()?.to_owned();
        Some(Self { field: field.to_owned(), why })
    }
}
