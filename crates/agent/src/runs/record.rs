//! What the journal says of a run. Neither record holds a secret: no configuration, and of outputs only what is plain.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pko_pulumi::{Class, Failed, Summary};
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
    #[serde(default)]
    pub(crate) progress: Progress,
    /// preview: what the CLI printed, in short.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) standard_output: String,
    /// preview: JSON of the outputs that there would be, secret ones masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) outputs_json: String,
}

/// How far an operation is, or was when it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Operations on resources that have begun and that have ended.
    pub(crate) started: u32,
    pub(crate) done: u32,
    /// What was begun last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) current: String,
}

impl From<&Summary> for Progress {
    fn from(summary: &Summary) -> Self {
        Self { started: summary.started, done: summary.done, current: summary.current.clone() }
    }
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
    /// Whether trying again can help though nobody changes anything.
    #[serde(default)]
    pub(crate) retryable: bool,
}

impl Failure {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = pko_pulumi::shorten(&message.into());
        Self { reason, message, stack_name: String::new(), retryable: reason.retryable() }
    }
}

impl From<Failed> for Failure {
    fn from(Failed { class, message }: Failed) -> Self {
        Self::new(class.into(), message)
    }
}

/// One word that is fit for a condition; the names are part of the protocol, and docs/failures.md tells of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reason {
    InstallationFailed,
    InitializationFailed,
    IncompatibleConfiguration,
    UpdateFailed,
    UpdateConflict,
    BackendUnavailable,
    InvalidAccessToken,
    InvalidPassphrase,
    ProjectNotFound,
    StackNotFound,
    PluginNotFound,
    PluginDownloadFailed,
    MissingConfiguration,
    PolicyViolation,
    ProtectedResource,
    PlanViolation,
    UnexpectedChanges,
    ProgramFailed,
    ProviderFailed,
    Killed,
    Canceled,
    Interrupted,
    /// Also what a later agent wrote and this one has no word for.
    #[serde(other)]
    Unknown,
}

impl From<Class> for Reason {
    fn from(class: Class) -> Self {
        match class {
            Class::Conflict => Self::UpdateConflict,
            Class::BackendUnavailable => Self::BackendUnavailable,
            Class::InvalidAccessToken => Self::InvalidAccessToken,
            Class::InvalidPassphrase => Self::InvalidPassphrase,
            Class::ProjectNotFound => Self::ProjectNotFound,
            Class::StackNotFound => Self::StackNotFound,
            Class::PluginNotFound => Self::PluginNotFound,
            Class::PluginDownloadFailed => Self::PluginDownloadFailed,
            Class::MissingConfiguration => Self::MissingConfiguration,
            Class::PolicyViolation => Self::PolicyViolation,
            Class::ProtectedResource => Self::ProtectedResource,
            Class::PlanViolation => Self::PlanViolation,
            Class::UnexpectedChanges => Self::UnexpectedChanges,
            Class::ProgramFailed => Self::ProgramFailed,
            Class::ProviderFailed => Self::ProviderFailed,
            Class::Killed => Self::Killed,
            Class::Canceled => Self::Canceled,
            Class::Other => Self::UpdateFailed,
        }
    }
}

impl Reason {
    #[cfg(test)]
    const ALL: [Self; 23] = [
        Self::InstallationFailed,
        Self::InitializationFailed,
        Self::IncompatibleConfiguration,
        Self::UpdateFailed,
        Self::UpdateConflict,
        Self::BackendUnavailable,
        Self::InvalidAccessToken,
        Self::InvalidPassphrase,
        Self::ProjectNotFound,
        Self::StackNotFound,
        Self::PluginNotFound,
        Self::PluginDownloadFailed,
        Self::MissingConfiguration,
        Self::PolicyViolation,
        Self::ProtectedResource,
        Self::PlanViolation,
        Self::UnexpectedChanges,
        Self::ProgramFailed,
        Self::ProviderFailed,
        Self::Killed,
        Self::Canceled,
        Self::Interrupted,
        Self::Unknown,
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::InstallationFailed => "InstallationFailed",
            Self::InitializationFailed => "InitializationFailed",
            Self::IncompatibleConfiguration => "IncompatibleConfiguration",
            Self::UpdateFailed => "UpdateFailed",
            Self::UpdateConflict => "UpdateConflict",
            Self::BackendUnavailable => "BackendUnavailable",
            Self::InvalidAccessToken => "InvalidAccessToken",
            Self::InvalidPassphrase => "InvalidPassphrase",
            Self::ProjectNotFound => "ProjectNotFound",
            Self::StackNotFound => "StackNotFound",
            Self::PluginNotFound => "PluginNotFound",
            Self::PluginDownloadFailed => "PluginDownloadFailed",
            Self::MissingConfiguration => "MissingConfiguration",
            Self::PolicyViolation => "PolicyViolation",
            Self::ProtectedResource => "ProtectedResource",
            Self::PlanViolation => "PlanViolation",
            Self::UnexpectedChanges => "UnexpectedChanges",
            Self::ProgramFailed => "ProgramFailed",
            Self::ProviderFailed => "ProviderFailed",
            Self::Killed => "Killed",
            Self::Canceled => "Canceled",
            Self::Interrupted => "Interrupted",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether trying again can help though nobody changes anything. Of an init that failed, the class of what went wrong
    /// tells more than this.
    fn retryable(self) -> bool {
        let class = Class::ALL.into_iter().find(|class| Self::from(*class) == self);
        class.map_or(self != Self::IncompatibleConfiguration, Class::retryable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_a_row_for_every_reason_and_says_rightly_whether_it_is_retryable() {
        let manual = include_str!("../../../../docs/failures.md");
        let rows: Vec<Vec<&str>> = manual
            .lines()
            .filter_map(|line| Some(line.strip_prefix("| `")?.split('|').map(str::trim).collect()))
            .collect();
        for reason in Reason::ALL {
            let row = rows.iter().find(|row| row[0] == format!("{}`", reason.word()));
            let row = row.unwrap_or_else(|| panic!("docs/failures.md has no row for {}", reason.word()));
            let said = row[row.len() - 2];
            assert!(said.starts_with(if reason.retryable() { "yes" } else { "no" }), "{}: {said}", reason.word());
        }
        assert_eq!(rows.len(), Reason::ALL.len(), "docs/failures.md has rows for reasons that are none");
    }

    #[test]
    fn words_are_those_of_the_journal() {
        for reason in Reason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.word());
        }
    }
}
