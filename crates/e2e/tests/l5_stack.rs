//! A Program and a Stack on the operator as deploy/install runs it: outputs, changes, the objects that come of it, and
//! the end.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::time::Duration;

use pko_e2e::scene::{PASSPHRASE, STACK, Scene};
use pko_testkit::cluster::{
    Kubectl, OPERATOR_NAMESPACE, Volume, condition, install_operator, list, operator_log, read, variable, wait_for,
};
use serde_json::{Value, json};

/// One thing whose value comes from the configuration, and outputs of which one is secret.
fn program(verb: &str) -> Value {
    json!({
        "configuration": {"who": {"type": "String"}, "copies": {"type": "Number"}},
        "resources": {
            "thing": {
                "type": "pkotest:Thing",
                "properties": {"value": format!("{verb} ${{who}}"), "secret": "planted"},
                "options": {"version": "0.1.0"},
            },
        },
        "outputs": {
            "value": "${thing.value}",
            "generation": "${thing.generation}",
            "copies": "${copies}",
            "hidden": "${thing.secretOutput}",
        },
    })
}

fn config() -> Value {
    json!({"config": {"who": "Ada", "copies": 3}})
}

/// What the program's secret output is in clear.
const HIDDEN: &str = "derived-from-planted";

fn update_name(stack: &Value) -> &str {
    stack["status"]["lastUpdate"]["name"].as_str().unwrap()
}

/// The values of a Secret, decoded by the API server itself.
fn secret_value(kubectl: &Kubectl, secret: &str, key: &str) -> String {
    kubectl.run(&["get", "secret", secret, "-o", &format!("go-template={{{{index .data \"{key}\" | base64decode}}}}")])
}

#[test]
fn a_user_in_the_pod_needs_no_flags() {
    install_operator();
    let scene = Scene::new("exec");
    scene.apply_program("app", &program("greet"));
    scene.apply_stack("app", &config());
    scene.until_updated("app", "");

    let shown = scene.pulumi("app", &["stack"]);
    assert!(shown.contains("Current stack is dev") && shown.contains("greet Ada"), "{shown}");
    let pod = ["exec", "app-workspace-0", "-c", "pulumi", "--"];
    let listed = scene.kubectl().run(&[&pod[..], &["ls", "/share/workspace/"]].concat());
    assert!(listed.contains("Pulumi.yaml") && listed.contains("Pulumi.dev.yaml"), "{listed}");
    assert!(scene.pulumi("app", &["cancel", "--yes"]).contains("has been canceled"));

    let of_thing = |resource: &&Value| resource["type"] == "pkotest:index:Thing";
    let export = |scene: &Scene| -> Vec<Value> {
        let state: Value = serde_json::from_str(&scene.pulumi("app", &["stack", "export"])).unwrap();
        state["deployment"]["resources"].as_array().unwrap().iter().filter(of_thing).cloned().collect()
    };
    let [thing] = &export(&scene)[..] else { panic!("the program has one thing") };
    let id = thing["id"].as_str().unwrap();
    scene.pulumi("app", &["import", "pkotest:index:Thing", "again", id, "--yes", "--generate-code=false"]);
    let ids: Vec<Value> = export(&scene).iter().map(|thing| thing["id"].clone()).collect();
    assert_eq!(ids, [id, id], "the same thing, under two names");
}

