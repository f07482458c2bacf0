//! The Workspace and the Updates of a Stack.

mod objects;

use insta::assert_snapshot;
use objects::{artifact, differences, reference, stack, text, workspace};
use pko_api::{Stack, Workspace, annotations, workspace::GitSource};
use pko_core::stack::plan::{self, Source};
use serde_json::{Value, json};

fn planned(spec: Value) -> Workspace {
    plan::workspace(&stack(spec), &artifact()).expect("a Workspace")
}

fn refused(spec: Value) -> String {
    plan::workspace(&stack(spec), &artifact()).expect_err("a refusal").message
}

fn json_of(workspace: &Workspace) -> Value {
    serde_json::to_value(workspace).expect("JSON")
}

/// A Stack of the reference, with the source that its Workspace has.
fn reference_stack(file: &str) -> (Stack, Source) {
    let stack = serde_json::from_value(reference(file, "Stack")).expect("a Stack");
    let flux = &reference(file, "Workspace")["spec"]["flux"];
    let text = |name: &str| flux[name].as_str().unwrap_or_default().to_owned();
    (stack, Source::Flux { url: text("url"), digest: text("digest"), dir: text("dir") })
}

#[test]
fn a_workspace_with_template_and_references_is_the_references() {
    let (stack, source) = reference_stack("ready");
    let ours = json_of(&plan::workspace(&stack, &source).unwrap());
    assert_snapshot!(differences(&reference("ready", "Workspace"), &ours), @r#"
    /metadata/annotations: nothing | {"pulumi.com/applied-hash":"4f0e29d6c3539126fba8229414fdc36b"}
    /metadata/generation: 1 | nothing
    /metadata/uid: "c17362d9-c8df-42c9-96c3-1140ffe6ecdc" | nothing
    /spec/resources: {} | nothing
    /spec/securityProfile: "restricted" | nothing
    "#);
}

#[test]
fn a_workspace_with_plain_config_is_the_references() {
    let (stack, source) = reference_stack("previewed");
    let ours = json_of(&plan::workspace(&stack, &source).unwrap());
    assert_snapshot!(differences(&reference("previewed", "Workspace"), &ours), @r#"
    /metadata/annotations: nothing | {"pulumi.com/applied-hash":"2540ebbd56dd95b4c7c5dedfb178c347"}
    /metadata/generation: 1 | nothing
    /metadata/uid: "c7992cee-1ff0-4d4e-9dfa-0d6aff0383f0" | nothing
    /spec/podTemplate/metadata: {} | nothing
    /spec/podTemplate/spec/containers/0/resources: {} | nothing
    /spec/resources: {} | nothing
    /spec/securityProfile: "restricted" | nothing
    "#);
}

#[test]
fn updates_are_the_references() {
    for file in ["ready", "previewed"] {
        let (stack, _) = reference_stack(file);
        let workspace: Workspace = serde_json::from_value(reference(file, "Workspace")).unwrap();
        let theirs = reference(file, "Update");
        let word = |place: &str| theirs.pointer(place).unwrap().as_str().unwrap();
        let (name, kind) = (word("/metadata/name"), word("/spec/type"));
        let ours = plan::update(&stack, &workspace, name, kind, word("/spec/message")).unwrap();
        let ours = serde_json::to_value(ours).unwrap();
        let expected =
            format!("/metadata/generation: 1 | nothing\n/metadata/uid: {} | nothing", theirs["metadata"]["uid"]);
        assert_eq!(differences(&theirs, &ours), expected, "{file}");
    }
}

#[test]
fn program_stack() {
    let workspace = planned(json!({
        "stack": "acme/app/dev",
        "programRef": {"name": "app"},
        "backend": "s3://states",
        "serviceAccountName": "deployer",
        "secretsProvider": "passphrase",
        "environment": ["acme/base", "acme/dev"],
        "envRefs": {
            "PULUMI_CONFIG_PASSPHRASE": {"type": "Secret", "secret": {"name": "pass", "key": "passphrase"}},
            "AWS_REGION": {"type": "Literal", "literal": {"value": "eu-central-1"}},
            "TEAM": {"type": "ConfigMap", "configMap": {"name": "team", "key": "name"}},
        },
        "envs": ["common", "site"],
        "envSecrets": ["tokens"],
        "config": {"app:size": 3, "app:zones": ["a", "b"], "app:owner": {"name": "x"}, "app:on": true, "app:name": "n"},
        "configRef": {
            "app:banner": {"name": "texts", "key": "banner"},
            "app:rules": {"name": "texts", "key": "rules", "json": true},
        },
        "configRefs": {"app:more": {"name": "other.texts", "key": "more"}},
        "secrets": {"app:pin": "1234"},
        "secretsRef": {
            "app:token": {"type": "Secret", "secret": {"name": "tok", "key": "t"}},
            "app:second": {"type": "Secret", "secret": {"name": "tok", "key": "u"}},
            "app:literal": {"type": "Literal", "literal": {"value": "l"}},
        },
    }));
    assert_snapshot!(text(&json_of(&workspace)));
}

#[test]
fn templated_stack() {
    let workspace = planned(json!({
        "stack": "dev",
        "useLocalStackOnly": true,
        "pulumiLogLevel": 3,
        "envs": ["common"],
        "envRefs": {"A": {"type": "Literal", "literal": {"value": "generated"}}},
        "workspaceTemplate": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "n"}},
            "spec": {
                "image": "registry.test/pulumi:1",
                "securityProfile": "baseline",
                "resources": {"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}},
                "env": [{"name": "A", "value": "templated"}, {"name": "B", "value": "new"}],
                "envFrom": [{"secretRef": {"name": "templated"}}],
                "flux": {"dir": "sub"},
                "stacks": [{"name": "other", "create": true}],
                "initContainers": [{"name": "mine", "image": "i"}],
                "serviceTemplate": {"metadata": {"labels": {"s": "1"}}},
                "podTemplate": {
                    "metadata": {"labels": {"p": "1"}},
                    "spec": {
                        "containers": [{"name": "proxy", "image": "p"}],
                        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
                        "volumes": [{"name": "cache", "emptyDir": {}}],
                    },
                },
            },
        },
    }));
    assert_snapshot!(text(&json_of(&workspace)));
}

