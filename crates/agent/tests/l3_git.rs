//! `agent init` with real git servers, as an init container runs it.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use pko_testkit::git::{HttpServer, KeyForm, KeyKind, Repositories, SshKey, SshOptions, SshServer};
use tempfile::TempDir;

struct Pod {
    dir: TempDir,
    repositories: Repositories,
    commits: [String; 2],
}

impl Pod {
    fn new() -> Self {
        let repositories = Repositories::new();
        repositories.create("shop.git");
        let commits = ["1", "2"].map(|version| {
            let files = [("infra/dev/Pulumi.yaml", "name: shop\nruntime: yaml\n"), ("version", version)];
            repositories.commit("shop.git", "main", &files)
        });
        Self { dir: TempDir::new().unwrap(), repositories, commits }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs the init container with these variables and no others.
    fn init(&self, url: &str, revision: &str, variables: &[(&str, &str)]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_agent"))
            .env_clear()
            .envs(variables.iter().copied())
            .arg("init")
            .arg("-t")
            .arg(self.path("source"))
            .args(["--git-url", url, "--git-revision", revision, "--dir", "infra/dev", "--at"])
            .arg(self.path("workspace"))
            .output()
            .unwrap()
    }

    /// The link leads to the project in that version.
    fn assert_fetched(&self, output: &Output, commit: usize) {
        let log = text(output);
        assert!(output.status.success(), "{log}");
        assert!(log.contains("about to clone into") && log.contains("git artifact fetched"), "{log}");
        assert!(log.contains(&self.commits[commit]), "{log}");
        assert_eq!(fs::read_to_string(self.path("source/version")).unwrap(), (commit + 1).to_string());
        let project = fs::read_to_string(self.path("workspace/Pulumi.yaml")).unwrap();
        assert_eq!(project, "name: shop\nruntime: yaml\n");
        assert_eq!(fs::read_link(self.path("workspace")).unwrap(), self.path("source/infra/dev"));
        assert!(!has(&self.path("source/infra/dev"), "dev"), "a second link is not made inside the first");
    }
}

fn has(directory: &Path, name: &str) -> bool {
    directory.join(name).symlink_metadata().is_ok()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_repository_over_http_is_fetched_linked_and_fetched_again() {
    let pod = Pod::new();
    let server = HttpServer::plain(&pod.repositories);
    let url = server.url("shop.git");
    for (revision, commit) in [(pod.commits[0].as_str(), 0), (&pod.commits[0], 0), ("main", 1), ("", 1)] {
        pod.assert_fetched(&pod.init(&url, revision, &[]), commit);
    }
}

#[test]
fn a_repository_over_https_is_fetched_with_the_authority_of_ssl_cert_file() {
    let pod = Pod::new();
    let server = HttpServer::with_tls(&pod.repositories);
    server.require_login("git", "hunter2");
    let ca = server.ca_file();
    let variables = [("SSL_CERT_FILE", ca.to_str().unwrap()), ("GIT_TOKEN", "hunter2"), ("GIT_SHALLOW", "true")];
    let output = pod.init(&server.url("shop.git"), &pod.commits[0], &variables);
    pod.assert_fetched(&output, 0);
    assert!(!text(&output).contains("hunter2"), "{}", text(&output));
    assert!(pod.path("source/.git/shallow").exists());
}

#[test]
fn a_repository_over_ssh_is_fetched_linked_and_fetched_again() {
    let pod = Pod::new();
    let key = SshKey::new(KeyKind::Ed25519, KeyForm::OpenSsh, "open sesame");
    // As stock servers are.
    let options = SshOptions { new_protocol: false, ..SshOptions::default() };
    let server = SshServer::start(&pod.repositories, &[&key], &options);
    let hosts = server.known_hosts();
    let variables = [
        ("GIT_SSH_PRIVATE_KEY", key.private.as_str()),
        ("GIT_PASSWORD", "open sesame"),
        ("GIT_SSH_KNOWN_HOSTS", &hosts),
    ];
    for (revision, commit) in [(pod.commits[0].as_str(), 0), ("main", 1), ("main", 1)] {
        pod.assert_fetched(&pod.init(&server.url("shop.git"), revision, &variables), commit);
    }
}

#[test]
fn a_failed_fetch_says_what_was_attempted_and_leaves_what_was_there() {
    let pod = Pod::new();
    let server = HttpServer::plain(&pod.repositories);
    pod.assert_fetched(&pod.init(&server.url("shop.git"), "main", &[]), 1);
    server.require_login("me", "right");
    for (revision, variables, said) in [
        (pod.commits[0].as_str(), vec![("GIT_TOKEN", "hunter2")], "GIT_TOKEN (accessToken)"),
        ("main", vec![("GIT_TOKEN", "hunter2"), ("GIT_USERNAME", "me")], "please specify one authentication option"),
    ] {
        let output = pod.init(&server.url_with("me:hunter2@", "shop.git"), revision, &variables);
        let log = text(&output);
        assert_eq!(output.status.code(), Some(1), "{log}");
        assert!(log.contains("Error: unable to fetch git source: ") && log.contains(said), "{log}");
        assert!(!log.contains("hunter2"), "{log}");
        assert_eq!(fs::read_to_string(pod.path("source/version")).unwrap(), "2");
    }
}