#[test]
fn a_stack_becomes_ready_with_its_outputs_and_follows_its_program() {
    install_operator();
    let scene = Scene::new("follows");
    scene.apply_program("app", &program("greet"));
    scene.apply_stack("app", &config());

    let stack = scene.until_updated("app", "");
    let first = update_name(&stack).to_owned();
    let outputs = json!({"value": "greet Ada", "generation": 1, "copies": 3, "hidden": "[secret]"});
    assert_eq!(stack["status"]["outputs"], outputs);
    let last = &stack["status"]["lastUpdate"];
    assert_eq!(last["type"], "up");
    assert_eq!(last["lastSuccessfulCommit"], "1", "the revision of a Program is its generation");
    assert_eq!(stack["status"]["projectInfo"], json!({"name": "app", "runtime": "yaml"}));
    let secret = format!("{first}-stack-outputs");
    assert_eq!(secret_value(scene.kubectl(), &secret, "hidden"), format!("\"{HIDDEN}\""));
    assert_eq!(secret_value(scene.kubectl(), &secret, "copies"), "3");

    scene.apply_program("app", &program("welcome"));
    let stack = scene.until_updated("app", &first);
    let outputs = json!({"value": "welcome Ada", "generation": 2, "copies": 3, "hidden": "[secret]"});
    assert_eq!(stack["status"]["outputs"], outputs);
    let second = read(scene.kubectl(), "update", update_name(&stack)).unwrap();
    assert_eq!(second["spec"]["message"], "New commit detected: \"2\"");
    let operations: Vec<String> = scene.volume().ledger().into_iter().map(|l| l.operation).collect();
    assert_eq!(operations, ["create-started", "create", "update"], "by the cloud that a literal in envRefs names");
    assert_eq!(scene.volume().backend().locks(), Vec::<std::path::PathBuf>::new());

    let exported: Value = serde_json::from_str(&scene.pulumi("app", &["stack", "export"])).unwrap();
    let provider = &exported["deployment"]["secrets_providers"]["type"];
    assert_eq!(provider, "passphrase", "of the passphrase that a Secret in envRefs holds");
}

/// Resident memory of the agent in a workspace pod, in kB.
fn agent_memory(scene: &Scene, pod: &str) -> u64 {
    let script = "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' < $p/cmdline) in '/share/agent serve '*) \
                  grep VmRSS $p/status;; esac; done";
    let line = scene.kubectl().run(&["exec", pod, "-c", "pulumi", "--", "/bin/busybox", "sh", "-c", script]);
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or_else(|| panic!("no agent in {line:?}"))
}

