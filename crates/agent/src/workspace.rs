//! What every run and every call of the agent shares: the project's directory, the CLI in it, and its version.

use std::{path::PathBuf, sync::Mutex, sync::PoisonError};

use pko_pulumi::{BadVersion, Call, Cli, Kind, NoProject, Operation, Options, Project, Version, describe};

use crate::{
    login::{Login, NoToken},
    runs::known_secrets::KnownSecrets,
};

/// Who runs the CLI, as Pulumi's history shows it.
const AGENT: &str = concat!("pulumi-kubernetes-operator/v", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) cli: Cli,
    pub(crate) secrets: KnownSecrets,
    log_level: u32,
    version: Mutex<Option<String>>,
    login: Login,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoVersion {
    #[error("{0}")]
    Cli(String),
    #[error(transparent)]
    Bad(#[from] BadVersion),
}

impl Workspace {
    /// `env` is for the CLI, beyond the agent's own variables.
    pub(crate) fn new(directory: PathBuf, env: Vec<(String, String)>, log_level: u32) -> Self {
        Self {
            cli: Cli::new(directory, env),
            secrets: KnownSecrets::default(),
            log_level,
            version: Mutex::new(None),
            login: Login::default(),
        }
    }

    /// Before anything that needs the backend: sees to an access token, if that is up to the agent.
    pub(crate) async fn log_in(&self) -> Result<(), NoToken> {
        self.login.renew(&self.cli, || self.project().ok()?.backend).await
    }

    /// The backend did not take the access token.
    pub(crate) async fn log_out(&self) {
        self.login.forget().await;
    }

    pub(crate) fn project(&self) -> Result<Project, NoProject> {
        Project::load(self.cli.directory())
    }

    /// What the CLI calls its version. It is asked once.
    pub(crate) async fn version(&self) -> Result<Version, NoVersion> {
        if let Some(known) = self.known_version() {
            return Ok(Version::parse(&known)?);
        }
        let ended = self.cli.run(&Call::Version, None).await.map_err(|e| NoVersion::Cli(e.to_string()))?;
        if !ended.succeeded() {
            return Err(NoVersion::Cli(describe("pulumi version", std::iter::empty(), &ended)));
        }
        let printed = ended.stdout.trim().to_owned();
        tracing::info!(version = printed, "found the Pulumi CLI");
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = Some(printed.clone());
        Ok(Version::parse(&printed)?)
    }

    fn known_version(&self) -> Option<String> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Without a leading v; nothing if the CLI has not answered yet.
    pub(crate) fn version_if_known(&self) -> Option<String> {
        self.known_version().map(|v| v.trim_start_matches('v').to_owned())
    }

    pub(crate) fn operation(&self, kind: Kind, stack: String, options: Options, event_log: PathBuf) -> Operation {
        Operation { kind, stack, options, event_log, log_level: self.log_level, agent: AGENT.to_owned() }
    }
}
