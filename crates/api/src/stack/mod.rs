//! Stack: one Pulumi stack that the operator keeps as its spec says.

mod references;
mod spec;
mod status;

pub use references::{
    BasicAuth, ConfigMapRef, ConfigMapSelector, EnvSelector, FsSelector, GitAuthConfig, GitHubApp, LiteralSelector,
    ResourceRef, SecretSelector, SshAuth, ref_type,
};
pub use spec::{
    FluxSource, FluxSourceReference, PrerequisiteRef, ProgramReference, RequirementSpec, StackSpec, reclaim_policy,
};
pub use status::{CurrentUpdate, LastUpdate, StackStatus, update_state};

object! {
    /// A Pulumi stack: where its program comes from, its configuration, and when it is deployed.
    pub struct Stack = "pulumi.com", "v1", "stacks" {
        spec: StackSpec,
        status: StackStatus,
    }
}

/// The version that is served for old clients and never stored or watched.
pub mod v1alpha1 {
    use super::StackSpec;
    pub use super::status::StackStatusV1Alpha1 as StackStatus;

    object! {
        /// A Pulumi stack, in the first version of the API; prefer `pulumi.com/v1`.
        pub struct Stack = "pulumi.com", "v1alpha1", "stacks" {
            spec: StackSpec,
            status: StackStatus,
        }
    }
}
