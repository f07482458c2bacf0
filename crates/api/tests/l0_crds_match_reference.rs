//! The CRDs have what the reference implementation's have, property by property, and beyond that
//! only what is listed here.

mod support;

use std::collections::BTreeMap;

use pko_api::crd;
use rstest::rstest;
use serde_json::{Value, json};

/// Properties that the reference does not have. What is below them is not looked at.
const ADDITIONS: [(&str, &str, &str); 19] = [
    ("Stack v1", "spec.configRefs", "the manual's spelling of configRef"),
    ("Stack v1", "spec.pulumiLogLevel", "the manual has it on the Stack"),
    ("Stack v1", "status.lastHandledReconcileAt", "where Flux's tools look"),
    ("Stack v1", "status.lastUpdate.reason", "why it failed, in one word"),
    ("Stack v1", "status.lastUpdate.resourceChanges", "as on the Update"),
    ("Stack v1", "status.lastUpdate.preview", "as on the Update"),
    ("Stack v1", "status.lastUpdate.referencesHash", "whether a Secret or a ConfigMap has changed since"),
    ("Stack v1", "status.currentUpdate.referencesHash", "as of the last update"),
    ("Workspace v1alpha1", "spec.initContainers", "the manual has them beside podTemplate"),
    ("Update v1alpha1", "status.run", "finds a running operation after a restart"),
    ("Update v1alpha1", "status.progress", "long work shows how far it is"),
    ("Update v1alpha1", "status.resourceChanges", "what a preview or an update changed"),
    ("Update v1alpha1", "status.preview", "the manual promises standard output and outputs of previews"),
    ("Stack v1", "status.projectInfo.backend", "a destroy without the source finds the stack"),
    ("Stack v1", "status.projectInfo.stackConfigDir", "a destroy without the source finds the stack's file"),
    ("Workspace v1alpha1", "spec.projectInfo.backend", "as on the Stack"),
    ("Workspace v1alpha1", "spec.projectInfo.stackConfigDir", "as on the Stack"),
    ("Update v1alpha1", "status.projectInfo.backend", "as on the Stack"),
    ("Update v1alpha1", "status.projectInfo.stackConfigDir", "as on the Stack"),
];

/// The definition of a kind.
fn definition(kind: &str) -> Value {
    crd::all()
        .into_iter()
        .find(|definition| definition["spec"]["names"]["kind"] == kind)
        .unwrap_or_else(|| panic!("no CRD for {kind}"))
}

/// A version of a definition.
fn version(kind: &str, name: &str) -> Value {
    let definition = definition(kind);
    let versions = definition["spec"]["versions"].as_array().expect("versions");
    versions.iter().find(|version| version["name"] == name).expect(name).clone()
}

/// The schema of a version, given as `Kind version`.
fn schema(section: &str) -> Value {
    let (kind, name) = section.split_once(' ').expect("a kind and a version");
    version(kind, name)["schema"]["openAPIV3Schema"].clone()
}

/// What a path of the listing stands for.
fn at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(schema, |place, step| {
        let name = step.trim_end_matches("[]");
        let lists = (step.len() - name.len()) / 2;
        let place = match name {
            "*" => place.get("additionalProperties")?,
            name => place.get("properties")?.get(name)?,
        };
        (0..lists).try_fold(place, |place, _| place.get("items"))
    })
}

/// A line of the listing.
#[derive(Debug)]
struct Line {
    path: String,
    type_name: String,
    attributes: BTreeMap<String, String>,
    /// Stands for a type that the listing does not expand.
    opaque: bool,
}

/// `path: type [attribute=value; ...] — note`
fn parse(line: &str) -> Line {
    let (path, rest) = line.split_once(": ").expect("a path and a type");
    let (rest, note) = rest.split_once(" — ").map_or((rest, None), |(rest, note)| (rest, Some(note)));
    let (type_name, attributes) =
        rest.split_once(" [").map_or((rest, ""), |(name, rest)| (name, rest.strip_suffix(']').expect("closed")));
    let attributes = attributes.split("; ").filter(|attribute| !attribute.is_empty()).map(|attribute| {
        let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        (key.to_owned(), value.to_owned())
    });
    let known = ["any", "array", "boolean", "object", "string"];
    let expanded = known.contains(&type_name) || type_name.contains('/');
    Line {
        path: path.to_owned(),
        type_name: type_name.to_owned(),
        attributes: attributes.collect(),
        opaque: !expanded || note.is_some(),
    }
}

