//! Answers of the API server, and what becomes of them.

use super::*;

fn audiences() -> Vec<String> {
    vec!["a.ns".to_owned(), "b".to_owned()]
}

fn unauthenticated(text: &str) -> Denial {
    Denial { code: Code::Unauthenticated, text: text.to_owned() }
}

fn answered(status: &Value) -> Value {
    json!({ "kind": "Review", "status": status })
}

#[test]
fn a_token_follows_the_word_bearer_in_any_case() {
    for text in ["Bearer abc", "bearer abc", "BEARER abc"] {
        assert_eq!(bearer(Some(text)), Ok("abc"));
    }
    assert_eq!(bearer(Some("Bearer a b")), Ok("a b"));
}

#[test]
fn calls_without_a_token_are_refused_in_pkos_words() {
    for (header, text) in [
        (None, "Request unauthenticated with Bearer"),
        (Some(""), "Request unauthenticated with Bearer"),
        (Some("basic bWU6"), "Request unauthenticated with Bearer"),
        (Some("Bearer"), "Bad authorization string"),
        (Some("abc"), "Bad authorization string"),
        (Some("Bearer "), "unauthenticated"),
    ] {
        assert_eq!(bearer(header), Err(unauthenticated(text)), "{header:?}");
    }
}

#[test]
fn the_token_review_names_token_and_audiences() {
    let review = token_review("abc", &audiences());
    assert_eq!(review["kind"], "TokenReview");
    assert_eq!(review["spec"], json!({ "token": "abc", "audiences": ["a.ns", "b"] }));
}

#[test]
fn a_caller_is_known_when_the_token_is_good_for_one_of_our_audiences() {
    let user = user(
        Ok(answered(&json!({
            "authenticated": true,
            "audiences": ["b"],
            "user": { "username": "system:serviceaccount:ns:sa", "uid": "1", "groups": ["g"], "extra": { "k": ["v"] } },
        }))),
        &audiences(),
    )
    .unwrap();
    let place = Place { namespace: "ns".to_owned(), name: "a".to_owned() };
    assert_eq!(
        access_review(&user, &place)["spec"],
        json!({
            "user": "system:serviceaccount:ns:sa",
            "uid": "1",
            "groups": ["g"],
            "extra": { "k": ["v"] },
            "resourceAttributes": {
                "group": "auto.pulumi.com", "version": "v1alpha1", "resource": "workspaces", "subresource": "rpc",
                "verb": "use", "namespace": "ns", "name": "a",
            },
        })
    );
}

#[test]
fn a_caller_who_is_not_known_is_denied() {
    let person = json!({ "username": "me" });
    for (reason, status, text) in [
        (
            "the token is for others",
            json!({ "authenticated": true, "audiences": ["c"], "user": person }),
            "unauthenticated",
        ),
        ("the server knows no audiences", json!({ "authenticated": true, "user": person }), "unauthenticated"),
        (
            "the token is unknown",
            json!({ "authenticated": false, "error": "[invalid bearer token]" }),
            "unauthenticated",
        ),
        (
            "the server says why",
            json!({ "audiences": ["b"], "error": "token has been revoked" }),
            "token has been revoked",
        ),
        ("the server does not say why", json!({ "audiences": ["b"] }), "unauthenticated"),
        ("the server names nobody", json!({ "authenticated": true, "audiences": ["b"] }), "unauthenticated"),
        ("nothing is said", json!({}), "unauthenticated"),
    ] {
        assert_eq!(user(Ok(answered(&status)), &audiences()), Err(Finding::Denied(unauthenticated(text))), "{reason}");
    }
}

#[test]
fn what_could_not_be_found_out_is_not_held_against_a_token() {
    let forbidden = || Err(ApiError::Forbidden("cannot create resource".to_owned()));
    let other = || Err(ApiError::Other("connection refused".to_owned()));
    let failed = |text| Finding::Failed(unauthenticated(text));
    assert_eq!(user(forbidden(), &audiences()), Err(failed("TokenReview API is unavailable")));
    assert_eq!(user(other(), &audiences()), Err(failed("connection refused")));
    assert!(matches!(user(Ok(json!([])), &audiences()), Err(Finding::Failed(_))));
    assert_eq!(access(forbidden()), failed("SubjectAccessReview API is unavailable"));
    let unknown = Denial { code: Code::Unknown, text: "connection refused".to_owned() };
    assert_eq!(access(other()), Finding::Failed(unknown));
    assert!(matches!(too_late(Duration::from_secs(30)), Finding::Failed(_)));
}

#[test]
fn access_is_allowed_only_in_so_many_words() {
    let denied = |text: &str| Finding::Denied(Denial { code: Code::PermissionDenied, text: text.to_owned() });
    for (status, finding) in [
        (json!({ "allowed": true }), Finding::Allowed),
        (json!({ "allowed": true, "reason": "RBAC: allowed by x" }), Finding::Allowed),
        (json!({ "allowed": false }), denied("forbidden")),
        (json!({ "allowed": false, "reason": "not today" }), denied("not today")),
        (json!({ "allowed": true, "denied": true }), denied("forbidden")),
        (json!({}), denied("forbidden")),
    ] {
        assert_eq!(access(Ok(answered(&status))), finding, "{status}");
    }
}

#[test]
fn texts_are_kept_short() {
    let Finding::Denied(denial) = access(Ok(answered(&json!({ "reason": "é".repeat(4000) })))) else {
        panic!("expected a denial");
    };
    assert!(denial.text.len() <= LONGEST_TEXT + '…'.len_utf8(), "{}", denial.text.len());
}

#[test]
fn a_token_says_when_it_ends() {
    let token = |payload: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(payload));
    assert_eq!(expiry(&token(r#"{"exp":1700000000}"#)), Some(1_700_000_000));
    for other in [token("{}"), token("no json"), token(r#"{"exp":"soon"}"#), "abc".to_owned(), "a.*.c".to_owned()] {
        assert_eq!(expiry(&other), None, "{other}");
    }
}
