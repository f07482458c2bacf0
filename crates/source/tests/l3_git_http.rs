//! Git over HTTP and HTTPS, from the real `git http-backend`.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod git;

use std::{fs, time::Duration};

use git::{Shop, access, assert_checked_out, fetch, names, resolve};
use pko_source::git::{Depth, GitError, GitUrl};
use pko_testkit::git::{Fault, HttpServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const MISSING: &str = "0123456789012345678901234567890123456789";

#[tokio::test]
async fn every_way_to_name_a_revision_leads_to_its_commit() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let (url, access) = (server.url("shop.git"), access(&[]).unwrap());
    let [first, second, third] = &shop.main;
    for (revision, commit, version) in [
        ("", third, "3"),
        ("HEAD", third, "3"),
        ("main", third, "3"),
        ("refs/heads/main", third, "3"),
        ("feature/new", &shop.feature, "feature"),
        ("refs/pull/7/head", &shop.feature, "feature"),
        ("light", second, "2"),
        ("refs/tags/light", second, "2"),
        ("v1", first, "1"),
        ("tags/v1", first, "1"),
        (first, first, "1"),
        (&second.to_uppercase(), second, "2"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("share/source");
        assert_eq!(&fetch(&url, &access, revision, &target).await.unwrap(), commit, "{revision}");
        assert_checked_out(&target, commit, version);
        assert_eq!(names(&dir.path().join("share")), ["source"], "{revision}");
        assert_eq!(&resolve(&url, &access, revision).await.unwrap(), commit, "{revision}");
    }
}

#[tokio::test]
async fn a_clone_has_its_history_and_names_its_origin() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    let url = server.url_with("me:hunter2@", "shop.git");
    fetch(&url, &access(&[]).unwrap(), "main", &target).await.unwrap();
    assert_eq!(git::git(&target, &["rev-list", "--count", "HEAD"]), "3");
    assert_eq!(git::git(&target, &["remote", "get-url", "origin"]), server.url("shop.git"));
    assert!(!fs::read_to_string(target.join(".git/config")).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn a_shallow_clone_has_one_commit_also_one_that_no_ref_is_at() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let access = access(&[]).unwrap();
    for (revision, version) in [("main", "3"), (shop.main[1].as_str(), "2"), (shop.main[0].as_str(), "1"), ("v1", "1")]
    {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("source");
        let url = GitUrl::parse(&server.url("shop.git")).unwrap();
        let commit = pko_source::git::fetch(&url, &access, revision, Depth::One, &target).await.unwrap();
        assert_checked_out(&target, &commit, version);
        assert_eq!(git::git(&target, &["rev-list", "--count", "HEAD"]), "1", "{revision}");
    }
}

#[tokio::test]
async fn a_server_of_the_old_protocol_serves_too() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    server.speak_old_protocol();
    let access = access(&[]).unwrap();
    for (revision, commit, version) in [
        ("", &shop.main[2], "3"),
        ("v1", &shop.main[0], "1"),
        ("refs/pull/7/head", &shop.feature, "feature"),
        (shop.main[1].as_str(), &shop.main[1], "2"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("source");
        assert_eq!(&fetch(&server.url("shop.git"), &access, revision, &target).await.unwrap(), commit);
        assert_checked_out(&target, commit, version);
    }
}

#[tokio::test]
async fn a_second_run_does_nothing_or_replaces_everything() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let (url, access) = (server.url("shop.git"), access(&[]).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    fetch(&url, &access, &shop.main[0], &target).await.unwrap();
    let requests = server.seen().len();
    fetch(&url, &access, &shop.main[0], &target).await.unwrap();
    assert_eq!(server.seen().len(), requests, "the same commit is there already");
    fetch(&url, &access, "v1", &target).await.unwrap();
    assert!(server.seen().len() > requests, "a tag may have moved");
    assert_checked_out(&target, &shop.main[0], "1");

    fs::write(target.join("left-by-a-run"), "").unwrap();
    fetch(&url, &access, "main", &target).await.unwrap();
    assert_checked_out(&target, &shop.main[2], "3");
    let new = shop.repositories.commit("shop.git", "main", &[("infra/version", "4")]);
    assert_eq!(fetch(&url, &access, "main", &target).await.unwrap(), new);
    assert_checked_out(&target, &new, "4");
    assert_eq!(names(dir.path()), ["source"]);
}

#[tokio::test]
async fn what_is_in_the_way_is_replaced_and_stays_when_fetching_fails() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let access = access(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    fs::create_dir(&target).unwrap();
    fs::write(target.join("old"), "").unwrap();
    for revision in ["nonsense", MISSING] {
        fetch(&server.url("shop.git"), &access, revision, &target).await.unwrap_err();
        assert_eq!((names(&target), names(dir.path())), (vec!["old".to_owned()], vec!["source".to_owned()]));
    }
    fetch(&server.url("shop.git"), &access, "main", &target).await.unwrap();
    assert_checked_out(&target, &shop.main[2], "3");
}

#[tokio::test]
async fn a_revision_that_does_not_exist_is_named_with_some_that_do() {
    let shop = Shop::new();
    shop.repositories.create("empty.git");
    let server = HttpServer::plain(&shop.repositories);
    let access = access(&[]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    for old in [false, true] {
        if old {
            server.speak_old_protocol();
        }
        let url = server.url("shop.git");
        for revision in ["mian", "refs/heads/v1", "abc1234"] {
            let error = fetch(&url, &access, revision, &target).await.unwrap_err().to_string();
            let expected = format!("{url} has no branch, tag or ref {revision:?}; it has feature/new, main, light, v1");
            assert_eq!(error, expected);
            assert_eq!(resolve(&url, &access, revision).await.unwrap_err().to_string(), expected);
        }
        let error = fetch(&url, &access, MISSING, &target).await.unwrap_err().to_string();
        assert_eq!(error, format!("{url} has no commit {MISSING}; it is in none of its branches and tags"));
        let tree = shop.repositories.git("shop.git", &["rev-parse", "main^{tree}"]);
        let error = fetch(&url, &access, &tree, &target).await.unwrap_err().to_string();
        assert!(error.contains(&tree), "{error}");
        let error = fetch(&server.url("empty.git"), &access, "", &target).await.unwrap_err().to_string();
        assert!(error.contains("has no default branch; it has no branches and no tags"), "{error}");
    }
    assert_eq!(
        resolve(&server.url("shop.git"), &access, MISSING).await.unwrap(),
        MISSING,
        "a commit is taken as it is"
    );
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_repository_that_does_not_exist_is_said_to() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let dir = tempfile::tempdir().unwrap();
    let url = server.url("shoop.git");
    for revision in ["main", MISSING] {
        let requests = server.seen().len();
        let error = fetch(&url, &access(&[]).unwrap(), revision, &dir.path().join("source")).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&url) && text.contains("404") && text.contains("there is no such repository"), "{text}");
        assert_eq!(server.seen().len(), requests + 1, "it is asked once");
    }
}