#[test]
fn a_destroy_without_sources_ignores_the_templates() {
    let stack = stack(json!({"stack": "dev", "workspaceTemplate": {"spec": {"local": {"dir": "/app"}, "image": "i"}}}));
    let project =
        pko_api::ProjectInfo { name: "app".to_owned(), runtime: "yaml".to_owned(), ..pko_api::ProjectInfo::default() };
    let spec = plan::workspace(&stack, &Source::ProjectInfo(project.clone())).unwrap().spec;
    assert_eq!((spec.project_info, spec.local, spec.image.as_deref()), (Some(project), None, Some("i")));
}

#[test]
fn a_template_brings_the_source_of_a_stack_without_one() {
    let stack = stack(json!({"stack": "dev", "workspaceTemplate": {"spec": {"local": {"dir": "/app"}}}}));
    let spec = plan::workspace(&stack, &Source::None).unwrap().spec;
    assert_eq!(spec.local.unwrap().dir.as_deref(), Some("/app"));
}

#[test]
fn a_git_source_is_taken_over_as_it_is() {
    let git = GitSource { url: Some("https://x.test/r.git".to_owned()), shallow: true, ..GitSource::default() };
    let spec = plan::workspace(&stack(json!({"stack": "dev"})), &Source::Git(git.clone())).unwrap().spec;
    assert_eq!(spec.git, Some(git));
}

#[test]
fn a_workspace_carries_the_digest_of_itself() {
    let workspace = planned(json!({"stack": "dev"}));
    let carried = &workspace.metadata.annotations.as_ref().unwrap()[annotations::APPLIED_HASH];
    assert_eq!(*carried, plan::workspace_hash(&workspace));
}

#[test]
fn the_digest_changes_with_what_is_applied_and_only_with_that() {
    let hash = |spec: Value| plan::workspace_hash(&planned(spec));
    let same = hash(json!({"stack": "dev"}));
    let rows = [
        (json!({"stack": "dev", "config": {"a": "1"}}), "configuration is applied"),
        (json!({"stack": "dev", "backend": "s3://b"}), "variables are applied"),
        (json!({"stack": "dev", "workspaceTemplate": {"metadata": {"labels": {"a": "b"}}}}), "labels are applied"),
        (json!({"stack": "dev", "workspaceTemplate": {"spec": {"image": "x"}}}), "the template is applied"),
    ];
    for (spec, reason) in rows {
        assert_ne!(hash(spec), same, "{reason}");
    }
    let mut observed = planned(json!({"stack": "dev"}));
    observed.metadata.uid = Some("u".to_owned());
    observed.metadata.generation = Some(9);
    observed.metadata.resource_version = Some("77".to_owned());
    observed.status = Some(pko_api::workspace::WorkspaceStatus::default());
    assert_eq!(plan::workspace_hash(&observed), same, "what only the API server knows does not count");
    assert_eq!(hash(json!({"stack": "dev", "refresh": true})), same, "what is about Updates does not count");
}

