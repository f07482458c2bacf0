//! Secrets and ConfigMaps without which a workspace pod does not start, or starts with what they held then.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::SecretKeySelector;
use pko_api::{
    Embedded, paths,
    workspace::{GitAuth, WorkspaceSpec},
};
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
    /// Without it nothing works.
    pub required: bool,
    /// The keys that must be there.
    pub keys: BTreeSet<String>,
    /// The keys that are used if they are there.
    pub optional_keys: BTreeSet<String>,
    /// All keys are used, whichever there are.
    pub whole: bool,
}

impl Reference {
    fn new(kind: ReferenceKind, name: String) -> Self {
        Self { kind, name, required: false, keys: BTreeSet::new(), optional_keys: BTreeSet::new(), whole: false }
    }

    /// What is missing of it, in words, if anything is that must be there.
    pub fn missing(&self, found: Option<&ReferenceSeen>) -> Option<String> {
        let (kind, name) = (self.kind.as_str(), &self.name);
        if !self.required {
            return None;
        }
        let Some(found) = found else {
            return Some(format!("{kind} {name} does not exist; create it, or correct the reference to it"));
        };
        let key = self.keys.iter().find(|key| !found.keys.contains_key(*key))?;
        Some(format!("{kind} {name} has no key {key}; add it, or correct the reference to it"))
    }

    /// The digests of what is used.
    pub(crate) fn digests<'a>(&'a self, found: &'a ReferenceSeen) -> impl Iterator<Item = (&'a String, &'a String)> {
        let used = |key: &String| self.whole || self.keys.contains(key) || self.optional_keys.contains(key);
        found.keys.iter().filter(move |(key, _)| used(key))
    }
}

/// A Secret or a ConfigMap as it is. Its values are not in here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReferenceSeen {
    /// Each key with a digest of its value, from which the value cannot be guessed.
    pub keys: BTreeMap<String, String>,
    /// When it was last written.
    pub changed: Option<Timestamp>,
}

/// All that a Workspace refers to, each once.
pub fn of(spec: &WorkspaceSpec) -> Vec<Reference> {
    let mut found = Found(of_program(spec));
    if let Some(auth) = spec.git.as_ref().and_then(|git| git.auth.as_ref()) {
        found.in_git(auth);
    }
    found.0
}

/// What credentials for a repository refer to.
pub fn of_git(auth: &GitAuth) -> Vec<Reference> {
    let mut found = Found::default();
    found.in_git(auth);
    found.0
}

/// All that a Workspace's program can see. With what the program itself is fetched makes no difference to it.
pub(crate) fn of_program(spec: &WorkspaceSpec) -> Vec<Reference> {
    let mut found = Found::default();
    spec.env.iter().map(Embedded::raw).for_each(|variable| found.in_variable(variable));
    spec.env_from.iter().map(Embedded::raw).for_each(|source| found.in_source(source));
    spec.init_containers.iter().map(Embedded::raw).for_each(|container| found.in_container(container));
    if let Some(pod) = spec.pod_template.as_ref().and_then(|template| template.spec.as_ref()) {
        let members = |name: &str| pod.raw()[name].as_array().into_iter().flatten();
        members("initContainers").chain(members("containers")).for_each(|container| found.in_container(container));
        members("volumes").for_each(|volume| found.in_volume(volume));
    }
    let files = spec.stacks.iter().flat_map(|stack| &stack.config);
    files.filter_map(|item| item.value_from.as_ref()?.path.as_deref()).for_each(|path| found.in_file(path));
    found.0
}

#[derive(Default)]
struct Found(Vec<Reference>);