/// The lines of each section of the listing.
fn listing() -> BTreeMap<String, Vec<Line>> {
    let mut sections: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    let mut current = String::new();
    for line in support::text("reference-schema.txt").lines() {
        if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut current);
        } else if !line.is_empty() && !line.starts_with('#') {
            sections.entry(current.clone()).or_default().push(parse(line));
        }
    }
    sections
}

/// A property in the listing's words: what it says of type and attributes, and no more.
fn described(property: &Value) -> (String, BTreeMap<String, String>) {
    let text = |key: &str| property[key].as_str().unwrap_or_default().to_owned();
    let names = |key: &str| -> Vec<String> {
        let mut names: Vec<String> = serde_json::from_value(property[key].clone()).unwrap_or_default();
        names.sort();
        names
    };
    let mut attributes = BTreeMap::new();
    let mut say = |key: &str, value: String| attributes.insert(key.to_owned(), value);
    if property.get("required").is_some() {
        say("required", names("required").join(","));
    }
    match property["x-kubernetes-list-type"].as_str() {
        Some("map") => {
            say("list", format!("map:{}", names("x-kubernetes-list-map-keys").join(",")));
        }
        Some(other) => {
            say("list", other.to_owned());
        }
        None => {}
    }
    if property.get("x-kubernetes-map-type").is_some() {
        say("map", text("x-kubernetes-map-type"));
    }
    if property.get("default").is_some() {
        say("default", format!("'{}'", text("default")));
    }
    if let Some(values) = property["enum"].as_array() {
        let quoted: Vec<String> = values.iter().map(|v| format!("'{}'", v.as_str().expect("a string"))).collect();
        say("enum", format!("[{}]", quoted.join(", ")));
    }
    if let Some(least) = property.get("minLength") {
        say("minLen", least.to_string());
    }
    if let Some(least) = property.get("minimum") {
        say("min", least.to_string());
    }
    if property.get("pattern").is_some() {
        say("pattern", text("pattern"));
    }
    if property["x-kubernetes-preserve-unknown-fields"] == true {
        say("preserve-unknown", String::new());
    }
    let type_name = match (property["type"].as_str(), property["format"].as_str()) {
        (None, _) => "any".to_owned(),
        (Some(name), None) => name.to_owned(),
        (Some(name), Some(format)) => format!("{name}/{format}"),
    };
    (type_name, attributes)
}

/// A property without the words meant for people.
fn without_descriptions(schema: &Value) -> Value {
    let mut schema = schema.clone();
    strip_descriptions(&mut schema);
    schema
}

fn strip_descriptions(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    fields.remove("description");
    for key in ["items", "additionalProperties"] {
        fields.get_mut(key).into_iter().for_each(strip_descriptions);
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(strip_descriptions);
    }
}

/// A type that the listing names without expanding it.
fn named_type(name: &str) -> Value {
    let text = json!({"type": "string"});
    let texts = |required: &[&str], optional: &[&str]| {
        let properties: Value =
            required.iter().chain(optional).map(|name| ((*name).to_owned(), text.clone())).collect();
        json!({"type": "object", "required": required, "properties": properties})
    };
    match name {
        "ResourceRef" => json!({
            "type": "object",
            "required": ["type"],
            "properties": {
                "type": text,
                "env": texts(&["name"], &[]),
                "filesystem": texts(&["path"], &[]),
                "secret": texts(&["key", "name"], &["namespace"]),
                "literal": texts(&["value"], &[]),
                // Not in the reference: the manual writes it.
                "configMap": texts(&["key", "name"], &[]),
            },
        }),
        "SecretKeySelector" => json!({
            "type": "object",
            "required": ["key"],
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "key": text,
                "name": {"type": "string", "default": ""},
                "optional": {"type": "boolean"},
            },
        }),
        "Condition" => json!({
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {"type": "string", "format": "date-time"},
                "message": {"type": "string", "maxLength": 32768},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "type": {
                    "type": "string", "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        }),
        "int-or-string (quantity)" => json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true,
        }),
        other => panic!("the listing names a type that this test does not know: {other}"),
    }
}

#[test]
fn every_property_of_the_reference_is_there_and_means_the_same() {
    let mut compared = 0;
    for (section, lines) in listing() {
        let schema = schema(&section);
        for line in lines {
            let place = format!("{section}: {}", line.path);
            let property = at(&schema, &line.path).unwrap_or_else(|| panic!("{place} is missing"));
            let (type_name, attributes) = described(property);
            if ["any", "array", "boolean", "object", "string"].contains(&line.type_name.as_str())
                || line.type_name.contains('/')
            {
                assert_eq!(type_name, line.type_name, "{place}");
                assert_eq!(attributes, line.attributes, "{place}");
            } else {
                assert_eq!(without_descriptions(property), named_type(&line.type_name), "{place}");
            }
            compared += 1;
        }
    }
    assert_eq!(compared, 257, "lines of the listing");
}

