//! Environment variables of a workspace pod's containers.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, SecretKeySelector};
use pko_api::{
    Embedded, env,
    paths::{ENV_FILE, PULUMI_CONTAINER},
    workspace::WorkspaceSpec,
};
use serde_json::{Value, json};

use super::{Invalid, embedded};

/// Of the Pulumi container: the spec's, then the agent's.
pub(super) fn of_pulumi(spec: &WorkspaceSpec) -> Result<Vec<Value>, Invalid> {
    let agent = [
        json!({"name": env::POD_NAMESPACE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}),
        json!({"name": env::POD_SA_NAME, "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}}),
        json!({"name": env::AGENT_MEMLIMIT, "valueFrom": {
            "resourceFieldRef": {"containerName": PULUMI_CONTAINER, "resource": "requests.memory"},
        }}),
    ];
    let mut names = BTreeSet::new();
    for (index, variable) in spec.env.iter().enumerate() {
        let field = format!("spec.env[{index}]");
        embedded::check::<EnvVar>(&field, variable.raw())?;
        let name = name(variable.raw());
        if name.is_empty() {
            return Err(Invalid::new(format!("{field}: has no name; give the variable a name")));
        }
        if agent.iter().any(|own| own["name"] == name) {
            return Err(Invalid::new(format!(
                "{field}: {name} is set by the operator; remove it, or set it for the container `{PULUMI_CONTAINER}` \
                 in spec.podTemplate"
            )));
        }
        let given = |member: &str| variable.raw().get(member).is_some_and(|given| !given.is_null() && given != "");
        if given("value") && given("valueFrom") {
            return Err(Invalid::new(format!("{field}: {name} has both value and valueFrom; keep one of the two")));
        }
        if !names.insert(name) {
            return Err(Invalid::new(format!("{field}: {name} is in spec.env twice; keep one of the two")));
        }
    }
    Ok(spec.env.iter().map(Embedded::raw).cloned().chain(agent).collect())
}

/// Sources of variables of the Pulumi container.
pub(super) fn sources(spec: &WorkspaceSpec) -> Result<Vec<Value>, Invalid> {
    for (index, source) in spec.env_from.iter().enumerate() {
        embedded::check::<EnvFromSource>(&format!("spec.envFrom[{index}]"), source.raw())?;
    }
    Ok(spec.env_from.iter().map(Embedded::raw).cloned().collect())
}

/// Tells a container where to write variables for Pulumi, unless it was told otherwise.
pub(super) fn add_env_file(container: &mut Value) {
    let variable = json!({"name": env::PULUMI_ENV, "value": ENV_FILE});
    match &mut container["env"] {
        Value::Array(variables) if variables.iter().any(|other| name(other) == env::PULUMI_ENV) => {}
        Value::Array(variables) => variables.push(variable),
        none => *none = json!([variable]),
    }
}

/// A variable with that value. Kubernetes drops an empty one; left out here, so that what is applied is what is stored.
pub(super) fn plain(name: &str, value: &str) -> Value {
    if value.is_empty() { json!({"name": name}) } else { json!({"name": name, "value": value}) }
}

/// A variable with the value of a Secret's key.
pub(super) fn from_secret(name: &str, selector: &SecretKeySelector) -> Value {
    json!({"name": name, "valueFrom": {"secretKeyRef": selector}})
}

fn name(variable: &Value) -> &str {
    variable["name"].as_str().unwrap_or_default()
}
