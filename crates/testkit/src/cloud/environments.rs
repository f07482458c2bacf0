//! Environments (ESC), as far as a stack's `environment` needs them: imports, values and secrets, opened anonymously.

use serde_json::{Map, Value, json};

use super::{
    request::{Answer, Asked, Problem},
    state::State,
};

/// An environment without a project is in the project `default`; which version is wanted does not matter here.
pub(super) fn full_name(name: &str) -> String {
    let name = name.split('@').next().unwrap_or(name);
    if name.contains('/') { name.to_owned() } else { format!("default/{name}") }
}

pub(super) fn answer(state: &mut State, asked: &Asked, method: &str, what: &[&str]) -> Answer {
    match (method, what) {
        ("POST", ["yaml", "check"]) => evaluate(state, asked),
        ("POST", ["yaml", "open"]) => {
            let opened = evaluate(state, asked)?;
            state.sessions.push(opened);
            Ok(json!({"id": (state.sessions.len() - 1).to_string()}))
        }
        ("GET", ["yaml", "open", id]) => {
            let session = id.parse::<usize>().ok().and_then(|id| state.sessions.get(id));
            session.cloned().ok_or_else(|| Problem::not_found("session"))
        }
        _ => Err(Problem::not_found("page")),
    }
}

fn evaluate(state: &State, asked: &Asked) -> Answer {
    let text = String::from_utf8_lossy(&asked.body);
    let definition: Value = serde_saphyr::from_str(&text).map_err(|error| Problem::bad_request(&error.to_string()))?;
    let mut values = Value::Object(Map::new());
    for import in definition["imports"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let imported = state.environments.get(&full_name(import)).ok_or_else(|| Problem {
            code: 400,
            body: json!({
                "code": 400,
                "message": "Bad Request: environment is not valid",
                "diagnostics": [{"summary": format!("unknown environment \"{import}\"")}],
            }),
        })?;
        merge(&mut values, imported);
    }
    merge(&mut values, &definition["values"]);
    let properties: Map<_, _> =
        values.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), typed(value))).collect();
    Ok(json!({"properties": properties}))
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, from) => *into = from.clone(),
    }
}

/// A value as the service gives it: with its kind and whether it is secret, at every level.
fn typed(value: &Value) -> Value {
    if let Some(secret) = value.get("fn::secret") {
        let mut hidden = typed(secret);
        hidden["secret"] = true.into();
        return hidden;
    }
    let plain = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), typed(value))).collect(),
        Value::Array(items) => items.iter().map(typed).collect(),
        other => other.clone(),
    };
    json!({"value": plain, "trace": {"def": {}}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_project_are_in_the_default_one() {
        assert_eq!(full_name("base"), "default/base");
        assert_eq!(full_name("shop/prod@stable"), "shop/prod");
    }

    #[test]
    fn later_values_win_and_secrets_stay_secret() {
        let mut values = json!({"a": {"x": 1, "y": 2}});
        merge(&mut values, &json!({"a": {"y": {"fn::secret": "planted"}}}));
        let typed = typed(&values);
        assert_eq!(typed["value"]["a"]["value"]["x"]["value"], 1);
        let y = &typed["value"]["a"]["value"]["y"];
        assert_eq!((y["value"].as_str(), y["secret"].as_bool()), (Some("planted"), Some(true)));
    }
}
