//! Merging of lists, and the order of what comes out.

use serde_json::Value;

use super::{MergeError, directive, maps, path::Path, schema::Node, schema::Strategy};

/// The original's items and the patch's, as the strategy says.
pub(super) fn merge(
    original: Vec<Value>,
    patch: &[Value],
    strategy: Strategy,
    here: Path<'_>,
) -> Result<Vec<Value>, MergeError> {
    match strategy {
        Strategy::Replace => Ok(patch.iter().filter_map(maps::cleaned).collect()),
        Strategy::Set => Ok(merge_set(&original, patch)),
        Strategy::By { key, items } => merge_items(original, patch, key, items, here),
    }
}

/// The same, in the order that `$setElementOrder` gives. An absent list is one that the directive does not make.
pub(super) fn merge_in_order(
    original: Option<Vec<Value>>,
    patch: Option<&[Value]>,
    order: &[Value],
    strategy: Strategy,
    here: Path<'_>,
) -> Result<Option<Vec<Value>>, MergeError> {
    let before = original.clone().unwrap_or_default();
    let merged = match (original, patch) {
        (None, None) => return Ok(None),
        (Some(original), None) => original,
        (None, Some(patch)) => patch.iter().filter_map(maps::cleaned).collect(),
        (Some(original), Some(patch)) => merge(original, patch, strategy, here)?,
    };
    let same = |a: &Value, b: &Value| identity(a, strategy).is_some_and(|id| Some(id) == identity(b, strategy));
    for item in order.iter().chain(&merged) {
        if identity(item, strategy).is_none() {
            return Err(
                here.error("has an item, or an item of its order, without the member that its items are told apart by")
            );
        }
    }
    let fits = is_subsequence(patch.unwrap_or_default().iter().filter(|item| !has_directive(item)), order, same);
    if !fits && !order.is_empty() {
        return Err(here.error("does not agree with the order that the patch gives for it"));
    }
    Ok(Some(arranged(merged, order, &before, same)))
}

fn merge_set(original: &[Value], patch: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
    for value in original.iter().chain(patch) {
        if !merged.contains(value) {
            merged.push(value.clone());
        }
    }
    arranged(merged, patch, original, |a, b| a == b)
}

fn merge_items(
    mut original: Vec<Value>,
    patch: &[Value],
    key: &'static str,
    node: Node,
    here: Path<'_>,
) -> Result<Vec<Value>, MergeError> {
    let mut over = Vec::with_capacity(patch.len());
    let mut replace = false;
    for (index, item) in patch.iter().enumerate() {
        let at = here.item(index);
        let Value::Object(members) = item else {
            return Err(at.error("must be a map"));
        };
        let keyed = || {
            let value = members.get(key).filter(|value| !value.is_null());
            value.ok_or_else(|| at.error(format!("has no `{key}`, which tells the items apart")))
        };
        match members.get(directive::PATCH).map(Value::as_str) {
            None => over.push((at, keyed()?, members, item)),
            Some(Some("delete")) => {
                let deleted = keyed()?;
                original.retain(|item| item.get(key) != Some(deleted));
            }
            Some(Some("replace")) => replace = true,
            Some(_) => return Err(at.error("has a `$patch` that is neither `replace` nor `delete`")),
        }
    }
    if replace {
        return Ok(over.into_iter().filter_map(|(_, _, _, item)| maps::cleaned(item)).collect());
    }
    if original.iter().any(|item| item.get(key).is_none()) {
        return Err(here.error(format!("cannot be merged: what it is merged into has an item without `{key}`")));
    }
    let mut merged = original.clone();
    for (at, value, members, item) in &over {
        let found = merged.iter().position(|item| item.get(key) == Some(*value));
        match found.map(|position| (position, merged[position].take())) {
            Some((position, Value::Object(before))) => {
                merged[position] = Value::Object(maps::merge(before, members, node, *at)?);
            }
            Some((position, other)) => merged[position] = other,
            None => merged.extend(maps::cleaned(item)),
        }
    }
    let same = |a: &Value, b: &Value| a.get(key).is_some() && a.get(key) == b.get(key);
    let order: Vec<Value> = over.into_iter().map(|(_, _, _, item)| item.clone()).collect();
    Ok(arranged(merged, &order, &original, same))
}

/// What the items of a list are told apart by.
fn identity(item: &Value, strategy: Strategy) -> Option<&Value> {
    match strategy {
        Strategy::By { key, .. } => item.get(key),
        Strategy::Replace | Strategy::Set => Some(item),
    }
}

fn has_directive(item: &Value) -> bool {
    item.get(directive::PATCH).is_some()
}

fn is_subsequence<'a>(
    items: impl Iterator<Item = &'a Value>,
    of: &[Value],
    same: impl Fn(&Value, &Value) -> bool,
) -> bool {
    let mut rest = of.iter();
    let mut items = items;
    items.all(|item| rest.any(|other| same(item, other)))
}

/// The order of a merged list. Items of the patch are in the patch's order, the others in the original's. Between the
/// two, an item of the original comes first only if the original has it before the next item of the patch; in
/// particular, what is new comes before what the patch does not name.
fn arranged(
    merged: Vec<Value>,
    patch: &[Value],
    original: &[Value],
    same: impl Fn(&Value, &Value) -> bool,
) -> Vec<Value> {
    let place = |list: &[Value], item: &Value| list.iter().position(|other| same(other, item));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(patch, item).is_some());
    named.sort_by_key(|item| place(patch, item));
    others.sort_by_key(|item| place(original, item));
    let mut others = others.into_iter().peekable();
    let mut all = Vec::new();
    for item in named {
        while let Some(other) = others.next_if(|other| {
            place(original, other).zip(place(original, &item)).is_some_and(|(before, after)| before < after)
        }) {
            all.push(other);
        }
        all.push(item);
    }
    all.extend(others);
    all
}
