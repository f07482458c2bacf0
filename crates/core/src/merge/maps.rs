//! Merging of maps, with the directives that concern a whole map.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{MergeError, directive, lists, path::Path, schema::Node};

pub(super) type Members = Map<String, Value>;

pub(super) fn merge(mut original: Members, patch: &Members, node: Node, here: Path<'_>) -> Result<Members, MergeError> {
    if let Some(what) = patch.get(directive::PATCH) {
        return instead(what, patch, here);
    }
    retain_keys(&mut original, patch, here)?;
    let mut done = BTreeSet::new();
    for (key, order) in patch {
        let Some(list) = argument(key, directive::SET_ELEMENT_ORDER, here)? else { continue };
        let (at, strategy) = (here.member(list), node.list(list));
        let Value::Array(order) = order else {
            return Err(here.member(key).error("must be a list"));
        };
        let before = original.remove(list).map(|value| expect_list(value, at)).transpose()?;
        let over =
            patch.get(list).map(|value| value.as_array().ok_or_else(|| at.error("must be a list"))).transpose()?;
        if let Some(merged) = lists::merge_in_order(before, over.map(Vec::as_slice), order, strategy, at)? {
            original.insert(list.to_owned(), Value::Array(merged));
        }
        done.insert(list);
    }
    for (key, values) in patch {
        let Some(list) = argument(key, directive::DELETE_FROM_PRIMITIVE_LIST, here)? else { continue };
        let Value::Array(values) = values else {
            return Err(here.member(key).error("must be a list"));
        };
        if let Some(Value::Array(items)) = original.get_mut(list) {
            items.retain(|item| !values.contains(item));
        }
    }
    for (key, value) in patch {
        if !is_directive(key) && !done.contains(key.as_str()) {
            merge_member(&mut original, key, value, node, here)?;
        }
    }
    Ok(original)
}

fn merge_member(
    original: &mut Members,
    key: &str,
    patch: &Value,
    node: Node,
    here: Path<'_>,
) -> Result<(), MergeError> {
    let at = here.member(key);
    let merged = match (original.remove(key), patch) {
        (_, Value::Null) => None,
        (Some(Value::Object(before)), Value::Object(over)) => {
            Some(Value::Object(merge(before, over, node.map(key), at)?))
        }
        (Some(Value::Array(before)), Value::Array(over)) => {
            Some(Value::Array(lists::merge(before, over, node.list(key), at)?))
        }
        (_, new) => cleaned(new),
    };
    if let Some(merged) = merged {
        original.insert(key.to_owned(), merged);
    }
    Ok(())
}

/// What `$patch` makes of a map.
fn instead(what: &Value, patch: &Members, here: Path<'_>) -> Result<Members, MergeError> {
    match what.as_str() {
        Some("delete") => Ok(Members::new()),
        Some("replace") => Ok(cleaned_members(patch)),
        _ => Err(here.member(directive::PATCH).error("must be `replace` or `delete`")),
    }
}

/// Drops what `$retainKeys` does not name.
fn retain_keys(original: &mut Members, patch: &Members, here: Path<'_>) -> Result<(), MergeError> {
    let Some(retained) = patch.get(directive::RETAIN_KEYS) else { return Ok(()) };
    let at = here.member(directive::RETAIN_KEYS);
    let Value::Array(retained) = retained else {
        return Err(at.error("must be a list"));
    };
    let named = |key: &str| retained.iter().any(|name| name.as_str() == Some(key));
    if let Some((key, _)) = patch.iter().find(|(key, value)| !value.is_null() && !is_directive(key) && !named(key)) {
        return Err(at.error(format!("must also name `{key}`, which the patch sets")));
    }
    original.retain(|key, _| named(key));
    Ok(())
}

/// The member that a directive of the form `$directive/member` is about; none if the key is no such directive.
fn argument<'a>(key: &'a str, directive: &str, here: Path<'_>) -> Result<Option<&'a str>, MergeError> {
    let Some(rest) = key.strip_prefix(directive) else { return Ok(None) };
    match rest.strip_prefix('/') {
        Some(member) => Ok(Some(member)),
        None => Err(here.error(format!("`{directive}` must be followed by `/` and the name of a list"))),
    }
}

fn is_directive(key: &str) -> bool {
    key == directive::PATCH
        || key == directive::RETAIN_KEYS
        || key.starts_with(directive::SET_ELEMENT_ORDER)
        || key.starts_with(directive::DELETE_FROM_PRIMITIVE_LIST)
}

fn expect_list(value: Value, at: Path<'_>) -> Result<Vec<Value>, MergeError> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(at.error("cannot be ordered, since what it is merged into is not a list")),
    }
}

/// What is new, as it goes into the result: without nulls, which would only have deleted something, and without
/// directives. A map with `$patch` is about something to be changed or deleted, and there is nothing: it goes.
pub(super) fn cleaned(new: &Value) -> Option<Value> {
    match new {
        Value::Object(members) if members.contains_key(directive::PATCH) => None,
        Value::Object(members) => Some(Value::Object(cleaned_members(members))),
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(cleaned).collect())),
        plain => Some(plain.clone()),
    }
}

fn cleaned_members(members: &Members) -> Members {
    members
        .iter()
        .filter(|(key, value)| !is_directive(key) && !value.is_null())
        .filter_map(|(key, value)| Some((key.clone(), cleaned(value)?)))
        .collect()
}
