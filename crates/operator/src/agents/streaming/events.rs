//! What the engine's events amount to. They are counted and let go.

use std::collections::BTreeMap;

use pko_core::ask::Progress;
use prost_types::{Struct, value::Kind};

use crate::agents::runs::shortened;

const STACK: &str = "pulumi:pulumi:Stack";
const PROVIDERS: &str = "pulumi:providers:";
/// Not worth counting, or parts of a replacement, which counts once.
const NOT_COUNTED: [&str; 7] = [
    "same",
    "create-replacement",
    "delete-replaced",
    "read-replacement",
    "import-replacement",
    "discard-replaced",
    "remove-pending-replace",
];

#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) progress: Progress,
    /// Resources by what happened to them, which the engine says at its end.
    pub(super) changes: BTreeMap<String, i32>,
}

impl Events {
    /// Takes one event. One of a kind to come changes nothing.
    pub(super) fn take(&mut self, event: &Struct) {
        let step = |name| object(event, name).and_then(|step| object(step, "metadata")).filter(|step| is_counted(step));
        if let Some(begun) = step("resourcePreEvent") {
            self.progress.begun += 1;
            self.progress.current = shortened(described(begun));
        }
        if step("resOutputsEvent").or_else(|| step("resOpFailedEvent")).is_some() {
            self.progress.done += 1;
        }
        if let Some(summary) = object(event, "summaryEvent") {
            self.changes = object(summary, "resourceChanges").map(counts).unwrap_or_default();
        }
    }
}

fn is_counted(step: &Struct) -> bool {
    let (op, kind) = (text(step, "op"), text(step, "type"));
    kind != STACK && !kind.starts_with(PROVIDERS) && !NOT_COUNTED.contains(&op)
}

/// Such as "creating aws:s3:Bucket logs".
fn described(step: &Struct) -> String {
    let doing = match text(step, "op") {
        "create" => "creating",
        "update" => "updating",
        "delete" => "deleting",
        "replace" => "replacing",
        "read" => "reading",
        "refresh" => "refreshing",
        "import" => "importing",
        other => other,
    };
    let name = text(step, "urn").rsplit("::").next().unwrap_or_default();
    format!("{doing} {} {name}", short_type(text(step, "type")))
}

/// As the CLI prints types: without the name of the file in the middle.
fn short_type(kind: &str) -> String {
    match kind.split(':').collect::<Vec<_>>().as_slice() {
        [package, module, name] => format!("{package}:{}:{name}", module.split('/').next().unwrap_or_default()),
        _ => kind.to_owned(),
    }
}

fn counts(changes: &Struct) -> BTreeMap<String, i32> {
    let count = |kind: Option<&Kind>| match kind {
        #[expect(clippy::cast_possible_truncation, reason = "a cast to whole numbers saturates")]
        Some(Kind::NumberValue(number)) => Some(*number as i32),
        _ => None,
    };
    changes.fields.iter().filter_map(|(op, value)| Some((op.clone(), count(value.kind.as_ref())?))).collect()
}

fn object<'a>(of: &'a Struct, name: &str) -> Option<&'a Struct> {
    match of.fields.get(name)?.kind.as_ref()? {
        Kind::StructValue(object) => Some(object),
        _ => None,
    }
}

fn text<'a>(of: &'a Struct, name: &str) -> &'a str {
    match of.fields.get(name).and_then(|value| value.kind.as_ref()) {
        Some(Kind::StringValue(text)) => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn taken(events: &[Value]) -> Events {
        let mut taken = Events::default();
        for event in events {
            taken.take(&pko_proto::to_struct(event.as_object().unwrap()));
        }
        taken
    }

    fn step(event: &str, op: &str, kind: &str) -> Value {
        let urn = format!("urn:pulumi:dev::shop::{kind}::logs");
        json!({"sequence": 1, event: {"metadata": {"op": op, "type": kind, "urn": urn, "old": null}}})
    }

    #[test]
    fn what_is_begun_and_done_is_counted() {
        let bucket = "aws:s3/bucket:Bucket";
        let events = taken(&[
            step("resourcePreEvent", "create", STACK),
            step("resourcePreEvent", "create", "pulumi:providers:aws"),
            step("resourcePreEvent", "same", bucket),
            step("resourcePreEvent", "create", bucket),
            step("resOutputsEvent", "create", bucket),
            step("resourcePreEvent", "replace", bucket),
            step("resourcePreEvent", "delete-replaced", bucket),
            step("resOpFailedEvent", "replace", bucket),
            json!({"summaryEvent": {"resourceChanges": {"create": 2, "same": 1, "odd": "x"}}}),
            json!({"cancelEvent": {}}),
            json!({"resourcePreEvent": 5}),
            json!({}),
        ]);
        let current = "replacing aws:s3:Bucket logs".to_owned();
        assert_eq!(events.progress, Progress { begun: 2, done: 2, current });
        assert_eq!(events.changes, BTreeMap::from([("create".to_owned(), 2), ("same".to_owned(), 1)]));
    }
}
