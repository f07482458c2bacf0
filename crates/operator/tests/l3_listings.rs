//! Looks at repositories of real git servers, as the operator has them: with credentials from Secrets, and shared.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{collections::BTreeMap, fs, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::SecretKeySelector;
use pko_api::workspace::{GitAuth, GitHubAppAuth};
use pko_core::{
    ask::{GitTrouble, Listing},
    seen::{Key, Kind},
};
use pko_operator::{
    cluster::Failure,
    queue::Queue,
    sources::{Git, KnownHosts, Secrets, Values},
};
use pko_testkit::git::{Fault, GitHub, HttpServer, KeyForm, KeyKind, Repositories, SshKey, SshOptions, SshServer};

/// Secrets of the one namespace.
#[derive(Default)]
struct Fakes(BTreeMap<String, Values>);

impl Secrets for Fakes {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Values>, Failure> {
        assert_eq!(namespace, "team");
        Ok(self.0.get(name).cloned())
    }
}

struct Scene {
    repositories: Repositories,
    git: Git,
    queue: Arc<Queue>,
    secrets: Fakes,
    /// The commits of `main`.
    commits: [String; 2],
}

impl Scene {
    fn new() -> Self {
        Self::with(None, Vec::new())
    }

    /// With GitHub's API at an address, and known hosts for all of the cluster.
    fn with(github: Option<String>, known_hosts: Vec<std::path::PathBuf>) -> Self {
        let repositories = Repositories::new();
        repositories.create("shop.git");
        let commits = [commit(&repositories, "1"), commit(&repositories, "2")];
        let queue = Arc::<Queue>::default();
        let git = Git::new(Arc::clone(&queue), Arc::new(KnownHosts::in_files(known_hosts)), github);
        Self { repositories, git, queue, secrets: Fakes::default(), commits }
    }

    fn secret(&mut self, name: &str, values: &[(&str, &str)]) {
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
        self.secrets.0.insert(name.to_owned(), Values(values.collect()));
    }

    async fn ask(&self, who: &str, listing: &Listing) -> Result<String, GitTrouble> {
        let key = Key { kind: Kind::Stack, namespace: "team".to_owned(), name: who.to_owned() };
        self.git.revision(&self.secrets, &key, listing).await.unwrap()
    }

    async fn woken(&self) -> Vec<String> {
        let mut woken = Vec::new();
        while let Ok(key) = tokio::time::timeout(Duration::from_millis(20), self.queue.next()).await {
            woken.push(key.name);
        }
        woken.sort();
        woken
    }
}

fn commit(repositories: &Repositories, text: &str) -> String {
    repositories.commit("shop.git", "main", &[("Pulumi.yaml", "name: shop\nruntime: yaml\n"), ("version", text)])
}

fn listing(url: &str, reference: &str) -> Listing {
    let (url, reference) = (url.to_owned(), reference.to_owned());
    Listing { url, reference, auth: None, max_age: Duration::from_secs(54) }
}

fn with_auth(url: &str, auth: GitAuth) -> Listing {
    Listing { auth: Some(auth), ..listing(url, "main") }
}

fn key(secret: &str, key: &str) -> SecretKeySelector {
    SecretKeySelector { name: secret.to_owned(), key: key.to_owned(), optional: None }
}

fn token(secret: &str) -> GitAuth {
    GitAuth { token: Some(key(secret, "token")), ..GitAuth::default() }
}

fn ssh(secret: &str) -> GitAuth {
    GitAuth { ssh_private_key: Some(key(secret, "identity")), ..GitAuth::default() }
}

fn app(secret: &str) -> GitAuth {
    let github_app = GitHubAppAuth {
        app_id: key(secret, "id"),
        installation_id: key(secret, "installation"),
        private_key: key(secret, "key"),
    };
    GitAuth { github_app: Some(github_app), ..GitAuth::default() }
}

