//! Who may call the agent: whoever the API server says may `use` `workspaces/rpc` of this workspace. Nothing is known
//! here of what is called.

mod cache;
mod client;
mod connection;
mod kubeconfig;
mod review;

use std::{path::Path, time::Duration};

use anyhow::{Result, bail, ensure};
use cache::{Cache, Verdict};
use client::Client;
use connection::Connection;
use review::{ApiError, Finding, Place};
use tokio::{sync::Semaphore, time::Instant};
use tonic::Status;

/// How long a caller waits for the API server, further tries included.
const MOST_WAIT: Duration = Duration::from_secs(30);
/// Callers with unknown tokens cannot have more than this asked at once.
const MOST_REVIEWS: usize = 8;

/// The flags of `agent serve` that are about its callers.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// How callers are authenticated: none or kube
    #[arg(long, value_name = "MODE", default_value = "none")]
    auth_mode: String,
    /// An audience for which callers' tokens must be made; may be given several times
    #[arg(long, value_name = "AUDIENCE")]
    kube_audience: Vec<String>,
    /// The namespace of the workspace that callers must be allowed to use
    #[arg(long, value_name = "NAMESPACE", env = "WORKSPACE_NAMESPACE")]
    kube_workspace_namespace: Option<String>,
    /// The name of the workspace that callers must be allowed to use
    #[arg(long, value_name = "NAME", env = "WORKSPACE_NAME")]
    kube_workspace_name: Option<String>,
}

/// Where the API server is; in the pod, that is found out.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ApiServer {
    /// A kubeconfig file; $KUBECONFIG and then the pod's service account when not given
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<std::path::PathBuf>,
    /// A context of the kubeconfig; its current one when not given
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
}

/// Lets callers in or not.
#[derive(Debug)]
pub struct Authorizer {
    /// Absent when everyone may call.
    reviews: Option<Reviews>,
}

#[derive(Debug)]
struct Reviews {
    client: Client,
    audiences: Vec<String>,
    place: Place,
    cache: Cache,
    permits: Semaphore,
}

impl Authorizer {
    pub fn new(args: &Args, api_server: &ApiServer) -> Result<Self> {
        let Some((audiences, place)) = args.reviewed()? else { return Ok(Self { reviews: None }) };
        let kubeconfig = api_server.kubeconfig.as_deref().filter(|path| *path != Path::new(""));
        let connection = Connection::find(kubeconfig, api_server.context.as_deref())?;
        let reviews = Reviews {
            client: Client::new(connection)?,
            audiences,
            place,
            cache: Cache::new()?,
            permits: Semaphore::new(MOST_REVIEWS),
        };
        Ok(Self { reviews: Some(reviews) })
    }

    /// Whether a call with this `authorization` may go on.
    pub async fn check(&self, authorization: Option<&str>) -> Result<(), Status> {
        let Some(reviews) = &self.reviews else { return Ok(()) };
        let token = review::bearer(authorization).map_err(Status::from)?;
        reviews.check(token).await
    }
}

impl Args {
    /// For whom to review, or nothing when everyone may call.
    fn reviewed(&self) -> Result<Option<(Vec<String>, Place)>> {
        match self.auth_mode.as_str() {
            "none" => return Ok(None),
            "kube" => {}
            other => bail!("unsupported auth mode: {other}"),
        }
        let required = |flag: &str, value: &Option<String>| {
            let value = value.clone().filter(|text| !text.is_empty());
            value.ok_or_else(|| anyhow::anyhow!("--{flag} is required when auth mode is kubernetes"))
        };
        let audiences: Vec<String> = self.kube_audience.iter().filter(|a| !a.is_empty()).cloned().collect();
        ensure!(!audiences.is_empty(), "--kube-audience is required when auth mode is kubernetes");
        let namespace = required("kube-workspace-namespace", &self.kube_workspace_namespace)?;
        let name = required("kube-workspace-name", &self.kube_workspace_name)?;
        Ok(Some((audiences, Place { namespace, name })))
    }
}

