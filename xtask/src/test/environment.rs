//! What tests find in their environment, and on a cluster.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result};

use super::Level;
use crate::{cluster::Target, host, image, install, paths, tools};

/// Where failing tests leave what they saw.
pub(crate) fn dumps() -> PathBuf {
    paths::root().join("target/dumps")
}

/// Takes away an operator that a demo or earlier tests left in our cluster: it would act on the objects of tests.
pub(crate) fn clear(target: &Target) -> Result<()> {
    if let Target::Foreign(_) = target {
        return Ok(());
    }
    let mut kubectl = Command::new("kubectl");
    kubectl.env("KUBECONFIG", target.kubeconfig()).env("PATH", target.path()?);
    kubectl.args(["delete", "deployment/controller-manager", "--namespace=pulumi-kubernetes-operator"]);
    // The Deployment is gone when its pods are.
    host::output(kubectl.args(["--ignore-not-found", "--cascade=foreground", "--timeout=90s"]))
        .context("ending the operator that runs in the cluster")
        .map(drop)
}

/// The variables that tests of this level read.
pub(crate) fn variables(target: &Target, level: Level, release: bool) -> Result<Vec<(&'static str, String)>> {
    let digest = if level == Level::L5 { Some(image::operator_digest()?) } else { None };
    let install = paths::root().join("target/test-install.json");
    std::fs::write(&install, install::rendered(digest.as_deref())?.to_string())
        .with_context(|| format!("writing {}", install.display()))?;
    let mut variables = vec![
        ("KUBECONFIG", target.kubeconfig().display().to_string()),
        ("PATH", target.path()?.into_string().ok().context("PATH is not text")?),
        ("PKO_TEST_INSTALL", install.display().to_string()),
        ("PKO_TEST_OPERATOR_IMAGE", image::OPERATOR.to_owned()),
        ("PKO_TEST_WORKSPACE_IMAGE", image::WORKSPACE.to_owned()),
        ("PKO_TEST_DUMPS", dumps().display().to_string()),
    ];
    if let Target::Ours { cluster, .. } = target {
        variables.extend([
            ("PKO_TEST_MANAGER", image::manager(release)?.display().to_string()),
            ("PKO_TEST_VOLUMES", cluster.volumes().display().to_string()),
            ("PKO_TEST_HOST_ADDRESS", cluster.host_address()),
            ("PKO_TEST_NODE_ADDRESS", cluster.node_address()),
        ]);
    }
    Ok(variables)
}

/// The variables that tests of sources on our cluster read: the directory of Flux's controller and its CRDs, and the
/// servers from which it takes artifacts.
pub(crate) fn of_sources() -> Result<Vec<(&'static str, String)>> {
    tools::packages(&tools::SOURCE_PACKAGES)?;
    tools::ensure(tools::SOURCES)?;
    let shown = |path: Result<PathBuf>| Ok::<_, anyhow::Error>(path?.display().to_string());
    Ok(vec![
        ("PKO_TEST_SOURCE_CONTROLLER", shown(tools::dir("source-controller"))?),
        ("PKO_TEST_REGISTRY", shown(tools::binary("registry", "registry"))?),
        ("PKO_TEST_S3", shown(tools::binary("gofakes3", "gofakes3"))?),
    ])
}

/// The variables that tests with the real CLI read: where it is, and the provider for tests.
pub(crate) fn of_the_cli() -> Result<Vec<(&'static str, String)>> {
    let path = std::env::join_paths([tools::dir("pulumi")?, tools::dir("pulumi-yaml")?])?;
    Ok(vec![
        ("PKO_TEST_PULUMI_PATH", path.into_string().ok().context("the path of the CLI is not text")?),
        ("PKO_TEST_GRPCURL", tools::binary("grpcurl", "grpcurl")?.display().to_string()),
        ("PKO_TEST_PROVIDER", tools::binary("provider", "pulumi-resource-pkotest")?.display().to_string()),
    ])
}
