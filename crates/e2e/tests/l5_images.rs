//! The images in the cluster: what the operator's image can do without a shell, and the real Pulumi CLI in a pod.

use std::time::Duration;

use pko_testkit::cluster::{Kubectl, Namespace, wait_for};
use serde_json::{Value, json};

fn image(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set; run this test with cargo xtask test L5"))
}

/// A namespace that admits only pods of the `restricted` standard.
fn restricted(subject: &str) -> Namespace {
    Namespace::with_labels(subject, &[("pod-security.kubernetes.io/enforce", "restricted")])
}

fn locked_down(mut container: Value) -> Value {
    container["imagePullPolicy"] = json!("Never");
    container["securityContext"] = json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": container["name"] != "pulumi",
        "runAsNonRoot": true,
    });
    container
}

/// Starts a pod, waits for its end, and returns the log of a container.
fn run_to_end(kubectl: &Kubectl, pod: &str, spec: Value, container: &str) -> String {
    let mut spec = spec;
    spec["restartPolicy"] = json!("Never");
    spec["automountServiceAccountToken"] = json!(false);
    spec["securityContext"]["seccompProfile"] = json!({"type": "RuntimeDefault"});
    kubectl.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "spec": spec}).to_string());
    wait_for(&format!("pod {pod} to succeed"), Duration::from_mins(2), || {
        let phase = kubectl.try_run(&["get", "pod", pod, "-o", "jsonpath={.status.phase}"])?;
        assert_ne!(phase, "Failed", "pod {pod} failed");
        if phase == "Succeeded" { Ok(()) } else { Err(phase) }
    });
    kubectl.run(&["logs", pod, "--container", container])
}

/// An empty volume to share, and one that holds a project.
fn volumes_with(kubectl: &Kubectl, project: &str) -> Value {
    let data = json!({"Pulumi.yaml": project});
    kubectl.apply(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "project"}, "data": data}).to_string(),
    );
    json!([{"name": "share", "emptyDir": {}}, {"name": "project", "configMap": {"name": "project"}}])
}

fn both_mounts() -> Value {
    json!([{"name": "share", "mountPath": "/share"}, {"name": "project", "mountPath": "/project"}])
}

#[test]
fn the_operator_image_runs_unprivileged_on_a_read_only_root() {
    let namespace = restricted("operator-image");
    for program in ["manager", "agent"] {
        let container = json!({"name": program, "image": image("PKO_TEST_OPERATOR_IMAGE"), "args": [format!("/{program}"), "version"]});
        let log = run_to_end(namespace.kubectl(), program, json!({"containers": [locked_down(container)]}), program);
        assert_eq!(log.trim(), env!("CARGO_PKG_VERSION"), "{program} tells its version");
    }
}

const PROGRAM: &str = r"
name: inside
runtime: yaml
resources:
  thing:
    type: pkotest:Thing
    properties:
      value: hello
      secret: planted-secret-2
    options:
      version: 0.1.0
  kept:
    type: pulumi:index:Stash
    properties:
      input: kept
outputs:
  value: ${thing.value}
  secret: ${thing.secretOutput}
";

const SCRIPT: &str = r#"
set -eu
export PULUMI_CONFIG_PASSPHRASE=pass PULUMI_SKIP_UPDATE_CHECK=true PKOTEST_CLOUD=/share/cloud
mkdir -p /share/state
pulumi login file:///share/state >/dev/null
pulumi stack init dev >/dev/null
pulumi install >/dev/null
pulumi up --yes --skip-preview >/share/up.log 2>&1 || { cat /share/up.log; exit 1; }
echo "masked $(pulumi stack output --json | tr -d ' \n')"
echo "shown $(pulumi stack output secret --show-secrets)"
pulumi destroy --yes --skip-preview >/share/destroy.log 2>&1 || { cat /share/destroy.log; exit 1; }
sed 's/^/ledger /' /share/cloud/ledger.jsonl
"#;