impl Reviews {
    async fn check(&self, token: &str) -> Result<(), Status> {
        let verdict = self.cache.get(token, Instant::now, || async {
            // The permit is waited for within the limit, too: a flood of tokens is not a queue without end.
            let finding = tokio::time::timeout(MOST_WAIT, async {
                let _permit = self.permits.acquire().await;
                self.review(token).await
            });
            finding.await.unwrap_or_else(|_| review::too_late(MOST_WAIT))
        });
        let Verdict(result) = verdict.await;
        result.map_err(Status::from)
    }

    async fn review(&self, token: &str) -> Finding {
        let answer = self.client.create(review::TOKEN_REVIEWS, &review::token_review(token, &self.audiences)).await;
        explain(&answer);
        let user = match review::user(answer, &self.audiences) {
            Ok(user) => user,
            Err(finding) => return finding,
        };
        let answer = self.client.create(review::ACCESS_REVIEWS, &review::access_review(&user, &self.place)).await;
        explain(&answer);
        let finding = review::access(answer);
        let name = user.name();
        match &finding {
            Finding::Allowed => {
                tracing::info!(auth.mode = "kubernetes", user.name = name, "caller may use the workspace");
            }
            Finding::Denied(denial) | Finding::Failed(denial) => {
                tracing::warn!(auth.mode = "kubernetes", user.name = name, %denial, "caller is refused");
            }
        }
        finding
    }
}

/// The caller is told only that we may not ask; who can change that reads the log.
fn explain(answer: &Result<serde_json::Value, ApiError>) {
    let Err(ApiError::Forbidden(text)) = answer else { return };
    let pod = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let advice = review::advice(&pod("POD_NAMESPACE", "NAMESPACE"), &pod("POD_SA_NAME", "default"));
    tracing::error!(%text, "{advice}");
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use tonic::Code;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Args {
        Cli::try_parse_from(std::iter::once("serve").chain(line.split_whitespace())).unwrap().args
    }

    #[test]
    fn flags_as_pko_writes_them_say_for_whom_to_review() {
        let args = parse(
            "--auth-mode kube --kube-audience a.ns --kube-audience b --kube-workspace-namespace ns --kube-workspace-name a",
        );
        let (audiences, place) = args.reviewed().unwrap().unwrap();
        assert_eq!(audiences, ["a.ns", "b"]);
        assert_eq!(place, Place { namespace: "ns".to_owned(), name: "a".to_owned() });
    }

    #[test]
    fn flags_that_are_missing_are_named() {
        for (line, text) in [
            ("--auth-mode kubernetes", "unsupported auth mode: kubernetes"),
            ("--auth-mode kube", "--kube-audience is required when auth mode is kubernetes"),
            (
                "--auth-mode kube --kube-audience a",
                "--kube-workspace-namespace is required when auth mode is kubernetes",
            ),
            (
                "--auth-mode kube --kube-audience a --kube-workspace-namespace ns",
                "--kube-workspace-name is required when auth mode is kubernetes",
            ),
        ] {
            assert_eq!(parse(line).reviewed().unwrap_err().to_string(), text);
        }
    }

    #[tokio::test]
    async fn without_a_mode_everyone_may_call() {
        let authorizer = Authorizer::new(&parse(""), &ApiServer::default()).unwrap();
        authorizer.check(None).await.unwrap();
        authorizer.check(Some("nonsense")).await.unwrap();
    }

    #[tokio::test]
    async fn a_caller_without_a_token_is_refused_before_anyone_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let text = "{current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}], \
                    clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}";
        std::fs::write(&kubeconfig, text).unwrap();
        let args = parse("--auth-mode kube --kube-audience a --kube-workspace-namespace ns --kube-workspace-name a");
        let authorizer = Authorizer::new(&args, &ApiServer { kubeconfig: Some(kubeconfig), context: None }).unwrap();
        let status = authorizer.check(None).await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::Unauthenticated, "Request unauthenticated with Bearer"));
    }
}