/// The paths of a schema that the listing does not have.
fn unlisted(schema: &Value, path: &str, lines: &BTreeMap<String, bool>, found: &mut Vec<String>) {
    match lines.get(path) {
        None => return found.push(path.to_owned()),
        Some(opaque) if *opaque => return,
        Some(_) => {}
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        unlisted(property, &format!("{path}.{name}"), lines, found);
    }
    if let Some(values) = schema.get("additionalProperties") {
        unlisted(values, &format!("{path}.*"), lines, found);
    }
    if let Some(items) = schema.get("items") {
        unlisted(items, &format!("{path}[]"), lines, found);
    }
}

#[test]
fn what_the_reference_does_not_have_is_a_listed_addition() {
    let mut found = Vec::new();
    for (section, lines) in listing() {
        let lines = lines.into_iter().map(|line| (line.path, line.opaque)).collect();
        let schema = schema(&section);
        let mut here = Vec::new();
        for (name, property) in schema["properties"].as_object().expect("properties") {
            if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                unlisted(property, name, &lines, &mut here);
            }
        }
        found.extend(here.into_iter().map(|path| (section.clone(), path)));
    }
    found.sort();
    let mut expected = ADDITIONS.map(|(section, path, _)| (section.to_owned(), path.to_owned()));
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn config_refs_have_the_shape_of_config_ref() {
    let schema = schema("Stack v1");
    let shape = |path: &str| without_descriptions(at(&schema, path).expect(path));
    assert_eq!(shape("spec.configRefs"), shape("spec.configRef"));
}

#[test]
fn init_containers_have_the_shape_they_have_in_a_pod() {
    let schema = schema("Workspace v1alpha1");
    let shape = |path: &str| without_descriptions(at(&schema, path).expect(path));
    assert_eq!(shape("spec.initContainers"), shape("spec.podTemplate.spec.initContainers"));
}

#[test]
fn the_old_version_of_stack_has_the_same_spec_and_a_smaller_status() {
    let (v1, v1alpha1) = (schema("Stack v1"), schema("Stack v1alpha1"));
    let mut spec = v1["properties"]["spec"].clone();
    // Rules about several fields are the new version's.
    assert!(spec.as_object_mut().expect("a schema").remove("x-kubernetes-validations").is_some());
    assert!(spec == v1alpha1["properties"]["spec"]);
    let (new, old) = (&v1["properties"]["status"], &v1alpha1["properties"]["status"]);
    let names: Vec<&String> = old["properties"].as_object().expect("properties").keys().collect();
    assert_eq!(names, ["lastUpdate", "outputs"]);
    for name in names {
        assert_eq!(old["properties"][name], new["properties"][name]);
    }
}

#[test]
fn only_the_new_version_of_stack_is_stored_and_limits_its_name() {
    let (v1, v1alpha1) = (version("Stack", "v1"), version("Stack", "v1alpha1"));
    assert_eq!((&v1["served"], &v1["storage"]), (&json!(true), &json!(true)));
    assert_eq!((&v1alpha1["served"], &v1alpha1["storage"]), (&json!(true), &json!(false)));
    let rules = |version: &Value| version["schema"]["openAPIV3Schema"]["x-kubernetes-validations"].clone();
    assert_eq!(
        rules(&v1),
        json!([{
            "rule": "size(self.metadata.name) <= 42",
            "message": "Stack name must be no more than 42 characters in length.",
        }])
    );
    assert_eq!(rules(&v1alpha1), Value::Null);
}

#[rstest]
#[case("Stack", "stack", "pulumi.com", &["v1", "v1alpha1"])]
#[case("Program", "program", "pulumi.com", &["v1"])]
#[case("Workspace", "workspace", "auto.pulumi.com", &["v1alpha1"])]
#[case("Update", "update", "auto.pulumi.com", &["v1alpha1"])]
fn a_kind_is_named_and_scoped_as_in_the_reference(
    #[case] kind: &str,
    #[case] singular: &str,
    #[case] group: &str,
    #[case] versions: &[&str],
) {
    let definition = definition(kind);
    assert_eq!(definition["metadata"]["name"], format!("{singular}s.{group}"));
    let spec = &definition["spec"];
    assert_eq!(spec["group"], group);
    assert_eq!(spec["scope"], "Namespaced");
    assert_eq!(spec.get("conversion"), None);
    assert_eq!(
        spec["names"],
        json!({
            "kind": kind,
            "listKind": format!("{kind}List"),
            "singular": singular,
            "plural": format!("{singular}s"),
            "categories": ["pulumi"],
        })
    );
    let found = spec["versions"].as_array().expect("versions");
    let names: Vec<&str> = found.iter().map(|version| version["name"].as_str().unwrap()).collect();
    assert_eq!(names, versions);
    for version in found {
        assert_eq!(version["subresources"], json!({"status": {}}));
    }
}

