//! What holds for the objects of every Stack: no panic, no chance, no secret in a refusal.

mod objects;

use objects::{artifact, settings, stack, workspace};
use pko_api::ProjectInfo;
use pko_core::{
    stack::plan::{self, Source},
    workspace::build,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const SECRET: &str = "planted-secret";

/// JSON of a few levels, with names that specs and pods have.
fn arbitrary() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 20] = [
        "metadata",
        "spec",
        "podTemplate",
        "containers",
        "initContainers",
        "env",
        "envFrom",
        "stacks",
        "config",
        "resources",
        "requests",
        "name",
        "key",
        "value",
        "labels",
        "local",
        "flux",
        "dir",
        "$patch",
        "ports",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec!["", "pulumi", "fetch", "dev", "1Gi", "delete", "replace", SECRET])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((prop::sample::select(&NAMES[..]), inner), 0..5)
                .prop_map(|members| members.into_iter().map(|(name, member)| (name.to_owned(), member)).collect()),
        ]
    })
}

/// Good most of the time, so that what comes later is reached.
fn word() -> impl Strategy<Value = Value> {
    prop_oneof![9 => Just("a"), 9 => Just("dev.b"), 1 => Just("")].prop_map(Value::from)
}

fn reference() -> impl Strategy<Value = Value> {
    let kind = prop_oneof![
        20 => prop::sample::select(vec!["Literal", "Secret"]),
        1 => prop::sample::select(vec!["ConfigMap", "Env", "FS", "Vault", ""]),
    ];
    let namespace = prop_oneof![10 => prop::sample::select(vec!["", "team"]), 1 => Just("other")];
    (kind, prop::bool::weighted(0.9), word(), word(), namespace).prop_map(|(kind, complete, name, key, namespace)| {
        if !complete {
            return json!({"type": kind});
        }
        json!({
            "type": kind,
            "literal": {"value": SECRET},
            "secret": {"name": name, "key": key, "namespace": namespace},
            "configMap": {"name": name, "key": key},
        })
    })
}

/// A few entries; the last key is one that other fields have too.
fn map_of(own: &'static str, values: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let key = prop_oneof![8 => Just(own), 8 => Just("x"), 1 => Just("PULUMI_BACKEND_URL")];
    let key = (key, Just(own)).prop_map(|(key, own)| if key == "x" { format!("{own}:x") } else { key.to_owned() });
    prop::collection::btree_map(key, values, 0..3).prop_map(|entries| json!(entries))
}

fn spec() -> impl Strategy<Value = Value> {
    let references = (map_of("ENV", reference()), map_of("secret", reference()));
    let config_map =
        (word(), word(), any::<bool>()).prop_map(|(name, key, json)| json!({"name": name, "key": key, "json": json}));
    let config = prop_oneof![8 => map_of("plain", arbitrary()), 1 => arbitrary()];
    let templates = (prop::option::of(arbitrary()), prop::option::of(arbitrary()), prop::option::of(arbitrary()));
    (word(), word(), references, map_of("map", config_map), config, templates).prop_map(
        |(stack, backend, (env_refs, secrets_ref), config_ref, config, (pod, whole, update))| {
            let template = whole.unwrap_or_else(|| json!({"spec": {"podTemplate": {"spec": pod}}}));
            json!({
                "stack": stack, "backend": backend, "envRefs": env_refs, "secretsRef": secrets_ref,
                "configRef": config_ref, "config": config, "secrets": {"pin": SECRET},
                "workspaceTemplate": template, "updateTemplate": update,
            })
        },
    )
}

fn source() -> impl Strategy<Value = Source> {
    let project = ProjectInfo { name: "app".to_owned(), runtime: "yaml".to_owned(), ..ProjectInfo::default() };
    prop::sample::select(vec![artifact(), Source::None, Source::ProjectInfo(project)])
}

proptest! {
    #[test]
    fn every_stack_leads_to_objects_or_to_a_refusal(spec in spec(), source in source()) {
        let stack = stack(spec);
        let planned = plan::workspace(&stack, &source);
        prop_assert_eq!(&planned, &plan::workspace(&stack, &source));
        match planned {
            Ok(workspace) => {
                prop_assert_eq!(plan::workspace_hash(&workspace), plan::workspace_hash(&workspace.clone()));
                let built = build::stateful_set(&workspace, &settings());
                prop_assert_eq!(&built, &build::stateful_set(&workspace, &settings()));
                if let Err(invalid) = built {
                    prop_assert!(!invalid.message.contains(SECRET), "{}", invalid);
                }
                prop_assert_eq!(build::service(&workspace), build::service(&workspace));
                let update = plan::update(&stack, &workspace, "app-1", "up", "why");
                prop_assert_eq!(&update, &plan::update(&stack, &workspace, "app-1", "up", "why"));
                if let Err(invalid) = update {
                    prop_assert!(!invalid.message.contains(SECRET), "{}", invalid);
                }
            }
            Err(invalid) => prop_assert!(!invalid.message.contains(SECRET), "{}", invalid),
        }
    }

    #[test]
    fn every_workspace_leads_to_objects_or_to_a_refusal(
        pod in prop::option::of(arbitrary()),
        resources in arbitrary(),
        env in prop::collection::vec(arbitrary(), 0..3),
        sources in prop::collection::vec(arbitrary(), 0..2),
        init in prop::collection::vec(arbitrary(), 0..2),
    ) {
        let workspace = workspace(json!({
            "podTemplate": {"spec": pod}, "resources": resources,
            "env": env, "envFrom": sources, "initContainers": init,
        }));
        let built = build::stateful_set(&workspace, &settings());
        prop_assert_eq!(&built, &build::stateful_set(&workspace, &settings()));
        if let Err(invalid) = built {
            prop_assert!(!invalid.message.is_empty());
            prop_assert!(!invalid.message.contains(SECRET), "{}", invalid);
        }
    }
}
