//! Deserialisers that read JSON as Go's decoder and an API server's schema let it be: null is the
//! zero value, a whole number may be written as `60.0`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Null is the default.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A null list is empty, a null item is the item's default.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let items: Option<Vec<Option<T>>> = Option::deserialize(deserializer)?;
    Ok(items.unwrap_or_default().into_iter().map(Option::unwrap_or_default).collect())
}

/// A null map is empty, a null value is the value's default.
pub(crate) fn map<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    let entries: Option<BTreeMap<String, Option<T>>> = Option::deserialize(deserializer)?;
    Ok(entries.unwrap_or_default().into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect())
}

/// A number of a status. What is not a whole number counts as never written: the next status write
/// puts it right, and nothing depends on it until then.
pub(crate) fn status_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(whole_number(&Value::deserialize(deserializer)?).unwrap_or_default())
}

/// A time of a status. The schema's `date-time` admits texts that are no time, such as an offset
/// of 99 hours; they count as never written.
pub(crate) fn status_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).unwrap_or_default())
}

/// Conditions of a status. One that cannot be read counts as absent, and is written anew.
pub(crate) fn conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let items: Vec<Value> = null_default(deserializer)?;
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

/// The value as an `i64`, also when it is written as a float without a fraction.
pub(crate) fn whole_number(raw: &Value) -> Option<i64> {
    // 2^63 is exact as a float, so the comparison below decides exactly.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if let Some(number) = raw.as_i64() {
        return Some(number);
    }
    let number = raw.as_f64()?;
    let whole = number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number);
    #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
    whole.then_some(number as i64)
}

/// For status numbers that are left out when they say nothing.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
pub(crate) const fn is_zero(number: &i64) -> bool {
    *number == 0
}
