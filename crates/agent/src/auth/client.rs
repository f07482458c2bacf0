//! A client of the API server that can do one thing: create a review and read its answer.

use std::time::Duration;

use anyhow::{Context, Result};
use pko_source::http;
use reqwest::{Certificate, Identity, StatusCode, header, redirect};
use serde_json::Value;

use super::{
    connection::{Connection, Token},
    review::ApiError,
};

/// One try.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What is waited before each further try, as PKO has it.
const WAITS: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_millis(750), Duration::from_millis(1125), Duration::from_millis(1688)];

pub(super) struct Client {
    http: reqwest::Client,
    server: String,
    token: Option<Token>,
    waits: Vec<Duration>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("server", &self.server).finish_non_exhaustive()
    }
}

/// A try that failed, and whether another one may not.
struct Failure {
    error: ApiError,
    transient: bool,
}

impl Client {
    pub(super) fn new(connection: Connection) -> Result<Self> {
        // The API server is reached directly, whatever proxy the program in this pod uses, and its word alone counts:
        // our token follows no redirect.
        let mut builder =
            http::builder().no_proxy().redirect(redirect::Policy::none()).timeout(TIMEOUT).pool_max_idle_per_host(1);
        if let Some(authority) = &connection.authority {
            let certificates = Certificate::from_pem_bundle(authority)
                .map_err(http::reason)
                .map_err(anyhow::Error::msg)
                .context("reading the certificates of the API server's CA")?;
            builder = builder.tls_certs_only(certificates);
        } else if connection.server.starts_with("http://") {
            builder = builder.tls_certs_only([]);
        }
        if let Some(identity) = &connection.identity {
            let identity = Identity::from_pem(identity)
                .map_err(http::reason)
                .map_err(anyhow::Error::msg)
                .context("reading the client certificate and its key")?;
            builder = builder.identity(identity);
        }
        let http = builder
            .build()
            .map_err(http::reason)
            .map_err(anyhow::Error::msg)
            .context("unable to initialize the Kubernetes authorizer")?;
        Ok(Self { http, server: connection.server, token: connection.token, waits: WAITS.to_vec() })
    }

    /// Creates an object and returns it as the server completed it.
    pub(super) async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let mut waits = self.waits.iter();
        loop {
            let failure = match self.attempt(path, object).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let Some(wait) = waits.next().filter(|_| failure.transient) else { return Err(failure.error) };
            tokio::time::sleep(*wait).await;
        }
    }

    async fn attempt(&self, path: &str, object: &Value) -> Result<Value, Failure> {
        let failed = |transient: bool, text: String| Failure {
            error: ApiError::Other(format!("asking the API server at {}{path}: {text}", self.server)),
            transient,
        };
        let mut request = self
            .http
            .post(format!("{}{path}", self.server))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(object.to_string());
        if let Some(token) = &self.token {
            let token = token.read().map_err(|error| failed(false, format!("{error:#}")))?;
            request = request.bearer_auth(token);
        }
        let unreachable = |error| failed(true, http::reason(error));
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = response.bytes().await.map_err(unreachable)?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return Ok(answer);
        }
        let told = answer["message"].as_str().unwrap_or("no reason given");
        if status == StatusCode::FORBIDDEN {
            return Err(Failure { error: ApiError::Forbidden(told.to_owned()), transient: false });
        }
        Err(failed(http::is_transient(status), format!("{status}: {told}")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// An API server that gives one answer after another, and what it was asked.
    async fn server(answers: Vec<(&'static str, Value)>) -> (Client, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            for (status, body) in answers {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut request = String::new();
                while !request.ends_with('}') {
                    let mut bytes = [0; 4096];
                    let read = connection.read(&mut bytes).await.unwrap();
                    request.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
                }
                seen.lock().unwrap().push(request);
                let body = body.to_string();
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                connection.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        let token = Some(Token::Text("sesame".to_owned()));
        let mut client = Client::new(Connection { server, authority: None, token, identity: None }).unwrap();
        client.waits = vec![Duration::ZERO; 4];
        (client, requests)
    }

    #[tokio::test]
    async fn a_review_is_posted_with_our_token_and_its_answer_returned() {
        let (client, requests) = server(vec![("201 Created", json!({ "status": { "allowed": true } }))]).await;
        let answer = client.create("/apis/x", &json!({ "kind": "Review" })).await.unwrap();
        assert_eq!(answer["status"]["allowed"], true);
        let request = requests.lock().unwrap()[0].clone();
        assert!(request.starts_with("POST /apis/x HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: Bearer sesame\r\n"), "{request}");
        assert!(request.ends_with(r#"{"kind":"Review"}"#), "{request}");
    }

    #[tokio::test]
    async fn an_api_server_that_is_busy_is_asked_again() {
        let busy = ("429 Too Many Requests", json!({}));
        let (client, requests) = server(vec![
            busy.clone(),
            ("500 Internal Server Error", json!({})),
            busy,
            ("201 Created", json!({ "a": 1 })),
        ])
        .await;
        assert_eq!(client.create("/apis/x", &json!({})).await.unwrap(), json!({ "a": 1 }));
        assert_eq!(requests.lock().unwrap().len(), 4);
    }

    #[tokio::test]
    async fn refusals_are_not_repeated_and_no_token_is_told() {
        let message = json!({ "kind": "Status", "message": "tokenreviews is forbidden" });
        let (client, requests) =
            server(vec![("403 Forbidden", message), ("401 Unauthorized", json!({ "message": "Unauthorized" }))]).await;
        let error = client.create("/apis/x", &json!({})).await.unwrap_err();
        assert_eq!(error, ApiError::Forbidden("tokenreviews is forbidden".to_owned()));
        let Err(ApiError::Other(text)) = client.create("/apis/x", &json!({})).await else {
            panic!("expected an error")
        };
        assert!(text.contains("/apis/x") && text.ends_with("401 Unauthorized: Unauthorized"), "{text}");
        assert!(!text.contains("sesame") && !format!("{client:?}").contains("sesame"));
        assert_eq!(requests.lock().unwrap().len(), 2);
    }
}