/// How often a server was asked for what it has.
fn looks(server: &HttpServer) -> usize {
    server.seen().iter().filter(|seen| seen.path.ends_with("/info/refs")).count()
}

fn words(outcome: Result<String, GitTrouble>) -> String {
    match outcome.unwrap_err() {
        GitTrouble::Address(why)
        | GitTrouble::Credentials(why)
        | GitTrouble::NoRevision(why)
        | GitTrouble::Unavailable(why) => why,
    }
}

#[tokio::test]
async fn one_look_serves_all_stacks_of_a_repository_ref_and_credential() {
    let mut scene = Scene::new();
    scene.secret("one", &[("token", "t")]);
    scene.secret("same", &[("token", "t")]);
    scene.secret("other", &[("token", "u")]);
    let server = HttpServer::plain(&scene.repositories);
    let url = server.url("shop.git");
    let main = listing(&url, "main");
    let (a, b, c) = tokio::join!(scene.ask("a", &main), scene.ask("b", &main), scene.ask("c", &main));
    assert_eq!([a.unwrap(), b.unwrap(), c.unwrap()], [(); 3].map(|()| scene.commits[1].clone()));
    assert_eq!(scene.ask("d", &main).await.unwrap(), scene.commits[1]);
    assert_eq!(looks(&server), 1);
    for (looked, auth) in [(2, "one"), (2, "same"), (3, "other")] {
        scene.ask("a", &with_auth(&url, token(auth))).await.unwrap();
        assert_eq!(looks(&server), looked, "{auth}");
    }
    scene.ask("a", &listing(&url, "refs/heads/main")).await.unwrap();
    assert_eq!(looks(&server), 4);
}

#[tokio::test]
async fn an_answer_that_is_too_old_is_not_given() {
    let scene = Scene::new();
    let server = HttpServer::plain(&scene.repositories);
    let patient = listing(&server.url("shop.git"), "main");
    let hurried = Listing { max_age: Duration::from_millis(1), ..patient.clone() };
    scene.ask("a", &patient).await.unwrap();
    let pushed = commit(&scene.repositories, "3");
    assert_eq!(scene.ask("b", &patient).await.unwrap(), scene.commits[1]);
    assert_eq!(scene.ask("b", &hurried).await.unwrap(), pushed);
    assert_eq!(scene.ask("a", &patient).await.unwrap(), pushed);
    assert_eq!(looks(&server), 2);
}

#[tokio::test]
async fn a_failure_is_shared_and_not_for_long() {
    let scene = Scene::new();
    let server = HttpServer::plain(&scene.repositories);
    let main = listing(&server.url("shop.git"), "main");
    server.fail_next([Fault::Status(503, "not now")]);
    let (a, b) = tokio::join!(scene.ask("a", &main), scene.ask("b", &main));
    for outcome in [a, b, scene.ask("c", &main).await] {
        let GitTrouble::Unavailable(why) = outcome.unwrap_err() else { panic!("it is unavailable") };
        assert!(why.contains("503") && why.contains("not now") && !why.contains("tried"), "{why}");
    }
    assert_eq!(looks(&server), 1, "one try");
    let hurried = Listing { max_age: Duration::ZERO, ..main };
    assert_eq!(scene.ask("c", &hurried).await.unwrap(), scene.commits[1]);
}

#[tokio::test]
async fn a_new_commit_wakes_all_who_follow_the_branch() {
    let scene = Scene::new();
    let server = HttpServer::plain(&scene.repositories);
    let main = listing(&server.url("shop.git"), "main");
    let hurried = Listing { max_age: Duration::ZERO, ..main.clone() };
    for who in ["a", "b", "c"] {
        scene.ask(who, &main).await.unwrap();
    }
    scene.ask("c", &hurried).await.unwrap();
    assert!(scene.woken().await.is_empty());
    let pushed = commit(&scene.repositories, "3");
    assert_eq!(scene.ask("c", &hurried).await.unwrap(), pushed);
    assert_eq!(scene.woken().await, ["a", "b"]);
    assert_eq!(scene.ask("a", &main).await.unwrap(), pushed);
}

