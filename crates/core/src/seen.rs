//! What facts hold of the cluster: our own kinds whole, others cut down to what decisions look at.

use std::fmt;

use crate::trouble;
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{
    Program, Stack, Unreadable, Update, Workspace, annotations,
    conditions::{ConditionType, is_true},
    finalizers, labels, paths,
};

/// The kinds that decisions read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Stack,
    Program,
    Workspace,
    Update,
    StatefulSet,
    Pod,
}

impl Kind {
    /// As it stands in an object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stack => "Stack",
            Self::Program => "Program",
            Self::Workspace => "Workspace",
            Self::Update => "Update",
            Self::StatefulSet => "StatefulSet",
            Self::Pod => "Pod",
        }
    }
}

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind.as_str(), self.namespace, self.name)
    }
}

/// An object as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    Stack(Box<Stack>),
    Program(Box<Program>),
    Workspace(Box<Workspace>),
    Update(Box<Update>),
    StatefulSet(StatefulSetSeen),
    Pod(PodSeen),
    /// One of ours of which only the metadata makes sense.
    Unreadable(Box<Unreadable>),
}

/// A workspace's StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatefulSetSeen {
    pub uid: String,
    pub deleting: bool,
    /// UID of the Workspace that controls it.
    pub owner_uid: Option<String>,
    /// Of its pod template.
    pub revision_hash: Option<String>,
    /// Of what the user asked for when it was applied.
    pub spec_hash: Option<String>,
    pub replicas: i32,
}

/// A workspace's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSeen {
    pub name: String,
    pub uid: String,
    pub deleting: bool,
    /// UID of the StatefulSet that controls it.
    pub owner_uid: Option<String>,
    pub created: Option<Timestamp>,
    /// Of the template it was made from.
    pub revision_hash: Option<String>,
    /// Its stacks have been made ready.
    pub initialized: bool,
    /// Of the stacks that it was made ready for.
    pub stacks_hash: Option<String>,
    pub ip: Option<String>,
    /// Since when its agent's container has been running, if it is.
    pub running_since: Option<Timestamp>,
    /// It ended and will not run again.
    pub ended: bool,
    /// Why it does not run, and what to do about it.
    pub trouble: Option<String>,
}

/// Where an agent answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef {
    pub name: String,
    pub uid: String,
    pub ip: String,
}

impl PodSeen {
    /// Where its agent answers, if it can.
    pub fn agent(&self) -> Option<PodRef> {
        let ip = self.ip.clone().filter(|ip| !ip.is_empty())?;
        (!self.ended).then(|| PodRef { name: self.name.clone(), uid: self.uid.clone(), ip })
    }
}

impl From<&StatefulSet> for StatefulSetSeen {
    fn from(set: &StatefulSet) -> Self {
        let spec = set.spec.as_ref();
        let of_template = |key: &str| annotation(spec?.template.metadata.as_ref()?, key);
        Self {
            uid: set.metadata.uid.clone().unwrap_or_default(),
            deleting: set.metadata.deletion_timestamp.is_some(),
            owner_uid: controller_uid(&set.metadata),
            revision_hash: of_template(annotations::REVISION_HASH),
            spec_hash: of_template(annotations::SPEC_HASH),
            replicas: spec.and_then(|spec| spec.replicas).unwrap_or(1),
        }
    }
}

impl From<&Pod> for PodSeen {
    fn from(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let mut containers = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
        let agent = containers.find(|container| container.name == paths::PULUMI_CONTAINER);
        let running = agent.and_then(|container| container.state.as_ref()?.running.as_ref());
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            owner_uid: controller_uid(&pod.metadata),
            created: pod.metadata.creation_timestamp.as_ref().map(|time| time.0),
            revision_hash: annotation(&pod.metadata, annotations::REVISION_HASH),
            stacks_hash: annotation(&pod.metadata, annotations::STACKS_HASH),
            initialized: annotation(&pod.metadata, annotations::INITIALIZED)
                .is_some_and(|value| annotations::is_true(&value)),
            ip: status.and_then(|status| status.pod_ip.clone()),
            running_since: running.map(|state| state.started_at.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)),
            ended: matches!(status.and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed")),
            trouble: trouble::of(pod),
        }
    }
}

/// UID of the owner that controls an object.
pub fn controller_uid(metadata: &ObjectMeta) -> Option<String> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.clone())
}

/// Whether an Update has ended. An end is an end: deleting the Update afterwards makes a new generation of it, which
/// nothing will observe.
pub fn ended(update: &Update) -> bool {
    update.status.as_ref().is_some_and(|status| is_true(&status.conditions, ConditionType::COMPLETE))
}

/// Whether an Update was given to a pod and has not ended.
pub fn running(update: &Update) -> bool {
    !ended(update) && update.status.as_ref().is_some_and(|status| status.run.is_some())
}

/// The Stack that an object was made for, if it was. References to owners come and go, the label stays.
pub fn stack_of(metadata: &ObjectMeta) -> Option<&str> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.kind == Stack::KIND).map(|owner| owner.name.as_str());
    owner.or_else(|| metadata.labels.as_ref()?.get(labels::STACK_NAME).map(String::as_str))
}

/// Whether our finalizer is on an object.
pub fn held(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.as_deref().unwrap_or_default().iter().any(|name| name == finalizers::STACK)
}

/// An annotation's value.
pub fn annotation(metadata: &ObjectMeta, key: &str) -> Option<String> {
    metadata.annotations.as_ref()?.get(key).cloned()
}
