//! What the server's refusals mean, and how they are told.

use std::time::Duration;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The object is not the one, or not of the version, that the request was about.
    Conflict,
    /// An object of that name is there already.
    AlreadyExists,
    NotFound,
    /// Nothing can be created in a namespace that is being deleted.
    NamespaceTerminating,
    /// The server does not let us.
    Forbidden,
    /// The server does not take the object.
    Invalid,
    /// No answer, or one that says to come back later.
    Unreachable,
    Other,
}

/// A request that failed: what was tried on which object, and what came of it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{doing} {object}: {why}")]
pub struct Failure {
    pub cause: Cause,
    doing: String,
    object: String,
    why: String,
}

impl Failure {
    pub(super) fn of(doing: &str, at: &(impl ToString + ?Sized), error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::new(Cause::Unreachable, doing, at, innermost(error));
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let terminating = causes.clone().any(|cause| cause.reason == "NamespaceTerminating");
        // How a patch that names the UID of another object is refused.
        let another = causes.clone().any(|cause| cause.field == "metadata.uid");
        let (cause, advice) = match (status.code, status.reason.as_str()) {
            (409, "AlreadyExists") => (Cause::AlreadyExists, ""),
            (409, _) => (Cause::Conflict, ""),
            (404, _) => (Cause::NotFound, ""),
            (403, _) if terminating => (Cause::NamespaceTerminating, ""),
            // Quotas and policies refuse with the same code.
            (401 | 403, _) if status.message.contains(" cannot ") => {
                (Cause::Forbidden, "; compare the operator's ClusterRole with the one it is shipped with")
            }
            (401, _) => (Cause::Forbidden, ""),
            (422, _) if another => (Cause::Conflict, ""),
            (403 | 422, _) => (Cause::Invalid, ""),
            (429 | 500..=599, _) => (Cause::Unreachable, ""),
            _ => (Cause::Other, ""),
        };
        Self::new(cause, doing, at, format!("{}{advice}", without_values(&status.message)))
    }

    /// In words for a condition, if waiting will hardly help.
    pub fn refusal(&self) -> Option<String> {
        let lasting = matches!(self.cause, Cause::Forbidden | Cause::Invalid | Cause::Other);
        lasting.then(|| self.to_string())
    }

    /// Without what was tried.
    pub(crate) fn why(&self) -> &str {
        &self.why
    }

    pub(super) fn late(doing: &str, at: &(impl ToString + ?Sized), limit: Duration) -> Self {
        Self::new(Cause::Unreachable, doing, at, format!("no answer from the API server within {limit:?}"))
    }

    pub(super) fn other(doing: &str, at: &(impl ToString + ?Sized), why: String) -> Self {
        Self::new(Cause::Other, doing, at, why)
    }

    /// A failure that the server knows nothing of.
    pub fn new(cause: Cause, doing: &str, object: &(impl ToString + ?Sized), why: impl Into<String>) -> Self {
        Self { cause, doing: doing.to_owned(), object: object.to_string(), why: why.into() }
    }
}

/// Validation quotes what it refuses, which may be a secret.
fn without_values(message: &str) -> String {
    const QUOTED: &str = " value: \"";
    let mut text = String::new();
    let mut rest = message;
    while let Some(at) = rest.find(QUOTED) {
        let (before, value) = rest.split_at(at + QUOTED.len());
        let mut escaped = false;
        let end = value.find(|c| match (c, escaped) {
            ('"', false) => true,
            (c, was) => {
                escaped = c == '\\' && !was;
                false
            }
        });
        text.push_str(before);
        text.push('…');
        rest = &value[end.unwrap_or(value.len())..];
    }
    text + rest
}

/// Clients wrap an error in others that say less.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::cluster::{At, resources};

    #[rstest]
    #[case::a_stale_version(409, "Conflict", Cause::Conflict)]
    #[case::a_second_creation(409, "AlreadyExists", Cause::AlreadyExists)]
    #[case::nothing_there(404, "NotFound", Cause::NotFound)]
    #[case::refused_by_a_policy(403, "Forbidden", Cause::Invalid)]
    #[case::refused_by_validation(422, "Invalid", Cause::Invalid)]
    #[case::overloaded(503, "ServiceUnavailable", Cause::Unreachable)]
    fn answers_mean(#[case] code: u16, #[case] reason: &str, #[case] cause: Cause) {
        let error = kube::Error::Api(Status::failure("why", reason).with_code(code).boxed());
        let at = At::new(&resources::STACKS, "team", "web");
        let failure = Failure::of("applying", &at, &error);
        assert_eq!(failure.cause, cause);
        assert!(failure.to_string().starts_with("applying Stack team/web: why"), "{failure}");
    }

    #[test]
    fn a_missing_permission_is_told_with_where_to_look() {
        let message = "pods is forbidden: User \"a\" cannot create resource";
        let error = kube::Error::Api(Status::failure(message, "Forbidden").with_code(403).boxed());
        let failure = Failure::of("creating", &At::new(&resources::PODS, "team", "web"), &error);
        assert_eq!(failure.cause, Cause::Forbidden);
        assert!(failure.refusal().unwrap().ends_with("the one it is shipped with"), "{failure}");
    }

    #[rstest]
    #[case(
        "a is invalid: spec.b: Invalid value: \"s3cret\": too long",
        "a is invalid: spec.b: Invalid value: \"…\": too long"
    )]
    #[case(
        "x: Unsupported value: \"a\\\"b\": c, y: Invalid value: \"d",
        "x: Unsupported value: \"…\": c, y: Invalid value: \"…"
    )]
    #[case("nothing quoted", "nothing quoted")]
    fn values_are_left_out(#[case] message: &str, #[case] expected: &str) {
        assert_eq!(without_values(message), expected);
    }

    #[test]
    fn the_uid_of_another_object_is_a_conflict() {
        let status: Status = serde_json::from_value(json!({
            "code": 422,
            "reason": "Invalid",
            "details": {"causes": [{"field": "metadata.uid"}]},
        }))
        .unwrap();
        let at = At::new(&resources::UPDATES, "team", "web-1");
        assert_eq!(Failure::of("applying", &at, &kube::Error::Api(status.boxed())).cause, Cause::Conflict);
    }

    #[test]
    fn a_namespace_that_goes_away_is_not_a_missing_permission() {
        let status: Status = serde_json::from_value(json!({
            "code": 403,
            "reason": "Forbidden",
            "details": {"causes": [{"reason": "NamespaceTerminating"}]},
        }))
        .unwrap();
        let at = At::new(&resources::UPDATES, "team", "web-1");
        assert_eq!(Failure::of("creating", &at, &kube::Error::Api(status.boxed())).cause, Cause::NamespaceTerminating);
    }
}
