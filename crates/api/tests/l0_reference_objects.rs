//! Objects that the reference implementation left on a real cluster decode, and encode again to
//! what they were.

mod support;

use pko_api::{Guarded, Program, Stack, Update, Workspace};
use rstest::rstest;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn decoded<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{}: {error}", object["metadata"]["name"]))
}

fn assert_round_trip<K: DeserializeOwned + Serialize>(file: &str, count: usize) {
    let objects = support::items(file);
    assert_eq!(objects.len(), count, "{file}");
    for object in objects {
        let encoded = serde_json::to_value(decoded::<K>(&object)).expect("JSON");
        assert_eq!(encoded, object, "{file}: {}", object["metadata"]["name"]);
    }
}

#[test]
fn stacks_decode_and_encode_to_the_same_json() {
    assert_round_trip::<Stack>("reference-objects/stacks.yaml", 5);
}

#[test]
fn programs_decode_and_encode_to_the_same_json() {
    assert_round_trip::<Program>("reference-objects/programs.yaml", 3);
}

#[test]
fn workspaces_decode_and_encode_to_the_same_json() {
    assert_round_trip::<Workspace>("reference-objects/workspaces.yaml", 4);
}

#[test]
fn updates_decode_and_encode_to_the_same_json() {
    assert_round_trip::<Update>("reference-objects/updates.yaml", 6);
}

#[test]
fn none_of_them_has_a_value_that_cannot_be_used() {
    for stack in support::items("reference-objects/stacks.yaml") {
        assert_eq!(decoded::<Stack>(&stack).spec.problems(), []);
    }
    for workspace in support::items("reference-objects/workspaces.yaml") {
        assert_eq!(decoded::<Workspace>(&workspace).spec.problems(), []);
    }
    for update in support::items("reference-objects/updates.yaml") {
        assert_eq!(decoded::<Update>(&update).spec.problems(), []);
    }
}

#[rstest]
#[case::stacks("reference-objects/stacks.yaml")]
fn a_guarded_object_is_the_object(#[case] file: &str) {
    for stack in support::items(file) {
        let guarded: Guarded<Stack> = serde_json::from_str(&stack.to_string()).unwrap();
        assert_eq!(guarded.readable(), Some(&decoded::<Stack>(&stack)));
    }
}

#[test]
fn an_object_of_another_kind_is_refused() {
    let workspace = support::items("reference-objects/workspaces.yaml").remove(0);
    let error = serde_json::from_value::<Update>(workspace).unwrap_err();
    assert_eq!(error.to_string(), r#"kind is "Workspace", expected "Update""#);
}

#[test]
fn embedded_types_decode_on_demand() {
    let workspace = support::items("reference-objects/workspaces.yaml").remove(0);
    let workspace: Workspace = decoded(&workspace);
    let variable = workspace.spec.env[0].decode().unwrap();
    assert_eq!(variable.name, "PULUMI_BACKEND_URL");
    assert_eq!(variable.value.as_deref(), Some("file:///tmp"));
}