#[tokio::test]
async fn every_kind_of_credential_opens_a_closed_repository() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    for (user, variables, url) in [
        ("me", vec![("GIT_USERNAME", "me"), ("GIT_PASSWORD", "hunter2")], server.url("shop.git")),
        ("git", vec![("GIT_TOKEN", "hunter2")], server.url("shop.git")),
        ("me", vec![], server.url_with("me:hunter2@", "shop.git")),
        ("git", vec![("GIT_TOKEN", "hunter2")], server.url_with("me:another@", "shop.git")),
        ("git", vec![("GIT_TOKEN", "hunter2"), ("GIT_SSH_PRIVATE_KEY", "x")], server.url("shop.git")),
    ] {
        server.require_login(user, "hunter2");
        let access = access(&variables).unwrap();
        fetch(&url, &access, &shop.main[0], &target).await.unwrap();
        fetch(&url, &access, "main", &target).await.unwrap();
        assert_checked_out(&target, &shop.main[2], "3");
        assert_eq!(resolve(&url, &access, "main").await.unwrap(), shop.main[2]);
    }
}

#[tokio::test]
async fn a_wrong_credential_fails_at_once_and_is_named() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    server.require_login("me", "right");
    let dir = tempfile::tempdir().unwrap();
    for (variables, url, named) in [
        (vec![], server.url("shop.git"), "none are given"),
        (vec![("GIT_TOKEN", "hunter2")], server.url("shop.git"), "GIT_TOKEN (accessToken)"),
        (
            vec![("GIT_USERNAME", "me"), ("GIT_PASSWORD", "hunter2")],
            server.url("shop.git"),
            "GIT_USERNAME and GIT_PASSWORD (username and password)",
        ),
        (vec![], server.url_with("me:hunter2@", "shop.git"), "the user and password in its address"),
        (vec![("GIT_SSH_PRIVATE_KEY", "hunter2")], server.url("shop.git"), "an SSH key is given, which only ssh://"),
    ] {
        let requests = server.seen().len();
        let access = access(&variables).unwrap();
        let error = fetch(&url, &access, "main", &dir.path().join("source")).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, GitError::Refused { .. }), "{text}");
        assert!(text.contains("401 Unauthorized") && text.contains(named), "{text}");
        assert!(text.contains("wrong user or password"), "the server's words: {text}");
        assert!(!text.contains("hunter2") && !format!("{error:?} {access:?}").contains("hunter2"), "{error:?}");
        assert_eq!(server.seen().len(), requests + 1, "{named}");
    }
    server.fail_next([Fault::Status(403, "you sent hunter2")]);
    let access = access(&[("GIT_TOKEN", "hunter2")]).unwrap();
    let error = fetch(&server.url("shop.git"), &access, "main", &dir.path().join("source")).await.unwrap_err();
    assert!(error.to_string().contains("403 Forbidden"), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[tokio::test]
async fn options_that_exclude_each_other_are_refused() {
    let error = access(&[("GIT_USERNAME", "me"), ("GIT_TOKEN", "hunter2")]).unwrap_err().to_string();
    assert!(error.starts_with("please specify one authentication option"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_asked_again() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let access = access(&[]).unwrap();
    for faults in [
        vec![Fault::Status(503, ""), Fault::Drop, Fault::Status(429, "")],
        vec![Fault::Cut(20), Fault::Status(502, ""), Fault::Cut(100)],
    ] {
        let dir = tempfile::tempdir().unwrap();
        server.fail_next(faults);
        fetch(&server.url("shop.git"), &access, "main", &dir.path().join("source")).await.unwrap();
        assert_checked_out(&dir.path().join("source"), &shop.main[2], "3");
        server.fail_next([Fault::Status(503, ""), Fault::Drop]);
        assert_eq!(resolve(&server.url("shop.git"), &access, "main").await.unwrap(), shop.main[2]);
    }
}

#[tokio::test]
async fn a_server_that_never_gets_ready_is_given_up() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    server.fail_next(vec![Fault::Status(503, "busy"); 9]);
    let dir = tempfile::tempdir().unwrap();
    let url = server.url("shop.git");
    let error = fetch(&url, &access(&[]).unwrap(), "main", &dir.path().join("source")).await.unwrap_err().to_string();
    let expected =
        format!("{url} cannot be reached: the server answers 503 Service Unavailable, and says: busy; tried 4 times");
    assert_eq!(error, expected);
    assert_eq!(server.seen().len(), 4);
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut access = access(&[]).unwrap();
    access.patience.silence = Duration::from_millis(100);
    access.patience.waits.clear();
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://{}/shop.git", listener.local_addr().unwrap());
    let error = fetch(&url, &access, "main", &dir.path().join("source")).await.unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. }) && error.to_string().contains("timed out"), "{error}");
}

