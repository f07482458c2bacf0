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

use super::{
    LOOPBACK,
    server::{Handler, Server},
};

/// Where GitHub Enterprise has its API.
pub(super) const API: &str = "/api/v3";

/// An app with one installation.
#[derive(Debug, Clone)]
pub struct App {
    pub id: String,
    pub installation: String,
    /// PKCS#1, DER.
    pub public_key: Vec<u8>,
    /// What the installation is given.
    pub token: String,
}

#[derive(Debug, Default)]
struct State {
    requests: usize,
    faults: VecDeque<u16>,
}

/// The page of the API, for whichever server has it.
#[derive(Debug)]
pub(super) struct AppsApi {
    app: App,
    state: Mutex<State>,
}

impl AppsApi {
    pub(super) fn new(app: App) -> Self {
        Self { app, state: Mutex::new(State::default()) }
    }

    /// An answer, or none at all.
    pub(super) fn answer(&self, request: &Request<Bytes>) -> Option<Response<Vec<u8>>> {
        let fault = {
            let mut state = self.state.lock().unwrap();
            state.requests += 1;
            state.faults.pop_front()
        };
        let (status, body) = match fault {
            Some(0) => return None,
            Some(status) => (status, json!({"message": "not now"})),
            None => match refusal(request, &self.app) {
                None => (201, json!({"token": self.app.token, "expires_at": "2030-01-01T00:00:00Z"})),
                Some(why) => (401, json!({"message": why})),
            },
        };
        Some(Response::builder().status(status).body(body.to_string().into_bytes()).unwrap())
    }
}

/// A server with this page alone.
pub struct GitHub {
    server: Server,
    api: Arc<AppsApi>,
}

impl std::fmt::Debug for GitHub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GitHub").field("url", &self.server.url()).finish_non_exhaustive()
    }
}

impl GitHub {
    /// One that knows one app with one installation, by the app's public key (PKCS#1, DER).
    pub fn start(app: &str, installation: &str, public_key: Vec<u8>, token: &str) -> Self {
        let app =
            App { id: app.to_owned(), installation: installation.to_owned(), public_key, token: token.to_owned() };
        let api = Arc::new(AppsApi::new(app));
        let shared = Arc::clone(&api);
        let handler: Handler = Arc::new(move |request| shared.answer(&request));
        Self { server: Server::start(LOOPBACK, None, handler), api }
    }

    pub fn api(&self) -> String {
        format!("{}{API}", self.server.url())
    }

    /// The statuses of the next answers; zero is no answer.
    pub fn fail_next(&self, statuses: impl IntoIterator<Item = u16>) {
        self.api.state.lock().unwrap().faults.extend(statuses);
    }

    pub fn requests(&self) -> usize {
        self.api.state.lock().unwrap().requests
    }
}

/// Why a request gets no token.
fn refusal(request: &Request<Bytes>, app: &App) -> Option<String> {
    let path = format!("{API}/app/installations/{}/access_tokens", app.installation);
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
    let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &app.public_key);
    if key.verify(signed.as_bytes(), &decode(signature)).is_err() {
        return Some("wrong: the signature".to_owned());
    }
    let json = |part: &str| serde_json::from_slice::<Value>(&decode(part)).unwrap_or_default();
    let (head, claims) = (json(head), json(claims));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let time = |name: &str| claims[name].as_u64().unwrap_or(0);
    let right = head == json!({"alg": "RS256", "typ": "JWT"})
        && claims["iss"] == app.id
        && (now - 90..=now).contains(&time("iat"))
        && (now..=now + 600).contains(&time("exp"));
    (!right).then(|| format!("wrong: {head} {claims}"))
}
