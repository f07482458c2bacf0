//! What a decision may want to know beyond its own object, and what it may hear.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use pko_api::{ProjectInfo, Stack, Update, workspace::GitAuth};
use serde_json::Value;

use crate::{
    references::{ReferenceKind, ReferenceSeen},
    seen::{Kind, Object, PodRef},
};

/// One more thing to read. All objects are in the namespace of the object that is decided about.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// An object as the watch last showed it, which may be some time ago.
    Cached(Kind, String),
    /// An object as it is.
    Live(Kind, String),
    /// The Updates made for a Stack that carry our finalizer, as the watch last showed them.
    UpdatesOf { stack: String },
    /// The Updates of a Workspace that have not ended, as the watch last showed them.
    UpdatesIn { workspace: String },
    /// The Updates that were given to a Workspace's pod and have not ended, as they are.
    RunsIn { workspace: String },
    /// Outputs that an Update left in a Secret; those that are secret are masked.
    Outputs { secret: String },
    /// The packed form of the Program that is decided about.
    Artifact,
    /// A run of an Update's operation, as its agent knows it.
    Run { pod: PodRef, run_id: String },
    /// A Secret or a ConfigMap as it is.
    Reference(ReferenceKind, String),
    /// Whether the server would take a pod of a StatefulSet.
    Admission { stateful_set: String },
    /// The commit that a branch, a tag or a ref of a repository is at.
    Revision(Box<Listing>),
    /// What a Flux source, or an object with the same kind of artifact, has to offer.
    Source(SourceRef),
    /// The Stacks that the Stack requires, those that they require, and so on, as the watch last showed them.
    Requirements,
    /// The Stacks that require the Stack, as the watch last showed them.
    Dependents,
    /// The other Stacks that are about the same Pulumi stack by [`crate::stack::deploys`], as the watch last showed them.
    Namesakes { deploys: String },
    /// Whether the namespace is going away.
    NamespaceTerminating,
    /// The latest attempt to make a workspace ready among those whose identifiers begin so.
    LatestRun { pod: PodRef, prefix: String },
}

/// What was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Question::Cached`] and [`Question::Live`]; nothing if there is no such object.
    Object(Option<Object>),
    /// To [`Question::UpdatesOf`], [`Question::UpdatesIn`] and [`Question::RunsIn`].
    Updates(Vec<Update>),
    /// To [`Question::Outputs`]; nothing if there is no such Secret.
    Outputs(Option<BTreeMap<String, Value>>),
    /// To [`Question::Artifact`], or why it cannot be packed.
    Artifact(Result<Packed, String>),
    /// To [`Question::Reference`]; nothing if there is no such object.
    Reference(Option<ReferenceSeen>),
    /// To [`Question::Admission`]: why not, if it would not.
    Admission(Option<String>),
    /// To [`Question::Revision`].
    Revision(Result<String, GitTrouble>),
    /// To [`Question::Source`].
    Source(SourceSeen),
    /// To [`Question::Requirements`]: what each of them requires.
    Requirements(BTreeMap<String, Vec<String>>),
    /// To [`Question::Dependents`] and [`Question::Namesakes`].
    Stacks(Vec<Stack>),
    /// To [`Question::NamespaceTerminating`].
    Terminating(bool),
    /// To [`Question::Run`] and [`Question::LatestRun`].
    Run(RunAnswer),
}

/// A look at a repository.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    pub url: String,
    /// A branch, a tag, or any ref by its full name.
    pub reference: String,
    /// With what it is read: names and keys of Secrets.
    pub auth: Option<GitAuth>,
    /// How old an answer may be that was had for somebody else, or earlier.
    pub max_age: Duration,
}

/// Why a repository does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitTrouble {
    /// The address is none of a repository.
    Address(String),
    /// The credentials cannot be used as they are: a Secret or a key is missing, or what it holds makes no sense.
    Credentials(String),
    /// There is no such branch, tag or ref.
    NoRevision(String),
    /// It cannot be reached, or refuses us.
    Unavailable(String),
}

/// An object with a Flux artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRef {
    pub api_version: String,
    pub kind: String,
    pub name: String,
}

/// Such an object, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSeen {
    /// There is none, in the server's words.
    Missing(String),
    /// The cluster does not serve such objects, or does not let us read them, in words.
    Unreadable(String),
    /// It has no artifact yet, and perhaps says why.
    Empty {
        why: String,
    },
    Artifact {
        url: String,
        revision: String,
        digest: String,
    },
}

/// A packed Program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// As `sha256:<hex>`.
    pub digest: String,
    pub size: i64,
}

/// What an agent says about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAnswer {
    /// The agent does not answer.
    Silent {
        why: String,
    },
    /// The agent will not speak to us, in gRPC's code and its words.
    Refused {
        code: String,
        message: String,
    },
    /// The agent knows no such run.
    Unknown,
    Known(Box<RunSeen>),
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RunSeen {
    pub run_id: String,
    pub state: RunState,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub permalink: String,
    pub project_info: Option<ProjectInfo>,
    pub pulumi_version: String,
    /// How many outputs it left.
    pub outputs: u32,
    /// What it was told it is for.
    pub message: String,
    /// How far it is.
    pub progress: Progress,
    /// Resources by what happened to them, when it has ended.
    pub changes: BTreeMap<String, i32>,
    /// What a preview printed.
    pub standard_output: String,
    /// The outputs that a preview expects; those that are secret are masked.
    pub expected_outputs: BTreeMap<String, Value>,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Progress {
    /// Operations on resources that have begun.
    pub begun: i32,
    /// Those that have ended.
    pub done: i32,
    /// What was begun last.
    pub current: String,
}

/// How a run goes, or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    Running(Phase),
    Succeeded,
    Failed(Failure),
}

/// What nobody knows the end of goes on.
impl Default for RunState {
    fn default() -> Self {
        Self::Running(Phase::Operating)
    }
}

/// How far an active run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Installing,
    Initializing,
    Operating,
    Finishing,
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Failure {
    /// One word, fit for a condition.
    pub reason: String,
    pub message: String,
    /// The stack that could not be made ready.
    pub stack: String,
    /// Whether trying again can help though nobody changes anything.
    pub retryable: bool,
}
