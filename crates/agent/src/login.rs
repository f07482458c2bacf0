//! An access token for Pulumi Cloud in exchange for the pod's own identity token, when no access token is given. The
//! variables are the flags of `pulumi login` in capitals. The token is kept in memory and handed to the CLI alone.

use std::{
    fmt, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::SignedDuration;
use pko_pulumi::Cli;
use pko_source::http;
use reqwest::{StatusCode, Url, header, redirect};
use serde::Deserialize;
use serde_json::Value;

use crate::runs::record::{Failure, Reason};

const ACCESS_TOKEN: &str = "PULUMI_ACCESS_TOKEN";
const BACKEND: &str = "PULUMI_BACKEND_URL";
/// Names another service than the public one.
const API: &str = "PULUMI_API";
const FILE: &str = "PULUMI_OIDC_TOKEN_FILE";
const ORGANIZATION: &str = "PULUMI_OIDC_ORG";
const TEAM: &str = "PULUMI_OIDC_TEAM";
const USER: &str = "PULUMI_OIDC_USER";
const EXPIRATION: &str = "PULUMI_OIDC_EXPIRATION";

const PULUMI_CLOUD: &str = "https://api.pulumi.com";
/// How an audience names an organization.
const AUDIENCE: &str = "urn:pulumi:org:";
/// As `pulumi login` asks for.
const USUAL_EXPIRATION: Duration = Duration::from_hours(2);
/// One try.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The access token that was got last.
#[derive(Debug, Default)]
pub(crate) struct Login {
    held: tokio::sync::Mutex<Option<Held>>,
}

#[derive(Debug)]
struct Held {
    since: Instant,
    life: Duration,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum NoToken {
    #[error(
        "the identity token in {} ({FILE}) cannot be read: {error}; a projected volume of the pod, with a \
         serviceAccountToken as its source, puts it there", file.display()
    )]
    File { file: PathBuf, error: io::Error },
    #[error(
        "the identity token in {} ({FILE}) is meant for no organization of Pulumi Cloud; set {ORGANIZATION}, or \
         {AUDIENCE} with the organization's name as the audience of the token", file.display()
    )]
    Organization { file: PathBuf },
    #[error("{EXPIRATION} is {0:?}, which is not a duration such as 2h or 30m")]
    Expiration(String),
    #[error("{TEAM} and {USER} are both set, but a token is that of a team or of a user")]
    TeamAndUser,
    #[error("{BACKEND} is not an address: {0}")]
    Address(String),
    #[error(
        "{url} does not exchange the identity token in {} for an access token of {whose}: {said}; see whether the \
         cluster is registered there as an OIDC issuer, with a policy that allows the pod's service account", file.display()
    )]
    Refused { url: String, file: PathBuf, whose: String, said: String },
    #[error("{url} could not exchange the identity token in {} for an access token: {error}", file.display())]
    Unreachable { url: String, file: PathBuf, error: String },
}

impl NoToken {
    /// As the end of a run; one that could not even ask fails as such runs do.
    pub(crate) fn failure(&self, usual: Reason) -> Failure {
        let reason = if matches!(self, Self::Unreachable { .. }) { usual } else { Reason::InvalidAccessToken };
        Failure::new(reason, self.to_string())
    }
}

/// What is asked for, from the variables.
#[derive(Debug)]
struct Wanted {
    server: Url,
    file: PathBuf,
    organization: Option<String>,
    /// As in `team:platform`; empty for the organization itself.
    scope: String,
    expiration: Duration,
}

impl Login {
    /// Sees to it that the CLI has an access token, if it is up to us. How long a run takes nobody knows, and the CLI
    /// needs its token to the end, so a run begins with one that has at least half of its life left.
    pub(crate) async fn renew(&self, cli: &Cli, of_project: impl Fn() -> Option<String>) -> Result<(), NoToken> {
        let variable = |name: &str| cli.variable(name).filter(|value| !value.is_empty());
        // In the order in which the CLI looks for its backend.
        let backend = || variable(BACKEND).or_else(&of_project).or_else(|| variable(API));
        let Some(wanted) = Wanted::of(|name| if name == BACKEND { backend() } else { variable(name) })? else {
            return Ok(());
        };
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| held.since.elapsed() < held.life / 2) {
            return Ok(());
        }
        let since = Instant::now();
        let granted = wanted.exchange().await?;
        let life = Duration::from_secs(granted.expires_in);
        tracing::info!(server = %http::shown(&wanted.server), ?life, "got an access token for the pod's identity token");
        cli.set_access_token(granted.access_token);
        *held = Some(Held { since, life });
        Ok(())
    }

    /// The service did not take the token: the next run begins with another.
    pub(crate) async fn forget(&self) {
        *self.held.lock().await = None;
    }
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    #[serde(default)]
    expires_in: u64,
}

