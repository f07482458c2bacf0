//! JSON as protobuf carries it. Every number is a double there: whole numbers beyond 2^53 lose digits, and whole
//! numbers come back as such, as they do from Go.

use std::collections::BTreeMap;

use prost_types::{ListValue, Struct, Value, value::Kind};
use serde_json::{Map, Number, Value as Json};

/// A protobuf value that has no JSON form.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NotJson {
    /// A value without a kind.
    #[error("a value without content")]
    Empty,
    /// Not a number, or infinite.
    #[error("the number {0}")]
    Number(f64),
}

/// Doubles are exact for whole numbers below this.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub fn to_value(json: &Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(flag) => Kind::BoolValue(*flag),
        // Without arbitrary precision every JSON number has a double.
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(items) => Kind::ListValue(ListValue { values: items.iter().map(to_value).collect() }),
        Json::Object(fields) => Kind::StructValue(to_struct(fields)),
    };
    Value { kind: Some(kind) }
}

pub fn to_struct(fields: &Map<String, Json>) -> Struct {
    Struct { fields: fields.iter().map(|(name, json)| (name.clone(), to_value(json))).collect::<BTreeMap<_, _>>() }
}

pub fn from_value(value: &Value) -> Result<Json, NotJson> {
    Ok(match value.kind.as_ref().ok_or(NotJson::Empty)? {
        Kind::NullValue(_) => Json::Null,
        Kind::BoolValue(flag) => Json::Bool(*flag),
        Kind::NumberValue(number) => Json::Number(number_of(*number)?),
        Kind::StringValue(text) => Json::String(text.clone()),
        Kind::ListValue(list) => Json::Array(list.values.iter().map(from_value).collect::<Result<_, _>>()?),
        Kind::StructValue(fields) => Json::Object(from_struct(fields)?),
    })
}

pub fn from_struct(fields: &Struct) -> Result<Map<String, Json>, NotJson> {
    fields.fields.iter().map(|(name, value)| Ok((name.clone(), from_value(value)?))).collect()
}

fn number_of(number: f64) -> Result<Number, NotJson> {
    if number.fract() == 0.0 && number.abs() < EXACT && !(number == 0.0 && number.is_sign_negative()) {
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        return Ok(Number::from(number as i64));
    }
    Number::from_f64(number).ok_or(NotJson::Number(number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_stay_whole() {
        assert_eq!(
            from_value(&to_value(&json!({"port": 5432, "ratio": 0.5}))),
            Ok(json!({"port": 5432, "ratio": 0.5}))
        );
    }

    #[test]
    fn what_json_cannot_say_is_refused() {
        assert_eq!(from_value(&Value { kind: None }), Err(NotJson::Empty));
        let infinite = Value { kind: Some(Kind::NumberValue(f64::INFINITY)) };
        assert_eq!(from_value(&infinite), Err(NotJson::Number(f64::INFINITY)));
    }
}
