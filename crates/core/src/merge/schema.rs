//! Which lists are merged by what. Kubernetes says it with tags on its Go types, which no schema that an API server
//! serves repeats in full.

/// What an object is, for merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// A Workspace.
    Workspace,
    /// An Update.
    Update,
    /// A pod template: metadata and spec.
    Pod,
}

/// A kind of map, as far as lists with a strategy of their own are in it or below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Nothing special in it: maps merge, lists are replaced.
    Plain,
    Workspace,
    WorkspaceSpec,
    Update,
    PodTemplate,
    PodSpec,
    Container,
    Volume,
    EphemeralVolume,
    ClaimTemplate,
    Metadata,
}

/// How two lists become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// The patch's list.
    Replace,
    /// The values of both, each once.
    Set,
    /// Item by item; items with the same value of that member are the same.
    By { key: &'static str, items: Node },
}

impl Schema {
    pub(super) const fn root(self) -> Node {
        match self {
            Self::Workspace => Node::Workspace,
            Self::Update => Node::Update,
            Self::Pod => Node::PodTemplate,
        }
    }
}

impl Node {
    /// The kind of the map that a member is.
    pub(super) fn map(self, member: &str) -> Self {
        match (self, member) {
            (Self::Workspace | Self::Update | Self::PodTemplate | Self::ClaimTemplate, "metadata") => Self::Metadata,
            (Self::Workspace, "spec") => Self::WorkspaceSpec,
            (Self::WorkspaceSpec, "podTemplate") => Self::PodTemplate,
            (Self::PodTemplate, "spec") => Self::PodSpec,
            (Self::Volume, "ephemeral") => Self::EphemeralVolume,
            (Self::EphemeralVolume, "volumeClaimTemplate") => Self::ClaimTemplate,
            _ => Self::Plain,
        }
    }

    /// The strategy of the list that a member is.
    pub(super) fn list(self, member: &str) -> Strategy {
        let by = |key, items| Strategy::By { key, items };
        match (self, member) {
            (Self::Metadata, "ownerReferences") => by("uid", Self::Plain),
            (Self::Metadata, "finalizers") => Strategy::Set,
            (Self::WorkspaceSpec | Self::Container, "env")
            | (Self::PodSpec, "imagePullSecrets" | "resourceClaims" | "schedulingGates") => by("name", Self::Plain),
            (Self::WorkspaceSpec, "initContainers")
            | (Self::PodSpec, "containers" | "initContainers" | "ephemeralContainers") => by("name", Self::Container),
            (Self::PodSpec, "volumes") => by("name", Self::Volume),
            (Self::PodSpec, "hostAliases") => by("ip", Self::Plain),
            (Self::PodSpec, "topologySpreadConstraints") => by("topologyKey", Self::Plain),
            (Self::Container, "volumeMounts") => by("mountPath", Self::Plain),
            (Self::Container, "volumeDevices") => by("devicePath", Self::Plain),
            (Self::Container, "ports") => by("containerPort", Self::Plain),
            _ => Strategy::Replace,
        }
    }
}
