//! Update: one run of a Pulumi operation in a Workspace.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Checked, GoDuration, Problem, ProjectInfo, lenient};

/// Values of [`UpdateSpec::update_type`].
pub mod update_type {
    /// Shows what an update would change.
    pub const PREVIEW: &str = "preview";
    /// Creates, updates and deletes resources as the program says.
    pub const UP: &str = "up";
    /// Deletes all resources.
    pub const DESTROY: &str = "destroy";
    /// Brings the state up to date with the cloud.
    pub const REFRESH: &str = "refresh";
}

object! {
    /// One run of a Pulumi operation in a Workspace. Usually made by a Stack.
    pub struct Update = "auto.pulumi.com", "v1alpha1", "updates" {
        spec: UpdateSpec,
        status: UpdateStatus,
    }
}

/// What is run. An option that is absent is left to the CLI.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateSpec {
    /// Workspace in which to run, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// Name of the Pulumi stack as the CLI takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_name: Option<String>,
    /// Operation to run: `preview`, `up`, `refresh` or `destroy`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub update_type: Option<String>,
    /// How long after its completion the Update is deleted, for example `24h`; kept when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_after_completed: Option<Checked<GoDuration>>,
    /// How many resource operations run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Checked<i32>>,
    /// Message stored with the update in the stack's history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fails if anything would change. Not for destroy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_no_changes: Option<bool>,
    /// URNs of resources to replace. For preview and up.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<String>,
    /// URNs of the resources to which the operation is limited; all when empty.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<String>,
    /// With target, also operates on resources that depend on the targets. Not for refresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_dependents: Option<bool>,
    /// Refreshes the state from the cloud first. Not for refresh itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<bool>,
    /// Goes on with other resources when one fails. For up and destroy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
    /// Removes the stack and its configuration after its resources. For destroy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<bool>,
    /// Runs the program, for providers configured in code. For destroy and refresh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_program: Option<bool>,
}

impl UpdateSpec {
    /// Fields whose values the schema admits and the operator cannot use.
    pub fn problems(&self) -> Vec<Problem> {
        [
            Problem::of("spec.ttlAfterCompleted", self.ttl_after_completed.as_ref()),
            Problem::of("spec.parallel", self.parallel.as_ref()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// How the run goes, or went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// Generation of the Update that this status is about.
    #[serde(default, deserialize_with = "lenient::status_number")]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,
    /// When the operation began.
    #[serde(default, deserialize_with = "lenient::status_time", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the operation ended.
    #[serde(default, deserialize_with = "lenient::status_time", skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Page of the update in Pulumi Cloud.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub permalink: String,
    /// Why the operation failed, or what its summary says.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub message: String,
    /// Name of the Secret that holds the stack's outputs.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub outputs: String,
    /// The pod to which the operation was given, written before it starts, so that a restarted
    /// operator finds it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<UpdateRun>,
    /// How far the operation is, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<UpdateProgress>,
    /// How many resources were created, updated, deleted, replaced or left as they are; of a preview, would be.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_changes: BTreeMap<String, i32>,
    /// What a preview has shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<PreviewResult>,
    /// `Progressing`, `Failed` and `Complete`.
    #[serde(default, deserialize_with = "lenient::conditions", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// The Pulumi project that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_info: Option<ProjectInfo>,
}

/// How far an operation is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateProgress {
    /// Operations on resources that have begun so far.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub begun: i32,
    /// Those of them that have ended.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub done: i32,
    /// What was begun last, for example `creating aws:s3:Bucket logs`.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub current: String,
    /// When the agent was last heard of.
    #[serde(default, deserialize_with = "lenient::status_time", skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Time>,
}

/// What a preview has shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewResult {
    /// What the CLI printed, cut in the middle where it is long.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub standard_output: String,
    /// Outputs that the program would have; secret ones are shown as `[secret]`.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Value>,
}

/// Where an operation runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpdateRun {
    /// UID of the workspace pod.
    #[serde(rename = "podUID", default, deserialize_with = "lenient::null_default")]
    pub pod_uid: String,
}
