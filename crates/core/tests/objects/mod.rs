//! Stacks and Workspaces from JSON, objects of the reference, and how two objects differ.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::needless_pass_by_value, reason = "specs are written where they are used")]

use std::collections::BTreeSet;

use pko_api::{Stack, Workspace};
use pko_core::{settings::Settings, stack::plan::Source};
use serde_json::{Value, json};

pub(crate) fn settings() -> Settings {
    Settings {
        agent_image: "pulumi/pulumi-kubernetes-operator:v2.9.0".to_owned(),
        agent_image_pull_policy: "IfNotPresent".to_owned(),
        flux_max_untar_size_bytes: None,
        artifact_address: "operator.test:80".to_owned(),
        known_hosts: None,
    }
}

pub(crate) fn stack(spec: Value) -> Stack {
    let metadata = json!({"name": "app", "namespace": "team", "uid": "stack-uid", "generation": 3});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("any spec decodes")
}

pub(crate) fn workspace(spec: Value) -> Workspace {
    let metadata = json!({"name": "app", "namespace": "team", "uid": "workspace-uid", "generation": 5});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("any spec decodes")
}

/// The artifact of a Program.
pub(crate) fn artifact() -> Source {
    Source::Flux {
        url: "http://operator.test:80/programs/team/app/1".to_owned(),
        digest: "sha256:0123".to_owned(),
        dir: String::new(),
    }
}

/// An object that PKO v2.9.0 made.
pub(crate) fn reference(file: &str, kind: &str) -> Value {
    let text = match file {
        "ready" => include_str!("../fixtures/reference-objects/ready.yaml"),
        "previewed" => include_str!("../fixtures/reference-objects/previewed.yaml"),
        _ => panic!("no fixture {file}"),
    };
    let list: Value = serde_saphyr::from_str(text).expect("YAML");
    let found = list["items"].as_array().expect("a list").iter().find(|item| item["kind"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {file}")).clone()
}

/// A line for each place where two objects differ, with what the left and the right have there.
pub(crate) fn differences(left: &Value, right: &Value) -> String {
    let mut lines = Vec::new();
    compare("", Some(left), Some(right), &mut lines);
    lines.join("\n")
}

fn compare(path: &str, left: Option<&Value>, right: Option<&Value>, lines: &mut Vec<String>) {
    match (left, right) {
        (left, right) if left == right => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for name in names {
                compare(&format!("{path}/{name}"), a.get(name), b.get(name), lines);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}/{index}"), Some(a), Some(b), lines);
            }
        }
        (left, right) => {
            let text = |side: Option<&Value>| side.map_or_else(|| "nothing".to_owned(), Value::to_string);
            lines.push(format!("{path}: {} | {}", text(left), text(right)));
        }
    }
}

/// JSON with sorted members, whatever order the build's maps have.
pub(crate) fn text(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let names: BTreeSet<&String> = members.keys().collect();
                names.into_iter().map(|name| (name.clone(), sorted(&members[name]))).collect()
            }
            Value::Array(items) => items.iter().map(sorted).collect(),
            plain => plain.clone(),
        }
    }
    serde_json::to_string_pretty(&sorted(value)).expect("JSON")
}
