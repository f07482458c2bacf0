//! What of a Pulumi project must be known to destroy its stack without its sources.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient;

/// Name and runtime of a Pulumi project, and where its stacks are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "runtime"]))]
pub struct ProjectInfo {
    /// Name of the project, as in its Pulumi.yaml.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub name: String,
    /// Language runtime of the project, for example `nodejs` or `yaml`.
    #[serde(default, deserialize_with = "lenient::null_default")]
    pub runtime: String,
    /// Backend of the project's stacks, if its Pulumi.yaml names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Directory of the files of the project's stacks, if its Pulumi.yaml names one.
    #[serde(default, rename = "stackConfigDir", skip_serializing_if = "Option::is_none")]
    pub stack_config_dir: Option<String>,
}
