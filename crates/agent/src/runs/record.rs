//! What the journal says of a run. Neither record holds a secret: no configuration, no outputs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Written before the CLI is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Start {
    pub(crate) run_id: String,
    /// init, preview, up, refresh or destroy.
    pub(crate) operation: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stack: Option<String>,
    /// destroy: the stack itself is to be removed afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) remove: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(rename = "startTime")]
    pub(crate) time: Timestamp,
}

/// Written when the run is over, before anyone is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct End {
    #[serde(rename = "endTime")]
    pub(crate) time: Timestamp,
    /// Absent when the run succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) permalink: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project: Option<ProjectInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pulumi_version: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) resource_changes: BTreeMap<String, i32>,
    #[serde(default)]
    pub(crate) output_count: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProjectInfo {
    pub(crate) name: String,
    pub(crate) runtime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) backend: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stack_config_dir: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failure {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) stack_name: String,
}

impl Failure {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: pko_pulumi::shorten(&message.into()), stack_name: String::new() }
    }
}

/// One word that is fit for a condition; the names are part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reason {
    InstallationFailed,
    InitializationFailed,
    IncompatibleConfiguration,
    UpdateFailed,
    UpdateConflict,
    InvalidAccessToken,
    Canceled,
    Interrupted,
    /// Also what a later agent wrote and this one has no word for.
    #[serde(other)]
    Unknown,
}

impl Reason {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::InstallationFailed => "InstallationFailed",
            Self::InitializationFailed => "InitializationFailed",
            Self::IncompatibleConfiguration => "IncompatibleConfiguration",
            Self::UpdateFailed => "UpdateFailed",
            Self::UpdateConflict => "UpdateConflict",
            Self::InvalidAccessToken => "InvalidAccessToken",
            Self::Canceled => "Canceled",
            Self::Interrupted => "Interrupted",
            Self::Unknown => "Unknown",
        }
    }
}