#[tokio::test]
async fn an_answer_that_takes_too_long_or_is_too_long_is_given_up() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    let mut access = access(&[]).unwrap();
    access.patience.most = Some(100);
    access.patience.whole = Some(Duration::from_millis(500));
    access.patience.waits.clear();
    let error = resolve(&server.url("shop.git"), &access, "main").await.unwrap_err().to_string();
    assert!(error.ends_with("its answer is longer than 100 bytes"), "{error}");
    // A byte now and then keeps silence away.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/shop.git", listener.local_addr().unwrap());
    let slow = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let _ = connection.read(&mut [0; 4096]).await.unwrap();
        let kind = "application/x-git-upload-pack-advertisement";
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        while connection.write_all(b"1\r\n1\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let error = resolve(&url, &access, "main").await.unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. }) && error.to_string().contains("timed out"), "{error}");
    slow.await.unwrap();
}

#[tokio::test]
async fn nobody_listening_is_said_with_its_address_and_without_its_password() {
    let dir = tempfile::tempdir().unwrap();
    // Port 1 of this machine is closed.
    let url = "http://me:hunter2@127.0.0.1:1/shop.git";
    let error = fetch(url, &access(&[]).unwrap(), "main", &dir.path().join("source")).await.unwrap_err().to_string();
    assert!(error.starts_with("http://127.0.0.1:1/shop.git cannot be reached: "), "{error}");
    assert!(error.contains("refused") && error.ends_with("tried 4 times") && !error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_followed_and_credentials_stay_at_home() {
    let shop = Shop::new();
    let there = HttpServer::plain(&shop.repositories);
    let here = HttpServer::plain(&shop.repositories);
    here.redirect_to(there.url("").trim_end_matches('/'));
    let dir = tempfile::tempdir().unwrap();
    let access = access(&[("GIT_TOKEN", "hunter2")]).unwrap();
    fetch(&here.url("shop.git"), &access, "main", &dir.path().join("source")).await.unwrap();
    assert_checked_out(&dir.path().join("source"), &shop.main[2], "3");
    assert!(here.seen().iter().all(|seen| seen.authorization.is_some()), "{:?}", here.seen());
    assert!(
        there.seen().len() > 2 && there.seen().iter().all(|seen| seen.authorization.is_none()),
        "{:?}",
        there.seen()
    );
}

#[tokio::test]
async fn a_page_that_is_no_repository_is_refused() {
    let shop = Shop::new();
    let server = HttpServer::plain(&shop.repositories);
    server.fail_next([Fault::Status(200, "hello")]);
    let dir = tempfile::tempdir().unwrap();
    let error = fetch(&server.url("shop.git"), &access(&[]).unwrap(), "main", &dir.path().join("source")).await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains(&server.url("shop.git")) && text.contains("protocol"), "{text}");
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_refused_at_once() {
    let shop = Shop::new();
    let server = HttpServer::with_tls(&shop.repositories);
    let dir = tempfile::tempdir().unwrap();
    let error = fetch(&server.url("shop.git"), &access(&[]).unwrap(), "main", &dir.path().join("source")).await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains("certificate") && text.contains("SSL_CERT_FILE") && !text.contains("tried"), "{text}");
}

#[tokio::test]
async fn links_and_modes_of_files_are_as_they_were_committed() {
    let shop = Shop::new();
    let work = shop.repositories.path("work-shop.git");
    std::os::unix::fs::symlink("infra", work.join("current")).unwrap();
    fs::write(work.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(work.join("run.sh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fs::write(work.join(".gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    fs::write(work.join("big.bin"), "version https://git-lfs.github.com/spec/v1\n").unwrap();
    let commit = shop.repositories.commit("shop.git", "main", &[("infra/version", "5")]);
    let server = HttpServer::plain(&shop.repositories);
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    fetch(&server.url("shop.git"), &access(&[]).unwrap(), "main", &target).await.unwrap();
    assert_checked_out(&target, &commit, "5");
    assert_eq!(fs::read_link(target.join("current")).unwrap().to_str(), Some("infra"));
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(target.join("run.sh")).unwrap().permissions());
    assert_eq!(mode & 0o111, 0o111);
    assert!(fs::read_to_string(target.join("big.bin")).unwrap().starts_with("version "), "large files stay pointers");
}