#[tokio::test]
async fn branches_tags_and_full_refs_lead_to_their_commits() {
    let scene = Scene::new();
    let [first, second] = &scene.commits;
    scene.repositories.git("shop.git", &["tag", "-a", "v1", "-m", "one", first]);
    scene.repositories.git("shop.git", &["tag", "light", first]);
    scene.repositories.git("shop.git", &["update-ref", "refs/pull/7/head", first]);
    let server = HttpServer::plain(&scene.repositories);
    let url = server.url("shop.git");
    for (reference, commit) in [
        ("main", second),
        ("refs/heads/main", second),
        ("v1", first),
        ("refs/tags/v1", first),
        ("light", first),
        ("refs/pull/7/head", first),
    ] {
        assert_eq!(scene.ask("a", &listing(&url, reference)).await.as_ref(), Ok(commit), "{reference}");
    }
    let GitTrouble::NoRevision(hint) = scene.ask("a", &listing(&url, "mian")).await.unwrap_err() else {
        panic!("there is no such branch")
    };
    assert_eq!(hint, "it has main, light, v1");
}

#[tokio::test]
async fn a_commit_is_taken_as_it_is_if_the_credentials_are_there() {
    let mut scene = Scene::new();
    scene.secret("git", &[("token", "t")]);
    let digits = "0123456789ABCDEF0123456789abcdef01234567";
    // Nobody listens there.
    let url = "https://127.0.0.1:1/shop.git";
    let found = scene.ask("a", &Listing { auth: Some(token("git")), ..listing(url, digits) }).await;
    assert_eq!(found.unwrap(), digits.to_lowercase());
    let missing = scene.ask("a", &Listing { auth: Some(token("absent")), ..listing(url, digits) }).await;
    assert_eq!(
        missing.unwrap_err(),
        GitTrouble::Credentials(
            "resolving gitAuth personal access token: unable to get secret team/absent: Secret \"absent\" not found; \
             create it, or correct the reference to it"
                .to_owned()
        )
    );
}

#[tokio::test]
async fn addresses_are_used_as_they_are_given() {
    let scene = Scene::new();
    for name in ["group/sub/team/shop.git", "group/sub/team/plain", "org/project/_git/shop"] {
        let parent = scene.repositories.path(name);
        fs::create_dir_all(parent.parent().unwrap()).unwrap();
        scene.repositories.git(".", &["clone", "--quiet", "--bare", "shop.git", name]);
        let server = HttpServer::plain(&scene.repositories);
        let found = scene.ask("a", &listing(&server.url(name), "main")).await;
        assert_eq!(found.as_ref(), Ok(&scene.commits[1]), "{name}");
    }
    for (url, why) in [
        ("ftp://me:hunter2@git.test/shop", "ftp:// is not supported"),
        ("me:hunter2@git.test/shop", "a password and no scheme"),
        ("github.com/acme/shop", "has no scheme"),
    ] {
        let GitTrouble::Address(told) = scene.ask("a", &listing(url, "main")).await.unwrap_err() else {
            panic!("{url} is no address")
        };
        assert!(told.contains(why) && !told.contains("hunter2"), "{told}");
    }
}

