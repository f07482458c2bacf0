//! Partial Workspaces and Updates inside a Stack. They exist as a schema only: what the user wrote
//! is carried as JSON and merged as JSON.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::update::{UpdateSpec, UpdateStatus};
use crate::workspace::{WorkspaceSpec, WorkspaceStatus};

/// A partial Workspace.
pub type WorkspaceTemplate = Template<WorkspaceSpec, WorkspaceStatus>;
/// A partial Update.
pub type UpdateTemplate = Template<UpdateSpec, UpdateStatus>;

/// Marks a reference whose definitions lose what a partial object need not fulfil: required fields,
/// defaults, list types. See `crd::schema`.
pub(crate) const PARTIAL: &str = "x-pko-partial";

/// The schema of an object of which any part may be absent.
#[derive(Debug)]
pub struct Template<P, S>(PhantomData<fn() -> (P, S)>);

impl<P: JsonSchema, S: JsonSchema> JsonSchema for Template<P, S> {
    fn schema_name() -> Cow<'static, str> {
        format!("Template{}", P::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let partial = |mut reference: Schema| {
            reference.insert(PARTIAL.to_owned(), true.into());
            reference
        };
        let spec = partial(generator.subschema_for::<P>());
        let status = partial(generator.subschema_for::<S>());
        json_schema!({
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string", "description": "Version of the generated object; may be left out."},
                "kind": {"type": "string", "description": "Kind of the generated object; may be left out."},
                "metadata": metadata(),
                "spec": spec,
                "status": status,
            },
        })
    }
}

/// The metadata that client-go's apply configurations have.
fn metadata() -> Schema {
    let text = || json_schema!({"type": "string"});
    let flag = || json_schema!({"type": "boolean"});
    let number = || json_schema!({"type": "integer", "format": "int64"});
    let time = || json_schema!({"type": "string", "format": "date-time"});
    let texts_by_name = || json_schema!({"type": "object", "additionalProperties": text()});
    json_schema!({
        "type": "object",
        "description": "Metadata merged over the generated object's.",
        "properties": {
            "name": text(),
            "generateName": text(),
            "namespace": text(),
            "uid": text(),
            "resourceVersion": text(),
            "generation": number(),
            "creationTimestamp": time(),
            "deletionTimestamp": time(),
            "deletionGracePeriodSeconds": number(),
            "labels": texts_by_name(),
            "annotations": texts_by_name(),
            "finalizers": {"type": "array", "items": text()},
            "ownerReferences": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "apiVersion": text(),
                        "kind": text(),
                        "name": text(),
                        "uid": text(),
                        "controller": flag(),
                        "blockOwnerDeletion": flag(),
                    },
                },
            },
        },
    })
}
