//! `init`: making the workspace ready. Everything that can be known to be wrong is found before the CLI is started.

use std::collections::BTreeSet;

use pko_proto::runs::{Init, Phase, Stack};
use pko_pulumi::{Call, ConfigStep, Ended, Wiring, describe, is_unauthorized, plan_config, stack_file};
use serde_json::Value;

use super::{
    config_values,
    entry::{Entry, Wish},
    operate::interrupted,
    record::{Failure, Reason},
    supervise::supervise,
};
use crate::workspace::{NoVersion, Workspace};

pub(crate) async fn prepare(entry: &Entry, workspace: &Workspace, init: &Init) -> Result<(), Failure> {
    entry.set_phase(Phase::Installing);
    let project = workspace.project().map_err(|e| Failure::new(Reason::InitializationFailed, e.to_string()))?;
    let mut plans = Vec::with_capacity(init.stacks.len());
    for stack in &init.stacks {
        let plan = config(workspace, &project.name, stack)
            .map_err(|message| of_stack(stack, Failure::new(Reason::InitializationFailed, message)))?;
        plans.push(plan);
    }
    if plans.iter().flatten().any(ConfigStep::is_json) {
        check_version(workspace).await?;
    }
    if !init.skip_install && project.installs {
        call(entry, workspace, &Call::Install, None, Reason::InstallationFailed).await?;
    }
    entry.set_phase(Phase::Initializing);
    for (stack, plan) in init.stacks.iter().zip(&plans) {
        make_ready(entry, workspace, stack, plan).await.map_err(|failure| of_stack(stack, failure))?;
    }
    Ok(())
}

fn of_stack(stack: &Stack, failure: Failure) -> Failure {
    Failure { stack_name: stack.name.clone(), ..failure }
}

fn config(workspace: &Workspace, project: &str, stack: &Stack) -> Result<Vec<ConfigStep>, String> {
    if stack.name.is_empty() {
        return Err("invalid stack name".to_owned());
    }
    let items = config_values::read(&workspace.cli, &stack.config)
        .map_err(|(key, bad)| format!("config item {key:?}: {bad}"))?;
    plan_config(project, &items).map_err(|error| error.to_string())
}

async fn check_version(workspace: &Workspace) -> Result<(), Failure> {
    let incompatible = |message: String| Err(Failure::new(Reason::IncompatibleConfiguration, message));
    match workspace.version().await {
        Ok(version) if version.has_json_config() => Ok(()),
        Ok(version) => incompatible(format!(
            "Pulumi CLI version {version} does not support JSON configuration, require >= v{}",
            pko_pulumi::JSON_CONFIG
        )),
        Err(NoVersion::Bad(bad)) => incompatible(bad.to_string()),
        Err(NoVersion::Cli(text)) => Err(Failure::new(Reason::InitializationFailed, text)),
    }
}

async fn make_ready(entry: &Entry, workspace: &Workspace, stack: &Stack, plan: &[ConfigStep]) -> Result<(), Failure> {
    let Stack { name, create, secrets_provider, environment, .. } = stack;
    let select = if *create {
        Call::SelectOrCreateStack { stack: name, secrets_provider }
    } else {
        Call::SelectStack { stack: name }
    };
    let step = async |step: &Call<'_>, stdin| {
        call(entry, workspace, step, stdin, Reason::InitializationFailed).await.map(|_| ())
    };
    step(&select, None).await?;
    for setting in plan {
        step(&setting.call(name), setting.stdin()).await?;
    }
    let environments = missing_environments(workspace, name, environment);
    if !environments.is_empty() {
        step(&Call::AddEnvironments { stack: name, environments: &environments }, None).await?;
    }
    Ok(())
}

/// Environments that the stack's file does not name yet: the CLI would add them once more.
pub(crate) fn missing_environments(workspace: &Workspace, stack: &str, wanted: &[String]) -> Vec<String> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let file = stack_file(workspace.cli.directory(), stack);
    let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let settings: Value = serde_saphyr::from_str(&text).unwrap_or_default();
    let imports = settings.get("environment").map(|e| e.get("imports").unwrap_or(e)).and_then(Value::as_array);
    let mut known: BTreeSet<&str> = imports.into_iter().flatten().filter_map(Value::as_str).collect();
    wanted.iter().filter(|name| known.insert(name)).cloned().collect()
}

/// One call of the CLI within a run.
async fn call(
    entry: &Entry,
    workspace: &Workspace,
    call: &Call<'_>,
    stdin: Option<String>,
    reason: Reason,
) -> Result<Ended, Failure> {
    if let Some(wish) = wished(entry) {
        return Err(wish);
    }
    let cannot = |cannot: pko_pulumi::Cannot| Failure::new(reason, cannot.to_string());
    let running = workspace.cli.start(call, stdin, Wiring::Pipes).map_err(cannot)?;
    if let Err(error) = entry.page.note_process(running.identity()) {
        tracing::warn!(%error, run = entry.start.run_id, "the CLI's process could not be noted in the journal");
    }
    let ended = supervise(entry, running, None).await.map_err(cannot)?;
    if ended.succeeded() {
        return Ok(ended);
    }
    let reason = if is_unauthorized(&ended.stderr) { Reason::InvalidAccessToken } else { reason };
    Err(wished(entry).unwrap_or_else(|| Failure::new(reason, describe(call.name(), std::iter::empty(), &ended))))
}

fn wished(entry: &Entry) -> Option<Failure> {
    match entry.wish() {
        Wish::None => None,
        Wish::Shutdown => Some(interrupted("the workspace pod was shut down while it was made ready")),
        Wish::Graceful | Wish::Forced => Some(Failure::new(Reason::Canceled, "the run was canceled")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_that_are_there_are_not_added_again() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(dir.path().to_owned(), Vec::new(), 0);
        std::fs::write(dir.path().join("Pulumi.yaml"), "name: shop\nruntime: yaml\nstackConfigDir: stacks\n").unwrap();
        std::fs::create_dir(dir.path().join("stacks")).unwrap();
        let wanted = ["a".to_owned(), "p/b".to_owned(), "p/b".to_owned()];
        assert_eq!(missing_environments(&workspace, "org/shop/dev", &wanted), ["a", "p/b"]);
        let file = dir.path().join("stacks/Pulumi.dev.yaml");
        std::fs::write(&file, "environment:\n  - a\nconfig: {}\n").unwrap();
        assert_eq!(missing_environments(&workspace, "org/shop/dev", &wanted), ["p/b"]);
        std::fs::write(&file, "environment:\n  imports: [a, p/b]\n").unwrap();
        assert!(missing_environments(&workspace, "dev", &wanted).is_empty());
    }
}