impl fmt::Debug for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Granted").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}

impl Wanted {
    /// Nothing, if an access token is given, no identity token is, or the backend knows neither.
    fn of(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, NoToken> {
        let Some(file) = variable(FILE).filter(|_| variable(ACCESS_TOKEN).is_none()) else { return Ok(None) };
        let server = variable(BACKEND).unwrap_or_else(|| PULUMI_CLOUD.to_owned());
        if !server.starts_with("https://") && !server.starts_with("http://") {
            return Ok(None);
        }
        let server = Url::parse(&server).map_err(|error| NoToken::Address(error.to_string()))?;
        let scope = match (variable(TEAM), variable(USER)) {
            (Some(_), Some(_)) => return Err(NoToken::TeamAndUser),
            (Some(team), None) => format!("team:{team}"),
            (None, Some(user)) => format!("user:{user}"),
            (None, None) => String::new(),
        };
        let expiration = match variable(EXPIRATION) {
            None => USUAL_EXPIRATION,
            Some(text) => text
                .parse::<SignedDuration>()
                .ok()
                .and_then(|duration| Duration::try_from(duration).ok())
                .ok_or(NoToken::Expiration(text))?,
        };
        Ok(Some(Self { server, file: file.into(), organization: variable(ORGANIZATION), scope, expiration }))
    }

    /// The kubelet replaces the file's content before it ends, so it is read each time.
    fn identity(&self) -> Result<String, NoToken> {
        let empty = || io::Error::new(io::ErrorKind::InvalidData, "it is empty");
        let read = std::fs::read_to_string(&self.file).map(|text| text.trim().to_owned());
        read.and_then(|text| if text.is_empty() { Err(empty()) } else { Ok(text) })
            .map_err(|error| NoToken::File { file: self.file.clone(), error })
    }

    fn form(&self, identity: &str) -> Result<String, NoToken> {
        let organization = self
            .organization
            .clone()
            .or_else(|| organization_of(identity))
            .ok_or_else(|| NoToken::Organization { file: self.file.clone() })?;
        let kind = match self.scope.split_once(':') {
            Some(("team", _)) => "team",
            Some(_) => "personal",
            None => "organization",
        };
        let mut form = self.server.clone();
        form.query_pairs_mut()
            .clear()
            .append_pair("audience", &format!("{AUDIENCE}{organization}"))
            .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange")
            .append_pair("requested_token_type", &format!("urn:pulumi:token-type:access_token:{kind}"))
            .append_pair("scope", &self.scope)
            .append_pair("subject_token_type", "urn:ietf:params:oauth:token-type:id_token")
            .append_pair("subject_token", identity)
            .append_pair("expiration", &self.expiration.as_secs().to_string());
        Ok(form.query().unwrap_or_default().to_owned())
    }

    async fn exchange(&self) -> Result<Granted, NoToken> {
        let identity = self.identity()?;
        let form = self.form(&identity)?;
        let mut url = self.server.clone();
        url.set_path(&format!("{}/api/oauth/token", url.path().trim_end_matches('/')));
        url.set_query(None);
        let unreachable =
            |error: String| NoToken::Unreachable { url: http::shown(&url), file: self.file.clone(), error };
        // The identity token is for this server and no other.
        let builder = || http::builder().redirect(redirect::Policy::none()).timeout(TIMEOUT);
        let client = http::build(builder, &url).map_err(http::reason).map_err(unreachable)?;
        let mut waits = http::WAITS.iter();
        loop {
            let request = client
                .post(url.clone())
                .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(form.clone());
            let trouble = match request.send().await {
                Err(error) => http::reason(error),
                Ok(response) => {
                    let status = response.status();
                    match response.bytes().await {
                        Err(error) => http::reason(error),
                        Ok(body) => {
                            if status == StatusCode::OK
                                && let Ok(granted) = serde_json::from_slice::<Granted>(&body)
                            {
                                return Ok(granted);
                            }
                            let said = format!("{status}{}", explanation(&body, &identity));
                            if status != StatusCode::OK && !http::is_transient(status) {
                                let whose = if self.scope.is_empty() {
                                    "the organization".to_owned()
                                } else {
                                    self.scope.clone()
                                };
                                return Err(NoToken::Refused {
                                    url: http::shown(&url),
                                    file: self.file.clone(),
                                    whose,
                                    said,
                                });
                            }
                            said
                        }
                    }
                }
            };
            let Some(wait) = waits.next() else { return Err(unreachable(trouble)) };
            tracing::warn!(error = trouble, "the identity token was not exchanged; trying again in {wait:?}");
            tokio::time::sleep(*wait).await;
        }
    }
}

/// The organization that an identity token is meant for. Whether the token is true is for the service to find out.
fn organization_of(identity: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(identity.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let audiences = match &claims["aud"] {
        Value::Array(many) => many.as_slice(),
        one => std::slice::from_ref(one),
    };
    audiences.iter().filter_map(Value::as_str).find_map(|a| a.strip_prefix(AUDIENCE)).map(str::to_owned)
}

/// Why the service says no, in either of the forms that it may have, behind a colon.
fn explanation(body: &[u8], identity: &str) -> String {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let mut text = String::new();
    for word in ["error", "error_description", "message"].iter().filter_map(|field| body[field].as_str()) {
        text.push_str(": ");
        text.extend(word.replace(identity, "[token]").chars().take(300));
    }
    text
}

#[cfg(test)]
mod tests {
    use pko_testkit::cloud::identity_token;

    use super::*;

    fn wanted(variables: &[(&str, &str)]) -> Result<Option<Wanted>, NoToken> {
        Wanted::of(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn nothing_is_exchanged_when_a_token_is_given_or_the_backend_takes_none() {
        assert!(wanted(&[]).unwrap().is_none());
        assert!(wanted(&[(FILE, "/token")]).unwrap().is_some());
        assert!(wanted(&[(FILE, "/token"), (ACCESS_TOKEN, "pul-1")]).unwrap().is_none());
        assert!(wanted(&[(FILE, "/token"), (BACKEND, "s3://bucket")]).unwrap().is_none());
    }

    #[test]
    fn the_form_is_that_of_pulumi_login() {
        let identity = identity_token("system:serviceaccount:default:pulumi", "urn:pulumi:org:acme");
        let form = wanted(&[(FILE, "/token")]).unwrap().unwrap().form(&identity).unwrap();
        assert_eq!(
            form,
            format!(
                "audience=urn%3Apulumi%3Aorg%3Aacme&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3A\
                 token-exchange&requested_token_type=urn%3Apulumi%3Atoken-type%3Aaccess_token%3Aorganization&scope=\
                 &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token&subject_token={identity}\
                 &expiration=7200"
            )
        );
        let team = [(FILE, "/token"), (ORGANIZATION, "other"), (TEAM, "platform"), (EXPIRATION, "30m")];
        let form = wanted(&team).unwrap().unwrap().form("opaque").unwrap();
        for part in ["org%3Aother&", "access_token%3Ateam&scope=team%3Aplatform&", "&expiration=1800"] {
            assert!(form.contains(part), "{part} in {form}");
        }
    }

    #[test]
    fn settings_that_mean_nothing_are_named() {
        let text = |variables: &[(&str, &str)]| wanted(variables).unwrap_err().to_string();
        assert!(text(&[(FILE, "/t"), (EXPIRATION, "soon")]).contains("PULUMI_OIDC_EXPIRATION is \"soon\""));
        assert!(text(&[(FILE, "/t"), (TEAM, "a"), (USER, "b")]).contains("PULUMI_OIDC_TEAM and PULUMI_OIDC_USER"));
        let opaque = wanted(&[(FILE, "/t")]).unwrap().unwrap().form("opaque").unwrap_err();
        assert!(opaque.to_string().contains("set PULUMI_OIDC_ORG"), "{opaque}");
        let missing = wanted(&[(FILE, "/no/such")]).unwrap().unwrap().identity().unwrap_err();
        assert!(missing.to_string().contains("/no/such") && missing.to_string().contains("serviceAccountToken"));
    }

    #[test]
    fn what_the_service_says_is_told_and_nothing_else_of_its_answer() {
        assert_eq!(
            explanation(br#"{"error":"invalid_grant","error_description":"too old"}"#, "abc.def"),
            ": invalid_grant: too old"
        );
        assert_eq!(explanation(br#"{"code":401,"message":"Unauthorized"}"#, "abc.def"), ": Unauthorized");
        assert_eq!(explanation(b"<html>", "abc.def"), "");
        let token = "x".repeat(1000);
        let echoed = format!(r#"{{"message":"bad token {token}"}}"#);
        assert_eq!(explanation(echoed.as_bytes(), &token), ": bad token [token]");
    }

    #[test]
    fn a_granted_token_is_never_shown() {
        let granted: Granted = serde_json::from_str(r#"{"access_token":"planted","expires_in":60}"#).unwrap();
        assert_eq!(format!("{granted:?}"), "Granted { expires_in: 60, .. }");
    }
}