#[test]
fn what_no_workspace_can_be_made_from_is_explained() {
    let literal = json!({"type": "Literal", "literal": {"value": "v"}});
    let foreign = json!({"type": "Secret", "secret": {"name": "s", "key": "k", "namespace": "other"}});
    let config_map = json!({"name": "c", "key": "x"});
    let rows = [
        (json!({"stack": ""}), "spec.stack:", "a stack has a name"),
        (
            json!({"stack": "d", "backend": "b", "envRefs": {"PULUMI_BACKEND_URL": literal}}),
            r#"spec.envRefs["PULUMI_BACKEND_URL"]: the variable is also set by spec.backend; remove one"#,
            "one variable, two fields",
        ),
        (
            json!({"stack": "d", "accessTokenSecret": "t", "envRefs": {"PULUMI_ACCESS_TOKEN": literal}}),
            "also set by spec.accessTokenSecret",
            "one variable, two fields",
        ),
        (
            json!({"stack": "d", "envRefs": {"A": {"type": "Env", "env": {"name": "X"}}}}),
            r#"spec.envRefs["A"]: resolving env variable reference for "A": ref type "Env" is deprecated; "#,
            "PKO's words are in it",
        ),
        (
            json!({"stack": "d", "envRefs": {"A": {"type": "FS", "filesystem": {"path": "/x"}}}}),
            r#"ref type "FS" is deprecated"#,
            "PKO's words are in it",
        ),
        (
            json!({"stack": "d", "envRefs": {"A": {"type": "Literal"}}}),
            "missing literal reference in ResourceRef",
            "PKO's words are in it",
        ),
        (
            json!({"stack": "d", "envRefs": {"A": {"type": "Secret"}}}),
            "missing secret reference in ResourceRef",
            "PKO's words are in it",
        ),
        (
            json!({"stack": "d", "envRefs": {"A": {"type": "ConfigMap"}}}),
            "missing configMap reference in ResourceRef",
            "in the same manner",
        ),
        (
            json!({"stack": "d", "envRefs": {"A": {"type": "Vault"}}}),
            "unsupported selector type: Vault",
            "PKO's words are in it",
        ),
        (
            json!({"stack": "d", "envRefs": {"A": foreign}}),
            "cross-namespace refs are not allowed",
            "PKO's words are in it",
        ),
        (
            json!({"stack": "d", "envRefs": {"A": {"type": "Secret", "secret": {"name": "s", "key": ""}}}}),
            "the reference has no key",
            "an incomplete reference would be an invalid pod",
        ),
        (
            json!({"stack": "d", "config": 5}),
            "spec.config: must be a map",
            "what the schema admits is not always usable",
        ),
        (
            json!({"stack": "d", "config": {"k": 1}, "secrets": {"k": "v"}}),
            r#"spec.secrets["k"]: the configuration key is also in spec.config; remove one"#,
            "one key, two fields",
        ),
        (
            json!({"stack": "d", "configRef": {"k": config_map}, "configRefs": {"k": config_map}}),
            "spec.configRefs[\"k\"]: the configuration key is also in spec.configRef;",
            "one key, two fields",
        ),
        (
            json!({"stack": "d", "secrets": {"k": "v"}, "secretsRef": {"k": literal}}),
            "also in spec.secrets",
            "one key, two fields",
        ),
        (
            json!({"stack": "d", "configRef": {"k": {"name": "", "key": "x"}}}),
            r#"spec.configRef["k"]: failed to set stack config: updating configRef for "k": the reference has no name"#,
            "an incomplete reference",
        ),
        (
            json!({"stack": "d", "secretsRef": {"k": {"type": "Env"}}}),
            r#"["k"]: failed to set stack config: updating secretRef for "k": ref type "Env" is deprecated"#,
            "PKO's words are in it",
        ),
        (
            json!({"stack": "d", "secretsRef": {"k": {"type": "ConfigMap", "configMap": {"name": "c", "key": "k"}}}}),
            "unsupported selector type: ConfigMap",
            "a ConfigMap is no place for a secret",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"spec": {"stacks": [{"name": "d"}]}}}),
            "spec.workspaceTemplate.spec.stacks: has the stack",
            "the same stack twice",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"spec": {"local": {"dir": "/x"}}}}),
            "flux and local",
            "two sources",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"spec": {"env": [{"value": "x"}]}}, "backend": "b"}),
            "spec.workspaceTemplate.spec.env[0]: has no `name`",
            "items of a merged list have keys",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"spec": {"env": [{"value": "x"}]}}}),
            "spec.workspaceTemplate.spec.env[0]: has no name",
            "also if there is nothing to merge with",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"spec": {"env": [{"name": "A"}, {"name": "A"}]}}}),
            "spec.workspaceTemplate.spec.env[1]: A is there twice",
            "the API server would refuse the Workspace",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"spec": {"stacks": [{"name": "a"}, {"name": "a"}]}}}),
            "spec.workspaceTemplate.spec.stacks[1]: a is there twice",
            "the API server would refuse the Workspace",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"spec": {"pulumiLogLevel": -1}}}),
            "spec.workspaceTemplate.spec.pulumiLogLevel: must be",
            "a log level is not negative",
        ),
        (json!({"stack": "d", "pulumiLogLevel": -1}), "spec.pulumiLogLevel: must be", "nor is the Stack's own"),
        (
            json!({"stack": "d", "workspaceTemplate": {"spec": {"stacks": "x"}}}),
            "spec.workspaceTemplate.spec.stacks: its value has the wrong type",
            "templates are partial, not arbitrary",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": "x"}),
            "spec.workspaceTemplate: must be a map",
            "a template is a map",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"kind": "Pod"}}),
            "spec.workspaceTemplate.kind: must be Workspace",
            "a template does not change the kind",
        ),
        (
            json!({"stack": "d", "workspaceTemplate": {"metadata": {"namespace": "other"}}}),
            "spec.workspaceTemplate.metadata.namespace:",
            "owners and their children are neighbours",
        ),
    ];
    for (spec, expected, reason) in rows {
        let message = refused(spec);
        assert!(message.contains(expected), "{reason}: {message}");
    }
}