/// Columns as `name type priority path`.
fn columns(kind: &str, name: &str) -> Vec<String> {
    let version = version(kind, name);
    let columns = version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
    columns
        .iter()
        .map(|column| {
            let text = |key: &str| column[key].as_str().expect(key);
            let priority = column["priority"].as_i64().unwrap_or(0);
            format!("{} | {} | {priority} | {}", text("name"), text("type"), text("jsonPath"))
        })
        .collect()
}

#[test]
fn the_columns_are_those_of_the_reference() {
    assert_eq!(
        columns("Stack", "v1"),
        [
            "Stack | string | 10 | .spec.stack",
            "Last Update | string | 0 | .status.lastUpdate.state",
            "Age | date | 0 | .status.lastUpdate.lastResyncTime",
            "Last Commit | string | 10 | .status.lastUpdate.lastAttemptedCommit",
            r#"Ready | string | 0 | .status.conditions[?(@.type=="Ready")].status"#,
            r#"Reconciling | string | 0 | .status.conditions[?(@.type=="Reconciling")].reason"#,
            r#"Stalled | string | 0 | .status.conditions[?(@.type=="Stalled")].reason"#,
            "Permalink | string | 0 | .status.lastUpdate.permalink",
        ]
    );
    assert_eq!(columns("Stack", "v1alpha1"), Vec::<String>::new());
    assert_eq!(
        columns("Program", "v1"),
        ["Age | date | 0 | .metadata.creationTimestamp", "URL | string | 0 | .status.artifact.url",]
    );
    assert_eq!(
        columns("Workspace", "v1alpha1"),
        [
            "Image | string | 0 | .spec.image",
            r#"Ready | string | 0 | .status.conditions[?(@.type=="Ready")].status"#,
            "Address | string | 0 | .status.address",
        ]
    );
    assert_eq!(
        columns("Update", "v1alpha1"),
        [
            "Workspace | string | 0 | .spec.workspaceName",
            "Type | string | 10 | .spec.type",
            "Start Time | date | 10 | .status.startTime",
            "End Time | date | 10 | .status.endTime",
            r#"Progressing | string | 0 | .status.conditions[?(@.type=="Progressing")].status"#,
            r#"Failed | string | 0 | .status.conditions[?(@.type=="Failed")].status"#,
            r#"Complete | string | 0 | .status.conditions[?(@.type=="Complete")].status"#,
            "URL | string | 0 | .status.permalink",
        ]
    );
}

/// Calls the function with each schema within a schema, except below the paths given.
fn walk(schema: &Value, path: &str, stop: &[&str], visit: &mut dyn FnMut(&str, &Value)) {
    if stop.contains(&path) {
        return;
    }
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), stop, visit);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", ".*")] {
        if let Some(inner) = schema.get(key) {
            walk(inner, &format!("{path}{mark}"), stop, visit);
        }
    }
}

#[rstest]
#[case("spec.workspaceTemplate", &[".spec.env[]", ".spec.envFrom[]", ".spec.initContainers[]",
    ".spec.resources", ".spec.podTemplate.spec", ".spec.git.auth.githubApp.appID",
    ".spec.git.auth.githubApp.installationID", ".spec.git.auth.githubApp.privateKey",
    ".spec.git.auth.password", ".spec.git.auth.sshPrivateKey", ".spec.git.auth.token",
    ".spec.git.auth.username"])]
#[case("spec.updateTemplate", &[])]
fn a_template_demands_nothing_and_fills_nothing_in(#[case] path: &str, #[case] kubernetes: &[&str]) {
    let schema = schema("Stack v1");
    let mut looked_at = 0;
    walk(at(&schema, path).expect(path), "", kubernetes, &mut |place, property| {
        looked_at += 1;
        let keys = [
            "required",
            "default",
            "enum",
            "pattern",
            "minLength",
            "maxLength",
            "minimum",
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-map-type",
        ];
        for key in keys {
            assert_eq!(property.get(key), None, "{path}{place}: {key}");
        }
    });
    assert!(looked_at > 40, "{looked_at}");
}

