//! The kinds that are read and written, and where they are on the server.

use std::fmt;

use pko_core::seen::Kind;

/// A kind as the server addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    pub api_version: &'static str,
    pub kind: &'static str,
    plural: &'static str,
}

/// The kinds.
pub mod resources {
    use pko_api::{Program, Stack, Update, Workspace};

    use super::Resource;

    pub const STACKS: Resource = Resource::new(Stack::API_VERSION, Stack::KIND, "stacks");
    pub const PROGRAMS: Resource = Resource::new(Program::API_VERSION, Program::KIND, "programs");
    pub const WORKSPACES: Resource = Resource::new(Workspace::API_VERSION, Workspace::KIND, "workspaces");
    pub const UPDATES: Resource = Resource::new(Update::API_VERSION, Update::KIND, "updates");
    pub const STATEFUL_SETS: Resource = Resource::new("apps/v1", "StatefulSet", "statefulsets");
    pub const PODS: Resource = Resource::new("v1", "Pod", "pods");
    pub const SERVICES: Resource = Resource::new("v1", "Service", "services");
    pub const SECRETS: Resource = Resource::new("v1", "Secret", "secrets");
    pub const CONFIG_MAPS: Resource = Resource::new("v1", "ConfigMap", "configmaps");
    pub const NAMESPACES: Resource = Resource::new("v1", "Namespace", "namespaces");
    pub const EVENTS: Resource = Resource::new("v1", "Event", "events");
    pub const SERVICE_ACCOUNTS: Resource = Resource::new("v1", "ServiceAccount", "serviceaccounts");
    pub const LEASES: Resource = Resource::new("coordination.k8s.io/v1", "Lease", "leases");
}

impl Resource {
    const fn new(api_version: &'static str, kind: &'static str, plural: &'static str) -> Self {
        Self { api_version, kind, plural }
    }

    /// Where objects of a kind are that decisions are about.
    pub const fn of(kind: Kind) -> &'static Self {
        match kind {
            Kind::Stack => &resources::STACKS,
            Kind::Program => &resources::PROGRAMS,
            Kind::Workspace => &resources::WORKSPACES,
            Kind::Update => &resources::UPDATES,
            Kind::StatefulSet => &resources::STATEFUL_SETS,
            Kind::Pod => &resources::PODS,
        }
    }
}

/// One object, or a part of it that is written apart.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub resource: &'static Resource,
    pub namespace: &'a str,
    pub name: &'a str,
    part: &'static str,
}

impl<'a> At<'a> {
    pub const fn new(resource: &'static Resource, namespace: &'a str, name: &'a str) -> Self {
        Self { resource, namespace, name, part: "" }
    }

    /// An object that is in no namespace.
    pub const fn cluster_wide(resource: &'static Resource, name: &'a str) -> Self {
        Self::new(resource, "", name)
    }

    /// Its status.
    #[must_use]
    pub const fn status(mut self) -> Self {
        self.part = "/status";
        self
    }

    /// The path of the object, or of its part.
    pub fn path(&self) -> String {
        format!("{}/{}{}", self.collection(), self.name, self.part)
    }

    /// The path of all objects of its kind in its namespace.
    pub fn collection(&self) -> String {
        let Resource { api_version, plural, .. } = self.resource;
        let root = if api_version.contains('/') { "apis" } else { "api" };
        if self.namespace.is_empty() {
            return format!("/{root}/{api_version}/{plural}");
        }
        format!("/{root}/{api_version}/namespaces/{}/{plural}", self.namespace)
    }
}

/// Whether a text that a user wrote can be a part of a path, and leads nowhere else.
pub(crate) fn is_segment(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    !text.is_empty() && text.chars().all(is_plain) && !matches!(text, "." | "..")
}

impl fmt::Display for At<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            return write!(formatter, "{} in {}", self.resource.plural, self.namespace);
        }
        let of = if self.part.is_empty() { "" } else { "the status of " };
        write!(formatter, "{of}{} {}/{}", self.resource.kind, self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_server() {
        let stack = At::new(&resources::STACKS, "team", "web");
        assert_eq!(stack.status().path(), "/apis/pulumi.com/v1/namespaces/team/stacks/web/status");
        assert_eq!(At::new(&resources::PODS, "team", "a").path(), "/api/v1/namespaces/team/pods/a");
        assert_eq!(
            At::new(&resources::UPDATES, "team", "").collection(),
            "/apis/auto.pulumi.com/v1alpha1/namespaces/team/updates"
        );
    }

    #[test]
    fn a_name_leads_to_no_other_object() {
        assert!(is_segment("web-1.a_b"));
        for other in ["", ".", "..", "a/b", "../b", "a?b", "a b", "a%2fb", "ä"] {
            assert!(!is_segment(other), "{other}");
        }
    }

    #[test]
    fn words_name_the_object() {
        assert_eq!(At::new(&resources::STACKS, "team", "web").status().to_string(), "the status of Stack team/web");
        assert_eq!(At::new(&resources::UPDATES, "team", "").to_string(), "updates in team");
    }
}
