//! Strategic merge: as Kubernetes' apimachinery does it, and what holds for every patch.

use std::collections::BTreeSet;

use pko_core::merge::{Schema, strategic};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Each case has the answer of apimachinery 0.34.4, asked with a pod template as schema.
const CASES: &str = include_str!("fixtures/strategic-merge.json");

#[test]
fn merges_as_apimachinery_does() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let mut different = Vec::new();
    for case in &cases {
        let found = strategic(case["original"].clone(), &case["patch"], Schema::Pod);
        let expected = (case["refused"] != true).then_some(&case["merged"]);
        if found.as_ref().ok() != expected {
            different.push(format!("{}\n  expected {expected:?}\n  found    {found:?}", case["reason"]));
        }
    }
    assert!(different.is_empty(), "{} of {} differ:\n{}", different.len(), cases.len(), different.join("\n"));
    let reasons: BTreeSet<_> = cases.iter().map(|case| case["reason"].to_string()).collect();
    assert_eq!(reasons.len(), cases.len(), "every case has a reason of its own");
}

/// The kinds that Kubernetes does not know.
#[test]
fn lists_of_workspaces_and_updates_merge_as_their_types_say() {
    let rows = [
        (
            Schema::Workspace,
            json!({"spec": {"env": [{"name": "FOO", "value": "1"}]}}),
            json!({"spec": {"env": [{"name": "BAR", "value": "2"}, {"name": "FOO", "value": "3"}]}}),
            json!({"spec": {"env": [{"name": "BAR", "value": "2"}, {"name": "FOO", "value": "3"}]}}),
            "variables merge by name",
        ),
        (
            Schema::Workspace,
            json!({"spec": {"env": [{"name": "FOO"}]}}),
            json!({"spec": {"env": [{"name": "BAR"}]}}),
            json!({"spec": {"env": [{"name": "BAR"}, {"name": "FOO"}]}}),
            "what is new comes first",
        ),
        (
            Schema::Workspace,
            json!({"spec": {"envFrom": [1], "stacks": [{"name": "a", "config": [{"key": "k"}]}]}}),
            json!({"spec": {"envFrom": [2], "stacks": [{"name": "b"}]}}),
            json!({"spec": {"envFrom": [2], "stacks": [{"name": "b"}]}}),
            "sources and stacks are replaced",
        ),
        (
            Schema::Workspace,
            json!({"spec": {"podTemplate": {"spec": {"volumes": [{"name": "a", "z": {}}]}}}}),
            json!({"spec": {"podTemplate": {"spec": {"volumes": [{"name": "b"}, {"name": "a", "x": 1}]}}}}),
            json!({"spec": {"podTemplate": {"spec": {"volumes": [{"name": "b"}, {"name": "a", "z": {}, "x": 1}]}}}}),
            "a pod template inside is a pod template",
        ),
        (
            Schema::Workspace,
            json!({"spec": {"initContainers": [{"name": "a", "image": "1"}]}}),
            json!({"spec": {"initContainers": [{"name": "a", "command": ["x"]}]}}),
            json!({"spec": {"initContainers": [{"name": "a", "image": "1", "command": ["x"]}]}}),
            "init containers merge by name here too",
        ),
        (
            Schema::Update,
            json!({"metadata": {"labels": {"a": "1"}}, "spec": {"target": ["x"], "refresh": false}}),
            json!({"metadata": {"labels": {"b": "2"}}, "spec": {"target": ["y"], "refresh": true}}),
            json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"target": ["y"], "refresh": true}}),
            "targets are replaced",
        ),
    ];
    for (schema, original, patch, expected, reason) in rows {
        assert_eq!(strategic(original, &patch, schema), Ok(expected), "{reason}");
    }
}

