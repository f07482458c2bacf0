//! Configuration of the Pulumi stack, and the volumes that bring what of it is kept elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use pko_api::{
    Stack,
    messages::reference as message,
    paths,
    stack::ConfigMapRef,
    workspace::{ConfigItem, ConfigValueFrom},
};
use serde_json::{Value, json};

use super::{
    Invalid,
    reference::{Fault, Referred, complete, resolve, unsupported},
};

/// What the spec's configuration comes to.
#[derive(Default)]
pub(super) struct Config {
    pub(super) items: Vec<ConfigItem>,
    /// Volumes of the pod, and their mounts in the Pulumi container.
    pub(super) volumes: Vec<Value>,
    pub(super) mounts: Vec<Value>,
    /// Which field a key is from, to find one that is in two.
    fields: BTreeMap<String, &'static str>,
    mounted: BTreeSet<String>,
}

/// All of it, in the order plain, from ConfigMaps, secret, from Secrets; by key within each.
pub(super) fn of(stack: &Stack) -> Result<Config, Invalid> {
    let mut config = Config::default();
    config.plain(stack)?;
    config.in_config_maps("configRef", &stack.spec.config_ref)?;
    config.in_config_maps("configRefs", &stack.spec.config_refs)?;
    for (key, value) in &stack.spec.secrets {
        config.add("secrets", item(key, true).with_value(json!(value)))?;
    }
    config.in_references(stack)?;
    Ok(config)
}

impl Config {
    fn plain(&mut self, stack: &Stack) -> Result<(), Invalid> {
        let Some(config) = &stack.spec.config else { return Ok(()) };
        let entries = config.as_result().map_err(|why| Invalid::new(format!("spec.config: {why}")))?;
        for (key, value) in entries {
            self.add("config", item(key, false).with_value(value.clone()))?;
        }
        Ok(())
    }

    fn in_config_maps(
        &mut self,
        field: &'static str,
        references: &BTreeMap<String, ConfigMapRef>,
    ) -> Result<(), Invalid> {
        for (key, reference) in references {
            complete(&reference.name, &reference.key)
                .map_err(|fault| Invalid::new(fault.text(field, key, message::in_config)))?;
            let mount = paths::config_map_mount(&reference.name);
            self.mount(
                &mount,
                json!({"name": paths::config_map_volume(&reference.name), "configMap": {"name": reference.name}}),
            );
            self.add(field, item(key, false).with_file(&mount, &reference.key, reference.json))?;
        }
        Ok(())
    }

    fn in_references(&mut self, stack: &Stack) -> Result<(), Invalid> {
        for (key, reference) in &stack.spec.secrets_ref {
            let invalid = |fault: Fault| Invalid::new(fault.text("secretsRef", key, message::in_secrets));
            let found = match resolve(stack, reference).map_err(invalid)? {
                Referred::Literal(value) => item(key, true).with_value(json!(value)),
                Referred::Secret(secret) => {
                    let mount = paths::secret_mount(&secret.name);
                    let volume = paths::secret_volume(&secret.name);
                    self.mount(&mount, json!({"name": volume, "secret": {"secretName": secret.name}}));
                    item(key, true).with_file(&mount, &secret.key, false)
                }
                Referred::ConfigMap(_) => return Err(invalid(unsupported(&reference.ref_type))),
            };
            self.add("secretsRef", found)?;
        }
        Ok(())
    }

    fn mount(&mut self, path: &str, volume: Value) {
        if self.mounted.insert(path.to_owned()) {
            self.mounts.push(json!({"name": volume["name"], "mountPath": path}));
            self.volumes.push(volume);
        }
    }

    fn add(&mut self, field: &'static str, item: ConfigItem) -> Result<(), Invalid> {
        if let Some(other) = self.fields.insert(item.key.clone(), field) {
            return Err(Invalid::new(format!(
                "spec.{field}[{}]: the configuration key is also in spec.{other}; remove one of the two",
                pko_api::go_quote(&item.key)
            )));
        }
        self.items.push(item);
        Ok(())
    }
}

fn item(key: &str, secret: bool) -> ConfigItem {
    ConfigItem { key: key.to_owned(), secret: Some(secret), ..ConfigItem::default() }
}

/// The two ways in which an item gets its value.
trait Valued {
    fn with_value(self, value: Value) -> Self;
    fn with_file(self, mount: &str, file: &str, json: bool) -> Self;
}

impl Valued for ConfigItem {
    fn with_value(self, value: Value) -> Self {
        Self { value: Some(value), ..self }
    }

    fn with_file(self, mount: &str, file: &str, json: bool) -> Self {
        let from = ConfigValueFrom { path: Some(format!("{mount}/{file}")), json, ..ConfigValueFrom::default() };
        Self { value_from: Some(from), ..self }
    }
}
