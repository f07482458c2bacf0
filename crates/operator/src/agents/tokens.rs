//! Tokens of the operator's own account, one per Workspace and good for that one only.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::TokenRequest;
use pko_api::names;
use serde_json::json;
use tracing::debug;

use crate::cluster::{At, Cause, Cluster, Failure, resources};

/// A token with less than this left is replaced.
const ENOUGH: Duration = Duration::from_mins(5);
/// A token that was not used for so long is dropped.
const UNUSED: Duration = Duration::from_hours(2);

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub namespace: String,
    pub name: String,
}

#[derive(Debug)]
pub(super) struct Tokens {
    cluster: Cluster,
    account: Account,
    kept: Mutex<HashMap<String, Token>>,
}

struct Token {
    text: String,
    expires: Timestamp,
    used: Instant,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Token").field("expires", &self.expires).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(super) fn new(cluster: Cluster, account: Account) -> Self {
        Self { cluster, account, kept: Mutex::default() }
    }

    /// A token for the agent of a Workspace.
    pub(super) async fn of(&self, workspace: &str, namespace: &str) -> Result<String, Failure> {
        let audience = names::token_audience(workspace, namespace);
        let now = Timestamp::now();
        let kept = self.kept(&audience);
        if let Some((text, expires)) = &kept
            && left(*expires, now) > ENOUGH
        {
            return Ok(text.clone());
        }
        match self.fetch(&audience).await {
            Ok((text, expires)) => {
                let token = Token { text: text.clone(), expires, used: Instant::now() };
                self.kept.lock().unwrap_or_else(PoisonError::into_inner).insert(audience, token);
                Ok(text)
            }
            Err(failure) => match kept.filter(|(_, expires)| !left(*expires, now).is_zero()) {
                Some((text, _)) => {
                    debug!("an older token is used: {failure}");
                    Ok(text)
                }
                None => Err(failure),
            },
        }
    }

    /// An agent does not accept the token.
    pub(super) fn forget(&self, workspace: &str, namespace: &str) {
        let audience = names::token_audience(workspace, namespace);
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(&audience);
    }

    pub(super) fn tidy(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now();
        kept.retain(|_, token| token.used.elapsed() < UNUSED && !left(token.expires, now).is_zero());
    }

    fn kept(&self, audience: &str) -> Option<(String, Timestamp)> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let token = kept.get_mut(audience)?;
        token.used = Instant::now();
        Some((token.text.clone(), token.expires))
    }

    async fn fetch(&self, audience: &str) -> Result<(String, Timestamp), Failure> {
        let Account { namespace, name } = &self.account;
        let at = At::new(&resources::SERVICE_ACCOUNTS, namespace, name);
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [audience]},
        });
        let answer: TokenRequest = self.cluster.post(&at, &format!("{}/token", at.path()), &body).await?;
        let status = answer.status.ok_or_else(|| {
            Failure::new(Cause::Other, "creating", &format!("a token of {at}"), "the answer is empty")
        })?;
        Ok((status.token, status.expiration_timestamp.0))
    }
}

fn left(expires: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(expires.duration_since(now)).unwrap_or_default()
}