#[rstest]
#[case("Workspace v1alpha1", "spec.workspaceTemplate")]
#[case("Update v1alpha1", "spec.updateTemplate")]
fn a_template_has_the_properties_of_its_kind(#[case] kind: &str, #[case] path: &str) {
    let (kind, stack) = (schema(kind), schema("Stack v1"));
    let template = at(&stack, path).expect(path);
    let paths = |schema: &Value| {
        let mut paths = Vec::new();
        walk(schema, "", &[], &mut |path, _| paths.push(path.to_owned()));
        paths
    };
    for part in ["spec", "status"] {
        assert_eq!(paths(&template["properties"][part]), paths(&kind["properties"][part]), "{part}");
    }
    let names: Vec<&String> = template["properties"].as_object().expect("properties").keys().collect();
    assert_eq!(names, ["apiVersion", "kind", "metadata", "spec", "status"]);
}

#[test]
fn kubernetes_types_in_a_template_demand_what_they_always_do() {
    let schema = schema("Stack v1");
    let required = |path: &str| at(&schema, path).expect(path)["required"].clone();
    assert_eq!(required("spec.workspaceTemplate.spec.podTemplate.spec"), json!(["containers"]));
    assert_eq!(required("spec.workspaceTemplate.spec.env[]"), json!(["name"]));
    assert_eq!(required("spec.workspaceTemplate.spec.git.auth.token"), json!(["key"]));
}

#[test]
fn kubernetes_types_in_a_pod_say_how_they_are_merged_and_defaulted() {
    let schema = schema("Workspace v1alpha1");
    let pod = at(&schema, "spec.podTemplate.spec").expect("a pod");
    let keys = |path: &str| at(pod, path).expect(path)["x-kubernetes-list-map-keys"].clone();
    assert_eq!(keys("containers"), json!(["name"]));
    assert_eq!(keys("containers[].ports"), json!(["containerPort", "protocol"]));
    assert_eq!(keys("containers[].volumeMounts"), json!(["mountPath"]));
    assert_eq!(keys("topologySpreadConstraints"), json!(["topologyKey", "whenUnsatisfiable"]));
    let property = |path: &str| without_descriptions(at(pod, path).expect(path));
    assert_eq!(property("containers[].ports[].protocol"), json!({"type": "string", "default": "TCP"}));
    assert_eq!(property("imagePullSecrets[].name"), json!({"type": "string", "default": ""}));
    assert_eq!(property("tolerations")["x-kubernetes-list-type"], "atomic");
    assert_eq!(property("nodeSelector")["x-kubernetes-map-type"], "atomic");
    assert_eq!(
        property("containers[].livenessProbe.httpGet.port"),
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
    );
}

#[test]
fn the_keys_of_every_keyed_list_are_required_or_have_a_default() {
    for definition in crd::all() {
        for version in definition["spec"]["versions"].as_array().expect("versions") {
            walk(&version["schema"]["openAPIV3Schema"], "", &[], &mut |path, property| {
                let keys = property["x-kubernetes-list-map-keys"].as_array();
                for key in keys.into_iter().flatten() {
                    let items = &property["items"];
                    let required = items["required"].as_array().is_some_and(|names| names.contains(key));
                    let default = items["properties"][key.as_str().unwrap()].get("default");
                    assert!(required || default.is_some(), "{path}: {key}");
                }
            });
        }
    }
}

#[test]
fn our_own_fields_are_described_and_kubernetes_are_not() {
    let schema = schema("Workspace v1alpha1");
    let kubernetes = [
        ".spec.env[]",
        ".spec.envFrom[]",
        ".spec.initContainers[]",
        ".spec.podTemplate.spec",
        ".spec.resources",
        ".spec.git.auth.githubApp.appID",
        ".spec.git.auth.githubApp.installationID",
        ".spec.git.auth.githubApp.privateKey",
        ".spec.git.auth.password",
        ".spec.git.auth.sshPrivateKey",
        ".spec.git.auth.token",
        ".spec.git.auth.username",
        ".status.conditions[]",
        ".apiVersion",
        ".kind",
        ".metadata",
    ];
    walk(&schema, "", &kubernetes, &mut |path, property| {
        let item = path.ends_with("[]") || path.ends_with(".*");
        assert!(item || property.get("description").is_some(), "{path} has no description");
    });
    for path in kubernetes.iter().filter(|path| path.starts_with(".spec") || path.starts_with(".status")) {
        let inner = at(&schema, path.trim_start_matches('.')).expect(path);
        walk(inner, path, &[], &mut |below, property| {
            assert!(below == *path || property.get("description").is_none(), "{below}");
        });
    }
}
