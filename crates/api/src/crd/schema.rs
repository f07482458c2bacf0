//! From a Rust type to a structural schema, in the form that controller-gen gives to Go types.
//!
//! The generator yields definitions that refer to each other. Those of Kubernetes are first given
//! the meaning that their Rust versions lack; then everything is inlined, since a CRD knows no
//! references, and null forms go, since a CRD's optional field is one that may be absent.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::core_types::{ATOMIC_OBJECTS, FIELDS, Meaning};
use crate::template::PARTIAL;

/// Marks a default for the API server, as opposed to the one a field decodes to when absent.
const DEFAULT: &str = "x-pko-default";
/// Names of Kubernetes' definitions begin with this.
const KUBERNETES: &str = "io.k8s.";
/// Those of types that are used as they are inside a partial object; what is not among them has an
/// apply configuration, in which everything is optional.
const KUBERNETES_API: &str = "io.k8s.api.";
const REFERENCE: &str = "#/$defs/";

/// The schema of a type as it stands in a CRD.
pub(super) fn structural<T: JsonSchema>() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let root = generator.subschema_for::<T>().to_value();
    let mut definitions = generator.take_definitions(false);
    describe_kubernetes_types(&mut definitions);
    Inliner { definitions: &definitions }.inline(&root, Context { own: true, partial: false })
}

/// Gives Kubernetes' definitions what they lack and takes their long descriptions away. Returns the
/// rows of the tables that met no definition.
fn describe_kubernetes_types(definitions: &mut Map<String, Value>) -> Vec<String> {
    for (name, definition) in definitions.iter_mut() {
        if name.starts_with(KUBERNETES) {
            strip_descriptions(definition);
        }
    }
    for (name, definition) in replacements() {
        if let Some(found) = definitions.get_mut(name) {
            *found = definition;
        }
    }
    let mut unmet = Vec::new();
    for object in ATOMIC_OBJECTS {
        match definitions.get_mut(&format!("{KUBERNETES}{object}")) {
            Some(found) => found["x-kubernetes-map-type"] = "atomic".into(),
            None => unmet.push((*object).to_owned()),
        }
    }
    for (object, field, meaning) in FIELDS {
        let definition = definitions.get_mut(&format!("{KUBERNETES}{object}"));
        if definition.is_none_or(|definition| meaning.apply(definition, field).is_none()) {
            unmet.push(format!("{object}.{field}"));
        }
    }
    unmet
}

impl Meaning {
    /// Adds the meaning to a field of a definition, if it has such a field.
    fn apply(self, definition: &mut Value, field: &str) -> Option<()> {
        let property = definition.get_mut("properties")?.get_mut(field)?;
        match self {
            Self::Atomic => property["x-kubernetes-list-type"] = "atomic".into(),
            Self::Set => property["x-kubernetes-list-type"] = "set".into(),
            Self::MapOf(keys) => {
                property["x-kubernetes-list-type"] = "map".into();
                property["x-kubernetes-list-map-keys"] = keys.into();
            }
            Self::AtomicMap => property["x-kubernetes-map-type"] = "atomic".into(),
            Self::DefaultText(text) => property["default"] = text.into(),
            Self::DefaultFalse => property["default"] = false.into(),
        }
        if matches!(self, Self::DefaultText(_) | Self::DefaultFalse) {
            no_longer_required(definition, field);
        }
        Some(())
    }
}

/// The Rust definitions count some fields with a default among those that must be given.
fn no_longer_required(definition: &mut Value, field: &str) {
    let Value::Object(fields) = definition else { return };
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        required.retain(|name| name != field);
        if required.is_empty() {
            fields.remove("required");
        }
    }
}