#[test]
fn a_template_may_repeat_what_is_so_anyway() {
    let template = json!({
        "apiVersion": "auto.pulumi.com/v1alpha1",
        "kind": "Workspace",
        "metadata": {"namespace": "team", "uid": "u"},
        "spec": null,
        "status": {},
    });
    let workspace = planned(json!({"stack": "d", "workspaceTemplate": template}));
    assert_eq!(workspace, planned(json!({"stack": "d"})));
}

#[test]
fn destroy_of_a_templated_stack() {
    let stack = stack(json!({
        "stack": "dev",
        "runProgram": true,
        "targets": ["urn:a"],
        "updateTemplate": {
            "metadata": {"name": "ignored", "labels": {"mine": "1"}, "annotations": {"a": "b"}},
            "spec": {"ttlAfterCompleted": "1h", "parallel": 4, "continueOnError": true, "remove": true},
        },
    }));
    let update = plan::update(&stack, &workspace(json!({})), "app-1", "destroy", "Stack marked for deletion").unwrap();
    assert_snapshot!(text(&serde_json::to_value(update).unwrap()));
}

#[test]
fn targets_and_refresh_are_for_updates_that_change_resources() {
    let spec =
        json!({"stack": "dev", "targets": ["urn:a"], "targetDependents": true, "refresh": true, "runProgram": true});
    let rows = [
        ("up", json!({"target": ["urn:a"], "targetDependents": true, "refresh": true}), "all of them"),
        ("preview", json!({"target": ["urn:a"], "targetDependents": true, "refresh": true}), "it shows the same"),
        ("destroy", json!({"runProgram": true}), "all resources go"),
        ("refresh", json!({"target": ["urn:a"], "expectNoChanges": true}), "it comes before an up, and finds nothing"),
    ];
    for (kind, expected, reason) in rows {
        let update = plan::update(&stack(spec.clone()), &workspace(json!({})), "app-1", kind, "why").unwrap();
        let mut found = serde_json::to_value(update.spec).unwrap();
        for common in ["workspaceName", "stackName", "type", "ttlAfterCompleted", "message"] {
            assert!(found.as_object_mut().unwrap().remove(common).is_some(), "{kind} has {common}");
        }
        assert_eq!(found, expected, "{kind}: {reason}");
    }
}

#[test]
fn what_no_update_can_be_made_from_is_explained() {
    let rows = [
        (
            json!({"spec": {"ttlAfterCompleted": "soon"}}),
            "spec.updateTemplate.spec.ttlAfterCompleted:",
            "not a duration",
        ),
        (json!({"spec": {"parallel": 4.5}}), "spec.updateTemplate.spec.parallel:", "not a whole number"),
        (json!({"spec": {"remove": "yes"}}), "spec.updateTemplate.spec.remove: its value has the wrong type", "a flag"),
        (json!([]), "spec.updateTemplate: must be a map", "a template is a map"),
    ];
    for (template, expected, reason) in rows {
        let stack = stack(json!({"stack": "d", "updateTemplate": template}));
        let message = plan::update(&stack, &workspace(json!({})), "n", "up", "m").unwrap_err().message;
        assert!(message.contains(expected), "{reason}: {message}");
    }
}
