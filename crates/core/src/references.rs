//! Secrets and ConfigMaps without which a workspace pod does not start, or starts with what they held then.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::SecretKeySelector;
use pko_api::{Embedded, workspace::WorkspaceSpec};
use serde_json::Value;

/// What is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    Secret,
    ConfigMap,
}

impl ReferenceKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// A Secret or a ConfigMap of the Workspace's namespace, and what of it is used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub kind: ReferenceKind,
    pub name: String,
    /// The keys that must be there.
    pub keys: BTreeSet<String>,
}

/// A Secret or a ConfigMap as it is. Its values are not in here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceSeen {
    pub keys: BTreeSet<String>,
    /// When it was last written.
    pub changed: Option<Timestamp>,
}

/// All that a Workspace refers to, each once; what is optional is not among it.
pub fn of(spec: &WorkspaceSpec) -> Vec<Reference> {
    let mut found = Found::default();
    spec.env.iter().map(Embedded::raw).for_each(|variable| found.in_variable(variable));
    spec.env_from.iter().map(Embedded::raw).for_each(|source| found.in_source(source));
    spec.init_containers.iter().map(Embedded::raw).for_each(|container| found.in_container(container));
    if let Some(pod) = spec.pod_template.as_ref().and_then(|template| template.spec.as_ref()) {
        let members = |name: &str| pod.raw()[name].as_array().into_iter().flatten();
        members("initContainers").chain(members("containers")).for_each(|container| found.in_container(container));
        members("volumes").for_each(|volume| found.in_volume(volume));
    }
    if let Some(auth) = spec.git.as_ref().and_then(|git| git.auth.as_ref()) {
        let app = auth.github_app.iter().flat_map(|app| [&app.app_id, &app.installation_id, &app.private_key]);
        let others = [&auth.ssh_private_key, &auth.username, &auth.password, &auth.token];
        app.chain(others.into_iter().flatten()).for_each(|selector| found.by_selector(selector));
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Reference>);

impl Found {
    fn in_container(&mut self, container: &Value) {
        let members = |name: &str| container[name].as_array().into_iter().flatten();
        members("env").for_each(|variable| self.in_variable(variable));
        members("envFrom").for_each(|source| self.in_source(source));
    }

    fn in_variable(&mut self, variable: &Value) {
        let from = &variable["valueFrom"];
        self.by_name(ReferenceKind::Secret, &from["secretKeyRef"], "name");
        self.by_name(ReferenceKind::ConfigMap, &from["configMapKeyRef"], "name");
    }

    fn in_source(&mut self, source: &Value) {
        self.by_name(ReferenceKind::Secret, &source["secretRef"], "name");
        self.by_name(ReferenceKind::ConfigMap, &source["configMapRef"], "name");
    }

    fn in_volume(&mut self, volume: &Value) {
        self.by_name(ReferenceKind::Secret, &volume["secret"], "secretName");
        self.by_name(ReferenceKind::ConfigMap, &volume["configMap"], "name");
        for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
            self.by_name(ReferenceKind::Secret, &source["secret"], "name");
            self.by_name(ReferenceKind::ConfigMap, &source["configMap"], "name");
        }
    }

    fn by_selector(&mut self, selector: &SecretKeySelector) {
        if selector.optional != Some(true) {
            self.add(ReferenceKind::Secret, &selector.name, [selector.key.clone()]);
        }
    }

    /// With one key, or with those of a volume's items.
    fn by_name(&mut self, kind: ReferenceKind, reference: &Value, member: &str) {
        let Some(name) = reference[member].as_str().filter(|name| !name.is_empty()) else { return };
        if reference["optional"] == true {
            return;
        }
        let items = reference["items"].as_array().into_iter().flatten().map(|item| &item["key"]);
        let keys = items.chain([&reference["key"]]).filter_map(Value::as_str).map(str::to_owned);
        self.add(kind, name, keys);
    }

    fn add(&mut self, kind: ReferenceKind, name: &str, keys: impl IntoIterator<Item = String>) {
        if let Some(known) = self.0.iter_mut().find(|known| known.kind == kind && known.name == name) {
            known.keys.extend(keys);
        } else {
            self.0.push(Reference { kind, name: name.to_owned(), keys: keys.into_iter().collect() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(spec: Value) -> Vec<String> {
        let spec: WorkspaceSpec = serde_json::from_value(spec).unwrap();
        let words = |it: &Reference| {
            [it.kind.as_str(), &it.name]
                .into_iter()
                .chain(it.keys.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(" ")
        };
        of(&spec).iter().map(words).collect()
    }

    #[test]
    fn references_are_found_wherever_a_pod_may_have_them() {
        let key = |name: &str, key: &str| json!({"name": name, "key": key});
        let spec = json!({
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": key("one", "a")}},
                {"name": "B", "valueFrom": {"secretKeyRef": key("one", "b")}},
                {"name": "C", "valueFrom": {"configMapKeyRef": key("two", "c")}},
                {"name": "D", "value": "plain"},
            ],
            "envFrom": [{"secretRef": {"name": "three"}}, {"configMapRef": {"name": "four"}}],
            "git": {"url": "u", "auth": {"token": key("git", "token")}},
            "initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "five"}}]}],
            "podTemplate": {"spec": {
                "containers": [{"name": "pulumi", "env": [{"name": "E", "valueFrom": {"secretKeyRef": key("six", "e")}}]}],
                "volumes": [
                    {"name": "v", "secret": {"secretName": "seven", "items": [{"key": "f", "path": "f"}]}},
                    {"name": "w", "configMap": {"name": "eight"}},
                    {"name": "x", "projected": {"sources": [{"secret": {"name": "nine"}}, {"serviceAccountToken": {}}]}},
                    {"name": "y", "emptyDir": {}},
                ],
            }},
        });
        assert_eq!(
            told(spec),
            [
                "Secret one a b",
                "ConfigMap two c",
                "Secret three",
                "ConfigMap four",
                "Secret five",
                "Secret six e",
                "Secret seven f",
                "ConfigMap eight",
                "Secret nine",
                "Secret git token"
            ]
        );
    }

    #[test]
    fn what_is_optional_or_nameless_is_not_needed() {
        let spec = json!({
            "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a", "optional": true}}},
                {"name": "B", "valueFrom": {"secretKeyRef": {"key": "a"}}},
            ],
            "envFrom": ["nonsense", {"configMapRef": {"name": "c", "optional": true}}],
            "podTemplate": {"spec": {"containers": 5, "volumes": [{"secret": {"secretName": "v", "optional": true}}]}},
        });
        assert!(told(spec).is_empty());
    }
}
