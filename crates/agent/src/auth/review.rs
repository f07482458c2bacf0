//! What is asked of the API server about a caller, and what its answers mean. Pure: no client, no clock.

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::{Code, Status};

pub(super) const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
pub(super) const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Texts travel in a header of the answer, whose size clients limit.
const LONGEST_TEXT: usize = 1024;

/// The workspace that callers must be allowed to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// What a caller is told who may not call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denial {
    pub(super) code: Code,
    pub(super) text: String,
}

/// What a review came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    Allowed,
    /// The API server says no.
    Denied(Denial),
    /// The API server did not say; to be asked again next time.
    Failed(Denial),
}

/// Why the API server gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ApiError {
    /// We may not ask.
    Forbidden(String),
    Other(String),
}

/// A caller as the API server knows them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct User {
    #[serde(default)]
    username: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    extra: Value,
}

impl User {
    pub(super) fn name(&self) -> &str {
        &self.username
    }
}

impl Denial {
    fn new(code: Code, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if text.len() > LONGEST_TEXT {
            text.truncate(text.floor_char_boundary(LONGEST_TEXT));
            text.push('…');
        }
        Self { code, text }
    }

    fn unauthenticated(text: impl Into<String>) -> Self {
        Self::new(Code::Unauthenticated, text)
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.text)
    }
}

impl From<Denial> for Status {
    fn from(denial: Denial) -> Self {
        Self::new(denial.code, denial.text)
    }
}

/// The token in the `authorization` of a call.
pub(super) fn bearer(authorization: Option<&str>) -> Result<&str, Denial> {
    let none = || Denial::unauthenticated("Request unauthenticated with Bearer");
    let text = authorization.filter(|text| !text.is_empty()).ok_or_else(none)?;
    let (scheme, token) = text.split_once(' ').ok_or_else(|| Denial::unauthenticated("Bad authorization string"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(none());
    }
    // Nobody is behind no token, and the API server need not be asked.
    if token.trim().is_empty() {
        return Err(Denial::unauthenticated("unauthenticated"));
    }
    Ok(token)
}

/// When a token says that it ends, in seconds since 1970. The text is not verified here: it only ever shortens how long
/// the API server's word is believed.
pub(super) fn expiry(token: &str) -> Option<u64> {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice::<Value>(&payload).ok()?.get("exp")?.as_u64()
}

pub(super) fn token_review(token: &str, audiences: &[String]) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": { "token": token, "audiences": audiences },
    })
}

/// Who the caller is, or what the review came to without knowing.
pub(super) fn user(answer: Result<Value, ApiError>, audiences: &[String]) -> Result<User, Finding> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Answer {
        authenticated: bool,
        audiences: Vec<String>,
        error: String,
        user: Option<User>,
    }
    let failed = |text: &str| Finding::Failed(Denial::unauthenticated(text));
    let answer: Answer = status_of(answer).map_err(|error| match error {
        ApiError::Forbidden(_) => failed("TokenReview API is unavailable"),
        ApiError::Other(text) => failed(&text),
    })?;
    let denied = |text: &str| Finding::Denied(Denial::unauthenticated(text));
    // A server that knows nothing of audiences names none; then the token may be meant for anyone.
    if !answer.audiences.iter().any(|audience| audiences.contains(audience)) {
        return Err(denied("unauthenticated"));
    }
    match answer.user {
        Some(user) if answer.authenticated => Ok(user),
        _ if answer.error.is_empty() => Err(denied("unauthenticated")),
        _ => Err(denied(&answer.error)),
    }
}

pub(super) fn access_review(user: &User, place: &Place) -> Value {
    let mut spec = json!({
        "user": user.username,
        "uid": user.uid,
        "groups": user.groups,
        "resourceAttributes": {
            "group": "auto.pulumi.com",
            "version": "v1alpha1",
            "resource": "workspaces",
            "subresource": "rpc",
            "verb": "use",
            "namespace": place.namespace,
            "name": place.name,
        },
    });
    if !user.extra.is_null() {
        spec["extra"] = user.extra.clone();
    }
    json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec })
}

/// Whether the caller may use the workspace.
pub(super) fn access(answer: Result<Value, ApiError>) -> Finding {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Answer {
        allowed: bool,
        denied: bool,
        reason: String,
    }
    match status_of::<Answer>(answer) {
        Ok(answer) if answer.allowed && !answer.denied => Finding::Allowed,
        Ok(answer) => {
            let reason = if answer.reason.is_empty() { "forbidden" } else { &answer.reason };
            Finding::Denied(Denial::new(Code::PermissionDenied, reason))
        }
        Err(ApiError::Forbidden(_)) => {
            Finding::Failed(Denial::unauthenticated("SubjectAccessReview API is unavailable"))
        }
        Err(ApiError::Other(text)) => Finding::Failed(Denial::new(Code::Unknown, text)),
    }
}

fn status_of<T: serde::de::DeserializeOwned>(answer: Result<Value, ApiError>) -> Result<T, ApiError> {
    let status = answer?.get_mut("status").map(Value::take).unwrap_or_default();
    serde_json::from_value(status).map_err(|error| ApiError::Other(format!("the API server\'s answer is odd: {error}")))
}

/// What an administrator does when the agent may not ask for reviews.
pub(super) fn advice(namespace: &str, account: &str) -> String {
    format!(
        "the service account of this pod may not ask who its callers are; allow it with: kubectl create \
         clusterrolebinding {namespace}:{account}:system:auth-delegator --clusterrole=system:auth-delegator \
         --serviceaccount={namespace}:{account}"
    )
}

/// The API server took longer than a caller should wait.
pub(super) fn too_late(limit: Duration) -> Finding {
    let text = format!("the API server did not answer within {} s; try again", limit.as_secs());
    Finding::Failed(Denial::unauthenticated(text))
}

#[cfg(test)]
mod tests;