#[tokio::test]
async fn a_closed_repository_opens_to_what_the_secret_holds() {
    let mut scene = Scene::new();
    scene.secret("git", &[("token", "hunter2"), ("user", "me"), ("password", "hunter3"), ("wrong", "hunter4")]);
    let server = HttpServer::plain(&scene.repositories);
    let url = server.url("shop.git");
    server.require_login("git", "hunter2");
    scene.ask("a", &with_auth(&url, token("git"))).await.unwrap();
    server.require_login("me", "hunter3");
    let basic =
        GitAuth { username: Some(key("git", "user")), password: Some(key("git", "password")), ..GitAuth::default() };
    scene.ask("a", &with_auth(&url, basic.clone())).await.unwrap();
    let wrong = GitAuth { password: Some(key("git", "wrong")), ..basic.clone() };
    let told = words(scene.ask("a", &with_auth(&url, wrong)).await);
    assert!(told.contains("401") && told.contains("username and password") && !told.contains("hunter"), "{told}");
    let both = GitAuth { token: Some(key("git", "token")), ..basic };
    let GitTrouble::Credentials(told) = scene.ask("a", &with_auth(&url, both)).await.unwrap_err() else {
        panic!("these exclude each other")
    };
    assert!(told.starts_with("getting auth method: please specify one authentication option"), "{told}");
    // A changed Secret is another credential, so nobody waits for the old one to be forgotten.
    server.require_login("git", "new");
    assert!(scene.ask("b", &with_auth(&url, token("git"))).await.is_ok(), "had for somebody else");
    scene.secret("git", &[("token", "new")]);
    let fresh = Listing { max_age: Duration::ZERO, ..with_auth(&url, token("git")) };
    scene.ask("b", &fresh).await.unwrap();
}

#[tokio::test]
async fn the_token_of_an_app_is_made_once_for_all_its_repositories() {
    let app_key = SshKey::new(KeyKind::Rsa, KeyForm::Pem, "");
    let github = GitHub::start("4711", "42", app_key.rsa_public_key(), "hunter2-installation");
    let mut scene = Scene::with(Some(github.api()), Vec::new());
    scene.repositories.git(".", &["clone", "--quiet", "--bare", "shop.git", "other.git"]);
    scene.secret("app", &[("id", "4711"), ("installation", "42"), ("key", &app_key.private)]);
    let server = HttpServer::plain(&scene.repositories);
    server.require_login("git", "hunter2-installation");
    let (shop, other) =
        (with_auth(&server.url("shop.git"), app("app")), with_auth(&server.url("other.git"), app("app")));
    let (a, b) = tokio::join!(scene.ask("a", &shop), scene.ask("b", &other));
    assert_eq!((a.unwrap(), b.unwrap()), (scene.commits[1].clone(), scene.commits[1].clone()));
    scene.ask("a", &Listing { max_age: Duration::ZERO, ..shop.clone() }).await.unwrap();
    assert_eq!((looks(&server), github.requests()), (3, 1));
    // A token that was made a moment ago is not the reason for a refusal.
    server.require_login("git", "another");
    let told = words(scene.ask("a", &Listing { max_age: Duration::ZERO, ..shop }).await);
    assert!(told.contains("the token of the GitHub App") && !told.contains("hunter2"), "{told}");
    assert_eq!(github.requests(), 1);
}

#[tokio::test]
async fn an_app_that_gets_no_token_says_whose_fault_it_is() {
    let app_key = SshKey::new(KeyKind::Rsa, KeyForm::Pem, "");
    let other_key = SshKey::new(KeyKind::Rsa, KeyForm::Pem, "");
    let github = GitHub::start("4711", "42", app_key.rsa_public_key(), "t");
    let mut scene = Scene::with(Some(github.api()), Vec::new());
    for (name, key) in [("right", app_key.private.as_str()), ("other", &other_key.private), ("none", "hunter2")] {
        scene.secret(name, &[("id", "4711"), ("installation", "42"), ("key", key)]);
    }
    let server = HttpServer::plain(&scene.repositories);
    let url = server.url("shop.git");
    for (secret, why) in [
        ("other", "GitHub API returned status 401: "),
        ("none", "GIT_GITHUB_APP_PRIVATE_KEY is not usable: failed to decode PEM block from GitHub App private key"),
    ] {
        let GitTrouble::Credentials(told) = scene.ask("a", &with_auth(&url, app(secret))).await.unwrap_err() else {
            panic!("it is the credentials' fault")
        };
        assert!(told.starts_with(&format!("getting GitHub App installation token: {why}")), "{told}");
        assert!(!told.contains("hunter2") && !told.contains("BEGIN"), "{told}");
    }
    github.fail_next([503]);
    let GitTrouble::Unavailable(told) = scene.ask("a", &with_auth(&url, app("right"))).await.unwrap_err() else {
        panic!("it may pass")
    };
    assert!(told.contains("GitHub API returned status 503") && !told.contains("tried"), "{told}");
    assert_eq!(looks(&server), 0);
}

