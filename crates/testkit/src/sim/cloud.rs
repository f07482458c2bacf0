//! What the Pulumi stacks hold in the cloud, and the ledger of every run of the CLI that ever changed it.

use std::collections::BTreeMap;

use pko_core::effect::OperationKind;

/// What an update leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deployed {
    /// Digest of the program.
    pub(super) program: String,
    /// Configuration that it was deployed with.
    pub(super) size: String,
    /// The update came to its end.
    pub(super) whole: bool,
}

/// How a run of the CLI ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Succeeded,
    Failed,
    /// Somebody else had locked the stack.
    Refused,
    /// With its container, or interrupted with its pod.
    Killed,
}

/// A run of the CLI.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    pub(super) run_id: String,
    /// The Stack object that it was made for.
    pub(super) stack_uid: String,
    /// The Pulumi stack.
    pub(super) stack: String,
    /// The Workspace in whose pod it runs.
    pub(super) workspace: String,
    pub(super) kind: OperationKind,
    pub(super) end: Option<End>,
}

/// Why runs of a Pulumi stack fail, as long as they do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mood {
    /// Reason with which operations fail.
    pub(super) operations: Option<&'static str>,
    /// Reason with which making a workspace ready fails.
    pub(super) init: Option<&'static str>,
}

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Cloud {
    pub(super) stacks: BTreeMap<String, Deployed>,
    pub(super) ledger: Vec<Execution>,
    pub(super) moods: BTreeMap<String, Mood>,
}

impl Cloud {
    pub(super) fn mood(&self, stack: &str) -> Mood {
        self.moods.get(stack).cloned().unwrap_or_default()
    }

    /// Writes the start of a run of the CLI down; says what must not be.
    pub(super) fn start(&mut self, execution: Execution) -> Result<(), String> {
        let going_on = |other: &&Execution| {
            // What runs from another Workspace, the backend's lock keeps apart.
            other.stack == execution.stack && other.end.is_none() && other.workspace == execution.workspace
        };
        let wrong = if self.ledger.iter().any(|other| other.run_id == execution.run_id) {
            Err(format!("run {} was started a second time", execution.run_id))
        } else if let Some(other) = self.ledger.iter().find(going_on) {
            Err(format!("runs {} and {} work on stack {} at once", other.run_id, execution.run_id, execution.stack))
        } else {
            Ok(())
        };
        self.ledger.push(execution);
        wrong
    }

    /// Whether a run finds its stack locked by another.
    pub(super) fn locked(&self, run_id: &str) -> bool {
        let Some(own) = self.ledger.iter().position(|execution| execution.run_id == run_id) else { return false };
        let changes = |kind: OperationKind| kind != OperationKind::Preview;
        let own = (own, &self.ledger[own]);
        changes(own.1.kind)
            && self.ledger[..own.0].iter().any(|other| {
                other.stack == own.1.stack
                    && other.workspace != own.1.workspace
                    && other.end.is_none()
                    && changes(other.kind)
            })
    }

    /// Writes the end of a run down, and what it did.
    pub(super) fn end(&mut self, run_id: &str, end: End, leaves: &Deployed) {
        let Some(execution) = self.ledger.iter_mut().find(|execution| execution.run_id == run_id) else { return };
        execution.end = Some(end);
        let stack = execution.stack.clone();
        match (execution.kind, end) {
            (_, End::Refused) => {}
            (OperationKind::Up, End::Succeeded) => {
                self.stacks.insert(stack, Deployed { whole: true, ..leaves.clone() });
            }
            (OperationKind::Up, _) => {
                self.stacks.insert(stack, Deployed { whole: false, ..leaves.clone() });
            }
            (OperationKind::Destroy, End::Succeeded) => {
                self.stacks.remove(&stack);
            }
            (OperationKind::Destroy, _) => {
                if let Some(deployed) = self.stacks.get_mut(&stack) {
                    deployed.whole = false;
                }
            }
            (OperationKind::Preview | OperationKind::Refresh, _) => {}
        }
    }

    /// Whether several Stacks have worked on a Pulumi stack.
    pub(super) fn shared(&self, stack: &str) -> bool {
        let mut workspaces = self.ledger.iter().filter(|execution| execution.stack == stack).map(|it| &it.workspace);
        workspaces.next().is_some_and(|first| workspaces.any(|other| other != first))
    }

    /// The last run of the CLI for a Stack object that ended by itself.
    pub(super) fn last_of(&self, stack_uid: &str) -> Option<&Execution> {
        self.ledger.iter().rev().find(|execution| {
            execution.stack_uid == stack_uid
                && matches!(execution.end, Some(End::Succeeded | End::Failed | End::Refused))
        })
    }

    /// Whether a Stack object ever deployed anything.
    pub(super) fn deployed_by(&self, stack_uid: &str) -> bool {
        self.ledger.iter().any(|execution| {
            execution.stack_uid == stack_uid
                && execution.kind == OperationKind::Up
                && execution.end != Some(End::Refused)
        })
    }
}