#[test]
fn errors_name_the_place_and_quote_no_value() {
    let original = json!({"spec": {"containers": [{"name": "a"}]}});
    let rows = [
        (json!("s3cret"), "must be a map"),
        (json!({"spec": {"containers": ["s3cret"]}}), "spec.containers[0]: must be a map"),
        (json!({"spec": {"containers": [{"name": "a"}, {"image": "s3cret"}]}}), "spec.containers[1]: has no `name`"),
        (json!({"spec": {"$patch": "s3cret"}}), "spec.$patch: must be `replace` or `delete`"),
        (json!({"spec": {"$retainKeys": "s3cret"}}), "spec.$retainKeys: must be a list"),
        (json!({"spec": {"$setElementOrder": []}}), "spec: `$setElementOrder` must be followed by"),
        (json!({"spec": {"$deleteFromPrimitiveList/x": "s3cret"}}), "spec.$deleteFromPrimitiveList/x: must be a list"),
    ];
    for (patch, expected) in rows {
        let message = strategic(original.clone(), &patch, Schema::Pod).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
}

/// Names that mean something to a schema or a merge, so that arbitrary JSON gets past the first map.
const NAMES: [&str; 22] = [
    "metadata",
    "spec",
    "podTemplate",
    "containers",
    "initContainers",
    "env",
    "volumes",
    "volumeMounts",
    "ports",
    "finalizers",
    "ownerReferences",
    "labels",
    "name",
    "uid",
    "mountPath",
    "containerPort",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "$setElementOrder",
    "other",
];

/// Names that mean nothing.
const PLAIN: [&str; 3] = ["a", "b", "c"];

fn arbitrary(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        prop::sample::select(vec!["a", "b", "c", "delete", "replace", "merge"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            3 => prop::collection::vec((prop::sample::select(names), inner), 0..5)
                .prop_map(|members| members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect()),
        ]
    })
}

fn schema() -> impl Strategy<Value = Schema> {
    prop::sample::select(vec![Schema::Workspace, Schema::Update, Schema::Pod])
}

/// Different names, in any order.
fn names() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..=5).prop_shuffle()
}

/// A pod template with items to merge; no directives.
fn pod_template() -> impl Strategy<Value = Value> {
    let value = || prop::option::of(prop::sample::select(vec!["x", "y"]));
    let env = (names(), prop::collection::vec(value(), 5)).prop_map(|(names, values)| {
        let items = names.into_iter().zip(values).map(|(name, value)| json!({"name": name, "value": value}));
        items.collect::<Vec<Value>>()
    });
    let members = prop::collection::vec((prop::option::of(env), value()), 5);
    let containers = (names(), members).prop_map(|(names, members)| {
        let items = names.into_iter().zip(members);
        items.map(|(name, (env, image))| json!({"name": name, "env": env, "image": image})).collect::<Vec<Value>>()
    });
    (containers, names(), value()).prop_map(|(containers, finalizers, hostname)| {
        json!({"metadata": {"finalizers": finalizers}, "spec": {"containers": containers, "hostname": hostname}})
    })
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(_, member)| !member.is_null())
            .map(|(name, member)| (name.clone(), without_nulls(member)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        plain => plain.clone(),
    }
}

proptest! {
    #[test]
    fn any_json_merges_or_is_refused(original in arbitrary(&NAMES), patch in arbitrary(&NAMES), of in schema()) {
        let _ = strategic(original, &patch, of);
    }

    #[test]
    fn merging_a_second_time_changes_nothing(original in pod_template(), patch in pod_template()) {
        let original = strategic(json!({}), &without_nulls(&original), Schema::Pod).unwrap();
        let once = strategic(original, &patch, Schema::Pod).unwrap();
        prop_assert_eq!(strategic(once.clone(), &patch, Schema::Pod).unwrap(), once);
    }

    #[test]
    fn maps_merge_to_the_same_however_often(original in arbitrary(&PLAIN), patch in arbitrary(&PLAIN)) {
        if let Ok(once) = strategic(original, &patch, Schema::Update) {
            prop_assert_eq!(strategic(once.clone(), &patch, Schema::Update).unwrap(), once);
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(original in pod_template()) {
        prop_assert_eq!(strategic(original.clone(), &json!({}), Schema::Pod).unwrap(), original);
    }

    #[test]
    fn every_named_container_is_there_once(original in pod_template(), patch in pod_template()) {
        let names = |object: &Value| -> BTreeSet<String> {
            object["spec"]["containers"].as_array().into_iter().flatten().map(|c| c["name"].to_string()).collect()
        };
        let expected: BTreeSet<String> = names(&original).union(&names(&patch)).cloned().collect();
        let merged = strategic(original, &patch, Schema::Pod).unwrap();
        prop_assert_eq!(names(&merged), expected);
    }
}
