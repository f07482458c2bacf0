//! What deploy/install lets the operator do, as the API server sees it, and what it does not.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{collections::BTreeSet, fs, path::Path};

use pko_testkit::cluster::{ACCOUNT, Kubectl, Namespace, OPERATOR_NAMESPACE, install_crds, install_permissions};
use serde_json::{Value, json};

fn acting_as(namespace: &str, account: &str) -> String {
    format!("--as=system:serviceaccount:{namespace}:{account}")
}

fn as_operator() -> String {
    acting_as(OPERATOR_NAMESPACE, ACCOUNT)
}

/// What an account may do in a namespace: `verb resource.group`, and the name if it is about one object only.
fn permissions(account: &str, namespace: &str) -> BTreeSet<String> {
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = Kubectl::new().try_send(&["create", "--raw", path, "-f", "-", account], &review.to_string()).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_owned()).collect()
    };
    let mut found = BTreeSet::new();
    for rule in answer["status"]["resourceRules"].as_array().unwrap() {
        let mut names = texts(&rule["resourceNames"]);
        if names.is_empty() {
            names.push(String::new());
        }
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let what = if group.is_empty() { resource } else { format!("{resource}.{group}") };
                for verb in texts(&rule["verbs"]) {
                    found.extend(names.iter().map(|name| format!("{verb} {what} {name}").trim_end().to_owned()));
                }
            }
        }
    }
    found
}

fn expected(table: &[(&str, &str)]) -> BTreeSet<String> {
    table.iter().flat_map(|(what, verbs)| verbs.split(' ').map(move |verb| format!("{verb} {what}"))).collect()
}

const EVERYWHERE: &[(&str, &str)] = &[
    ("stacks.pulumi.com", "get list watch patch"),
    ("stacks/status.pulumi.com", "get patch"),
    ("stacks/finalizers.pulumi.com", "update"),
    ("programs.pulumi.com", "get list watch"),
    ("programs/status.pulumi.com", "get patch"),
    ("workspaces.auto.pulumi.com", "get list watch create patch delete"),
    ("workspaces/status.auto.pulumi.com", "get patch"),
    ("workspaces/finalizers.auto.pulumi.com", "update"),
    ("workspaces/rpc.auto.pulumi.com", "use"),
    ("updates.auto.pulumi.com", "get list watch create patch delete"),
    ("updates/status.auto.pulumi.com", "get patch"),
    ("updates/finalizers.auto.pulumi.com", "update"),
    ("services", "create patch"),
    ("statefulsets.apps", "get list watch create patch"),
    ("pods", "get list watch create patch delete"),
    ("secrets", "get list watch create"),
    ("configmaps", "get list watch"),
    ("events", "create patch"),
    ("namespaces", "get"),
    ("gitrepositories.source.toolkit.fluxcd.io", "get list watch"),
    ("ocirepositories.source.toolkit.fluxcd.io", "get list watch"),
    ("buckets.source.toolkit.fluxcd.io", "get list watch"),
];

#[test]
fn the_manifests_are_accepted_strictly() {
    install_permissions();
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/install");
    let flags = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f"];
    let answer = Kubectl::new().run(&[&flags[..], &[&dir.display().to_string()]].concat());
    assert!(answer.contains("deployment.apps/controller-manager serverside-applied"), "{answer}");
}

#[test]
fn the_manifests_of_the_demo_are_accepted_strictly() {
    install_crds();
    let namespace = Namespace::new("demo");
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/demo");
    for entry in fs::read_dir(dir).unwrap() {
        let file = entry.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        let placed: Vec<&str> = text.lines().filter(|line| !line.starts_with("  namespace: ")).collect();
        let flags = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
        let answer = namespace.kubectl().try_send(&flags, &placed.join("\n"));
        assert!(answer.is_ok(), "{}: {answer:?}", file.display());
    }
}

#[test]
fn the_operator_may_do_what_it_does_and_nothing_else() {
    install_permissions();
    let elsewhere = Namespace::new("elsewhere");
    let anyone = permissions(&acting_as(elsewhere.name(), "default"), elsewhere.name());
    let own = |namespace: &str| -> BTreeSet<String> {
        permissions(&as_operator(), namespace).difference(&anyone).cloned().collect()
    };
    assert_eq!(own(elsewhere.name()), expected(EVERYWHERE));
    let lease = ("leases.coordination.k8s.io operator.pulumi.com", "get update");
    let at_home =
        [("leases.coordination.k8s.io", "create"), lease, ("serviceaccounts/token controller-manager", "create")];
    assert_eq!(own(OPERATOR_NAMESPACE), expected(&[EVERYWHERE, &at_home[..]].concat()));
}

#[test]
fn the_operator_gets_tokens_of_its_own_account_only() {
    install_permissions();
    let home = Kubectl::new().in_namespace(OPERATOR_NAMESPACE);
    home.run(&["create", "token", ACCOUNT, &as_operator()]);
    let refusal = home.try_run(&["create", "token", "default", &as_operator()]).unwrap_err();
    assert!(refusal.contains("forbidden"), "another account at home: {refusal}");
    let elsewhere = Namespace::new("elsewhere");
    elsewhere.kubectl().run(&["create", "serviceaccount", ACCOUNT]);
    let refusal = elsewhere.kubectl().try_run(&["create", "token", ACCOUNT, &as_operator()]).unwrap_err();
    assert!(refusal.contains("forbidden"), "an account of the same name elsewhere: {refusal}");
}
