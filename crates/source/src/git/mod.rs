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
}

impl Access {
    /// From variables as the init container has them.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, GitError> {
        Ok(Self {
            credentials: Credentials::from_variables(&variable)?,
            known_hosts: KnownHosts::from_variables(&variable),
            patience: Patience::default(),
        })
    }

    async fn dialer(&self, url: &GitUrl) -> Result<Dialer, GitError> {
        let app_token = match &self.credentials.app {
            Some(app) if !url.is_ssh() => Some(github_app::token(app, url, &self.patience).await?),
            _ => None,
        };
        Ok(Dialer {
            url: url.clone(),
            login: self.credentials.login(url, app_token),
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
