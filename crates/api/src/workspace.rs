//! Workspace: a pod in which Pulumi is run, with a program and its stacks made ready.

use std::collections::BTreeMap;
use std::ops::Not;

use k8s_openapi::api::core::v1::{Container, EnvFromSource, EnvVar, PodSpec, ResourceRequirements, SecretKeySelector};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Checked, Embedded, Problem, ProjectInfo, lenient};

/// Values of [`WorkspaceSpec::security_profile`].
pub mod security_profile {
    /// Meets the Pod Security Standard of that name; the default.
    pub const RESTRICTED: &str = "restricted";
    /// Allows running as root.
    pub const BASELINE: &str = "baseline";
}

/// What a Workspace has where its spec says nothing. Filled in when the pod is made, not stored.
pub mod defaults {
    /// Image with the restricted profile.
    pub const RESTRICTED_IMAGE: &str = "pulumi/pulumi:latest-nonroot";
    /// Image with the baseline profile.
    pub const BASELINE_IMAGE: &str = "pulumi/pulumi:latest";
    /// Memory that the Pulumi container asks for.
    pub const MEMORY_REQUEST: &str = "64Mi";
    /// CPU that the Pulumi container asks for.
    pub const CPU_REQUEST: &str = "100m";
}

object! {
    /// A pod in which Pulumi is run, with a program and its stacks made ready. Usually made by a Stack.
    pub struct Workspace = "auto.pulumi.com", "v1alpha1", "workspaces" {
        spec: WorkspaceSpec,
        status: WorkspaceStatus,
    }
}

/// The desired state of a Workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// Service account of the pod. It needs the cluster role `system:auth-delegator`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-pko-default" = "default"))]
    pub service_account_name: Option<String>,

    /// How much the pod may do: `restricted` or `baseline`, as in the Pod Security Standards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-pko-default" = "restricted"))]
    pub security_profile: Option<String>,

    /// Image with the Pulumi CLI and language runtimes; `pulumi/pulumi:latest-nonroot` by default,
    /// `pulumi/pulumi:latest` with the baseline profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,

    /// When the image is pulled: `Always`, `Never` or `IfNotPresent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,

    /// Takes the program from a Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,

    /// Takes the program from a Flux artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flux: Option<FluxSource>,

    /// Takes the program from a directory of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalSource>,

    /// Makes an empty project of that name, enough to destroy a stack from its state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_info: Option<ProjectInfo>,

    /// Sources of environment variables of the Pulumi container.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub env_from: Vec<Embedded<EnvFromSource>>,

    /// Environment variables of the Pulumi container.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"]
    ))]
    pub env: Vec<Embedded<EnvVar>>,

    /// Compute resources of the Pulumi container; requests 64Mi of memory and 100m of CPU by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Embedded<ResourceRequirements>>,

    /// Containers that run before Pulumi starts, after the program was fetched. They may write
    /// environment variables to the file that `$PULUMI_ENV` names.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"]
    ))]
    pub init_containers: Vec<Embedded<Container>>,

    /// Customises the pod: merged over the generated one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,

    /// Customises the Service in front of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_template: Option<ServiceTemplate>,

    /// Verbosity of the Pulumi CLI's log, 0 for none; 11 is the most the CLI knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulumi_log_level: Option<Checked<u32>>,

    /// Stacks to be selected, or created, and configured before the Workspace is ready.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["name"]
    ))]
    pub stacks: Vec<WorkspaceStack>,
}

impl WorkspaceSpec {
    /// Fields whose values the schema admits and the operator cannot use.
    pub fn problems(&self) -> Vec<Problem> {
        Problem::of("spec.pulumiLogLevel", self.pulumi_log_level.as_ref()).into_iter().collect()
    }
}

/// A program in a Git repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GitSource {
    /// URL of the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Commit to check out.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub git_ref: Option<String>,
    /// Directory of the program within the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Credentials for the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<GitAuth>,
    /// Fetch only the commit instead of the repository's history.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub shallow: bool,
}

/// Credentials for a Git repository, as keys of Secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAuth {
    /// Private key, for ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_private_key: Option<SecretKeySelector>,
    /// User name, for https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<SecretKeySelector>,
    /// Password of the user, or passphrase of the private key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<SecretKeySelector>,
    /// Access token, for https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<SecretKeySelector>,
    /// GitHub App whose installation tokens are used, for https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github_app: Option<GitHubAppAuth>,
}

/// An installed GitHub App, as keys of Secrets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["appID", "installationID", "privateKey"]))]
pub struct GitHubAppAuth {
    /// Identifier of the App.
    #[serde(rename = "appID", default, deserialize_with = "lenient::null_default")]
    pub app_id: SecretKeySelector,
    /// Identifier of its installation.
    #[serde(rename = "installationID", default, deserialize_with = "lenient::null_default")]
    pub installation_id: SecretKeySelector,
    /// Private key of the App, in PEM.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub private_key: SecretKeySelector,
}

/// A program in a Flux artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FluxSource {
    /// Address of the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Digest that the artifact must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Directory of the program within the artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// A program that is part of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalSource {
    /// Directory of the program within the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// Labels and annotations of a generated object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TemplateMetadata {
    /// Labels added to the generated ones.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations added to the generated ones.
    #[serde(default, deserialize_with = "lenient::map", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Customises a Workspace's pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodTemplate {
    /// Labels and annotations of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// A partial pod, merged over the generated one. The container that runs Pulumi is named `pulumi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<Embedded<PodSpec>>,
}

/// Customises a Workspace's Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceTemplate {
    /// Labels and annotations of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
}

/// A Pulumi stack to be made ready in a Workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["name"]))]
pub struct WorkspaceStack {
    /// Name of the Pulumi stack as the CLI takes it.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
    /// Creates the stack if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    /// Provider that encrypts the stack's secrets; takes effect when the stack is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_provider: Option<String>,
    /// Configuration values of the stack.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["key"]
    ))]
    pub config: Vec<ConfigItem>,
    /// Pulumi ESC environments added to the stack, in order.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub environment: Vec<String>,
}

/// A configuration value of a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["key"], "x-kubernetes-map-type" = "atomic"))]
pub struct ConfigItem {
    /// Configuration key; without a namespace it belongs to the project.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub key: String,
    /// Takes the key as a path into a structured value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<bool>,
    /// The value: a string, number, boolean, list or map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Where the value comes from; wins over value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ConfigValueFrom>,
    /// Stores the value encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
}

/// A place inside the pod that holds a configuration value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConfigValueFrom {
    /// Environment variable that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// File that holds the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Reads the text as JSON and sets a structured value; needs Pulumi 3.202.0 or later.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub json: bool,
}

/// The observed state of a Workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// Generation of the Workspace that this status is about.
    #[serde(default, deserialize_with = "lenient::status_number")]
    #[schemars(range(min = 0))]
    pub observed_generation: i64,
    /// Address of the agent in the pod, once it can be reached.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub address: String,
    /// Version of the Pulumi CLI in the pod.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub pulumi_version: String,
    /// `Ready`, and `Stalled` when it cannot become ready by itself.
    #[serde(default, deserialize_with = "lenient::conditions", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
}
