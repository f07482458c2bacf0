//! Git repositories: one way for all schemes, from an address and credentials to a commit's files. No program is started,
//! no submodule and no large file is followed, and no error repeats a secret.

mod checkout;
mod credentials;
mod error;
mod github_app;
mod http;
mod persistence;
mod revision;
mod secret;
mod ssh;
mod transport;
mod url;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

pub use self::{
    credentials::Credentials,
    error::GitError,
    github_app::AppToken,
    ssh::KnownHosts,
    transport::Patience,
    url::{GitUrl, UrlError},
};
use self::{persistence::persistently, revision::Revision, transport::Dialer};
use crate::staging::Staging;

/// With what, and how patiently, repositories are read.
#[derive(Debug, Clone, Default)]
pub struct Access {
    pub credentials: Credentials,
    pub known_hosts: KnownHosts,
    pub patience: Patience,
    /// Used in the place of one that GitHub would make.
    app_token: Option<AppToken>,
}

impl Access {
    /// From variables as the init container has them.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, GitError> {
        Ok(Self {
            credentials: Credentials::from_variables(&variable)?,
            known_hosts: KnownHosts::from_variables(&variable),
            patience: Patience::default(),
            app_token: None,
        })
    }

    /// What tells GitHub Apps apart, if the address is read with the token of one.
    pub fn app(&self, url: &GitUrl) -> Result<Option<[u8; 32]>, GitError> {
        self.used_app(url).map(|app| github_app::identity(app, url)).transpose()
    }

    /// A new token of the GitHub App that the address is read with, if it is.
    pub async fn new_app_token(&self, url: &GitUrl) -> Result<Option<AppToken>, GitError> {
        match self.used_app(url) {
            Some(app) => Ok(Some(github_app::token(app, url, &self.patience).await?)),
            None => Ok(None),
        }
    }

    /// With a token of the GitHub App that was made before.
    #[must_use]
    pub fn with_app_token(mut self, token: AppToken) -> Self {
        self.app_token = Some(token);
        self
    }

    fn used_app(&self, url: &GitUrl) -> Option<&credentials::App> {
        self.credentials.app.as_ref().filter(|_| !url.is_ssh())
    }

    async fn dialer(&self, url: &GitUrl) -> Result<Dialer, GitError> {
        let app_token = match &self.app_token {
            Some(token) if self.used_app(url).is_some() => Some(token.clone()),
            _ => self.new_app_token(url).await?,
        };
        Ok(Dialer {
            url: url.clone(),
            login: self.credentials.login(url, app_token.map(|token| token.secret)),
            credentials: self.credentials.clone(),
            known_hosts: self.known_hosts.clone(),
            patience: self.patience.clone(),
        })
    }
}

/// How much history comes with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    Full,
    /// That commit alone, if the server gives it so.
    One,
}

/// The commit that is named by all its digits.
pub fn commit(reference: &str) -> Option<String> {
    match Revision::parse(reference) {
        Revision::Commit(commit) => Some(commit.to_string()),
        _ => None,
    }
}

/// The commit that a branch, a tag or a ref is at; nothing means the default branch. All digits of a commit mean that
/// commit, and nobody is asked whether it exists.
pub async fn resolve(url: &GitUrl, access: &Access, reference: &str) -> Result<String, GitError> {
    let revision = Revision::parse(reference);
    if let Revision::Commit(commit) = revision {
        return Ok(commit.to_string());
    }
    let dialer = access.dialer(url).await?;
    let wanted = persistently(&access.patience.waits, || {
        let (dialer, revision) = (dialer.clone(), revision.clone());
        blocking(move |_| revision.find(&dialer))
    });
    Ok(wanted.await?.commit.to_string())
}

/// Puts the files of a revision at `target`, replacing what is there, and says which commit that is. Until all of them
/// are there, `target` stays as it was. Nothing is done when it holds that commit of that repository already.
pub async fn fetch(
    url: &GitUrl,
    access: &Access,
    revision: &str,
    depth: Depth,
    target: &Path,
) -> Result<String, GitError> {
    let revision = Revision::parse(revision);
    let there = checkout::present(target, url);
    if let (Revision::Commit(commit), Some(there)) = (&revision, there)
        && *commit == there
    {
        return Ok(there.to_string());
    }
    let dialer = access.dialer(url).await?;
    let commit = persistently(&access.patience.waits, || {
        let (dialer, revision, target) = (dialer.clone(), revision.clone(), target.to_owned());
        blocking(move |stop| {
            let wanted = revision.find(&dialer)?;
            if there != Some(wanted.commit) {
                let staging = Staging::beside(&target)?;
                checkout::fill(staging.path(), &dialer, &wanted, depth == Depth::One, stop)?;
                staging.put_in_place()?;
            }
            Ok(wanted.commit)
        })
    });
    Ok(commit.await?.to_string())
}

/// Runs blocking work on a thread of the runtime, and tells it to stop when nobody waits for it any more.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&AtomicBool) -> Result<T, GitError> + Send + 'static,
) -> Result<T, GitError> {
    struct StopOnDrop(Arc<AtomicBool>);
    impl Drop for StopOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let _guard = StopOnDrop(Arc::clone(&stop));
    tokio::task::spawn_blocking(move || work(&stop)).await.map_err(|_| GitError::Stopped)?
}