impl Found {
    fn in_git(&mut self, auth: &GitAuth) {
        let app = auth.github_app.iter().flat_map(|app| [&app.app_id, &app.installation_id, &app.private_key]);
        let others = [&auth.ssh_private_key, &auth.username, &auth.password, &auth.token];
        app.chain(others.into_iter().flatten()).for_each(|selector| self.by_selector(selector));
    }

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
        if is_of_a_stack(volume) {
            // Of it, only those files are used that configuration values are read from.
            return;
        }
        self.by_name(ReferenceKind::Secret, &volume["secret"], "secretName");
        self.by_name(ReferenceKind::ConfigMap, &volume["configMap"], "name");
        for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
            self.by_name(ReferenceKind::Secret, &source["secret"], "name");
            self.by_name(ReferenceKind::ConfigMap, &source["configMap"], "name");
        }
    }

    /// A configuration value in a file that a Stack had mounted. Of that volume, nothing else is used.
    fn in_file(&mut self, path: &str) {
        let Some((mount, key)) = path.rsplit_once('/') else { return };
        let Some((_, name)) = mount.rsplit_once('/') else { return };
        let (kind, name) = if mount == paths::secret_mount(name) {
            (ReferenceKind::Secret, name)
        } else if mount == paths::config_map_mount(name) {
            (ReferenceKind::ConfigMap, name)
        } else {
            return;
        };
        let reference = self.entry(kind, name);
        reference.required = true;
        reference.keys.insert(key.to_owned());
    }

    fn by_selector(&mut self, selector: &SecretKeySelector) {
        self.add(ReferenceKind::Secret, &selector.name, [selector.key.clone()].into(), selector.optional == Some(true));
    }

    /// With one key, or with those of a volume's items, or whole.
    fn by_name(&mut self, kind: ReferenceKind, reference: &Value, member: &str) {
        let Some(name) = reference[member].as_str().filter(|name| !name.is_empty()) else { return };
        let items = reference["items"].as_array().into_iter().flatten().map(|item| &item["key"]);
        let keys = items.chain([&reference["key"]]).filter_map(Value::as_str).map(str::to_owned);
        self.add(kind, name, keys.collect(), reference["optional"] == true);
    }

    fn add(&mut self, kind: ReferenceKind, name: &str, keys: BTreeSet<String>, optional: bool) {
        if name.is_empty() {
            return;
        }
        let reference = self.entry(kind, name);
        reference.whole |= keys.is_empty();
        if optional {
            reference.optional_keys.extend(keys);
        } else {
            reference.required = true;
            reference.keys.extend(keys);
        }
    }

    fn entry(&mut self, kind: ReferenceKind, name: &str) -> &mut Reference {
        let known = self.0.iter().position(|known| known.kind == kind && known.name == name);
        let place = known.unwrap_or_else(|| {
            self.0.push(Reference::new(kind, name.to_owned()));
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

/// Whether a volume was made for a Stack's configuration.
fn is_of_a_stack(volume: &Value) -> bool {
    let named = |name: &Value, volume_name: fn(&str) -> String| name.as_str().map(volume_name);
    let name = volume["name"].as_str();
    let own = [
        named(&volume["secret"]["secretName"], paths::secret_volume),
        named(&volume["configMap"]["name"], paths::config_map_volume),
    ];
    own.iter().flatten().any(|own| Some(own.as_str()) == name)
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
        of(&spec).iter().filter(|it| it.required).map(words).collect()
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

    #[test]
    fn of_what_a_stack_has_mounted_only_what_is_read_is_used() {
        let spec = json!({
            "stacks": [{"name": "dev", "config": [
                {"key": "a", "valueFrom": {"path": format!("{}/password", paths::secret_mount("db.creds"))}},
                {"key": "b", "valueFrom": {"path": format!("{}/app.json", paths::config_map_mount("app"))}},
                {"key": "c", "valueFrom": {"path": "/elsewhere/file"}},
            ]}],
            "podTemplate": {"spec": {"containers": [], "volumes": [
                {"name": paths::secret_volume("db.creds"), "secret": {"secretName": "db.creds"}},
                {"name": paths::config_map_volume("app"), "configMap": {"name": "app"}},
                {"name": "mine", "configMap": {"name": "mine"}},
            ]}},
        });
        let found = of(&serde_json::from_value(spec).unwrap());
        let words: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.keys.len(), it.whole)).collect();
        assert_eq!(words, [("mine", 0, true), ("db.creds", 1, false), ("app", 1, false)]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut reference = Reference::new(ReferenceKind::Secret, "creds".to_owned());
        assert_eq!(reference.missing(None), None, "nobody needs it");
        (reference.required, reference.keys) = (true, ["a".to_owned(), "b".to_owned()].into());
        let told = reference.missing(None).unwrap();
        assert!(told.starts_with("Secret creds does not exist; create it"), "{told}");
        let seen = |keys: &[&str]| ReferenceSeen {
            keys: keys.iter().map(|key| ((*key).to_owned(), String::new())).collect(),
            changed: None,
        };
        let told = reference.missing(Some(&seen(&["a"]))).unwrap();
        assert!(told.starts_with("Secret creds has no key b; add it"), "{told}");
        assert_eq!(reference.missing(Some(&seen(&["a", "b", "c"]))), None);
    }
}