/// Definitions that are written differently in a CRD.
fn replacements() -> [(&'static str, Value); 4] {
    let text = json!({"type": "string"});
    let number_or_text = json!([{"type": "integer"}, {"type": "string"}]);
    [
        (
            "io.k8s.apimachinery.pkg.api.resource.Quantity",
            json!({
                "anyOf": number_or_text,
                "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
                "x-kubernetes-int-or-string": true,
            }),
        ),
        (
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
            json!({"anyOf": number_or_text, "x-kubernetes-int-or-string": true}),
        ),
        (
            // Of a volume claim inside a pod: only what a user gives.
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
            json!({
                "type": "object",
                "properties": {
                    "name": text,
                    "namespace": text,
                    "labels": {"type": "object", "additionalProperties": text},
                    "annotations": {"type": "object", "additionalProperties": text},
                    "finalizers": {"type": "array", "items": text},
                },
            }),
        ),
        (
            "io.k8s.apimachinery.pkg.apis.meta.v1.Condition",
            json!({
                "type": "object",
                "required": ["lastTransitionTime", "message", "reason", "status", "type"],
                "properties": {
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                    "message": {"type": "string", "maxLength": 32768},
                    "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                    "reason": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 1024,
                        "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    },
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "type": {
                        "type": "string",
                        "maxLength": 316,
                        "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                    },
                },
            }),
        ),
    ]
}

fn strip_descriptions(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    fields.remove("description");
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(key) {
            strip_descriptions(inner);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(strip_descriptions);
    }
}

/// Where in a schema the inliner is.
#[derive(Clone, Copy)]
struct Context {
    /// Inside one of this crate's types, as opposed to Kubernetes'.
    own: bool,
    /// Inside an object of which any part may be absent.
    partial: bool,
}

struct Inliner<'a> {
    definitions: &'a Map<String, Value>,
}

impl Inliner<'_> {
    fn inline(&self, schema: &Value, context: Context) -> Value {
        let Value::Object(fields) = schema else { return anything() };
        let mut fields = fields.clone();
        let partial = context.partial || fields.remove(PARTIAL).is_some();
        let context = Context { partial, ..context };

        let mut resolved = Map::new();
        if let Some(target) = reference_of(&mut fields) {
            let context = Context {
                own: !target.starts_with(KUBERNETES),
                partial: partial && !target.starts_with(KUBERNETES_API),
            };
            let definition = self.definitions.get(&target).unwrap_or(&Value::Null);
            if let Value::Object(inlined) = self.inline(definition, context) {
                resolved = inlined;
            }
        }
        tidy(&mut fields, context);
        for key in ["items", "additionalProperties"] {
            if let Some(inner) = fields.get_mut(key) {
                *inner = self.inline(inner, context);
            }
        }
        if let Some(Value::Object(properties)) = fields.get_mut("properties") {
            for property in properties.values_mut() {
                *property = self.inline(property, context);
            }
        }
        // What is said at the place of use goes before what the definition says.
        resolved.extend(fields);
        if !["type", "x-kubernetes-int-or-string"].iter().any(|key| resolved.contains_key(*key)) {
            resolved.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
        Value::Object(resolved)
    }
}

fn anything() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}

/// Takes a reference out of a schema: its own, or the one in "this or null". Any other "this or
/// null" becomes this.
fn reference_of(fields: &mut Map<String, Value>) -> Option<String> {
    if let Some(alternative) = alternative_to_null(fields) {
        fields.remove("anyOf");
        for (key, value) in alternative {
            fields.entry(key).or_insert(value);
        }
    }
    let reference = fields.remove("$ref")?;
    Some(reference.as_str()?.strip_prefix(REFERENCE)?.to_owned())
}

fn alternative_to_null(fields: &Map<String, Value>) -> Option<Map<String, Value>> {
    let [this, null] = fields.get("anyOf")?.as_array()?.as_slice() else { return None };
    (null.get("type")? == "null").then(|| this.as_object().cloned())?
}

/// Leaves out what a CRD does not say, and what a partial object need not fulfil.
fn tidy(fields: &mut Map<String, Value>, context: Context) {
    if let Some(Value::Array(types)) = fields.get("type") {
        let named = types.iter().find(|name| **name != "null").cloned();
        fields.insert("type".to_owned(), named.unwrap_or_default());
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::String(text)) = fields.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    fields.remove("title");
    if context.own {
        fields.remove("default");
        if let Some(default) = fields.remove(DEFAULT) {
            fields.insert("default".to_owned(), default);
        }
    }
    if context.partial {
        for key in [
            "default",
            "enum",
            "maxLength",
            "minLength",
            "minimum",
            "pattern",
            "required",
            "x-kubernetes-list-map-keys",
            "x-kubernetes-list-type",
            "x-kubernetes-map-type",
        ] {
            fields.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::WorkspaceSpec;

    #[test]
    fn every_row_of_the_tables_describes_a_field_that_a_workspace_can_have() {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        generator.subschema_for::<WorkspaceSpec>();
        let unmet = describe_kubernetes_types(&mut generator.take_definitions(false));
        assert_eq!(unmet, Vec::<String>::new());
    }

    #[test]
    fn no_reference_survives_inlining() {
        let schema = structural::<WorkspaceSpec>().to_string();
        assert!(!schema.contains("$ref") && !schema.contains("x-pko-"), "{schema}");
    }
}
