//! The manifests of the public documents, and the ones that must be refused, against a real API server.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{fs, path::Path};

use pko_testkit::cluster::{Kubectl, Namespace, install_crds};

const STRICT: &[&str] = &["create", "--dry-run=server", "--validate=strict", "-f", "-"];

/// Every manifest with its file name, without the namespace that the document puts it in.
fn documented() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/documents");
    let mut found: Vec<(String, String)> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with("  namespace: ")).collect();
            (path.file_name().unwrap().display().to_string(), kept.join("\n"))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn every_manifest_of_the_public_documents_is_accepted_strictly() {
    install_crds();
    let namespace = Namespace::new("documented");
    let manifests = documented();
    let all: Vec<&str> = manifests.iter().map(|(_, text)| text.as_str()).collect();
    let answer = namespace.kubectl().try_send(STRICT, &all.join("\n---\n"));
    let created =
        answer.as_deref().map_or(0, |text| text.lines().filter(|l| l.ends_with("created (server dry run)")).count());
    if created != manifests.len() {
        // One by one, so that the refusal names its file.
        for (file, text) in &manifests {
            if let Err(error) = namespace.kubectl().try_send(STRICT, text) {
                eprintln!("{file}: {error}");
            }
        }
        panic!("{created} of {} manifests were accepted: {answer:?}", manifests.len());
    }
}

#[test]
fn every_manifest_has_its_row_in_the_table_of_repairs() {
    let table = include_str!("fixtures/documents/README.md");
    let rows: Vec<&str> = table.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next()).collect();
    let files: Vec<String> = documented().into_iter().map(|(file, _)| file).collect();
    assert_eq!(rows, files);
}

#[test]
fn a_misspelt_field_is_refused_by_name() {
    install_crds();
    let namespace = Namespace::new("misspelt");
    let manifest = "{apiVersion: pulumi.com/v1, kind: Stack, metadata: {name: a}, spec: {stack: dev, comit: abc}}";
    let error = namespace.kubectl().try_send(STRICT, manifest).unwrap_err();
    assert!(error.contains("unknown field \"spec.comit\""), "{error}");
}

#[test]
fn a_stack_name_of_42_characters_is_accepted_and_one_of_43_refused() {
    install_crds();
    let namespace = Namespace::new("names");
    let manifest = |length: usize| {
        format!(
            "{{apiVersion: pulumi.com/v1, kind: Stack, metadata: {{name: {}}}, spec: {{stack: dev}}}}",
            "a".repeat(length)
        )
    };
    namespace.kubectl().try_send(STRICT, &manifest(42)).unwrap();
    let error = namespace.kubectl().try_send(STRICT, &manifest(43)).unwrap_err();
    assert!(error.contains("Stack name must be no more than 42 characters in length."), "{error}");
}

#[test]
fn values_outside_an_enum_and_missing_required_fields_are_refused() {
    install_crds();
    let namespace = Namespace::new("invalid");
    let cases = [
        (
            "a reclaim policy is Retain or Delete",
            "Stack",
            "spec: {stack: dev, workspaceReclaimPolicy: Keep}",
            "workspaceReclaimPolicy",
        ),
        ("a Stack names its Pulumi stack", "Stack", "spec: {backend: 'file:///state'}", "spec.stack: Required value"),
        (
            "a reference has a type",
            "Stack",
            "spec: {stack: dev, envRefs: {A: {literal: {value: b}}}}",
            "spec.envRefs.A.type: Required value",
        ),
        (
            "a resource has a type",
            "Program",
            "program: {resources: {a: {properties: {}}}}",
            "program.resources.a.type: Required value",
        ),
        (
            "configuration types are four",
            "Program",
            "program: {configuration: {a: {type: Float}}}",
            "program.configuration.a.type",
        ),
    ];
    for (reason, kind, body, expected) in cases {
        let manifest = format!("apiVersion: pulumi.com/v1\nkind: {kind}\nmetadata: {{name: a}}\n{body}\n");
        let error = namespace.kubectl().try_send(STRICT, &manifest).expect_err(reason);
        assert!(error.contains(expected), "{reason}: {error}");
    }
}

#[test]
fn the_older_version_of_a_stack_is_served_and_read_as_the_newer() {
    install_crds();
    let namespace = Namespace::new("older");
    namespace.kubectl().apply("{apiVersion: pulumi.com/v1alpha1, kind: Stack, metadata: {name: a}, spec: {stack: dev, projectRepo: 'https://example.com/a.git'}}");
    let read = namespace.kubectl().run(&[
        "get",
        "stacks.v1.pulumi.com",
        "a",
        "-o",
        "jsonpath={.apiVersion} {.spec.projectRepo}",
    ]);
    assert_eq!(read, "pulumi.com/v1 https://example.com/a.git");
}

#[test]
fn the_server_finds_no_fault_in_the_schemas() {
    install_crds();
    let conditions = Kubectl::new().run(&[
        "get",
        "crd",
        "stacks.pulumi.com",
        "programs.pulumi.com",
        "workspaces.auto.pulumi.com",
        "updates.auto.pulumi.com",
        "-o",
        "jsonpath={range .items[*]}{.metadata.name}{range .status.conditions[*]} {.type}={.status}{end}{\"\\n\"}{end}",
    ]);
    assert_eq!(conditions.lines().count(), 4, "{conditions}");
    for line in conditions.lines() {
        assert!(line.contains("Established=True") && !line.contains("NonStructuralSchema=True"), "{line}");
    }
}
