//! Field managers of server-side apply. Shared with the reference implementation, so that each can
//! release what the other set.

/// Workspaces, Services, StatefulSets, pods' annotations, Stacks' finalizers, new Updates.
pub const OPERATOR: &str = "pulumi-kubernetes-operator";
/// Status of Stacks.
pub const STACK_STATUS: &str = "pulumi-kubernetes-operator/stack-status";
/// The finalizer on Updates.
pub const STACK_FINALIZER: &str = "pulumi-kubernetes-operator/stack-finalizer";
/// The annotation that has a prerequisite run again.
pub const PREREQUISITE_REQUEST: &str = "pulumi-kubernetes-operator/prerequisite-request";
/// Status of Programs.
pub const PROGRAM_STATUS: &str = "pulumi-kubernetes-operator/program-status";
/// Status of Workspaces.
pub const WORKSPACE_STATUS: &str = "pulumi-kubernetes-operator/workspace-status";
/// Status of Updates.
pub const UPDATE_STATUS: &str = "pulumi-kubernetes-operator/update-status";
