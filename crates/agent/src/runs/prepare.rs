//! `init`: making the workspace ready. Everything that can be known to be wrong is found before the CLI is started.

use std::collections::BTreeSet;

use pko_proto::runs::{Init, Phase, Stack};
use pko_pulumi::{Call, Class, ConfigStep, Ended, Summary, Wiring, describe, explain, plan_config};

use super::{
    config_values,
    entry::{Entry, Wish},
    known_secrets::settings,
    operate::interrupted,
    record::{Failure, Reason},
    settings::{SourceSettings, Wanted},
    supervise::supervise,
};
use crate::workspace::{NoVersion, Workspace};

/// Set to `1` or `true`, the CLI is taken for what it is.
const SKIP_VERSION_CHECK: &str = "PULUMI_AUTOMATION_API_SKIP_VERSION_CHECK";

pub(crate) async fn prepare(
    entry: &Entry,
    workspace: &Workspace,
    sources: &SourceSettings,
    init: &Init,
) -> Result<(), Failure> {
    entry.set_phase(Phase::Installing);
    let project = workspace.project().map_err(|e| Failure::new(Reason::InitializationFailed, e.to_string()))?;
    let mut plans = Vec::with_capacity(init.stacks.len());
    for stack in &init.stacks {
        let plan = config(workspace, &project.name, stack)
            .map_err(|message| of_stack(stack, Failure::new(Reason::InitializationFailed, message)))?;
        plans.push(plan);
    }
    let installs = !init.skip_install && project.installs;
    let structured = plans.iter().flatten().any(ConfigStep::is_json);
    let environments = init.stacks.iter().any(|stack| !stack.environment.is_empty());
    check_version(workspace, installs, structured, environments).await?;
    if installs {
        call(entry, workspace, &Call::Install, None, Reason::InstallationFailed).await?;
    }
    entry.set_phase(Phase::Initializing);
    for (stack, plan) in init.stacks.iter().zip(&plans) {
        restore(workspace, sources, stack, plan).map_err(|failure| of_stack(stack, failure))?;
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
    let items = config_values::read(&workspace.cli, &stack.config, &stack.exact)
        .map_err(|(key, bad)| format!("config item {key:?}: {bad}"))?;
    plan_config(project, &items).map_err(|error| error.to_string())
}

/// Whether the CLI is new enough for what it is to do. One whose version nobody understands may well be, unless it is to
/// take structured values.
async fn check_version(
    workspace: &Workspace,
    installs: bool,
    structured: bool,
    environments: bool,
) -> Result<(), Failure> {
    let incompatible = |message: String| Err(Failure::new(Reason::IncompatibleConfiguration, message));
    let version = match workspace.version().await {
        Ok(version) => version,
        Err(_) if !structured => return Ok(()),
        Err(NoVersion::Bad(bad)) => return incompatible(bad.to_string()),
        Err(NoVersion::Cli(text)) => return Err(Failure::new(Reason::InitializationFailed, text)),
    };
    let needs = |what: &str, since: &dyn std::fmt::Display| {
        incompatible(format!("Pulumi CLI version {version} does not support {what}, require >= v{since}"))
    };
    let unchecked = workspace.cli.variable(SKIP_VERSION_CHECK).is_some_and(|value| value == "1" || value == "true");
    if unchecked {
        return Ok(());
    }
    if !version.is_supported() {
        return incompatible(format!("Pulumi CLI version {version} is none that the agent can drive, require 3.x"));
    }
    if structured && !version.has_json_config() {
        return needs("JSON configuration", &pko_pulumi::JSON_CONFIG);
    }
    if installs && !version.has_install() {
        return needs("`pulumi install`", &pko_pulumi::INSTALL);
    }
    if environments && !version.has_environments() {
        return needs("environments", &pko_pulumi::ENVIRONMENTS);
    }
    Ok(())
}

fn restore(workspace: &Workspace, sources: &SourceSettings, stack: &Stack, plan: &[ConfigStep]) -> Result<(), Failure> {
    let wanted = Wanted { stack: &stack.name, config: plan, environments: &stack.environment };
    sources.restore(workspace.cli.directory(), &wanted, &workspace.secrets).map_err(|error| {
        let text = format!("restoring the source's settings of the stack: {error}; is the shared volume full?");
        Failure::new(Reason::InitializationFailed, text)
    })
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
    let directory = workspace.cli.directory();
    for setting in plan {
        if !workspace.secrets.is_set(directory, name, setting) {
            step(&setting.call(name), setting.stdin()).await?;
            workspace.secrets.note(directory, name, setting);
        }
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
    let settings = settings(workspace.cli.directory(), stack);
    let mut known: BTreeSet<&str> = settings.environments().into_iter().collect();
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
    Err(wished(entry).unwrap_or_else(|| {
        // What could not be made ready is the reason; its class says what to do, and whether to try again.
        let failed = explain(call.name(), &ended, &Summary::default(), jiff::Timestamp::now());
        let plugins = [Class::PluginNotFound, Class::PluginDownloadFailed, Class::Killed];
        if matches!(call, Call::Install) && !plugins.contains(&failed.class) {
            // These are mostly the words of a language's own package manager.
            let text = describe(call.name(), std::iter::empty(), &ended);
            return Failure { retryable: true, ..Failure::new(reason, text) };
        }
        let retryable = failed.class.retryable();
        let reason = if failed.class == Class::InvalidAccessToken { Reason::InvalidAccessToken } else { reason };
        Failure { retryable, ..Failure::new(reason, failed.message) }
    }))
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
