//! Labels of the objects that the operator makes.

use std::collections::BTreeMap;

/// Which of the operator's parts made an object for a Stack.
pub const COMPONENT: &str = "pulumi.com/component";
/// The Stack that an object was made for.
pub const STACK_NAME: &str = "pulumi.com/stack-name";
/// The Program that an object was made for.
pub const PROGRAM_NAME: &str = "pulumi.com/program-name";
/// Which of the operator's parts made an object for a Workspace or an Update.
pub const AUTO_COMPONENT: &str = "auto.pulumi.com/component";
/// The Workspace that an object was made for.
pub const WORKSPACE_NAME: &str = "auto.pulumi.com/workspace-name";
/// The Update that an object was made for.
pub const UPDATE_NAME: &str = "auto.pulumi.com/update-name";

/// Value of [`COMPONENT`].
pub const STACK: &str = "stack";
/// Value of [`COMPONENT`] on what belongs to a Program.
pub const PROGRAM: &str = "program";
/// Value of [`AUTO_COMPONENT`] on what belongs to a Workspace.
pub const WORKSPACE: &str = "workspace";
/// Value of [`AUTO_COMPONENT`] on what belongs to an Update.
pub const UPDATE: &str = "update";

/// Of the Workspace and the Updates made for a Stack.
pub fn of_stack(stack: &str) -> BTreeMap<String, String> {
    labels([(COMPONENT, STACK), (STACK_NAME, stack)])
}

/// Of the copies of a Program.
pub fn of_program(program: &str) -> BTreeMap<String, String> {
    labels([(COMPONENT, PROGRAM), (PROGRAM_NAME, program)])
}

/// Of the Service, the StatefulSet, its selector and its pods, made for a Workspace.
pub fn of_workspace(workspace: &str) -> BTreeMap<String, String> {
    labels([(AUTO_COMPONENT, WORKSPACE), (WORKSPACE_NAME, workspace)])
}

/// Of a Workspace's pods: what selects them, and what network policies of users may select them by.
pub fn of_workspace_pod(workspace: &str) -> BTreeMap<String, String> {
    let common = [
        ("app.kubernetes.io/managed-by", "pulumi-kubernetes-operator"),
        ("app.kubernetes.io/name", "pulumi"),
        ("app.kubernetes.io/component", WORKSPACE),
    ];
    let common = common.map(|(key, value)| (key.to_owned(), value.to_owned()));
    common.into_iter().chain(of_workspace(workspace)).collect()
}

/// Of the outputs Secret made for an Update.
pub fn of_update(update: &str) -> BTreeMap<String, String> {
    labels([(AUTO_COMPONENT, UPDATE), (UPDATE_NAME, update)])
}

fn labels(pairs: [(&str, &str); 2]) -> BTreeMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}
