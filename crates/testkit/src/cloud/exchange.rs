//! Access tokens in exchange for identity tokens (RFC 8693).

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{
    ORGANIZATION,
    request::{Answer, Asked, Problem},
    state::State,
};

/// An exchange that was asked for, granted or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub audience: String,
    pub token_type: String,
    pub scope: String,
    pub expiration: String,
    /// Whom the identity token is about.
    pub subject: String,
    pub granted: bool,
}

/// An identity token with these claims, as a cluster would issue it but for the signature.
pub fn identity_token(subject: &str, audience: &str) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({"iss": "https://cluster.example", "sub": subject, "aud": [audience]});
    format!("{}.{}.{}", part(json!({"alg": "RS256"})), part(claims), URL_SAFE_NO_PAD.encode("signature"))
}

pub(super) fn exchange(state: &mut State, asked: &Asked) -> Answer {
    let form = asked.form();
    let field = |name: &str| form.get(name).cloned().unwrap_or_default();
    let claims = claims(&field("subject_token"));
    let subject = claims["sub"].as_str().unwrap_or_default().to_owned();
    let audience = field("audience");
    let audiences = claims["aud"].as_array().cloned().unwrap_or_default();
    let refusal = if field("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange" {
        Some(("unsupported_grant_type", "the grant type is not token-exchange"))
    } else if field("subject_token_type") != "urn:ietf:params:oauth:token-type:id_token" || subject.is_empty() {
        Some(("invalid_request", "the subject token is no identity token"))
    } else if audience != format!("urn:pulumi:org:{ORGANIZATION}") {
        Some(("invalid_request", "the organization has no such issuer"))
    } else if !audiences.iter().any(|a| *a == audience) {
        Some(("invalid_grant", "the token is meant for another audience"))
    } else if state.refused_subjects.contains(&subject) {
        Some(("access_denied", "no policy of the issuer allows this subject"))
    } else {
        None
    };
    let token_type = field("requested_token_type");
    state.exchanges.push(Exchange {
        audience,
        token_type: token_type.clone(),
        scope: field("scope"),
        expiration: field("expiration"),
        subject,
        granted: refusal.is_none(),
    });
    if let Some((error, description)) = refusal {
        let code = if error == "access_denied" { 403 } else { 400 };
        return Err(Problem { code, body: json!({"error": error, "error_description": description}) });
    }
    let token = format!("pul-exchanged-{:030}", state.next());
    state.tokens.push(token.clone());
    Ok(json!({
        "access_token": token,
        "issued_token_type": token_type,
        "token_type": "token",
        "expires_in": state.token_life.as_secs(),
        "scope": field("scope"),
    }))
}

fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    payload.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}