#[tokio::test]
async fn hosts_are_known_by_the_keys_secret_or_by_the_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ssh_known_hosts");
    let mut scene = Scene::with(None, vec![file.clone()]);
    let identity = SshKey::new(KeyKind::Ed25519, KeyForm::OpenSsh, "");
    let server = SshServer::start(&scene.repositories, &[&identity], &SshOptions::default());
    let url = server.url("shop.git");
    scene.secret("deploy", &[("identity", &identity.private)]);
    let told = words(scene.ask("a", &with_auth(&url, ssh("deploy"))).await);
    let start = "unable to find any valid known_hosts file, set SSH_KNOWN_HOSTS env variable: the host 127.0.0.1";
    assert!(told.starts_with(start) && told.contains(&server.host_keys()[0].fingerprint()), "{told}");
    assert!(told.contains("the key known_hosts of the Secret"), "{told}");
    assert!(told.contains("ConfigMap pulumi-kubernetes-operator-known-hosts"), "{told}");
    let (_, line) = told.rsplit_once(": ").unwrap();
    scene.secret("deploy", &[("identity", &identity.private), ("known_hosts", line)]);
    let found = scene.ask("a", &with_auth(&url, ssh("deploy"))).await;
    assert_eq!(found.unwrap(), scene.commits[1], "a changed Secret counts at once");

    fs::write(&file, format!("# of the cluster\n{line}\n")).unwrap();
    let mut scene = Scene::with(None, vec![file]);
    let server_keys = SshServer::start(&scene.repositories, &[&identity], &SshOptions::default());
    scene.secret("deploy", &[("identity", &identity.private)]);
    let told = words(scene.ask("a", &with_auth(&server_keys.url("shop.git"), ssh("deploy"))).await);
    assert!(told.starts_with("the host 127.0.0.1 at port "), "{told}");
    // The first server has the repositories of the first scene.
    assert!(scene.ask("a", &with_auth(&url, ssh("deploy"))).await.is_ok_and(|commit| commit.len() == 40));
}

#[tokio::test]
async fn a_host_with_another_key_is_refused_with_where_the_known_one_is() {
    let mut scene = Scene::new();
    let identity = SshKey::new(KeyKind::Ed25519, KeyForm::OpenSsh, "");
    let server = SshServer::start(&scene.repositories, &[&identity], &SshOptions::default());
    let known = server.known_host(&identity);
    scene.secret("deploy", &[("identity", &identity.private), ("known_hosts", &known)]);
    let told = words(scene.ask("a", &with_auth(&server.url("shop.git"), ssh("deploy"))).await);
    assert!(told.contains("has changed") && told.contains("(known_hosts of Secret team/deploy, line 1)"), "{told}");
}

#[tokio::test]
async fn a_key_that_is_none_is_the_credentials_fault() {
    let mut scene = Scene::new();
    scene.secret("deploy", &[("identity", "hunter2")]);
    let listing = with_auth("git@127.0.0.1:shop.git", ssh("deploy"));
    let GitTrouble::Credentials(told) = scene.ask("a", &listing).await.unwrap_err() else {
        panic!("it is the credentials' fault")
    };
    assert!(told.starts_with("getting auth method: GIT_SSH_PRIVATE_KEY (sshPrivateKey) is not usable"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}
