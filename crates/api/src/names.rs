//! Names of objects, and the addresses made from them.

/// The lease that the leading operator holds, in the operator's namespace.
pub const LEASE: &str = "operator.pulumi.com";
/// Where the operator is installed unless told otherwise.
pub const OPERATOR_NAMESPACE: &str = "pulumi-kubernetes-operator";
/// The operator's service account unless told otherwise.
pub const OPERATOR_SERVICE_ACCOUNT: &str = "controller-manager";

/// The ConfigMap with the keys of hosts that all of the cluster knows, in the operator's namespace.
pub const KNOWN_HOSTS: &str = "pulumi-kubernetes-operator-known-hosts";

/// Longest name of a Stack. Its StatefulSet is `<name>-workspace`, and the name of a revision of
/// that, with a hash of ten characters, has to fit into a label.
pub const LONGEST_STACK_NAME: usize = 42;

/// Port of the agent.
pub const AGENT_PORT: u16 = 50051;
/// Name of that port, in the Service and in the container.
pub const AGENT_PORT_NAME: &str = "grpc";

/// The Workspace of a Stack.
pub fn workspace(stack: &str) -> String {
    stack.to_owned()
}

/// The Service of a Workspace.
pub fn service(workspace: &str) -> String {
    format!("{workspace}-workspace")
}

/// The StatefulSet of a Workspace.
pub fn stateful_set(workspace: &str) -> String {
    format!("{workspace}-workspace")
}

/// The pod of a Workspace.
pub fn pod(workspace: &str) -> String {
    format!("{workspace}-workspace-0")
}

/// Where the agent of a Workspace is dialled.
pub fn agent_address(workspace: &str, namespace: &str) -> String {
    format!("{}.{namespace}:{AGENT_PORT}", service(workspace))
}

/// Whom a token for the agent of a Workspace is for.
pub fn token_audience(workspace: &str, namespace: &str) -> String {
    format!("{workspace}.{namespace}")
}

/// An Update of a Stack, planned at that time. Sorts by age among a Stack's Updates.
pub fn update(stack: &str, unix_milliseconds: u64) -> String {
    format!("{stack}-{unix_milliseconds:x}")
}

/// The Secret with the outputs of an Update.
pub fn outputs_secret(update: &str) -> String {
    format!("{update}-stack-outputs")
}

/// Path of a Program's artifact, as its status shows it.
pub fn artifact_path(namespace: &str, program: &str, generation: i64) -> String {
    format!("programs/{namespace}/{program}/{generation}.tar.gz")
}

/// Address of a Program's artifact on a server that may be given without its scheme.
pub fn artifact_url(server: &str, namespace: &str, program: &str, generation: i64) -> String {
    let scheme = if server.starts_with("http://") || server.starts_with("https://") { "" } else { "http://" };
    format!("{scheme}{server}/programs/{namespace}/{program}/{generation}")
}
