//! Compute resources of the Pulumi container.

use k8s_openapi::api::core::v1::ResourceRequirements;
use pko_api::{Embedded, workspace::defaults};
use serde_json::{Value, json};

use super::{Invalid, embedded};

/// What the spec says, with requests where it has none. Limits are left to the user.
pub(super) fn with_defaults(given: Option<&Embedded<ResourceRequirements>>) -> Result<Value, Invalid> {
    let mut resources = match given.map(Embedded::raw) {
        None | Some(Value::Null) => json!({}),
        Some(raw) => {
            embedded::check::<ResourceRequirements>("spec.resources", raw)?;
            raw.clone()
        }
    };
    if resources["requests"].is_null() {
        resources["requests"] = json!({});
    }
    for (name, default) in [("memory", defaults::MEMORY_REQUEST), ("cpu", defaults::CPU_REQUEST)] {
        let request = &mut resources["requests"][name];
        if is_nothing(request) {
            *request = json!(default);
        }
    }
    Ok(resources)
}

/// Whether a quantity is absent or zero, in whatever unit.
fn is_nothing(quantity: &Value) -> bool {
    match quantity {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            let digits: &str = text.trim_start_matches(['+', '-']);
            let number = digits.find(|c: char| !c.is_ascii_digit() && c != '.').map_or(digits, |end| &digits[..end]);
            number.chars().all(|c| matches!(c, '0' | '.'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_recognised_in_every_unit() {
        let rows = [
            (json!(null), true, "absent"),
            (json!(0), true, "a number"),
            (json!(0.0), true, "a float"),
            (json!("0"), true, "a text"),
            (json!("0Mi"), true, "with a unit"),
            (json!("0.00e3"), true, "with an exponent"),
            (json!(""), true, "an empty text is no quantity"),
            (json!("1m"), false, "a thousandth is something"),
            (json!(1), false, "one"),
            (json!("0.5"), false, "a half"),
            (json!("10Mi"), false, "zero is only a digit of it"),
        ];
        for (quantity, nothing, reason) in rows {
            assert_eq!(is_nothing(&quantity), nothing, "{reason}: {quantity}");
        }
    }
}
