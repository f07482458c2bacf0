//! The objects of the model. Ours are the real types; of a StatefulSet and a pod only what the model needs.

use std::rc::Rc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{Program, Stack, Update, Workspace, annotations};
use pko_core::seen::{Kind, Object, PodSeen, StatefulSetSeen, annotation, controller_uid, stack_of};

pub(super) const NAMESPACE: &str = "test";

/// Kinds that the model has, as they are watched.
pub(super) const KINDS: [Kind; 6] =
    [Kind::Stack, Kind::Program, Kind::Workspace, Kind::Update, Kind::StatefulSet, Kind::Pod];

/// Place of a kind in arrays.
pub(super) const fn place(kind: Kind) -> usize {
    match kind {
        Kind::Stack => 0,
        Kind::Program => 1,
        Kind::Workspace => 2,
        Kind::Update => 3,
        Kind::StatefulSet => 4,
        Kind::Pod => 5,
    }
}

/// An object in the API server.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "they are kept and passed on behind `Rc`")]
pub(super) enum Thing {
    Stack(Stack),
    Program(Program),
    Workspace(Workspace),
    Update(Update),
    Set(Set),
    Pod(Pod),
}

/// A shared, immutable version of an object.
pub(super) type Version = Rc<Thing>;

/// A StatefulSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Set {
    pub(super) metadata: ObjectMeta,
    pub(super) template: Template,
    pub(super) replicas: i32,
}

/// What of a pod template matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Template {
    /// Of all of it.
    pub(super) digest: String,
    pub(super) revision_hash: Option<String>,
    pub(super) spec_hash: Option<String>,
    pub(super) source: Source,
}

/// What the pod's `fetch` container brings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Source {
    /// Address and digest of an artifact.
    Artifact { url: String, digest: String },
    /// A commit of a repository.
    Commit(String),
    /// An empty project.
    Project,
    /// Nothing that could fail.
    #[default]
    None,
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pod {
    pub(super) metadata: ObjectMeta,
    pub(super) template: Template,
    pub(super) ip: Option<String>,
    pub(super) running_since: Option<Timestamp>,
    pub(super) ended: bool,
    pub(super) trouble: Option<String>,
}

impl Thing {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Stack(_) => Kind::Stack,
            Self::Program(_) => Kind::Program,
            Self::Workspace(_) => Kind::Workspace,
            Self::Update(_) => Kind::Update,
            Self::Set(_) => Kind::StatefulSet,
            Self::Pod(_) => Kind::Pod,
        }
    }

    pub(super) const fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Stack(it) => &it.metadata,
            Self::Program(it) => &it.metadata,
            Self::Workspace(it) => &it.metadata,
            Self::Update(it) => &it.metadata,
            Self::Set(it) => &it.metadata,
            Self::Pod(it) => &it.metadata,
        }
    }

    pub(super) const fn meta_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Stack(it) => &mut it.metadata,
            Self::Program(it) => &mut it.metadata,
            Self::Workspace(it) => &mut it.metadata,
            Self::Update(it) => &mut it.metadata,
            Self::Set(it) => &mut it.metadata,
            Self::Pod(it) => &mut it.metadata,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }

    pub(super) fn version(&self) -> &str {
        self.meta().resource_version.as_deref().unwrap_or_default()
    }

    pub(super) fn deleting(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }

    pub(super) fn finalizers(&self) -> &[String] {
        self.meta().finalizers.as_deref().unwrap_or_default()
    }

    /// The Stack that it was made for.
    pub(super) fn stack_name(&self) -> Option<&str> {
        stack_of(self.meta())
    }

    pub(super) const fn stack(&self) -> Option<&Stack> {
        if let Self::Stack(it) = self { Some(it) } else { None }
    }

    pub(super) const fn program(&self) -> Option<&Program> {
        if let Self::Program(it) = self { Some(it) } else { None }
    }

    pub(super) const fn workspace(&self) -> Option<&Workspace> {
        if let Self::Workspace(it) = self { Some(it) } else { None }
    }

    pub(super) const fn update(&self) -> Option<&Update> {
        if let Self::Update(it) = self { Some(it) } else { None }
    }

    pub(super) const fn set(&self) -> Option<&Set> {
        if let Self::Set(it) = self { Some(it) } else { None }
    }

    pub(super) const fn pod(&self) -> Option<&Pod> {
        if let Self::Pod(it) = self { Some(it) } else { None }
    }

    /// Whether the part differs that a user asks for: that is what `metadata.generation` counts.
    pub(super) fn asks_otherwise(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stack(a), Self::Stack(b)) => a.spec != b.spec,
            (Self::Program(a), Self::Program(b)) => a.program != b.program,
            (Self::Workspace(a), Self::Workspace(b)) => a.spec != b.spec,
            (Self::Update(a), Self::Update(b)) => a.spec != b.spec,
            (Self::Set(a), Self::Set(b)) => a.template != b.template || a.replicas != b.replicas,
            _ => false,
        }
    }

    /// As decisions see it.
    pub(super) fn seen(&self) -> Object {
        match self {
            Self::Stack(it) => Object::Stack(Box::new(it.clone())),
            Self::Program(it) => Object::Program(Box::new(it.clone())),
            Self::Workspace(it) => Object::Workspace(Box::new(it.clone())),
            Self::Update(it) => Object::Update(Box::new(it.clone())),
            Self::Set(it) => Object::StatefulSet(StatefulSetSeen {
                uid: self.uid().to_owned(),
                deleting: self.deleting(),
                owner_uid: controller_uid(&it.metadata),
                revision_hash: it.template.revision_hash.clone(),
                spec_hash: it.template.spec_hash.clone(),
                replicas: it.replicas,
            }),
            Self::Pod(it) => Object::Pod(PodSeen {
                name: self.name().to_owned(),
                uid: self.uid().to_owned(),
                deleting: self.deleting(),
                owner_uid: controller_uid(&it.metadata),
                created: it.metadata.creation_timestamp.as_ref().map(|time| time.0),
                revision_hash: it.template.revision_hash.clone(),
                stacks_hash: annotation(&it.metadata, annotations::STACKS_HASH),
                initialized: annotation(&it.metadata, annotations::INITIALIZED)
                    .is_some_and(|value| annotations::is_true(&value)),
                ip: it.ip.clone(),
                running_since: it.running_since,
                ended: it.ended,
                trouble: it.trouble.clone(),
            }),
        }
    }
}
