//! Annotation keys, and the values that have a form of their own.

/// On a Stack: a value not seen before asks for one fresh update.
pub const RECONCILIATION_REQUEST: &str = "pulumi.com/reconciliation-request";
/// On a Stack: Flux's and its CLI's way to ask for the same.
pub const FLUX_REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";
/// On a Stack: the name of the running Update that is to be cancelled gracefully.
pub const CANCEL_REQUEST: &str = "pulumi.com/cancel-request";
/// On a Stack: set by a dependent Stack to have an out-of-date prerequisite run again. Apart from
/// [`RECONCILIATION_REQUEST`], which belongs to the user, and which GitOps tools would restore.
pub const PREREQUISITE_REQUEST: &str = "pulumi.com/prerequisite-request";
/// On a Workspace: a digest of what the Stack controller applied, so that it knows without writing whether the
/// Workspace is as planned.
pub const APPLIED_HASH: &str = "pulumi.com/applied-hash";
/// On a Workspace that has no owner because its Stack is being destroyed: the UID of that Stack, without which the
/// Workspace is of no use.
pub const DESTROYS: &str = "pulumi.com/destroys";
/// On the template of a Stack's workspace pod: a digest of the Secrets and ConfigMaps that its program sees, since a pod
/// keeps the values that it was started with.
pub const REFERENCES_HASH: &str = "pulumi.com/references-hash";
/// On a workspace pod's template: a digest whose change rolls the pod.
pub const REVISION_HASH: &str = "auto.pulumi.com/revision-hash";
/// On a workspace pod's template: a digest of what the user asked for. Another one than it has means that the pod is to
/// be renewed now; another [`REVISION_HASH`] alone, that it is to be renewed at the next occasion.
pub const SPEC_HASH: &str = "auto.pulumi.com/spec-hash";
/// On a workspace pod: a digest of the stacks that it was made ready for.
pub const STACKS_HASH: &str = "auto.pulumi.com/stacks-hash";
/// On a workspace pod: its stacks have been made ready.
pub const INITIALIZED: &str = "auto.pulumi.com/initialized";
/// On an outputs Secret: which of its keys are secret outputs.
pub const SECRETS: &str = "pulumi.com/secrets";
/// On the operator's pod: which container `kubectl logs` and `exec` mean.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// The value that marks a pod as [`INITIALIZED`].
pub const TRUE: &str = "true";

/// Whether a value of [`INITIALIZED`] says yes, read as Go's `strconv.ParseBool` does.
pub fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// The request to a prerequisite whose last update has become too old. The same for every dependent
/// and until that Stack has run again, so dependents do not outbid each other.
pub fn prerequisite_request(last_update_name: &str) -> String {
    format!("after-{last_update_name}")
}
