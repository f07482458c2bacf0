//! Program: a Pulumi YAML program written as a Kubernetes object, under the key `program`.

use std::collections::BTreeMap;
use std::ops::Not;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient;

object! {
    /// A Pulumi YAML program that Stacks can refer to by name.
    pub struct Program = "pulumi.com", "v1", "programs" {
        program: ProgramSpec,
        status: ProgramStatus,
    }
}

/// The program, in the words of a Pulumi.yaml of runtime `yaml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramSpec {
    /// Configuration values that the program expects, by name.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub configuration: BTreeMap<String, Configuration>,
    /// Resources that the program manages, by logical name.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Resource>,
    /// Intermediate values, by name; an expression each.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, Value>,
    /// Outputs of the stack, by name; an expression each.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Value>,
    /// Packages that the program uses, by name, with their versions or sources.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
}

/// A configuration value that a program expects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Configuration {
    /// Type of the value.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["String", "Number", "List<Number>", "List<String>"]))]
    pub value_type: Option<String>,
    /// Value to use when the stack has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// A resource of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["type"]))]
pub struct Resource {
    /// Type token of the resource, for example `aws:s3:Bucket`.
    #[serde(rename = "type", default, deserialize_with = "lenient::null_default")]
    #[schemars(length(min = 1))]
    pub resource_type: String,
    /// Inputs of the resource, by name; an expression each.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, Value>,
    /// Options that change how Pulumi manages the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<ResourceOptions>,
    /// Reads an existing resource instead of managing one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub get: Option<Getter>,
}

/// Options of a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceOptions {
    /// Names of outputs that are treated as secret.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub additional_secret_outputs: Vec<String>,
    /// Former URNs of the resource.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// How long operations on the resource may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_timeouts: Option<CustomTimeouts>,
    /// Deletes the old resource before its replacement is created.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub delete_before_replace: bool,
    /// Resources that must exist before this one; an expression each.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<Value>,
    /// Properties whose changes are ignored.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub ignore_changes: Vec<String>,
    /// Identifier of an existing resource to take over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<String>,
    /// Parent of the resource; an expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Value>,
    /// Refuses to delete the resource.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub protect: bool,
    /// Provider of the resource; an expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<Value>,
    /// Providers of a component's children, by package; an expression each.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, Value>,
    /// Version of the provider plugin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// How long operations on a resource may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CustomTimeouts {
    /// Limit for creating, for example `30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<String>,
    /// Limit for deleting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
    /// Limit for updating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
}

/// An existing resource to be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["id"]))]
pub struct Getter {
    /// Identifier of the resource at its provider.
    #[serde(default, deserialize_with = "lenient::null_default")]
    #[schemars(length(min = 1))]
    pub id: String,
    /// Known properties that help to find the resource, by name; an expression each.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub state: BTreeMap<String, Value>,
}

/// The observed state of a Program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgramStatus {
    /// Generation of the Program that the artifact was made from.
    #[serde(default, deserialize_with = "lenient::status_number")]
    pub observed_generation: i64,
    /// The packed program, as workspaces fetch it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
}

/// A packed program, described as Flux describes its artifacts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["lastUpdateTime", "path", "revision", "url"]))]
pub struct Artifact {
    /// Path of the artifact on the server.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub path: String,
    /// Address at which the artifact is fetched.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub url: String,
    /// Revision of the program: the Program's generation.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub revision: String,
    /// Digest of the artifact, as `algorithm:checksum`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$"))]
    pub digest: Option<String>,
    /// When the artifact was last made.
    #[serde(default, deserialize_with = "lenient::status_time", skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Size of the artifact in bytes.
    #[serde(default, deserialize_with = "lenient::status_number", skip_serializing_if = "lenient::is_zero")]
    pub size: i64,
    /// Notes about the artifact, as in Flux.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}
