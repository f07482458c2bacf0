//! What a decision does: writes that may be repeated, in order. Each says on which version of an object it was decided,
//! so that a decision from an old view of the world fails instead of winning.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{
    Program, Stack, Update, Workspace,
    events::Event,
    program::ProgramStatus,
    stack::StackStatus,
    update::UpdateStatus,
    workspace::{WorkspaceStack, WorkspaceStatus},
};
use serde_json::Value;

use crate::seen::{Kind, PodRef};

/// A write.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Replaces an object's status, if the object still is the version that was read.
    Status { on: Target, status: Status },
    /// Puts our finalizer on a Stack, if the Stack still is the version that was read: `finalizers` is the whole list.
    HoldStack { on: Target, finalizers: Vec<String> },
    /// Takes our finalizer off a Stack, if the Stack still is the version that was read: `finalizers` is what remains.
    ReleaseStack { on: Target, finalizers: Vec<String> },
    /// Asks another Stack, that very one, for a fresh update.
    RequestUpdate { on: Target, request: String },
    /// Applies a Stack's Workspace. With a UID, only to that one; without, it must not exist or not belong to others.
    ApplyWorkspace { workspace: Box<Workspace>, uid: Option<String> },
    /// Deletes a Stack's Workspace, that very one.
    DeleteWorkspace { on: Target },
    /// Creates an Update; one of that name that exists already is the same one.
    CreateUpdate(Box<Update>),
    /// Puts our finalizer on an Update, that very one, until its result is taken over.
    HoldUpdate { on: Target },
    /// Takes our finalizer off an Update, that very one.
    ReleaseUpdate { on: Target },
    /// Deletes an Update, that very one.
    DeleteUpdate { on: Target },
    /// Keeps a copy of a Program, that very generation of it; one that exists already is the same one.
    KeepProgram(Box<Program>),
    /// Lets go of the copy of a generation of a Program.
    DropProgram { on: Target, generation: i64 },
    /// Applies a Workspace's Service.
    ApplyService { service: Value },
    /// Applies a Workspace's StatefulSet.
    ApplyStatefulSet { stateful_set: Value },
    /// Deletes a Workspace's pod, that very one; its StatefulSet makes another.
    DeletePod { pod: PodRef },
    /// Marks a pod, that very one, as made ready for the stacks of that digest.
    MarkInitialized { pod: PodRef, stacks_hash: String },
    /// Starts making a workspace ready, unless that run was started before.
    StartInit { pod: PodRef, run_id: String, init: Init },
    /// Starts an Update's operation, unless that run was started before.
    StartUpdate { pod: PodRef, run_id: String, operation: Operation },
    /// Asks a run to end, gracefully. One that has ended stays as it is.
    CancelRun { pod: PodRef, run_id: String },
    /// Stores the outputs of a run in a Secret of the Update; one that exists already is the same one.
    StoreOutputs { pod: PodRef, run_id: String, update: Target },
    /// Tells users what happened.
    Publish { on: Target, event: Event },
}

/// The object of a write, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub kind: Kind,
    pub name: String,
    pub uid: String,
    pub resource_version: String,
}

impl Target {
    pub fn stack(stack: &Stack) -> Self {
        Self::new(Kind::Stack, &stack.metadata)
    }

    pub fn program(program: &Program) -> Self {
        Self::new(Kind::Program, &program.metadata)
    }

    pub fn workspace(workspace: &Workspace) -> Self {
        Self::new(Kind::Workspace, &workspace.metadata)
    }

    pub fn update(update: &Update) -> Self {
        Self::new(Kind::Update, &update.metadata)
    }

    pub(crate) fn new(kind: Kind, metadata: &ObjectMeta) -> Self {
        Self {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
        }
    }
}

/// A status to be written whole.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Stack(Box<StackStatus>),
    Program(Box<ProgramStatus>),
    Workspace(Box<WorkspaceStatus>),
    Update(Box<UpdateStatus>),
}

/// What makes a workspace ready.
#[derive(Clone, Debug, PartialEq)]
pub struct Init {
    pub stacks: Vec<WorkspaceStack>,
    /// There is no program whose dependencies could be installed.
    pub skip_install: bool,
}

/// An operation of the CLI; options as in an Update's spec, where absent means left to the CLI.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Operation {
    pub kind: OperationKind,
    pub stack: String,
    pub message: Option<String>,
    pub parallel: Option<i32>,
    pub expect_no_changes: Option<bool>,
    pub replace: Vec<String>,
    pub target: Vec<String>,
    pub target_dependents: Option<bool>,
    pub refresh: Option<bool>,
    pub continue_on_error: Option<bool>,
    pub remove: Option<bool>,
    pub run_program: Option<bool>,
}

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OperationKind {
    Preview,
    #[default]
    Up,
    Refresh,
    Destroy,
}

impl Effect {
    /// What is done, in two or three words that hold no data: for logs, counters and `explain`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Status { on: Target { kind: Kind::Stack, .. }, .. } => "write stack status",
            Self::Status { on: Target { kind: Kind::Program, .. }, .. } => "write program status",
            Self::Status { on: Target { kind: Kind::Workspace, .. }, .. } => "write workspace status",
            Self::Status { .. } => "write update status",
            Self::HoldStack { .. } => "hold stack",
            Self::ReleaseStack { .. } => "release stack",
            Self::RequestUpdate { .. } => "request update",
            Self::ApplyWorkspace { .. } => "apply workspace",
            Self::DeleteWorkspace { .. } => "delete workspace",
            Self::CreateUpdate(_) => "create update",
            Self::HoldUpdate { .. } => "hold update",
            Self::ReleaseUpdate { .. } => "release update",
            Self::DeleteUpdate { .. } => "delete update",
            Self::KeepProgram(_) => "keep program",
            Self::DropProgram { .. } => "drop program",
            Self::ApplyService { .. } => "apply service",
            Self::ApplyStatefulSet { .. } => "apply statefulset",
            Self::DeletePod { .. } => "delete pod",
            Self::MarkInitialized { .. } => "mark pod initialized",
            Self::StartInit { .. } => "start init run",
            Self::StartUpdate { .. } => "start update run",
            Self::CancelRun { .. } => "cancel run",
            Self::StoreOutputs { .. } => "store outputs",
            Self::Publish { .. } => "publish event",
        }
    }

    /// The object whose version the write depends on, if it depends on one.
    pub fn guarded_by(&mut self) -> Option<&mut Target> {
        match self {
            Self::Status { on, .. } | Self::HoldStack { on, .. } | Self::ReleaseStack { on, .. } => Some(on),
            _ => None,
        }
    }
}
