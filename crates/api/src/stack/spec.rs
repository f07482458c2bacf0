//! What a user asks of a Stack.

use std::collections::BTreeMap;
use std::ops::Not;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::references::{ConfigMapRef, GitAuthConfig, ResourceRef};
use crate::template::{UpdateTemplate, WorkspaceTemplate};
use crate::{Checked, Embedded, GoDuration, Problem, lenient};

/// Values of [`StackSpec::workspace_reclaim_policy`].
pub mod reclaim_policy {
    /// Keep the Workspace; what an absent policy means.
    pub const RETAIN: &str = "Retain";
    /// Delete the Workspace after each successful sync.
    pub const DELETE: &str = "Delete";
}

/// The desired state of a Pulumi stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["stack"]))]
pub struct StackSpec {
    /// Name of the Pulumi stack as the CLI takes it: `stack`, `project/stack` or
    /// `organization/project/stack`.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub stack: String,

    /// Deprecated: use envRefs. Name of a Secret whose key `accessToken` holds the Pulumi access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token_secret: Option<String>,

    /// URL of the state backend, for example `s3://bucket`. Pulumi Cloud when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,

    /// Deprecated: use envRefs, or envFrom in workspaceTemplate. Names of ConfigMaps whose entries
    /// become environment variables.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub envs: Vec<String>,

    /// Deprecated: use envRefs, or envFrom in workspaceTemplate. Names of Secrets whose entries
    /// become environment variables.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub env_secrets: Vec<String>,

    /// Environment variables of the Pulumi program, by name.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub env_refs: BTreeMap<String, ResourceRef>,

    /// Pulumi configuration of the stack that is not secret. Values may be strings, numbers,
    /// booleans, lists or maps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Checked<BTreeMap<String, Value>>>,

    /// Configuration values taken from ConfigMaps, by configuration key.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub config_ref: BTreeMap<String, ConfigMapRef>,

    /// Configuration values taken from ConfigMaps, by configuration key; the same as configRef, and
    /// used together with it.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub config_refs: BTreeMap<String, ConfigMapRef>,

    /// Deprecated: use secretsRef, because values written here are readable in the Stack. Secret
    /// configuration values, by configuration key.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,

    /// Secret configuration values taken from elsewhere, by configuration key.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets_ref: BTreeMap<String, ResourceRef>,

    /// Provider that encrypts the stack's secrets, for example `awskms://alias/key`. Takes effect
    /// when the stack is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_provider: Option<String>,

    /// URL of the Git repository that holds the program, over https or ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_repo: Option<String>,

    /// Deprecated: use gitAuth. Name of a Secret with Git credentials under the keys
    /// `sshPrivateKey` (and `password`), `accessToken`, or `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_auth_secret: Option<String>,

    /// Credentials for the Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git_auth: Option<GitAuthConfig>,

    /// Directory of the program within the repository; its root when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo_dir: Option<String>,

    /// Full hash of the commit to deploy. Give either this or branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,

    /// Branch or tag to deploy, short (`main`) or full (`refs/heads/main`), followed as it moves.
    /// Give either this or commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,

    /// Fetch only the commit to be deployed instead of the repository's history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shallow: Option<bool>,

    /// Takes the program from a Flux source in the Stack's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flux_source: Option<FluxSource>,

    /// Takes the program from a Program object in the Stack's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_ref: Option<ProgramReference>,

    /// URNs of the resources to which updates are limited; all when empty.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,

    /// With targets, also updates resources that depend on them.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub target_dependents: bool,

    /// Stacks in the same namespace that must have succeeded before this one is updated.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub prerequisites: Vec<PrerequisiteRef>,

    /// Runs an update every resyncFrequencySeconds even when nothing changed, which corrects drift.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub continue_resync_on_commit_match: bool,

    /// Seconds between resyncs, and between looks at the branch. Values below 60 act as 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync_frequency_seconds: Option<Checked<i64>>,

    /// Refreshes the stack's state from the cloud before each update.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub refresh: bool,

