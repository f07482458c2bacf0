//! Values that a Stack takes from elsewhere.

use std::ops::Not;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient;

/// Values of [`ResourceRef::ref_type`].
pub mod ref_type {
    /// An environment variable of the operator; no longer supported.
    pub const ENV: &str = "Env";
    /// A file of the operator; no longer supported.
    pub const FS: &str = "FS";
    /// A key of a Secret.
    pub const SECRET: &str = "Secret";
    /// A key of a ConfigMap.
    pub const CONFIG_MAP: &str = "ConfigMap";
    /// The value itself.
    pub const LITERAL: &str = "Literal";
}

/// Where a value comes from: the type, and the member that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["type"]))]
pub struct ResourceRef {
    /// Which member is used: `Secret`, `ConfigMap` or `Literal`. `Env` and `FS` are deprecated and
    /// refused.
    #[serde(rename = "type", default, deserialize_with = "lenient::null_default")]
    pub ref_type: String,
    /// Deprecated and refused: an environment variable of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<EnvSelector>,
    /// Deprecated and refused: a file of the operator.
    #[serde(rename = "filesystem", default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FsSelector>,
    /// A key of a Secret, with type `Secret`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretSelector>,
    /// A key of a ConfigMap, with type `ConfigMap`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSelector>,
    /// The value itself, with type `Literal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub literal: Option<LiteralSelector>,
}

/// An environment variable of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name"]))]
pub struct EnvSelector {
    /// Name of the variable.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
}

/// A file of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["path"]))]
pub struct FsSelector {
    /// Path of the file.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub path: String,
}

/// A key of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["key", "name"]))]
pub struct SecretSelector {
    /// Deprecated: only the Stack's own namespace is allowed, which is also the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Secret.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
    /// Key within the Secret.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub key: String,
}

/// A key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["key", "name"]))]
pub struct ConfigMapSelector {
    /// Name of the ConfigMap, in the Stack's namespace.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
    /// Key within the ConfigMap.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub key: String,
}

/// A value written in the Stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["value"]))]
pub struct LiteralSelector {
    /// The value; readable by whoever can read the Stack.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub value: String,
}

/// A configuration value taken from a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["key", "name"]))]
pub struct ConfigMapRef {
    /// Name of the ConfigMap, in the Stack's namespace.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
    /// Key within the ConfigMap.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub key: String,
    /// Reads the text as JSON and sets a structured value; needs Pulumi 3.202.0 or later.
    #[serde(default, deserialize_with = "lenient::null_default", skip_serializing_if = "Not::not")]
    pub json: bool,
}

/// Credentials for a Git repository. Give one kind; every value must be of type `Secret`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAuthConfig {
    /// Personal access token, for https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_token: Option<ResourceRef>,
    /// Private key, for ssh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_auth: Option<SshAuth>,
    /// User name and password, for https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// GitHub App whose installation tokens are used, for https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github_app: Option<GitHubApp>,
}

/// An ssh key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["sshPrivateKey"]))]
pub struct SshAuth {
    /// The private key.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub ssh_private_key: ResourceRef,
    /// Passphrase of the private key, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<ResourceRef>,
}

/// A user name with its password.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["password", "userName"]))]
pub struct BasicAuth {
    /// The user name.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub user_name: ResourceRef,
    /// The password, or a token in its place.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub password: ResourceRef,
}

/// An installed GitHub App.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["appID", "installationID", "privateKey"]))]
pub struct GitHubApp {
    /// Identifier of the App.
    #[serde(rename = "appID", default, deserialize_with = "lenient::null_default")]
    pub app_id: ResourceRef,
    /// Identifier of its installation.
    #[serde(rename = "installationID", default, deserialize_with = "lenient::null_default")]
    pub installation_id: ResourceRef,
    /// Private key of the App, in PEM.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub private_key: ResourceRef,
}
