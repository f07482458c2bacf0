//! Reasons of conditions. Scripts, Argo CD and kstatus read them: they are never reworded.

use std::borrow::Cow;
use std::fmt;

/// Reason of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(Cow<'static, str>);

impl Reason {
    const fn fixed(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// A reason that comes from outside, such as a gRPC code or an agent's error. The API server
    /// refuses a status with a malformed reason, so one that is becomes [`update::UNKNOWN`].
    pub fn reported(text: &str) -> Self {
        const LONGEST: usize = 1024;
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let well_formed = text.len() <= LONGEST
            && text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.ends_with(word)
            && text.chars().all(|c| word(c) || c == ',' || c == ':');
        if well_formed { Self(Cow::Owned(text.to_owned())) } else { update::UNKNOWN }
    }

    /// As it stands in a condition.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Reasons on a Stack.
pub mod stack {
    use super::Reason;

    /// Ready is False: work is going on.
    pub const NOT_READY_IN_PROGRESS: Reason = Reason::fixed("NotReadyInProgress");
    /// Ready is False: nothing will happen by itself.
    pub const NOT_READY_STALLED: Reason = Reason::fixed("NotReadyStalled");
    /// Ready is True.
    pub const PROCESSING_COMPLETED: Reason = Reason::fixed("ProcessingCompleted");

    /// Reconciling: an update is prepared or running.
    pub const STACK_PROCESSING: Reason = Reason::fixed("StackProcessing");
    /// Reconciling: the last update failed and will be tried again.
    pub const RETRYING_AFTER_FAILURE: Reason = Reason::fixed("RetryingAfterFailure");
    /// Reconciling: the last preview failed and will be tried again.
    pub const PREVIEW_FAILED: Reason = Reason::fixed("PreviewFailed");
    /// Reconciling: another Stack has to succeed first.
    pub const PREREQUISITE_NOT_SATISFIED: Reason = Reason::fixed("PrerequisiteNotSatisfied");

    /// Stalled: the spec cannot be carried out.
    pub const SPEC_INVALID: Reason = Reason::fixed("SpecInvalid");
    /// Stalled: the program cannot be had.
    pub const SOURCE_UNAVAILABLE: Reason = Reason::fixed("SourceUnavailable");
    /// Stalled: the workspace's Pulumi CLI lacks what the spec needs.
    pub const PULUMI_VERSION_TOO_LOW: Reason = Reason::fixed("PulumiVersionTooLow");
    /// Stalled: the workspace is.
    pub const WORKSPACE_FAILED: Reason = Reason::fixed("WorkspaceFailed");
    /// Stalled: the update failed too often.
    pub const UPDATE_FAILED: Reason = Reason::fixed("UpdateFailed");
    /// Stalled: the namespace goes away before the stack could be destroyed.
    pub const NAMESPACE_TERMINATING: Reason = Reason::fixed("NamespaceTerminating");
    /// Stalled: someone else is updating the stack. Known to clients, not used by the reference.
    pub const UPDATE_CONFLICT: Reason = Reason::fixed("UpdateConflict");
}

/// Reasons on a Workspace; besides these, what its agent reports.
pub mod workspace {
    use super::Reason;

    /// Not ready: being deleted.
    pub const DELETING: Reason = Reason::fixed("Deleting");
    /// Not ready: its pod is being replaced.
    pub const ROLLING_UPDATE: Reason = Reason::fixed("RollingUpdate");
    /// Not ready: its pod is not available.
    pub const WAITING_FOR_REPLICAS: Reason = Reason::fixed("WaitingForReplicas");
    /// Not ready: its agent does not answer.
    pub const CONNECTION_FAILED: Reason = Reason::fixed("ConnectionFailed");
    /// Not ready, stalled: its Pulumi CLI lacks what the spec needs.
    pub const INCOMPATIBLE_CONFIGURATION: Reason = Reason::fixed("IncompatibleConfiguration");
    /// Not ready: the program's dependencies are being installed.
    pub const INSTALLING: Reason = Reason::fixed("Installing");
    /// Not ready, stalled: that failed.
    pub const INSTALLATION_FAILED: Reason = Reason::fixed("InstallationFailed");
    /// Not ready: its stacks are being made ready.
    pub const INITIALIZING: Reason = Reason::fixed("Initializing");
    /// Not ready, stalled: that failed.
    pub const INITIALIZATION_FAILED: Reason = Reason::fixed("InitializationFailed");
    /// Ready.
    pub const SUCCEEDED: Reason = Reason::fixed("Succeeded");
}

/// Reasons on an Update.
pub mod update {
    use super::Reason;

    /// Running, or waiting to.
    pub const PROGRESSING: Reason = Reason::fixed("Progressing");
    /// Not progressing: there is no such Workspace.
    pub const WORKSPACE_NOT_FOUND: Reason = Reason::fixed("WorkspaceNotFound");
    /// Not progressing: the Workspace is not ready.
    pub const WORKSPACE_NOT_READY: Reason = Reason::fixed("WorkspaceNotReady");
    /// Not progressing: another Update of the Workspace comes first.
    pub const WORKSPACE_BUSY: Reason = Reason::fixed("WorkspaceBusy");
    /// Not progressing: the agent cannot be reached.
    pub const TRANSIENT_FAILURE: Reason = Reason::fixed("TransientFailure");
    /// No longer progressing: the operation ran to its end.
    pub const COMPLETE: Reason = Reason::fixed("Complete");
    /// Complete: the operation ran to its end.
    pub const UPDATED: Reason = Reason::fixed("Updated");
    /// Not failed.
    pub const UPDATE_SUCCEEDED: Reason = Reason::fixed("UpdateSucceeded");
    /// Failed: Pulumi's result says so.
    pub const UPDATE_FAILED: Reason = Reason::fixed("UpdateFailed");
    /// Failed, for a reason nobody classified.
    pub const UNKNOWN: Reason = Reason::fixed("Unknown");
    /// Failed: another update of the stack is running.
    pub const UPDATE_CONFLICT: Reason = Reason::fixed("UpdateConflict");
    /// Failed: Pulumi Cloud refused the access token.
    pub const INVALID_ACCESS_TOKEN: Reason = Reason::fixed("InvalidAccessToken");
    /// Failed: the operation was lost while it ran.
    pub const ABORTED: Reason = Reason::fixed("Aborted");
    /// Failed: deleted or orphaned before the operation started.
    pub const CANCELED: Reason = Reason::fixed("Canceled");
    /// Complete, and no longer progressing, without having run to its end.
    pub const FAILED: Reason = Reason::fixed("Failed");
}