    /// With refresh: before each update, refreshes on its own, and goes no further if that finds that resources were
    /// changed outside of Pulumi, until asked to.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub expect_no_refresh_changes: bool,

    /// Destroys the stack's resources when the Stack object is deleted.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub destroy_on_finalize: bool,

    /// Runs the program during a destroy, for providers configured in code. The source must then
    /// still be available.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub run_program: bool,

    /// When somebody else is updating the Pulumi stack, tries again every 10 to 60 seconds and does not count that
    /// as a failure. Otherwise such an update is retried like any that failed.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub retry_on_update_conflict: bool,

    /// Fails when the Pulumi stack does not exist yet, instead of creating it.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub use_local_stack_only: bool,

    /// Service account of the workspace pod; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,

    /// Customises the Workspace made for this Stack: a partial Workspace merged over the generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_template: Option<Embedded<WorkspaceTemplate>>,

    /// What happens to the Workspace after a successful sync: `Retain`, the default, keeps its pod
    /// for the next update; `Delete` frees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Retain", "Delete"]))]
    pub workspace_reclaim_policy: Option<String>,

    /// Pulumi ESC environments added to the stack, in order.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub environment: Vec<String>,

    /// Customises the Updates made for this Stack: a partial Update merged over each generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_template: Option<Embedded<UpdateTemplate>>,

    /// Longest wait in seconds between retries of a failed update; one day when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_max_backoff_duration_seconds: Option<Checked<i64>>,

    /// Only previews changes; never updates, and never destroys on deletion.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub preview: bool,

    /// Verbosity of the Pulumi CLI's log, 0 for none; 11 is the most the CLI knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulumi_log_level: Option<Checked<u32>>,
}

impl StackSpec {
    /// Whether the spec names Git as its source: one of its fields is present, even if empty.
    pub const fn has_git_source(&self) -> bool {
        self.project_repo.is_some()
            || self.git_auth_secret.is_some()
            || self.git_auth.is_some()
            || self.repo_dir.is_some()
            || self.commit.is_some()
            || self.branch.is_some()
            || self.shallow.is_some()
    }

    /// Fields whose values the schema admits and the operator cannot use.
    pub fn problems(&self) -> Vec<Problem> {
        let own = [
            Problem::of("spec.config", self.config.as_ref()),
            Problem::of("spec.resyncFrequencySeconds", self.resync_frequency_seconds.as_ref()),
            Problem::of("spec.retryMaxBackoffDurationSeconds", self.retry_max_backoff_duration_seconds.as_ref()),
            Problem::of("spec.pulumiLogLevel", self.pulumi_log_level.as_ref()),
        ];
        let prerequisites = self.prerequisites.iter().enumerate().filter_map(|(index, entry)| {
            let requirement = entry.requirement.as_ref()?;
            Problem::of(
                &format!("spec.prerequisites[{index}].requirement.succeededWithinDuration"),
                requirement.succeeded_within_duration.as_ref(),
            )
        });
        own.into_iter().flatten().chain(prerequisites).collect()
    }
}

/// A Flux source, or an object with the same kind of artifact in its status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["sourceRef"]))]
pub struct FluxSource {
    /// The source object.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub source_ref: FluxSourceReference,
    /// Directory of the program within the source's artifact; its root when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// Names a source object in the Stack's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["apiVersion", "kind", "name"]))]
pub struct FluxSourceReference {
    /// API version of the source, for example `source.toolkit.fluxcd.io/v1`.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub api_version: String,
    /// Kind of the source, for example `GitRepository`.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub kind: String,
    /// Name of the source.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
}

/// Names a Program in the Stack's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name"]))]
pub struct ProgramReference {
    /// Name of the Program.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
}

/// Another Stack that has to be up to date first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name"]))]
pub struct PrerequisiteRef {
    /// Name of the other Stack, in the same namespace.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
    /// What is required of it beyond having succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requirement: Option<RequirementSpec>,
}

/// Conditions on the success of a prerequisite.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequirementSpec {
    /// How recent the success must be, for example `1h30m`; when it is older, the prerequisite is
    /// run again first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded_within_duration: Option<Checked<GoDuration>>,
}
