//! Which commit a ref of a repository is at, as the operator finds it out: with a Stack's credentials, in limited time,
//! and once for all who want to know it.

use std::{fmt, sync::Arc, time::Duration};

use pko_api::messages::git as message;
use pko_core::{
    ask::{GitTrouble, Listing},
    seen::Key,
};
use pko_source::git::{self, Access, GitError, GitUrl};
use tokio::sync::Semaphore;
use tracing::debug;

use super::{
    credentials::{self, Missing, Secrets},
    known_hosts::KnownHosts,
    listings::{Listings, Outcome, Subject},
    tokens::Tokens,
};
use crate::{cluster::Failure, queue::Queue};

/// For a whole look, also at GitHub's API.
const LONGEST: Duration = Duration::from_secs(30);
/// Looks at a time.
const MOST: usize = 8;
/// A token that was made longer ago may have been revoked meanwhile.
const SURELY_GOOD: Duration = Duration::from_mins(1);

/// Looks at repositories.
pub struct Git {
    listings: Listings,
    tokens: Tokens,
    places: Semaphore,
    known_hosts: Arc<KnownHosts>,
    github_api: Option<String>,
}

impl fmt::Debug for Git {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Git").field("listings", &self.listings).finish_non_exhaustive()
    }
}

impl Git {
    /// Wakes through that queue. GitHub's API is where the repositories' hosts let expect it, unless it is named.
    pub fn new(queue: Arc<Queue>, known_hosts: Arc<KnownHosts>, github_api: Option<String>) -> Self {
        let (listings, tokens) = (Listings::new(queue), Tokens::default());
        Self { listings, tokens, places: Semaphore::new(MOST), known_hosts, github_api }
    }

    /// The commit that a ref is at, for a Stack.
    pub async fn revision(
        &self,
        secrets: &impl Secrets,
        asker: &Key,
        listing: &Listing,
    ) -> Result<Result<String, GitTrouble>, Failure> {
        let url = match GitUrl::parse(&listing.url) {
            Ok(url) => url,
            Err(error) => return Ok(Err(GitTrouble::Address(error.to_string()))),
        };
        let given = match credentials::resolve(secrets, &asker.namespace, listing.auth.as_ref()).await {
            Ok(given) if url.is_ssh() => given.and_known_hosts(self.known_hosts.lines()),
            Ok(given) => given,
            Err(Missing::Credential(why)) => return Ok(Err(GitTrouble::Credentials(why))),
            Err(Missing::Unread(failure)) => return Err(failure),
        };
        let access = match given.access(self.github_api.as_deref()) {
            Ok(access) => access,
            Err(error) => return Ok(Err(told(error))),
        };
        if let Some(commit) = git::commit(&listing.reference) {
            return Ok(Ok(commit));
        }
        let subject =
            Subject { url: listing.url.clone(), reference: listing.reference.clone(), credentials: given.digest() };
        // It is large, and often not needed.
        let work = async { Box::pin(self.look(&url, &access, &listing.reference)).await };
        Ok(self.listings.get(subject, asker, listing.max_age, work).await)
    }

    /// Forgets what nobody asks for any more.
    pub fn tidy(&self) {
        self.listings.tidy();
        self.tokens.tidy();
    }

    async fn look(&self, url: &GitUrl, access: &Access, reference: &str) -> Outcome {
        let _place = self.places.acquire().await;
        let outcome = tokio::time::timeout(LONGEST, self.list(url, access, reference)).await;
        let outcome = outcome.unwrap_or_else(|_| {
            Err(GitTrouble::Unavailable(format!("{url} cannot be reached: no answer within {LONGEST:?}")))
        });
        debug!(%url, reference, commit = outcome.as_deref().unwrap_or("unknown"), "looked at a repository");
        outcome
    }

    async fn list(&self, url: &GitUrl, access: &Access, reference: &str) -> Outcome {
        match self.list_with(url, access, reference, Duration::MAX).await? {
            Err(GitError::Refused { .. }) if access.app(url).is_ok_and(|app| app.is_some()) => {
                self.list_with(url, access, reference, SURELY_GOOD).await?.map_err(told)
            }
            other => other.map_err(told),
        }
    }

    /// With a token of the app that is no older than that, if it is read with one.
    async fn list_with(
        &self,
        url: &GitUrl,
        access: &Access,
        reference: &str,
        max_age: Duration,
    ) -> Result<Result<String, GitError>, GitTrouble> {
        let token = self.tokens.get(access, url, max_age).await.map_err(|error| of_app(&error))?;
        let access = match token {
            Some(token) => access.clone().with_app_token(token),
            None => access.clone(),
        };
        Ok(git::resolve(url, &access, reference).await)
    }
}

/// A failed look.
fn told(error: GitError) -> GitTrouble {
    match error {
        GitError::Address(error) => GitTrouble::Address(error.to_string()),
        GitError::Credentials(why) => GitTrouble::Credentials(message::auth_method(why)),
        GitError::NoRevision { hint, .. } => GitTrouble::NoRevision(hint),
        other => GitTrouble::Unavailable(other.to_string()),
    }
}

/// GitHub made no token.
fn of_app(error: &GitError) -> GitTrouble {
    match error {
        GitError::Credentials(why) | GitError::Refused { reason: why, .. } => {
            GitTrouble::Credentials(message::installation_token(why))
        }
        GitError::Failed { reason, .. } => GitTrouble::Unavailable(message::installation_token(reason)),
        other => GitTrouble::Unavailable(message::installation_token(other)),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn refused(reason: &str) -> GitError {
        GitError::Refused { repository: "https://git.test/a".to_owned(), reason: reason.to_owned() }
    }

    fn unreachable(reason: &str) -> GitError {
        GitError::Unreachable { repository: "https://git.test/a".to_owned(), reason: reason.to_owned() }
    }

    #[rstest]
    #[case::a_key_that_is_none(
        GitError::Credentials("no key".to_owned()),
        GitTrouble::Credentials("getting auth method: no key".to_owned())
    )]
    #[case::no_such_branch(
        GitError::NoRevision { repository: "r".to_owned(), revision: "b".to_owned(), hint: "it has main".to_owned() },
        GitTrouble::NoRevision("it has main".to_owned())
    )]
    #[case::refused(
        refused("401"), GitTrouble::Unavailable("https://git.test/a cannot be read: 401".to_owned())
    )]
    #[case::an_unknown_host(
        GitError::HostKey("not known".to_owned()), GitTrouble::Unavailable("not known".to_owned())
    )]
    fn a_failed_look_is_told(#[case] error: GitError, #[case] expected: GitTrouble) {
        assert_eq!(told(error), expected);
    }

    #[rstest]
    #[case::no_pem(
        GitError::Credentials("no PEM".to_owned()),
        GitTrouble::Credentials("getting GitHub App installation token: no PEM".to_owned())
    )]
    #[case::unknown(
        refused("GitHub API returned status 404: x"),
        GitTrouble::Credentials(
            "getting GitHub App installation token: GitHub API returned status 404: x".to_owned()
        )
    )]
    #[case::away(
        unreachable("503"),
        GitTrouble::Unavailable(
            "getting GitHub App installation token: https://git.test/a cannot be reached: 503".to_owned()
        )
    )]
    fn an_app_without_a_token_is_told(#[case] error: GitError, #[case] expected: GitTrouble) {
        assert_eq!(of_app(&error), expected);
    }
}
