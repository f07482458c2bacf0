//! Workspaces and Updates that users write by hand, in a namespace that enforces the `restricted` standard: all four
//! operations, every customisation, and what is said when something is in the way. Where it says so, also with agents
//! that have PKO's streaming calls only.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::time::Duration;

use pko_e2e::scene::{STACK, Scene};
use pko_testkit::cluster::{Volume, condition, install_operator, list, read, variable, wait_for};
use rstest::rstest;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(2);

/// Whether the agent has Runs.
#[derive(Clone, Copy, PartialEq)]
enum Agent {
    WithRuns,
    WithoutRuns,
}

/// One thing that takes some seconds to make, then another, and two outputs of which one is secret.
fn project(create_seconds: u32) -> String {
    json!({
        "name": "mine",
        "runtime": "yaml",
        "configuration": {"who": {"type": "String"}},
        "resources": {
            "thing": {
                "type": "pkotest:Thing",
                "properties": {"value": "for ${who}", "secret": "planted", "createSeconds": create_seconds},
                "options": {"version": "0.1.0"},
            },
            "after": {
                "type": "pkotest:Thing",
                "properties": {"value": "later"},
                "options": {"version": "0.1.0", "dependsOn": ["${thing}"]},
            },
        },
        "outputs": {"value": "${thing.value}", "hidden": "${thing.secretOutput}"},
    })
    .to_string()
}

/// A Workspace whose project comes from an init container of the user, as does a variable of the provider.
fn workspace(project: &str, agent: Agent) -> Value {
    let script = "mkdir -p /share/workspace && printf '%s' \"$PROJECT\" > /share/workspace/Pulumi.yaml && \
                  echo \"PKOTEST_CLOUD=$CLOUD\" >> \"$PULUMI_ENV\"";
    let mut env = vec![
        json!({"name": "PULUMI_BACKEND_URL", "value": Volume::backend_url()}),
        json!({"name": "PULUMI_CONFIG_PASSPHRASE", "valueFrom": {
            "secretKeyRef": {"name": "passphrase", "key": "text"},
        }}),
    ];
    if agent == Agent::WithoutRuns {
        env.push(json!({"name": "PULUMI_AGENT_NO_RUNS", "value": "true"}));
    }
    json!({
        "image": variable("PKO_TEST_WORKSPACE_IMAGE"),
        "imagePullPolicy": "Never",
        "serviceAccountName": "pulumi",
        "env": env,
        "initContainers": [{
            "name": "project",
            "image": variable("PKO_TEST_WORKSPACE_IMAGE"),
            "imagePullPolicy": "Never",
            "command": ["sh", "-c", script],
            "env": [{"name": "PROJECT", "value": project}, {"name": "CLOUD", "value": Volume::cloud_dir()}],
        }],
        "stacks": [{
            "name": STACK,
            "create": true,
            "secretsProvider": "passphrase",
            "config": [{"key": "who", "value": "Ada"}],
        }],
        "podTemplate": {"spec": {
            "containers": [{"name": "pulumi", "volumeMounts": [{"name": "state", "mountPath": "/state"}]}],
            "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": Volume::CLAIM}}],
        }},
    })
}

fn apply_workspace(scene: &Scene, spec: &Value) {
    let object = json!({
        "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace", "metadata": {"name": "mine"}, "spec": spec,
    });
    scene.kubectl().apply(&object.to_string());
}

fn apply_update(scene: &Scene, name: &str, of_type: &str, more: &Value) {
    let mut spec = json!({"workspaceName": "mine", "stackName": STACK, "type": of_type});
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let object =
        json!({"apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Update", "metadata": {"name": name}, "spec": spec});
    scene.kubectl().apply(&object.to_string());
}

/// As a user would wait.
fn wait_complete(scene: &Scene, name: &str) -> Value {
    let update = format!("update/{name}");
    let waited = scene.kubectl().try_run(&["wait", "--for=condition=Complete", "--timeout=120s", &update]);
    let update = read(scene.kubectl(), "update", name).unwrap();
    assert!(waited.is_ok(), "{waited:?}: {}", update["status"]);
    update
}

fn wait_ready(scene: &Scene) -> Value {
    let waited = scene.kubectl().try_run(&["wait", "--for=condition=Ready", "--timeout=120s", "workspace/mine"]);
    let workspace = read(scene.kubectl(), "workspace", "mine").unwrap();
    assert!(waited.is_ok(), "{waited:?}: {}", workspace["status"]);
    workspace
}

