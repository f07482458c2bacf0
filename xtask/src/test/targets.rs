//! Which test targets there are, from cargo's own description of the workspace.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Level;
use crate::{host, paths};

pub(crate) struct TestTarget {
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) level: Level,
    pub(crate) features: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<CargoTarget>,
}

#[derive(Deserialize)]
struct CargoTarget {
    name: String,
    kind: Vec<String>,
    #[serde(default, rename = "required-features")]
    required_features: Vec<String>,
}

pub(crate) fn all() -> Result<Vec<TestTarget>> {
    let text = host::output(Command::new(env!("CARGO")).current_dir(paths::root()).args([
        "metadata",
        "--format-version=1",
        "--no-deps",
        "--locked",
    ]))?;
    from_metadata(&text)
}

fn from_metadata(text: &str) -> Result<Vec<TestTarget>> {
    let metadata: Metadata = serde_json::from_str(text).context("reading cargo metadata")?;
    let mut found = Vec::new();
    for package in metadata.packages {
        for target in package.targets.into_iter().filter(|t| t.kind.iter().any(|k| k == "test")) {
            let level = Level::ALL
                .into_iter()
                .find(|l| target.name.starts_with(&format!("{}_", l.name().to_lowercase())))
                .with_context(|| {
                    format!(
                        "the test file {} of {} does not begin with its level, such as l0_",
                        target.name, package.name
                    )
                })?;
            found.push(TestTarget {
                package: package.name.clone(),
                name: target.name,
                level,
                features: target.required_features,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_file_without_a_level_is_refused() {
        let text = r#"{"packages":[{"name":"a","targets":[{"name":"crds","kind":["test"]}]}]}"#;
        let error = from_metadata(text).err().unwrap().to_string();
        assert!(error.contains("crds of a does not begin with its level"), "{error}");
    }

    #[test]
    fn the_level_and_the_features_come_from_the_target() {
        let text = r#"{"packages":[{"name":"a","targets":[{"name":"l4_x","kind":["test"],"required-features":["cluster"]},{"name":"a","kind":["lib"]}]}]}"#;
        let found = from_metadata(text).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].level == Level::L4 && found[0].features == ["cluster"]);
    }
}