#[test]
fn a_pod_on_a_read_only_root_works_and_its_agent_is_light() {
    install_operator();
    let scene = Scene::new("light");
    let program = json!({
        "resources": {"kept": {"type": "pulumi:index:Stash", "properties": {"input": "x"}}},
        "outputs": {"kept": "${kept.output}"},
    });
    scene.apply_program("app", &program);
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    let template = json!({"spec": {
        "image": variable("PKO_TEST_WORKSPACE_IMAGE"),
        "imagePullPolicy": "Never",
        "podTemplate": {"spec": {
            "containers": [{
                "name": "pulumi",
                "securityContext": {"readOnlyRootFilesystem": true},
                "volumeMounts": [mount("state", "/state"), mount("home", "/home/pulumi"), mount("tmp", "/tmp")],
            }],
            "volumes": [
                {"name": "state", "persistentVolumeClaim": {"claimName": Volume::CLAIM}},
                {"name": "home", "emptyDir": {}},
                {"name": "tmp", "emptyDir": {}},
            ],
        }},
    }});
    scene.apply_stack("app", &json!({"workspaceTemplate": template}));
    assert_eq!(scene.until_updated("app", "")["status"]["outputs"], json!({"kept": "x"}));

    let pod = read(scene.kubectl(), "pod", "app-workspace-0").unwrap();
    assert_eq!(pod["spec"]["containers"][0]["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(pod["spec"]["securityContext"]["runAsUser"], 1000);
    let memory = agent_memory(&scene, "app-workspace-0");
    assert!(memory <= 8 * 1024, "after an update the agent holds {memory} kB");
}

#[test]
fn a_sync_request_runs_a_stack_once_more() {
    install_operator();
    let scene = Scene::new("request");
    scene.apply_program("app", &program("greet"));
    scene.apply_stack("app", &config());
    let first = scene.until_updated("app", "");
    scene.kubectl().run(&["annotate", "stack", "app", "pulumi.com/reconciliation-request=now"]);
    let stack = scene.until_updated("app", update_name(&first));
    assert_eq!(stack["status"]["lastUpdate"]["reconcileRequest"], "now");
    assert_eq!(stack["status"]["observedReconcileRequest"], "now");
    let update = read(scene.kubectl(), "update", update_name(&stack)).unwrap();
    assert_eq!(update["spec"]["message"], "Sync request: \"now\"");
    assert_eq!(stack["status"]["outputs"]["generation"], 1, "nothing changed");
}

#[test]
fn no_secret_is_in_an_object_an_event_or_a_log() {
    install_operator();
    let scene = Scene::new("secrets");
    scene.apply_program("app", &program("greet"));
    scene.apply_stack("app", &config());
    scene.until_updated("app", "");
    let kubectl = scene.kubectl();
    let places = [
        ("objects", kubectl.run(&["get", "stack,workspace,update,statefulset,service,pod,event", "-o", "json"])),
        ("the workspace pod's logs", kubectl.run(&["logs", "app-workspace-0", "--all-containers", "--tail=-1"])),
        ("the operator's log", operator_log()),
    ];
    for (place, text) in places {
        for planted in [PASSPHRASE, HIDDEN] {
            assert!(!text.contains(planted), "{planted} is in {place}:\n{text}");
        }
    }
}

fn owners(object: &Value) -> Value {
    let references = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let shown = |r: &Value| json!([r["kind"], r["name"], r["controller"], r["blockOwnerDeletion"]]);
    references.iter().map(shown).collect()
}

fn managers(object: &Value) -> Vec<String> {
    let fields = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> = fields.iter().filter_map(|f| Some(f["manager"].as_str()?.to_owned())).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn the_objects_of_a_stack_have_the_names_labels_and_owners_that_users_know() {
    install_operator();
    let scene = Scene::new("objects");
    let kubectl = scene.kubectl();
    scene.apply_program("app", &program("greet"));
    scene.apply_stack("app", &config());
    let stack = scene.until_updated("app", "");
    let get = |kind: &str, name: &str| read(kubectl, kind, name).unwrap();
    let operator = "pulumi-kubernetes-operator".to_owned();

    assert_eq!(stack["metadata"]["finalizers"], json!(["finalizer.stack.pulumi.com"]));
    let ready = condition(&stack, "Ready");
    assert_eq!(ready["reason"], "ProcessingCompleted");
    assert_eq!(ready["message"], "the stack has been processed and is up to date");
    assert!(condition(&stack, "Reconciling").is_null() && condition(&stack, "Stalled").is_null(), "{stack}");
    assert!(stack["status"]["currentUpdate"].is_null(), "{stack}");
    assert!(managers(&stack).contains(&format!("{operator}/stack-status")), "{:?}", managers(&stack));

    let of_stack = json!({"pulumi.com/component": "stack", "pulumi.com/stack-name": "app"});
    let workspace = get("workspace", "app");
    assert_eq!(workspace["metadata"]["labels"], of_stack);
    assert_eq!(owners(&workspace), json!([["Stack", "app", true, true]]));
    assert_eq!(condition(&workspace, "Ready")["reason"], "Succeeded");
    assert_eq!(workspace["status"]["address"], format!("app-workspace.{}:50051", scene.namespace()));
    assert_eq!(managers(&workspace), [operator.clone(), format!("{operator}/workspace-status")]);

    let of_workspace = json!({"auto.pulumi.com/component": "workspace", "auto.pulumi.com/workspace-name": "app"});
    for kind in ["service", "statefulset"] {
        let object = get(kind, "app-workspace");
        assert_eq!(object["metadata"]["labels"], of_workspace, "{kind}");
        assert_eq!(owners(&object), json!([["Workspace", "app", true, true]]), "{kind}");
        assert!(managers(&object).contains(&operator), "{kind}: {:?}", managers(&object));
    }
    assert_eq!(get("statefulset", "app-workspace")["spec"]["selector"]["matchLabels"], of_workspace);
    let pod = get("pod", "app-workspace-0");
    assert_eq!(pod["metadata"]["annotations"]["auto.pulumi.com/initialized"], "true");
    let hash = pod["metadata"]["annotations"]["auto.pulumi.com/revision-hash"].as_str().unwrap();
    assert!(hash.len() == 32 && hash.chars().all(|c| c.is_ascii_hexdigit()), "{hash}");

    let name = update_name(&stack);
    let moment = name.strip_prefix("app-").unwrap();
    assert!(i64::from_str_radix(moment, 16).is_ok_and(|ms| ms > 1_700_000_000_000), "{name}");
    let update = get("update", name);
    assert_eq!(update["metadata"]["labels"], of_stack);
    assert_eq!(owners(&update), json!([["Workspace", "app", true, true], ["Stack", "app", null, true]]));
    assert!(update["metadata"]["finalizers"].is_null(), "the result is taken over: {update}");
    let spec = json!({
        "workspaceName": "app",
        "stackName": STACK,
        "type": "up",
        "ttlAfterCompleted": "24h0m0s",
        "message": "Initial stack update",
        "refresh": false,
        "targetDependents": false,
    });
    assert_eq!(update["spec"], spec);
    for (kind, status, reason) in
        [("Progressing", "False", "Complete"), ("Failed", "False", "UpdateSucceeded"), ("Complete", "True", "Updated")]
    {
        assert_eq!(condition(&update, kind)["status"], status, "{kind}");
        assert_eq!(condition(&update, kind)["reason"], reason, "{kind}");
    }

    let secret = get("secret", &format!("{name}-stack-outputs"));
    assert_eq!(update["status"]["outputs"], secret["metadata"]["name"]);
    assert_eq!(secret["immutable"], true);
    let of_update = json!({"auto.pulumi.com/component": "update", "auto.pulumi.com/update-name": name});
    assert_eq!(secret["metadata"]["labels"], of_update);
    assert_eq!(secret["metadata"]["annotations"]["pulumi.com/secrets"], "[\"hidden\"]");
    assert_eq!(owners(&secret), json!([["Update", name, null, null]]));

    Kubectl::new().in_namespace(OPERATOR_NAMESPACE).run(&["get", "lease", "operator.pulumi.com"]);
}

#[test]
fn the_way_of_a_stack_is_told_in_events() {
    install_operator();
    let scene = Scene::new("events");
    scene.apply_program("app", &program("greet"));
    scene.apply_stack("app", &config());
    let stack = scene.until_updated("app", "");
    let expected = [
        json!(["Stack", "app", "Normal", "StackUpdateDetected", "stack-controller", "Initial stack update"]),
        json!([
            "Workspace",
            "app",
            "Normal",
            "Initialized",
            "workspace-controller",
            "Initialized workspace pod \"app-workspace-0\""
        ]),
        json!([
            "Update",
            update_name(&stack),
            "Normal",
            "UpdateSucceeded",
            "update-controller",
            "Updated stack \"dev\""
        ]),
        json!(["Stack", "app", "Normal", "StackCreated", "stack-controller", "Successfully updated stack"]),
    ];
    wait_for("the events", Duration::from_secs(10), || {
        let seen: Vec<Value> = list(scene.kubectl(), "events")?
            .into_iter()
            .map(|e| {
                let object = &e["involvedObject"];
                json!([object["kind"], object["name"], e["type"], e["reason"], e["source"]["component"], e["message"]])
            })
            .collect();
        if expected.iter().all(|event| seen.contains(event)) { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}

#[test]
fn a_deleted_stack_destroys_what_it_made_and_goes() {
    install_operator();
    let scene = Scene::new("destroys");
    let mut spec = config();
    spec["destroyOnFinalize"] = json!(true);
    scene.apply_program("app", &program("greet"));
    scene.apply_stack("app", &spec);
    scene.until_updated("app", "");
    assert_eq!(scene.volume().things().len(), 1, "{:?}", scene.volume().ledger());

    scene.kubectl().run(&["delete", "stack", "app", "--timeout=120s"]);
    assert_eq!(scene.volume().things(), Vec::<String>::new());
    let operations: Vec<String> = scene.volume().ledger().into_iter().map(|l| l.operation).collect();
    assert_eq!(operations, ["create-started", "create", "delete"]);
    assert_eq!(scene.volume().backend().locks(), Vec::<std::path::PathBuf>::new());
    assert_eq!(scene.volume().backend().resources("app", STACK), Vec::<Value>::new());
    wait_for("what belonged to the Stack to go", Duration::from_mins(1), || {
        let left = list(scene.kubectl(), "workspace,update,statefulset,service,pod")?;
        let names: Vec<String> = left.iter().map(|o| format!("{} {}", o["kind"], o["metadata"]["name"])).collect();
        if names.is_empty() { Ok(()) } else { Err(names.join(", ")) }
    });
}

#[test]
fn a_stack_that_does_not_destroy_leaves_its_resources() {
    install_operator();
    let scene = Scene::new("leaves");
    scene.apply_program("app", &program("greet"));
    scene.apply_stack("app", &config());
    scene.until_updated("app", "");
    scene.kubectl().run(&["delete", "stack", "app", "--timeout=60s"]);
    assert_eq!(scene.volume().things().len(), 1, "{:?}", scene.volume().ledger());
}
