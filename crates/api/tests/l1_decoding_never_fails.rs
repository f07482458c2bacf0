//! Whatever JSON stands where the schema leaves room, the object decodes, and encodes to what it was.

use pko_api::{Guarded, Program, Stack, Update, Workspace, crd};
use proptest::prelude::*;
use serde_json::{Value, json};

fn any_json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e18..1e18_f64).prop_map(Value::from),
        (-1_000_000..1_000_000_i32).prop_map(|n| Value::from(f64::from(n))),
    ];
    let text = prop_oneof![".{0,12}", "-?[0-9.]{0,4}(ns|us|ms|s|m|h|d)?[0-9]{0,3}(s|m)?"];
    let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, text.prop_map(Value::from),];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z:$]{0,6}", inner, 0..4).prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

/// What a CRD is made of.
fn json_without_floats() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        ".{0,12}",
        "[ -~]{0,12}",
        prop::sample::select(vec!["true", "No", "null", "~", "1", "1e3", "0x1", ".5", "-", "- a", "a: b", "#", "y"])
            .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word.clone(), inner, 0..4).prop_map(|entries| entries.into_iter().collect()),
        ]
    })
}

fn stack(config: &Value, duration: &Value, numbers: &[Value; 3], template: &Value) -> Value {
    json!({
        "apiVersion": "pulumi.com/v1",
        "kind": "Stack",
        "metadata": {"name": "s"},
        "spec": {
            "stack": "dev",
            "config": config,
            "prerequisites": [{"name": "p", "requirement": {"succeededWithinDuration": duration}}],
            "resyncFrequencySeconds": numbers[0],
            "retryMaxBackoffDurationSeconds": numbers[1],
            "pulumiLogLevel": numbers[2],
            "workspaceTemplate": template,
            "updateTemplate": {"spec": {"ttlAfterCompleted": duration, "parallel": numbers[0]}},
        },
    })
}

proptest! {
    #[test]
    fn a_stack_decodes_whatever_its_open_fields_hold(
        config in any_json(),
        duration in any_json(),
        numbers in [any_json(), any_json(), any_json()],
        template in any_json(),
    ) {
        let object = stack(&config, &duration, &numbers, &template);
        let decoded = serde_json::from_value::<Stack>(object);
        prop_assert!(decoded.is_ok(), "{decoded:?}");
    }

    #[test]
    fn an_unusable_value_of_a_stack_is_kept_and_named_and_a_usable_one_is_not_named(
        config in any_json(),
        duration in any_json(),
        numbers in [any_json(), any_json(), any_json()],
    ) {
        let object = stack(&config, &duration, &numbers, &json!({}));
        let decoded: Stack = serde_json::from_value(object).unwrap();
        let named = |field: &str| decoded.spec.problems().iter().any(|problem| problem.field == field);
        prop_assert_eq!(named("spec.config"), !(config.is_object() || config.is_null()));
        let encoded = serde_json::to_value(&decoded).unwrap();
        prop_assert_eq!(encoded.pointer("/spec/config").unwrap_or(&Value::Null), &config);
        if named("spec.pulumiLogLevel") {
            prop_assert_eq!(encoded.pointer("/spec/pulumiLogLevel"), Some(&numbers[2]));
        }
    }

    #[test]
    fn decoding_what_was_encoded_changes_nothing(
        config in any_json(),
        duration in any_json(),
        numbers in [any_json(), any_json(), any_json()],
        template in any_json(),
    ) {
        let object = stack(&config, &duration, &numbers, &template);
        let once: Stack = serde_json::from_value(object).unwrap();
        let twice: Stack = serde_json::from_value(serde_json::to_value(&once).unwrap()).unwrap();
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn a_workspace_decodes_whatever_its_open_fields_hold(
        level in any_json(),
        value in any_json(),
        embedded in any_json(),
    ) {
        let decoded = serde_json::from_value::<Workspace>(json!({
            "metadata": {"name": "w"},
            "spec": {
                "pulumiLogLevel": level,
                "resources": embedded,
                "env": [embedded],
                "envFrom": [embedded],
                "initContainers": [embedded],
                "podTemplate": {"spec": embedded},
                "stacks": [{"name": "dev", "config": [{"key": "k", "value": value}]}],
            },
        }));
        prop_assert!(decoded.is_ok(), "{decoded:?}");
    }

    #[test]
    fn an_update_decodes_whatever_its_open_fields_hold(ttl in any_json(), parallel in any_json()) {
        let decoded = serde_json::from_value::<Update>(json!({
            "metadata": {"name": "u"},
            "spec": {"ttlAfterCompleted": ttl, "parallel": parallel},
        }));
        prop_assert!(decoded.is_ok(), "{decoded:?}");
    }

    #[test]
    fn a_program_decodes_whatever_its_expressions_are(expression in any_json()) {
        let decoded = serde_json::from_value::<Program>(json!({
            "metadata": {"name": "p"},
            "program": {
                "configuration": {"a": {"default": expression}},
                "variables": {"a": expression},
                "outputs": {"a": expression},
                "resources": {"a": {
                    "type": "t",
                    "properties": {"a": expression},
                    "get": {"id": "i", "state": {"a": expression}},
                    "options": {
                        "dependsOn": [expression],
                        "parent": expression,
                        "provider": expression,
                        "providers": {"a": expression},
                    },
                }},
            },
        }));
        prop_assert!(decoded.is_ok(), "{decoded:?}");
        let program = decoded.unwrap().program;
        prop_assert_eq!(&program.outputs["a"], &expression);
        prop_assert_eq!(&program.resources["a"].properties["a"], &expression);
    }

    #[test]
    fn json_written_as_yaml_reads_back_as_it_was(document in json_without_floats()) {
        let yaml = crd::to_yaml(&document);
        let read: Value = serde_saphyr::from_str(&yaml)
            .map_err(|error| TestCaseError::fail(format!("{error}\n{yaml}")))?;
        prop_assert_eq!(read, document, "{}", yaml);
    }

    #[test]
    fn a_status_decodes_whatever_its_numbers_and_times_hold(number in any_json(), time in any_json()) {
        let condition = json!({"type": "Ready", "status": "True", "lastTransitionTime": time});
        let stack = serde_json::from_value::<Stack>(json!({"metadata": {}, "status": {
            "observedGeneration": number,
            "lastUpdate": {"generation": number, "failures": number, "lastResyncTime": time},
            "currentUpdate": {"generation": number},
            "conditions": [condition, number],
        }}));
        prop_assert!(stack.is_ok(), "{stack:?}");
        let update = serde_json::from_value::<Update>(json!({"metadata": {}, "status": {
            "observedGeneration": number, "startTime": time, "endTime": time, "conditions": [condition],
        }}));
        prop_assert!(update.is_ok(), "{update:?}");
    }

    #[test]
    fn a_guarded_object_decodes_whatever_it_is(object in any_json(), spec in any_json(), metadata in any_json()) {
        let text = object.to_string();
        prop_assert!(serde_json::from_str::<Guarded<Stack>>(&text).is_ok(), "{text}");
        let text = json!({"metadata": metadata, "spec": spec, "status": object}).to_string();
        prop_assert!(serde_json::from_str::<Guarded<Stack>>(&text).is_ok(), "{text}");
    }
}
