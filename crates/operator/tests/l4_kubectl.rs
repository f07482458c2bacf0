//! What kubectl shows of the four kinds, and how the server treats their lists and defaults.

use std::time::Duration;

use pko_testkit::cluster::{Kubectl, Namespace, install_crds, wait_for};

/// The words of a table's first line.
fn header(table: &str) -> String {
    table
        .lines()
        .next()
        .unwrap_or_default()
        .split("  ")
        .map(str::trim)
        .filter(|c| !c.is_empty())
        .collect::<Vec<_>>()
        .join(" | ")
}

fn row(table: &str) -> String {
    table.lines().nth(1).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What `kubectl explain` says of a path once it says what is expected: the server publishes schemas after a while.
fn explained(path: &str, expected: impl Fn(&str) -> bool) -> String {
    wait_for(&format!("kubectl explain {path} to be as expected"), Duration::from_secs(30), || {
        let text = Kubectl::new().try_run(&["explain", path])?;
        if expected(&text) { Ok(text) } else { Err(text) }
    })
}

#[test]
fn explain_tells_what_a_workspace_template_is() {
    install_crds();
    explained("stack.spec.workspaceTemplate", |text| {
        let fields = ["apiVersion\t<string>", "kind\t<string>", "metadata\t<Object>", "spec\t<Object>"];
        text.contains("FIELD: workspaceTemplate <Object>") && fields.iter().all(|f| text.contains(f))
    });
    explained("stack.spec.workspaceTemplate.spec", |text| {
        ["image", "podTemplate", "resources", "securityProfile", "initContainers", "local", "pulumiLogLevel", "env"]
            .iter()
            .all(|field| text.contains(&format!("  {field}\t<")))
    });
}

#[test]
fn explain_has_a_sentence_for_every_field_of_ours_and_leaves_pods_to_kubernetes() {
    install_crds();
    for path in [
        "stack.spec",
        "stack.spec.workspaceTemplate",
        "stack.spec.workspaceTemplate.spec",
        "stack.spec.updateTemplate",
        "stack.status",
        "program.program",
        "workspace.spec",
        "workspace.status",
        "update.spec",
        "update.status",
    ] {
        explained(path, |text| !text.contains("<no description>"));
    }
    explained("workspace.spec.podTemplate.spec", |text| text.contains("tolerations\t<[]Object>\n    <no description>"));
}

#[test]
fn get_shows_the_columns_that_users_know() {
    install_crds();
    let namespace = Namespace::new("columns");
    let kubectl = namespace.kubectl();
    kubectl.apply("{apiVersion: pulumi.com/v1, kind: Stack, metadata: {name: random-yaml}, spec: {stack: dev}}");
    kubectl.apply("{apiVersion: pulumi.com/v1, kind: Program, metadata: {name: random-yaml}, program: {}}");
    kubectl.apply("{apiVersion: auto.pulumi.com/v1alpha1, kind: Workspace, metadata: {name: random-yaml}, spec: {image: 'pulumi/pulumi:3.134.1-nonroot'}}");
    kubectl.apply("{apiVersion: auto.pulumi.com/v1alpha1, kind: Update, metadata: {name: random-yaml-5kmn7dcm}, spec: {workspaceName: random-yaml, type: up}}");
    let moment = "2024-10-17T20:41:49Z";
    let condition = |kind: &str, status: &str, reason: &str| {
        format!(
            r#"{{"type":"{kind}","status":"{status}","reason":"{reason}","message":"","lastTransitionTime":"{moment}"}}"#
        )
    };
    let patch = |what: &str, status: String| {
        kubectl.run(&[
            "patch",
            what,
            "random-yaml",
            "--subresource=status",
            "--type=merge",
            "-p",
            &format!(r#"{{"status":{status}}}"#),
        ])
    };
    patch(
        "stack",
        format!(
            r#"{{"conditions":[{},{}],"lastUpdate":{{"state":"succeeded","permalink":"https://app.pulumi.com/o/p/dev/updates/3"}}}}"#,
            condition("Ready", "False", "NotReadyInProgress"),
            condition("Reconciling", "True", "StackProcessing"),
        ),
    );
    patch(
        "workspace",
        format!(
            r#"{{"address":"random-yaml-workspace.default:50051","conditions":[{}]}}"#,
            condition("Ready", "True", "Succeeded")
        ),
    );
    kubectl.run(&[
        "patch",
        "update",
        "random-yaml-5kmn7dcm",
        "--subresource=status",
        "--type=merge",
        "-p",
        &format!(
            r#"{{"status":{{"permalink":"https://app.pulumi.com/o/p/dev/updates/1","conditions":[{},{},{}]}}}}"#,
            condition("Progressing", "False", "Complete"),
            condition("Failed", "False", "UpdateSucceeded"),
            condition("Complete", "True", "Updated"),
        ),
    ]);

    let stacks = kubectl.run(&["get", "stack"]);
    assert_eq!(header(&stacks), "NAME | LAST UPDATE | AGE | READY | RECONCILING | STALLED | PERMALINK");
    assert_eq!(row(&stacks), "random-yaml succeeded False StackProcessing https://app.pulumi.com/o/p/dev/updates/3");
    let wide = kubectl.run(&["get", "stack", "-o", "wide"]);
    assert_eq!(
        header(&wide),
        "NAME | STACK | LAST UPDATE | AGE | LAST COMMIT | READY | RECONCILING | STALLED | PERMALINK"
    );

    let workspaces = kubectl.run(&["get", "workspace"]);
    assert_eq!(header(&workspaces), "NAME | IMAGE | READY | ADDRESS");
    assert_eq!(row(&workspaces), "random-yaml pulumi/pulumi:3.134.1-nonroot True random-yaml-workspace.default:50051");

    let updates = kubectl.run(&["get", "update"]);
    assert_eq!(header(&updates), "NAME | WORKSPACE | PROGRESSING | FAILED | COMPLETE | URL");
    assert_eq!(
        row(&updates),
        "random-yaml-5kmn7dcm random-yaml False False True https://app.pulumi.com/o/p/dev/updates/1"
    );
    let wide = kubectl.run(&["get", "update", "-o", "wide"]);
    assert_eq!(
        header(&wide),
        "NAME | WORKSPACE | TYPE | START TIME | END TIME | PROGRESSING | FAILED | COMPLETE | URL"
    );

    assert_eq!(header(&kubectl.run(&["get", "program"])), "NAME | AGE | URL");

    let category = kubectl.run(&["get", "pulumi", "-o", "name"]);
    for name in [
        "stack.pulumi.com/random-yaml",
        "program.pulumi.com/random-yaml",
        "workspace.auto.pulumi.com/random-yaml",
        "update.auto.pulumi.com/random-yaml-5kmn7dcm",
    ] {
        assert!(category.contains(name), "{name} is missing in {category}");
    }
    let together = kubectl.run(&["get", "stack,program,workspace,update"]);
    assert_eq!(together.lines().filter(|l| l.starts_with("NAME")).count(), 4, "{together}");
}

#[test]
fn a_workspace_is_given_its_default_account_and_profile() {
    install_crds();
    let namespace = Namespace::new("defaults");
    namespace.kubectl().apply("{apiVersion: auto.pulumi.com/v1alpha1, kind: Workspace, metadata: {name: a}, spec: {}}");
    let read = namespace.kubectl().run(&[
        "get",
        "workspace",
        "a",
        "-o",
        "jsonpath={.spec.serviceAccountName} {.spec.securityProfile}",
    ]);
    assert_eq!(read, "default restricted");
}

#[test]
fn two_owners_of_one_list_keep_their_entries() {
    install_crds();
    let namespace = Namespace::new("lists");
    let kubectl = namespace.kubectl();
    let apply = |manager: &str, spec: &str| {
        kubectl
            .try_send(
                &["apply", "--server-side", "--field-manager", manager, "-f", "-"],
                &format!(
                    "{{apiVersion: auto.pulumi.com/v1alpha1, kind: Workspace, metadata: {{name: a}}, spec: {spec}}}"
                ),
            )
            .unwrap_or_else(|error| panic!("{manager}: {error}"));
    };
    apply(
        "first",
        "{env: [{name: A, value: '1'}], stacks: [{name: dev, config: [{key: x, value: 1}]}], podTemplate: {spec: {containers: [{name: pulumi, ports: [{containerPort: 1}]}]}}}",
    );
    apply(
        "second",
        "{env: [{name: B, value: '2'}], stacks: [{name: prod}], podTemplate: {spec: {containers: [{name: sidecar, image: x}], volumes: [{name: v}]}}}",
    );
    let names = |path: &str| kubectl.run(&["get", "workspace", "a", "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(names(".spec.env[*].name"), "A B", "env is a map by name");
    assert_eq!(names(".spec.stacks[*].name"), "dev prod", "stacks are a map by name");
    assert_eq!(names(".spec.podTemplate.spec.containers[*].name"), "pulumi sidecar", "containers are a map by name");
    assert_eq!(
        names(".spec.podTemplate.spec.containers[0].ports[0].protocol"),
        "TCP",
        "the key of a port has its default"
    );
    apply("second", "{}");
    assert_eq!(names(".spec.env[*].name"), "A", "what an owner no longer applies goes, and nothing else");
}

#[test]
fn whole_numbers_are_taken_as_quantities() {
    install_crds();
    let namespace = Namespace::new("quantities");
    namespace.kubectl().apply("{apiVersion: auto.pulumi.com/v1alpha1, kind: Workspace, metadata: {name: a}, spec: {resources: {limits: {cpu: 1, memory: 64Mi}}}}");
    assert_eq!(namespace.kubectl().run(&["get", "workspace", "a", "-o", "jsonpath={.spec.resources.limits.cpu}"]), "1");
}
