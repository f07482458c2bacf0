//! The token of a GitHub App's installation, for github.com and GitHub Enterprise Server.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use reqwest::{Response, StatusCode, Url};
use ring::{
    rand::SystemRandom,
    rsa::KeyPair,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use sha2::{Digest as _, Sha256};

use super::{
    credentials::App,
    error::{GitError, one_line},
    persistence::persistently,
    secret::Secret,
    transport::Patience,
    url::GitUrl,
};
use crate::http;

const KEY: &str = "GIT_GITHUB_APP_PRIVATE_KEY";
/// The clocks of GitHub and of this machine may differ by as much.
const LEEWAY: Duration = Duration::from_mins(1);
/// The longest that GitHub takes.
const LIFETIME: Duration = Duration::from_mins(10);

/// What of GitHub's answer is read. It is short; what another server says may not be.
const MOST_OF_AN_ANSWER: usize = 64 * 1024;

/// A token with which an app's installation reads its repositories.
#[derive(Debug, Clone)]
pub struct AppToken {
    pub(super) secret: Secret,
    /// When GitHub stops to take it, as GitHub writes it.
    pub expires_at: Option<String>,
}

/// What tells apps, their installations and their keys apart, and nothing about any of them.
pub(super) fn identity(app: &App, url: &GitUrl) -> Result<[u8; 32], GitError> {
    let mut hash = Sha256::new();
    for part in [endpoint(app, url)?.as_str(), &app.id, app.key.reveal()] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    Ok(hash.finalize().into())
}

/// Has GitHub make a token.
pub(super) async fn token(app: &App, url: &GitUrl, patience: &Patience) -> Result<AppToken, GitError> {
    let endpoint = endpoint(app, url)?;
    let client = http::build(|| patience.applied(http::builder()), &endpoint).map_err(|error| {
        GitError::Credentials(format!(
            "asking GitHub for a token: the HTTP client cannot start: {}",
            http::reason(error)
        ))
    })?;
    persistently(&patience.waits, || async {
        let jwt = signed(app, SystemTime::now())?;
        let request = client
            .post(endpoint.clone())
            .bearer_auth(jwt.reveal())
            .header("accept", "application/vnd.github+json")
            .header("x-github-api-version", "2022-11-28")
            .header("content-length", "0");
        let unreachable =
            |error| GitError::Unreachable { repository: http::shown(&endpoint), reason: http::reason(error) };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = beginning(response).await.map_err(unreachable)?;
        if http::is_transient(status) {
            let reason = format!("GitHub API returned status {}", status.as_u16());
            return Err(GitError::Unreachable { repository: http::shown(&endpoint), reason });
        }
        if status != StatusCode::CREATED {
            let said = one_line(&String::from_utf8_lossy(&body)).replace(jwt.reveal(), "…");
            let code = status.as_u16();
            let what = "check GIT_GITHUB_APP_ID, GIT_GITHUB_APP_INSTALLATION_ID and GIT_GITHUB_APP_PRIVATE_KEY";
            let reason = format!("GitHub API returned status {code}: {said}; {what}");
            return Err(GitError::Refused { repository: http::shown(&endpoint), reason });
        }
        let answer: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        match answer["token"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => Ok(AppToken {
                secret: Secret::new(token),
                expires_at: answer["expires_at"].as_str().map(str::to_owned),
            }),
            None => Err(GitError::Failed {
                repository: http::shown(&endpoint),
                reason: "GitHub API returned an empty token".to_owned(),
            }),
        }
    })
    .await
}

async fn beginning(mut response: Response) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while body.len() < MOST_OF_AN_ANSWER
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn endpoint(app: &App, url: &GitUrl) -> Result<Url, GitError> {
    let base = match (&app.api, url.host()) {
        (Some(api), _) => api.trim_end_matches('/').to_owned(),
        (None, "github.com") => "https://api.github.com".to_owned(),
        (None, host) => {
            format!("https://{host}{}/api/v3", url.http_port().map(|port| format!(":{port}")).unwrap_or_default())
        }
    };
    if !app.installation.chars().all(|c| c.is_ascii_alphanumeric()) {
        let name = "GIT_GITHUB_APP_INSTALLATION_ID";
        return Err(GitError::Credentials(format!("{name} is not usable: it must be a number")));
    }
    let text = format!("{base}/app/installations/{}/access_tokens", app.installation);
    match Url::parse(&text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => Err(GitError::Credentials("GITHUB_API_URL is not usable: it must be an https address".to_owned())),
    }
}

/// The app's own word that it is the app.
fn signed(app: &App, now: SystemTime) -> Result<Secret, GitError> {
    let unusable = |why: &str| GitError::Credentials(format!("{KEY} is not usable: {why}"));
    let pem = app.key.reveal().trim();
    let key = match PrivateKeyDer::from_pem_slice(pem.as_bytes()) {
        Ok(PrivateKeyDer::Pkcs1(der)) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        Ok(PrivateKeyDer::Pkcs8(der)) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        Ok(_) => return Err(unusable("it is no RSA key")),
        Err(_) => return Err(unusable("failed to decode PEM block from GitHub App private key")),
    };
    let key: KeyPair = key.map_err(|error| unusable(&error.to_string()))?;
    let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let claims = serde_json::json!({
        "iat": since_epoch.saturating_sub(LEEWAY).as_secs(),
        "exp": (since_epoch + LIFETIME).as_secs(),
        "iss": app.id,
    });
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let signing_input = format!("{}.{}", encode(r#"{"alg":"RS256","typ":"JWT"}"#), encode(&claims.to_string()));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signing_input.as_bytes(), &mut signature)
        .map_err(|_| unusable("nothing can be signed with it"))?;
    Ok(Secret::new(format!("{signing_input}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(api: Option<&str>, installation: &str) -> App {
        App {
            id: "1".to_owned(),
            installation: installation.to_owned(),
            key: Secret::new("hunter2"),
            api: api.map(str::to_owned),
        }
    }

    #[test]
    fn the_api_is_where_the_repository_lets_expect_it() {
        for (api, url, expected) in [
            (None, "https://github.com/a/b", "https://api.github.com/app/installations/7/access_tokens"),
            (None, "https://git.corp/a/b", "https://git.corp/api/v3/app/installations/7/access_tokens"),
            (None, "https://git.corp:8443/a/b", "https://git.corp:8443/api/v3/app/installations/7/access_tokens"),
            (Some("https://x/y/"), "https://github.com/a/b", "https://x/y/app/installations/7/access_tokens"),
        ] {
            let found = endpoint(&app(api, "7"), &GitUrl::parse(url).unwrap()).unwrap();
            assert_eq!(found.as_str(), expected);
        }
        let url = GitUrl::parse("https://github.com/a/b").unwrap();
        assert!(endpoint(&app(None, "../x"), &url).is_err());
        assert!(endpoint(&app(Some("file:///x"), "7"), &url).is_err());
    }

    #[test]
    fn apps_differ_by_their_name_installation_place_and_key() {
        let url = GitUrl::parse("https://github.com/a/b").unwrap();
        let identity = |app: &App, url: &GitUrl| identity(app, url).unwrap();
        let first = app(None, "7");
        assert_eq!(identity(&first, &url), identity(&first, &GitUrl::parse("https://github.com/c/d").unwrap()));
        for other in [
            App { id: "2".to_owned(), ..first.clone() },
            App { key: Secret::new("another"), ..first.clone() },
            app(None, "8"),
            app(Some("https://elsewhere"), "7"),
        ] {
            assert_ne!(identity(&first, &url), identity(&other, &url));
        }
        assert_ne!(identity(&first, &url), identity(&first, &GitUrl::parse("https://git.corp/a/b").unwrap()));
    }

    #[test]
    fn a_key_that_is_none_is_refused_without_repeating_it() {
        let error = signed(&app(None, "7"), UNIX_EPOCH).unwrap_err().to_string();
        assert!(error.starts_with("GIT_GITHUB_APP_PRIVATE_KEY is not usable") && !error.contains("hunter2"), "{error}");
    }
}
