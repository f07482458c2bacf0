//! The HTTP client that all of the agent uses, and which of its failures are worth another try.

use std::{error::Error, time::Duration};

use reqwest::{Client, ClientBuilder, StatusCode, Url};

/// What is waited before each further try. The first ones are short: in a cluster that is starting, what does not
/// answer now often does a second later, and a pod is waiting.
pub const WAITS: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(5)];

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two pieces of an answer: a server that falls silent is given up, a slow one is not.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// A client with our timeouts, on rustls with ring.
pub fn builder() -> ClientBuilder {
    // Whoever installs a provider first wins, and all of ours install the same one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .user_agent(concat!("pulumi-kubernetes-operator/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(SILENCE_TIMEOUT)
}

/// A client for an address. An image without CA certificates is no obstacle where none is asked for.
pub fn build(builder: impl Fn() -> ClientBuilder, url: &Url) -> reqwest::Result<Client> {
    match builder().build() {
        Err(_) if url.scheme() == "http" => builder().tls_certs_only([]).build(),
        other => other,
    }
}

/// Answers of a server that may be another one a moment later. That something is not implemented will not change.
pub fn is_transient(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED)
}

/// An address as it may be told: without user, password and query, which are where credentials travel.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only on addresses that can have neither, such as `data:`.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// What went wrong down to its cause, without the address, which may hold credentials.
pub fn reason(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_answers_that_may_change_are_asked_for_again() {
        let transient = |code: u16| is_transient(StatusCode::from_u16(code).unwrap());
        for code in [429, 500, 502, 503, 504, 599] {
            assert!(transient(code), "{code}");
        }
        for code in [200, 301, 400, 401, 403, 404, 410, 501] {
            assert!(!transient(code), "{code}");
        }
    }

    #[test]
    fn waits_grow_and_begin_short() {
        assert!(WAITS.is_sorted());
        assert!(WAITS[0] < Duration::from_secs(1));
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_secret() {
        let url = Url::parse("https://me:hunter2@example.com:8443/a/b.tar.gz?X-Amz-Signature=abc#d").unwrap();
        assert_eq!(shown(&url), "https://example.com:8443/a/b.tar.gz");
    }

    #[tokio::test]
    async fn a_failed_request_tells_its_cause_and_not_its_address() {
        // Port 1 of this machine is closed.
        let request = builder().no_proxy().build().unwrap().get("http://me:hunter2@127.0.0.1:1/secret-path");
        let text = reason(request.send().await.unwrap_err());
        assert!(text.contains("refused"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("secret-path"), "{text}");
    }
}
