//! Condition types, and reading conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// Type of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionType(&'static str);

impl ConditionType {
    /// Stack, Workspace: it is as its spec says.
    pub const READY: Self = Self("Ready");
    /// Stack: being worked on.
    pub const RECONCILING: Self = Self("Reconciling");
    /// Stack, Workspace: no progress without a change from outside.
    pub const STALLED: Self = Self("Stalled");
    /// Update: running.
    pub const PROGRESSING: Self = Self("Progressing");
    /// Update: ended without success.
    pub const FAILED: Self = Self("Failed");
    /// Update: ended.
    pub const COMPLETE: Self = Self("Complete");

    /// As it stands in a condition.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// Status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is not known.
    Unknown,
}

impl ConditionStatus {
    /// As it stands in a condition.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// The condition of that type.
pub fn find(conditions: &[Condition], of_type: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == of_type.as_str())
}

/// Whether the condition of that type is there and holds.
pub fn is_true(conditions: &[Condition], of_type: ConditionType) -> bool {
    find(conditions, of_type).is_some_and(|condition| condition.status == ConditionStatus::True.as_str())
}
