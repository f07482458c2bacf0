//! Which test targets there are, from cargo's own description of the workspace.

use anyhow::{Context, Result};

use super::Level;
use crate::packages::{self, Package};

pub(crate) struct TestTarget {
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) level: Level,
    pub(crate) features: Vec<String>,
}

pub(crate) fn all() -> Result<Vec<TestTarget>> {
    of(packages::all()?)
}

fn of(packages: Vec<Package>) -> Result<Vec<TestTarget>> {
    let mut found = Vec::new();
    for package in packages {
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

    fn package(targets: &serde_json::Value) -> Vec<Package> {
        vec![serde_json::from_value(serde_json::json!({"name": "a", "targets": targets})).unwrap()]
    }

    #[test]
    fn a_test_file_without_a_level_is_refused() {
        let error = of(package(&serde_json::json!([{"name": "crds", "kind": ["test"]}]))).err().unwrap().to_string();
        assert!(error.contains("crds of a does not begin with its level"), "{error}");
    }

    #[test]
    fn the_level_and_the_features_come_from_the_target() {
        let targets = serde_json::json!([
            {"name": "l4_x", "kind": ["test"], "required-features": ["cluster"]},
            {"name": "a", "kind": ["lib"]},
        ]);
        let found = of(package(&targets)).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].level == Level::L4 && found[0].features == ["cluster"]);
    }
}
