//! Events. They are core/v1 events; scripts filter on their reasons and sources.

use std::fmt::Display;

/// Who an event comes from, as its `source.component`.
pub mod recorder {
    /// About Stacks.
    pub const STACK: &str = "stack-controller";
    /// About Programs; there are none so far.
    pub const PROGRAM: &str = "program-controller";
    /// About Workspaces.
    pub const WORKSPACE: &str = "workspace-controller";
    /// About Updates, and about Workspaces that an Update cannot reach.
    pub const UPDATE: &str = "update-controller";
}

/// Whether an event calls for attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It does not.
    Normal,
    /// It does.
    Warning,
}

impl EventKind {
    /// As it stands in an event's `type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What is said in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened, in one word.
    pub reason: &'static str,
    /// Whether it calls for attention.
    pub kind: EventKind,
    /// What happened, in a sentence.
    pub message: String,
}

impl Event {
    fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, kind: EventKind::Normal, message: message.into() }
    }

    fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, kind: EventKind::Warning, message: message.into() }
    }
}

/// Events on a Stack.
pub mod stack {
    use super::{Display, Event};

    /// The reference implementation defines these reasons and never uses them. They are listed so
    /// that nobody takes one of them for something else.
    pub const UNUSED_REASONS: [&str; 6] = [
        "StackInitializationFailure",
        "StackGitAuthenticationFailure",
        "StackUpdateConflictDetected",
        "StackOutputRetrievalFailure",
        "StackNotFound",
        "StackDestroyed",
    ];

    /// The spec cannot be carried out.
    pub fn config_invalid(error: impl Display) -> Event {
        Event::warning("StackConfigInvalid", error.to_string())
    }

    /// An update failed.
    pub fn update_failure(update_message: &str) -> Event {
        Event::warning("StackUpdateFailure", format!("Failed to update stack: {update_message}"))
    }

    /// An update is needed; the text is one of [`crate::messages::trigger`].
    pub fn update_detected(trigger: &str) -> Event {
        Event::normal("StackUpdateDetected", trigger)
    }

    /// An update succeeded, of whatever type.
    pub fn updated() -> Event {
        Event::normal("StackCreated", "Successfully updated stack")
    }

    /// The Workspace was deleted after a successful sync.
    pub fn workspace_deleted() -> Event {
        Event::normal("WorkspaceDeleted", "Workspace deleted per reclaim policy")
    }
}

/// Events on a Workspace.
pub mod workspace {
    use super::{Display, Event};
    use crate::go_quote;
    use crate::messages::workspace::FIRST_JSON_VERSION;

    /// The StatefulSet had to be made anew.
    pub fn migrated() -> Event {
        Event::warning("Migrated", "Replaced the workspace statefulset")
    }

    /// The agent does not answer.
    pub fn connection_failure(error: impl Display) -> Event {
        Event::warning("ConnectionFailure", error.to_string())
    }

    /// The program's dependencies could not be installed.
    pub fn installation_failure(error: impl Display) -> Event {
        Event::warning("InstallationFailure", error.to_string())
    }

    /// A stack could not be made ready.
    pub fn stack_initialization_failure(stack: &str, error: impl Display) -> Event {
        Event::warning("StackInitializationFailure", format!("Failed to initialize stack {}: {error}", go_quote(stack)))
    }

    /// The CLI is too old for structured configuration.
    pub fn version_too_old(version: &str) -> Event {
        Event::warning(
            "StackInitializationFailure",
            format!(
                "Pulumi CLI version {version} is too old for JSON configuration support, require >= {FIRST_JSON_VERSION}"
            ),
        )
    }

    /// The stacks were made ready in that pod.
    pub fn initialized(pod: &str) -> Event {
        Event::normal("Initialized", format!("Initialized workspace pod {}", go_quote(pod)))
    }
}

/// Events on an Update.
pub mod update {
    use super::Event;
    use crate::go_quote;
    use crate::update::update_type;

    /// It outlived its time and was deleted.
    pub fn expired() -> Event {
        Event::normal("UpdateExpired", "ttl expired and was deleted")
    }

    /// Its operation failed.
    pub fn failed(update_type: &str, stack_name: &str) -> Event {
        let verb = match update_type {
            update_type::PREVIEW => "preview",
            update_type::REFRESH => "refresh",
            update_type::DESTROY => "destroy",
            _ => "update",
        };
        Event::warning("UpdateFailed", format!("Failed to {verb} stack {}", go_quote(stack_name)))
    }

    /// Its operation succeeded.
    pub fn succeeded(update_type: &str, stack_name: &str) -> Event {
        let verb = match update_type {
            update_type::PREVIEW => "Previewed",
            update_type::REFRESH => "Refreshed",
            update_type::DESTROY => "Destroyed",
            _ => "Updated",
        };
        Event::normal("UpdateSucceeded", format!("{verb} stack {}", go_quote(stack_name)))
    }
}
