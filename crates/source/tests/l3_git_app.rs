//! Git with the token of a GitHub App, from a server that reads the app's signature.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod git;

use git::{Shop, access, assert_checked_out, fetch, resolve};
use pko_source::git::GitError;
use pko_testkit::git::{GitHub, HttpServer, KeyForm, KeyKind, SshKey};

const TOKEN: &str = "hunter2-installation";

fn variables<'a>(key: &'a SshKey, api: &'a str) -> Vec<(&'static str, &'a str)> {
    vec![
        ("GIT_GITHUB_APP_ID", "4711"),
        ("GIT_GITHUB_APP_INSTALLATION_ID", "42"),
        ("GIT_GITHUB_APP_PRIVATE_KEY", &key.private),
        ("GITHUB_API_URL", api),
    ]
}

#[tokio::test]
async fn an_app_reads_its_repositories_with_a_key_of_either_form() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    server.require_login("git", TOKEN);
    for form in [KeyForm::Pem, KeyForm::Pkcs8] {
        let key = SshKey::new(KeyKind::Rsa, form, "");
        let github = GitHub::start("4711", "42", key.rsa_public_key(), TOKEN);
        let api = github.api();
        let mut variables = variables(&key, &api);
        // The token of the app comes before one that is given.
        variables.push(("GIT_TOKEN", "another"));
        let access = access(&variables).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fetch(&server.url("shop.git"), &access, "main", &dir.path().join("source")).await.unwrap();
        assert_checked_out(&dir.path().join("source"), &shop.main[2], "3");
        assert_eq!(resolve(&server.url("shop.git"), &access, "v1").await.unwrap(), shop.main[0]);
        assert_eq!(github.requests(), 2);
    }
}

#[tokio::test]
async fn github_is_asked_again_when_it_is_not_ready() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let key = SshKey::new(KeyKind::Rsa, KeyForm::Pem, "");
    let github = GitHub::start("4711", "42", key.rsa_public_key(), TOKEN);
    let api = github.api();
    let access = access(&variables(&key, &api)).unwrap();
    github.fail_next([500, 0, 429]);
    assert_eq!(resolve(&server.url("shop.git"), &access, "main").await.unwrap(), shop.main[2]);
    assert_eq!(github.requests(), 4);
    github.fail_next([503; 9]);
    let error = resolve(&server.url("shop.git"), &access, "main").await.unwrap_err().to_string();
    assert!(error.contains("GitHub API returned status 503; tried 4 times"), "{error}");
}

#[tokio::test]
async fn an_app_that_github_does_not_know_fails_at_once_and_says_what_to_check() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let key = SshKey::new(KeyKind::Rsa, KeyForm::Pem, "");
    let other = SshKey::new(KeyKind::Rsa, KeyForm::Pem, "");
    let github = GitHub::start("4711", "42", key.rsa_public_key(), TOKEN);
    let api = github.api();
    let error = resolve(&server.url("shop.git"), &access(&variables(&other, &api)).unwrap(), "main").await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, GitError::Refused { .. }), "{error:?}");
    assert!(text.contains("GitHub API returned status 401") && text.contains("wrong: the signature"), "{text}");
    assert!(text.contains("GIT_GITHUB_APP_PRIVATE_KEY") && !text.contains("BEGIN"), "{text}");
    assert_eq!((github.requests(), server.seen().len()), (1, 0));
}

#[tokio::test]
async fn a_token_that_the_repository_refuses_is_called_the_apps() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    server.require_login("git", "another");
    let key = SshKey::new(KeyKind::Rsa, KeyForm::Pkcs8, "");
    let github = GitHub::start("4711", "42", key.rsa_public_key(), TOKEN);
    let api = github.api();
    let error = resolve(&server.url("shop.git"), &access(&variables(&key, &api)).unwrap(), "main").await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the token of the GitHub App") && !text.contains(TOKEN), "{text}");
}