/// Waits until the Workspace says why it is not ready, in these words.
fn wait_told(scene: &Scene, words: &[&str]) -> Value {
    wait_for(&format!("the Workspace to speak of {words:?}"), PATIENCE, || {
        let workspace = read(scene.kubectl(), "workspace", "mine")?;
        let ready = condition(&workspace, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        let told = ready["status"] == "False" && words.iter().all(|word| message.contains(word));
        if told { Ok(workspace) } else { Err(ready.to_string()) }
    })
}

fn succeeded(update: &Value) {
    let failed = condition(update, "Failed");
    assert_eq!(failed["reason"], "UpdateSucceeded", "{}", update["status"]);
}

#[rstest]
#[case::with_runs(Agent::WithRuns)]
#[case::without_runs(Agent::WithoutRuns)]
fn a_workspace_written_by_hand_runs_updates_of_all_four_types(#[case] agent: Agent) {
    install_operator();
    let scene = Scene::new("by-hand");
    apply_workspace(&scene, &workspace(&project(0), agent));
    let ready = wait_ready(&scene);
    assert_eq!(ready["status"]["address"], format!("mine-workspace.{}:50051", scene.namespace()));
    assert_eq!(ready["status"]["pulumiVersion"], "3.259.0");

    apply_update(&scene, "look", "preview", &json!({"message": "what would it do"}));
    let look = wait_complete(&scene, "look");
    succeeded(&look);
    if agent == Agent::WithRuns {
        assert_eq!(look["status"]["resourceChanges"], json!({"create": 3}), "{}", look["status"]);
        assert_eq!(look["status"]["preview"]["outputs"]["value"], "for Ada");
        assert_eq!(
            look["status"]["preview"]["outputs"]["hidden"], "[unknown]",
            "it is computed when the thing is made"
        );
        let printed = look["status"]["preview"]["standardOutput"].as_str().unwrap();
        assert!(printed.contains("pkotest:index:Thing") && !printed.contains("planted"), "{printed}");
    }
    assert_eq!(scene.volume().ledger(), [], "a preview makes nothing");

    apply_update(&scene, "make", "up", &json!({"message": "make it", "parallel": 2, "continueOnError": true}));
    let make = wait_complete(&scene, "make");
    succeeded(&make);
    assert_eq!(make["status"]["outputs"], "make-stack-outputs");
    assert_eq!(make["status"]["message"], "make it");
    assert_eq!(make["status"]["projectInfo"], json!({"name": "mine", "runtime": "yaml"}));
    assert!(make["status"]["startTime"].is_string() && make["status"]["endTime"].is_string());
    let secret = read(scene.kubectl(), "secret", "make-stack-outputs").unwrap();
    assert_eq!(secret["metadata"]["annotations"]["pulumi.com/secrets"], r#"["hidden"]"#);
    assert_eq!(
        (&secret["immutable"], &secret["metadata"]["ownerReferences"][0]["name"]),
        (&json!(true), &json!("make"))
    );

    apply_update(&scene, "again", "up", &json!({"expectNoChanges": true, "refresh": true}));
    succeeded(&wait_complete(&scene, "again"));
    apply_update(&scene, "refreshed", "refresh", &json!({"expectNoChanges": true}));
    succeeded(&wait_complete(&scene, "refreshed"));
    apply_update(&scene, "gone", "destroy", &json!({"ttlAfterCompleted": "1s"}));
    wait_for("the destroy to be over, and to go in time", PATIENCE, || {
        let updates = list(scene.kubectl(), "updates")?;
        let left = updates.iter().any(|update| update["metadata"]["name"] == "gone");
        if left { Err(format!("{updates:?}")) } else { Ok(()) }
    });
    let count = |operation: &str| scene.volume().ledger().iter().filter(|line| line.operation == operation).count();
    assert_eq!((count("create"), count("read"), count("delete")), (2, 4, 2), "two of them refreshed");
    assert_eq!(scene.volume().backend().locks(), Vec::<std::path::PathBuf>::new());
}

#[rstest]
#[case::with_runs(Agent::WithRuns)]
#[case::without_runs(Agent::WithoutRuns)]
fn updates_of_one_workspace_take_turns_and_deleting_a_running_one_cancels_it(#[case] agent: Agent) {
    install_operator();
    let scene = Scene::new("turns");
    apply_workspace(&scene, &workspace(&project(30), agent));
    wait_ready(&scene);
    apply_update(&scene, "first", "up", &json!({}));
    wait_for("the provider to begin", PATIENCE, || {
        if scene.volume().ledger().is_empty() {
            return Err(read(scene.kubectl(), "update", "first")?["status"].to_string());
        }
        Ok(())
    });
    apply_update(&scene, "second", "preview", &json!({}));
    wait_for("the second to wait visibly", PATIENCE, || {
        let second = read(scene.kubectl(), "update", "second")?;
        let progressing = condition(&second, "Progressing");
        let waits =
            progressing["reason"] == "WorkspaceBusy" && progressing["message"] == "waiting for Update first to end";
        if waits { Ok(()) } else { Err(second["status"].to_string()) }
    });
    wait_for("the progress of the first", PATIENCE, || {
        let first = read(scene.kubectl(), "update", "first")?;
        let progress = &first["status"]["progress"];
        let told = progress["heartbeat"].is_string() && progress["current"] == "creating pkotest:index:Thing thing";
        if told { Ok(()) } else { Err(first["status"].to_string()) }
    });
    scene.kubectl().run(&["delete", "update", "first"]);
    succeeded(&wait_complete(&scene, "second"));
    assert_eq!(scene.volume().backend().locks(), Vec::<std::path::PathBuf>::new(), "it wound down");
    let ledger = scene.volume().ledger();
    assert!(
        !ledger.iter().any(|line| line.resource == "after"),
        "what was begun was ended, and nothing else: {ledger:?}"
    );
}

#[test]
fn every_customisation_reaches_the_pod() {
    install_operator();
    let scene = Scene::new("custom");
    let mut spec = workspace(&project(0), Agent::WithRuns);
    let image = variable("PKO_TEST_WORKSPACE_IMAGE");
    spec["resources"] = json!({"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "512Mi"}});
    spec["envFrom"] = json!([{"configMapRef": {"name": "settings"}}]);
    spec["pulumiLogLevel"] = json!(3);
    spec["podTemplate"]["metadata"] = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}});
    let pod = &mut spec["podTemplate"]["spec"];
    pod["terminationGracePeriodSeconds"] = json!(20);
    pod["tolerations"] = json!([{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]);
    pod["volumes"].as_array_mut().unwrap().push(json!({"name": "cache", "emptyDir": {}}));
    pod["containers"].as_array_mut().unwrap().push(json!({
        "name": "sidecar", "image": image, "imagePullPolicy": "Never", "command": ["sleep", "3600"],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    }));
    spec["serviceTemplate"] = json!({"metadata": {"labels": {"team": "a"}}});
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"FROM_MAP": "yes"},
    });
    scene.kubectl().apply(&settings.to_string());
    apply_workspace(&scene, &spec);
    wait_ready(&scene);

    let pod = read(scene.kubectl(), "pod", "mine-workspace-0").unwrap();
    let labels = &pod["metadata"]["labels"];
    for (label, value) in [
        ("team", "a"),
        ("app.kubernetes.io/managed-by", "pulumi-kubernetes-operator"),
        ("app.kubernetes.io/name", "pulumi"),
        ("app.kubernetes.io/component", "workspace"),
        ("auto.pulumi.com/workspace-name", "mine"),
    ] {
        assert_eq!(labels[label], value, "{label}");
    }
    assert_eq!(pod["metadata"]["annotations"]["note"], "b");
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 20);
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let container = |name: &str| containers.iter().find(|container| container["name"] == name).unwrap();
    assert_eq!(container("pulumi")["resources"]["limits"]["memory"], "512Mi");
    let confined =
        json!({"allowPrivilegeEscalation": false, "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}});
    assert_eq!(container("sidecar")["securityContext"], confined, "the namespace would have refused it");
    let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
    assert!(tolerations.iter().any(|toleration| toleration["key"] == "dedicated"));
    let seen = scene.kubectl().run(&["exec", "mine-workspace-0", "-c", "pulumi", "--", "sh", "-c", "echo $FROM_MAP"]);
    assert_eq!(seen.trim(), "yes");
    let service = read(scene.kubectl(), "service", "mine-workspace").unwrap();
    assert_eq!((&service["metadata"]["labels"]["team"], &service["spec"]["clusterIP"]), (&json!("a"), &json!("None")));
}

#[test]
fn the_baseline_profile_is_refused_where_restricted_is_enforced_and_works_elsewhere() {
    install_operator();
    let scene = Scene::new("baseline");
    let mut spec = workspace(&project(0), Agent::WithRuns);
    spec["securityProfile"] = json!("baseline");
    apply_workspace(&scene, &spec);
    wait_told(&scene, &["the cluster refuses the pod", "violates PodSecurity \"restricted:latest\""]);
    let label = "pod-security.kubernetes.io/enforce=baseline";
    let namespace = scene.namespace();
    scene.kubectl().run(&["label", "namespace", namespace, "--overwrite", label]);
    wait_ready(&scene);
    let pod = read(scene.kubectl(), "pod", "mine-workspace-0").unwrap();
    assert_eq!(pod["spec"]["securityContext"], json!({"seccompProfile": {"type": "RuntimeDefault"}}));
}

#[test]
fn what_keeps_a_pod_from_starting_is_told_and_goes_away_with_its_cause() {
    install_operator();
    let scene = Scene::new("trouble");
    let good = workspace(&project(0), Agent::WithRuns);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut spec = good.clone();
        change(&mut spec);
        apply_workspace(&scene, &spec);
    };
    with(&|spec| spec["image"] = json!("none.invalid/none:1"));
    wait_told(&scene, &["image none.invalid/none:1 of container pulumi cannot be had", "ErrImageNeverPull"]);
    with(&|spec| spec["resources"] = json!({"requests": {"cpu": "1000"}}));
    wait_told(&scene, &["the pod cannot be scheduled", "Insufficient cpu", "spec.resources"]);
    with(&|spec| spec["initContainers"][0]["command"] = json!(["sh", "-c", "echo no such repository; exit 3"]));
    wait_told(&scene, &["init container project", "exit code 3", "no such repository"]);
    with(&|spec| {
        let volume = json!({"name": "creds", "secret": {"secretName": "creds"}});
        spec["podTemplate"]["spec"]["volumes"].as_array_mut().unwrap().push(volume);
        let mounts = &mut spec["podTemplate"]["spec"]["containers"][0]["volumeMounts"];
        mounts.as_array_mut().unwrap().push(json!({"name": "creds", "mountPath": "/creds"}));
    });
    wait_told(&scene, &["Secret creds does not exist", "create it"]);
    with(&|spec| {
        let from = json!({"secretKeyRef": {"name": "creds", "key": "token"}});
        spec["env"].as_array_mut().unwrap().push(json!({"name": "TOKEN", "valueFrom": from}));
    });
    wait_told(&scene, &["secret \"creds\" not found", "create what is missing"]);
    scene.kubectl().run(&["create", "secret", "generic", "creds", "--from-literal=token=a"]);
    wait_ready(&scene);
}

