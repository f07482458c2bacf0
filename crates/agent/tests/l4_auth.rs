//! Callers of the agent before a real API server: real service accounts, real tokens, real roles.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{path::Path, time::Duration};

use clap::Parser;
use pko_agent::auth::{ApiServer, Args, Authorizer};
use pko_testkit::cluster::{Kubectl, Namespace, install_crds, wait_for};
use tonic::{Code, Status};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    auth: Args,
    #[command(flatten)]
    api_server: ApiServer,
}

/// A namespace in which `caller` may use the workspace `mine`, and `stranger` may use nothing.
fn scene() -> Namespace {
    // kubectl asks about kinds that it finds only.
    install_crds();
    let namespace = Namespace::new("auth");
    let kubectl = namespace.kubectl();
    for account in ["caller", "stranger", "agent"] {
        kubectl.run(&["create", "serviceaccount", account]);
    }
    kubectl.apply(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: use-mine}, \
         rules: [{apiGroups: [auto.pulumi.com], resources: [workspaces/rpc], resourceNames: [mine], verbs: [use]}]}",
    );
    let account = format!("--serviceaccount={}:caller", namespace.name());
    kubectl.run(&["create", "rolebinding", "caller", "--role=use-mine", &account]);
    let caller = format!("--as=system:serviceaccount:{}:caller", namespace.name());
    wait_for("the role to count", Duration::from_secs(30), || {
        kubectl.try_run(&["auth", "can-i", "use", "workspaces.auto.pulumi.com/mine", "--subresource=rpc", &caller])
    });
    namespace
}

fn audience(namespace: &Namespace) -> String {
    format!("mine.{}", namespace.name())
}

fn token(namespace: &Namespace, account: &str, audience: &str) -> String {
    let token = namespace.kubectl().run(&["create", "token", account, &format!("--audience={audience}")]);
    format!("Bearer {}", token.trim())
}

/// The authorizer of a workspace, as its agent starts it.
fn authorizer(namespace: &Namespace, workspace: &str, kubeconfig: Option<&Path>) -> Authorizer {
    let (namespace, audience) = (namespace.name(), audience(namespace));
    let mut line = vec!["serve", "--auth-mode", "kube", "--kube-audience", &audience];
    line.extend(["--kube-workspace-namespace", namespace, "--kube-workspace-name", workspace]);
    if let Some(path) = kubeconfig {
        line.extend(["--kubeconfig", path.to_str().unwrap()]);
    }
    let cli = Cli::parse_from(line);
    Authorizer::new(&cli.auth, &cli.api_server).unwrap()
}

fn told(result: Result<(), Status>) -> (Code, String) {
    result.map_or_else(|status| (status.code(), status.message().to_owned()), |()| (Code::Ok, String::new()))
}

#[tokio::test]
async fn a_caller_with_the_role_may_use_its_workspace_and_no_other() {
    let namespace = scene();
    let caller = token(&namespace, "caller", &audience(&namespace));
    let mine = authorizer(&namespace, "mine", None);
    for _ in 0..2 {
        assert_eq!(told(mine.check(Some(&caller)).await), (Code::Ok, String::new()));
    }
    let (code, text) = told(authorizer(&namespace, "other", None).check(Some(&caller)).await);
    assert_eq!((code, text.as_str()), (Code::PermissionDenied, "forbidden"));
}

#[tokio::test]
async fn a_caller_without_a_role_is_forbidden() {
    let namespace = scene();
    let stranger = token(&namespace, "stranger", &audience(&namespace));
    let (code, text) = told(authorizer(&namespace, "mine", None).check(Some(&stranger)).await);
    assert_eq!((code, text.as_str()), (Code::PermissionDenied, "forbidden"));
}

#[tokio::test]
async fn a_token_for_others_or_of_nobody_is_not_taken() {
    let namespace = scene();
    let mine = authorizer(&namespace, "mine", None);
    let for_others = token(&namespace, "caller", "other.workspace");
    for authorization in [for_others.as_str(), "Bearer made.up.token", "Bearer guess"] {
        let (code, text) = told(mine.check(Some(authorization)).await);
        assert_eq!((code, text.as_str()), (Code::Unauthenticated, "unauthenticated"));
    }
    for authorization in [None, Some("Basic bWU6c2VzYW1l")] {
        let (code, text) = told(mine.check(authorization).await);
        assert_eq!((code, text.as_str()), (Code::Unauthenticated, "Request unauthenticated with Bearer"));
    }
}

#[test]
fn the_token_of_an_account_that_is_gone_is_not_taken() {
    let namespace = scene();
    let caller = token(&namespace, "caller", &audience(&namespace));
    namespace.kubectl().run(&["delete", "serviceaccount", "caller"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let code = wait_for("the token to be refused", Duration::from_secs(30), || {
        // A new authorizer each time: one that has said yes keeps saying it for a while.
        match told(runtime.block_on(authorizer(&namespace, "mine", None).check(Some(&caller)))) {
            (Code::Ok, _) => Err("still taken".to_owned()),
            (code, _) => Ok(code),
        }
    });
    assert_eq!(code, Code::Unauthenticated);
}

/// A kubeconfig with which an agent asks as the given account.
fn kubeconfig_of(namespace: &Namespace, account: &str) -> tempfile::NamedTempFile {
    let cluster = |field: &str| {
        let template = format!("jsonpath={{.clusters[0].cluster.{field}}}");
        Kubectl::new().run(&["config", "view", "--raw", "--minify", "--flatten", "-o", &template])
    };
    let token = namespace.kubectl().run(&["create", "token", account]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        "{{current-context: a, contexts: [{{name: a, context: {{cluster: c, user: u}}}}], \
         clusters: [{{name: c, cluster: {{server: \"{}\", certificate-authority-data: {}}}}}], \
         users: [{{name: u, user: {{token: {}}}}}]}}",
        cluster("server"),
        cluster("certificate-authority-data"),
        token.trim(),
    );
    std::fs::write(file.path(), text).unwrap();
    file
}

/// Deleted when dropped: it is in no namespace.
struct Delegation(String);

impl Delegation {
    fn new(namespace: &Namespace, account: &str) -> Self {
        let account = format!("{}:{account}", namespace.name());
        let name = format!("{account}:system:auth-delegator");
        Kubectl::new().run(&[
            "create",
            "clusterrolebinding",
            &name,
            "--clusterrole=system:auth-delegator",
            &format!("--serviceaccount={account}"),
        ]);
        Self(name)
    }
}

impl Drop for Delegation {
    fn drop(&mut self) {
        let _ = Kubectl::new().try_run(&["delete", "clusterrolebinding", &self.0]);
    }
}

#[tokio::test]
async fn an_agent_asks_with_its_own_account_which_must_be_allowed_to() {
    let namespace = scene();
    let kubeconfig = kubeconfig_of(&namespace, "agent");
    let caller = token(&namespace, "caller", &audience(&namespace));
    let mine = authorizer(&namespace, "mine", Some(kubeconfig.path()));
    let (code, text) = told(mine.check(Some(&caller)).await);
    assert_eq!((code, text.as_str()), (Code::Unauthenticated, "TokenReview API is unavailable"));

    let _delegation = Delegation::new(&namespace, "agent");
    let agent = format!("--as=system:serviceaccount:{}:agent", namespace.name());
    for review in ["tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"] {
        wait_for("the binding to count", Duration::from_secs(30), || {
            Kubectl::new().try_run(&["auth", "can-i", "create", review, &agent])
        });
    }
    assert_eq!(told(mine.check(Some(&caller)).await), (Code::Ok, String::new()), "the failure was not kept");
}
