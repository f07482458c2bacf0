//! What the operator reports about a Stack.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ProjectInfo, lenient, update::PreviewResult};

/// Values of [`LastUpdate::state`].
pub mod update_state {
    /// The update did what it was asked.
    pub const SUCCEEDED: &str = "succeeded";
    /// It did not.
    pub const FAILED: &str = "failed";
}

/// The observed state of a Stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StackStatus {
    /// Outputs of the last successful update; a secret one reads `[secret]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<BTreeMap<String, Value>>,
    /// The update that ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<LastUpdate>,
    /// The update that is planned or running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_update: Option<CurrentUpdate>,
    /// Generation of the Stack that this status is about.
    #[serde(default, deserialize_with = "lenient::status_number")]
    pub observed_generation: i64,
    /// Value of the annotation `pulumi.com/reconciliation-request` that this status is about.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub observed_reconcile_request: String,
    /// Value of the annotation `reconcile.fluxcd.io/requestedAt` for which an update was last made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// `Ready`, and while it is not ready one of `Reconciling` and `Stalled`.
    #[serde(default, deserialize_with = "lenient::conditions", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// The Pulumi project of the last successful update, with which the stack can be destroyed when
    /// its source is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_info: Option<ProjectInfo>,
}

/// The observed state of a Stack, in the first version of the API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StackStatusV1Alpha1 {
    /// Outputs of the last successful update; a secret one reads `[secret]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<BTreeMap<String, Value>>,
    /// The update that ended last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update: Option<LastUpdate>,
}

/// How the last update of a Stack went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastUpdate {
    /// Generation of the Stack that the update was made for.
    #[serde(default, deserialize_with = "lenient::status_number", skip_serializing_if = "lenient::is_zero")]
    pub generation: i64,
    /// Reconciliation request that the update was made for.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub reconcile_request: String,
    /// Name of the Update object.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Kind of operation: `up`, `preview`, `refresh` or `destroy`.
    #[serde(
        rename = "type",
        default,
        deserialize_with = "lenient::null_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub update_type: String,
    /// `succeeded` or `failed`.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// Why the update failed.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Why the update failed, in one word: the reason of the Update's condition `Failed`.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// How many resources were created, updated, deleted, replaced or left as they are; of a preview, would be.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_changes: BTreeMap<String, i32>,
    /// What a preview has shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<PreviewResult>,
    /// A digest of the Secrets and ConfigMaps that the update used.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub references_hash: String,
    /// Source revision that the update used.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub last_attempted_commit: String,
    /// Source revision of the last update that succeeded.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub last_successful_commit: String,
    /// Page of the update in Pulumi Cloud.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub permalink: String,
    /// When the result of the update was taken over into this status.
    #[serde(default, deserialize_with = "lenient::status_time", skip_serializing_if = "Option::is_none")]
    pub last_resync_time: Option<Time>,
    /// How often the update has failed for the same generation and request.
    #[serde(default, deserialize_with = "lenient::status_number", skip_serializing_if = "lenient::is_zero")]
    pub failures: i64,
}

/// The update of a Stack that is planned or running.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentUpdate {
    /// Generation of the Stack that the update is made for.
    #[serde(default, deserialize_with = "lenient::status_number", skip_serializing_if = "lenient::is_zero")]
    pub generation: i64,
    /// Reconciliation request that the update is made for.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub reconcile_request: String,
    /// Name of the Update object.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A digest of the Secrets and ConfigMaps that the update uses.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub references_hash: String,
    /// Source revision that the update uses.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "String::is_empty")]
    pub commit: String,
}