#[test]
fn a_secret_that_is_corrected_brings_a_failed_workspace_back_at_once() {
    install_operator();
    let scene = Scene::new("corrected");
    scene.kubectl().run(&["create", "secret", "generic", "creds", "--from-literal=url=file:///nowhere"]);
    let mut spec = workspace(&project(0), Agent::WithRuns);
    spec["env"][0] =
        json!({"name": "PULUMI_BACKEND_URL", "valueFrom": {"secretKeyRef": {"name": "creds", "key": "url"}}});
    apply_workspace(&scene, &spec);
    let failed = wait_told(&scene, &["nowhere"]);
    assert_eq!(condition(&failed, "Stalled")["status"], "True", "{}", failed["status"]);
    let corrected = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"},
        "stringData": {"url": Volume::backend_url()},
    });
    scene.kubectl().apply(&corrected.to_string());
    wait_ready(&scene);
}

#[test]
fn another_configuration_is_taken_over_without_another_pod() {
    install_operator();
    let scene = Scene::new("in-place");
    scene.apply_program("app", &json!({"configuration": {"who": {"type": "String"}}, "outputs": {"who": "${who}"}}));
    scene.apply_stack("app", &json!({"config": {"who": "Ada"}}));
    let first = scene.until_updated("app", "");
    let pod = |scene: &Scene| read(scene.kubectl(), "pod", "app-workspace-0").unwrap()["metadata"]["uid"].clone();
    let before = pod(&scene);
    scene.apply_stack("app", &json!({"config": {"who": "Grace", "more": [1, {"a": true}]}}));
    let second = scene.until_updated("app", first["status"]["lastUpdate"]["name"].as_str().unwrap());
    assert_eq!(second["status"]["outputs"], json!({"who": "Grace"}));
    scene.apply_stack("app", &json!({"config": {"who": "Grace"}}));
    scene.until_updated("app", second["status"]["lastUpdate"]["name"].as_str().unwrap());
    assert_eq!(pod(&scene), before);
    let config = scene.pulumi("app", &["config", "--json"]);
    assert!(!config.contains("more"), "what is no longer asked for is gone: {config}");
}