#[test]
fn the_real_cli_creates_and_destroys_in_a_pod_that_the_agent_prepared() {
    let namespace = restricted("pulumi-in-a-pod");
    let kubectl = namespace.kubectl();
    let volumes = volumes_with(kubectl, PROGRAM);
    let share = json!([{"name": "share", "mountPath": "/share"}]);
    let agent = |name: &str, args: &[&str]| {
        locked_down(
            json!({"name": name, "image": image("PKO_TEST_OPERATOR_IMAGE"), "args": args, "volumeMounts": share}),
        )
    };
    let workspace = |name: &str, script: &str, mounts: Value| {
        let mut container = json!({"name": name, "image": image("PKO_TEST_WORKSPACE_IMAGE"), "command": ["sh", "-c", script], "volumeMounts": mounts});
        if name == "pulumi" {
            container["workingDir"] = json!("/share/workspace");
        }
        locked_down(container)
    };
    let copy = "mkdir -p /share/source && cp /project/Pulumi.yaml /share/source/ && /share/agent version";
    let spec = json!({
        "volumes": volumes,
        "initContainers": [
            agent("bootstrap", &["/agent", "bootstrap", "/share"]),
            workspace("copy", copy, both_mounts()),
            agent("fetch", &["/agent", "link", "/share/source", "--at", "/share/workspace"]),
        ],
        "containers": [workspace("pulumi", SCRIPT, share.clone())],
    });
    let log = run_to_end(kubectl, "update", spec, "pulumi");

    let line = |start: &str| {
        log.lines().find_map(|l| l.strip_prefix(start)).unwrap_or_else(|| panic!("no line '{start}' in:\n{log}"))
    };
    assert_eq!(line("masked "), r#"{"secret":"[secret]","value":"hello"}"#);
    assert!(line("shown ").contains("planted-secret-2"), "{log}");
    let operations: Vec<String> = log
        .lines()
        .filter_map(|l| l.strip_prefix("ledger "))
        .map(|l| {
            serde_json::from_str::<Value>(l).unwrap_or_else(|e| panic!("{l}: {e}"))["op"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(operations, ["create-started", "create", "delete"]);
    assert!(
        !log.lines().any(|l| l.starts_with("ledger ") && l.contains("planted-secret-2")),
        "the ledger holds no secret"
    );
    let copied = kubectl.run(&["logs", "update", "--container", "copy"]);
    assert_eq!(
        copied.trim(),
        env!("CARGO_PKG_VERSION"),
        "the agent that was brought along runs in the workspace image"
    );
}

const TROUBLED: &str = r"
name: troubled
runtime: yaml
resources:
  fragile:
    type: pkotest:Thing
    properties: {value: fragile, failCreateOnce: true}
    options: {version: 0.1.0}
  drifting:
    type: pkotest:Thing
    properties: {value: as-written, createSeconds: 1}
    options: {version: 0.1.0}
  large:
    type: pkotest:Thing
    properties: {value: large, largeBytes: 1500000, failDelete: stuck}
    options: {version: 0.1.0}
outputs:
  large: ${large.large}
";

const TROUBLE: &str = r#"
set -eu
export PULUMI_CONFIG_PASSPHRASE=pass PULUMI_SKIP_UPDATE_CHECK=true PKOTEST_CLOUD=/share/cloud
mkdir -p /share/state /share/workspace && cd /share/workspace && cp /project/Pulumi.yaml .
pulumi login file:///share/state >/dev/null 2>&1 && pulumi stack init dev >/dev/null 2>&1
if pulumi up --yes --skip-preview >/dev/null 2>&1; then echo "up 1 succeeded"; else echo "up 1 failed"; fi
if pulumi up --yes --skip-preview >/dev/null 2>&1; then echo "up 2 succeeded"; else echo "up 2 failed"; fi
echo "large $(pulumi stack output large | wc -c)"
sed -i 's/as-written/behind-your-back/' /share/cloud/things/drifting-*.json
pulumi refresh --yes --skip-preview --expect-no-changes >/dev/null 2>&1 && echo "drift unseen" || echo "drift seen"
pulumi up --yes --skip-preview >/dev/null 2>&1
echo "repaired $(grep -c as-written /share/cloud/things/drifting-*.json)"
if pulumi destroy --yes --skip-preview >/dev/null 2>&1; then echo "destroy 1 succeeded"; else echo "destroy 1 failed"; fi
sed -i 's/"stuck"/""/' /share/cloud/things/large-*.json
if pulumi destroy --yes --skip-preview >/dev/null 2>&1; then echo "destroy 2 succeeded"; else echo "destroy 2 failed"; fi
echo "left $(ls /share/cloud/things | wc -l)"
sed 's/^/ledger /' /share/cloud/ledger.jsonl
"#;

#[test]
fn the_test_provider_fails_drifts_and_keeps_its_ledger_under_the_real_cli() {
    let namespace = restricted("provider");
    let kubectl = namespace.kubectl();
    let volumes = volumes_with(kubectl, TROUBLED);
    let container = json!({
        "name": "pulumi",
        "image": image("PKO_TEST_WORKSPACE_IMAGE"),
        "command": ["sh", "-c", TROUBLE],
        "volumeMounts": both_mounts(),
    });
    let spec = json!({
        "volumes": volumes,
        "containers": [locked_down(container)],
    });
    let log = run_to_end(kubectl, "trouble", spec, "pulumi");
    let told: Vec<&str> = log.lines().filter(|l| !l.starts_with("ledger ")).collect();
    let expected = [
        "up 1 failed",
        "up 2 succeeded",
        "large 1500001",
        "drift seen",
        "repaired 1",
        "destroy 1 failed",
        "destroy 2 succeeded",
        "left 0",
    ];
    assert_eq!(told, expected, "{log}");
    for operation in ["create-failed", "create", "read", "update", "delete-failed", "delete"] {
        assert!(log.contains(&format!("\"op\":\"{operation}\"")), "{operation} is missing in the ledger:\n{log}");
    }
}
