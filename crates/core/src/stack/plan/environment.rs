//! Environment variables that a Stack gives to its program.

use std::collections::BTreeMap;

use pko_api::{Embedded, Stack, env, messages::reference as message};
use serde_json::{Value, json};

use super::{
    Invalid,
    reference::{Referred, resolve},
};

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar};

/// The variables, each from one field: backend, access token, then the references by name.
pub(super) fn variables(stack: &Stack) -> Result<Vec<Embedded<EnvVar>>, Invalid> {
    let spec = &stack.spec;
    let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
    let mut variables = Vec::new();
    if let Some(backend) = filled(spec.backend.as_ref()) {
        fields.insert(env::PULUMI_BACKEND_URL, "spec.backend");
        variables.push(json!({"name": env::PULUMI_BACKEND_URL, "value": backend}));
    }
    if let Some(secret) = filled(spec.access_token_secret.as_ref()) {
        fields.insert(env::PULUMI_ACCESS_TOKEN, "spec.accessTokenSecret");
        variables.push(from("secretKeyRef", env::PULUMI_ACCESS_TOKEN, secret, env::ACCESS_TOKEN_KEY));
    }
    for (name, reference) in &spec.env_refs {
        if let Some(other) = fields.get(name.as_str()) {
            return Err(Invalid::new(format!(
                "spec.envRefs[{}]: the variable is also set by {other}; remove one of the two",
                pko_api::go_quote(name)
            )));
        }
        let referred =
            resolve(stack, reference).map_err(|fault| Invalid::new(fault.text("envRefs", name, message::in_env)))?;
        variables.push(match referred {
            Referred::Literal(value) => json!({"name": name, "value": value}),
            Referred::Secret(secret) => from("secretKeyRef", name, &secret.name, &secret.key),
            Referred::ConfigMap(config_map) => from("configMapKeyRef", name, &config_map.name, &config_map.key),
        });
    }
    Ok(variables.into_iter().map(Embedded::new).collect())
}

/// ConfigMaps and Secrets all of whose entries become variables.
pub(super) fn sources(stack: &Stack) -> impl Iterator<Item = Embedded<EnvFromSource>> {
    let config_maps = stack.spec.envs.iter().map(|name| json!({"configMapRef": {"name": name}}));
    let secrets = stack.spec.env_secrets.iter().map(|name| json!({"secretRef": {"name": name}}));
    config_maps.chain(secrets).map(Embedded::new)
}

fn from(kind: &str, variable: &str, name: &str, key: &str) -> Value {
    json!({"name": variable, "valueFrom": {kind: {"name": name, "key": key}}})
}

fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}
