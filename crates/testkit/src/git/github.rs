//! The page of GitHub's API that gives an app the token of an installation, to whoever signs as that app does.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, prelude::*};
use hyper::{Request, Response, body::Bytes};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::{Value, json};

use super::server::{Handler, Server};

#[derive(Debug, Default)]
struct State {
    requests: usize,
    faults: VecDeque<u16>,
}

pub struct GitHub {
    server: Server,
    state: Arc<Mutex<State>>,
}

impl std::fmt::Debug for GitHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GitHub").field("url", &self.server.url()).finish_non_exhaustive()
    }
}

impl GitHub {
    /// One that knows one app with one installation, by the app's public key (PKCS#1, DER).
    pub fn start(app: &str, installation: &str, public_key: Vec<u8>, token: &str) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let (app, token) = (app.to_owned(), token.to_owned());
        let path = format!("/api/v3/app/installations/{installation}/access_tokens");
        let handler: Handler = Arc::new(move |request| {
            let fault = {
                let mut state = shared.lock().unwrap();
                state.requests += 1;
                state.faults.pop_front()
            };
            let (status, body) = match fault {
                // No answer at all.
                Some(0) => return None,
                Some(status) => (status, json!({"message": "not now"})),
                None => match refusal(&request, &path, &app, &public_key) {
                    None => (201, json!({"token": token, "expires_at": "2030-01-01T00:00:00Z"})),
                    Some(why) => (401, json!({"message": why})),
                },
            };
            Some(Response::builder().status(status).body(body.to_string().into_bytes()).unwrap())
        });
        Self { server: Server::start(false, handler), state }
    }

    pub fn api(&self) -> String {
        format!("{}/api/v3", self.server.url())
    }

    /// The statuses of the next answers; zero is no answer.
    pub fn fail_next(&self, statuses: impl IntoIterator<Item = u16>) {
        self.state.lock().unwrap().faults.extend(statuses);
    }

    pub fn requests(&self) -> usize {
        self.state.lock().unwrap().requests
    }
}

/// Why a request gets no token.
fn refusal(request: &Request<Bytes>, path: &str, app: &str, public_key: &[u8]) -> Option<String> {
    let header = |name: &str| request.headers().get(name).map_or("", |v| v.to_str().unwrap());
    let checks = [
        ("the method", request.method() == "POST"),
        ("the path", request.uri().path() == path),
        ("the body", request.body().is_empty()),
        ("accept", header("accept") == "application/vnd.github+json"),
        ("the version", header("x-github-api-version") == "2022-11-28"),
    ];
    if let Some((what, _)) = checks.iter().find(|(_, right)| !right) {
        return Some(format!("wrong: {what}"));
    }
    let jwt = header("authorization").strip_prefix("Bearer ").unwrap_or("");
    let parts: Vec<&str> = jwt.split('.').collect();
    let [head, claims, signature] = parts[..] else { return Some("no JWT".to_owned()) };
    let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).unwrap_or_default();
    let signed = format!("{head}.{claims}");
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public_key);
    if key.verify(signed.as_bytes(), &decode(signature)).is_err() {
        return Some("wrong: the signature".to_owned());
    }
    let json = |part: &str| serde_json::from_slice::<Value>(&decode(part)).unwrap_or_default();
    let (head, claims) = (json(head), json(claims));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let time = |name: &str| claims[name].as_u64().unwrap_or(0);
    let right = head == json!({"alg": "RS256", "typ": "JWT"})
        && claims["iss"] == app
        && (now - 90..=now).contains(&time("iat"))
        && (now..=now + 600).contains(&time("exp"));
    (!right).then(|| format!("wrong: {head} {claims}"))
}
