//! Who someone is, and what the service says of itself.

use serde_json::{Value, json};

use super::{
    ORGANIZATION,
    request::{Asked, Problem},
    state::State,
};

/// Whether the request carries an access token that is taken.
pub(super) fn check(state: &State, asked: &Asked) -> Result<(), Problem> {
    let given = asked.authorization.strip_prefix("token ");
    if given.is_some_and(|given| state.tokens.iter().any(|token| token == given)) {
        return Ok(());
    }
    Err(Problem::new(401, "Unauthorized: No credentials provided or are invalid."))
}

/// Neither deltas of checkpoints nor journals: states arrive whole.
pub(super) fn capabilities() -> Value {
    json!({"capabilities": [{"capability": "batch-encrypt"}]})
}

pub(super) fn cli_version() -> Value {
    json!({"latestVersion": "3.0.0", "oldestWithoutWarning": "3.0.0", "latestDevVersion": ""})
}

pub(super) fn user() -> Value {
    let who = |name: &str| json!({"githubLogin": name, "name": name, "avatarUrl": ""});
    json!({
        "id": "1",
        "githubLogin": "robot",
        "name": "robot",
        "email": "",
        "avatarUrl": "",
        "identities": [],
        "organizations": [who("robot"), who(ORGANIZATION)],
        "tokenInfo": {"name": "test", "organization": ORGANIZATION},
    })
}

pub(super) fn default_organization() -> Value {
    json!({"gitHubLogin": ORGANIZATION, "messages": []})
}
