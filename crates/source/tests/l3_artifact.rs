//! Artifacts over real HTTP, from a server that answers as a test tells it to.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod archives;

use std::{
    fs,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use archives::Archive;
use pko_source::{
    artifact::{Artifact, ArtifactError, Bounds, DownloadError},
    untar::{Limit, UntarError},
};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// Answers one request on each connection with the next of the given answers; the last one is given again and again.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn new(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            for number in 0.. {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if connection.read(&mut byte).await.unwrap_or(0) == 0 {
                        break;
                    }
                    request.push(byte[0]);
                }
                seen.lock().unwrap().push(String::from_utf8(request).unwrap());
                // A client that has read enough closes its end; that is no failure of the server.
                let _ = connection.write_all(&answers[number.min(answers.len() - 1)]).await;
                let _ = connection.shutdown().await;
            }
        });
        Self { address, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/programs/ns/name/1", self.address)
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

fn ok(body: &[u8]) -> Vec<u8> {
    answer("200 OK", &format!("content-type: application/gzip\r\ncontent-length: {}\r\n", body.len()), body)
}

fn digest(body: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(body))
}

/// The product's number of tries, without its waits.
fn bounds() -> Bounds {
    Bounds { waits: vec![Duration::ZERO; 3], ..Bounds::default() }
}

async fn fetch(url: &str, body: &[u8], target: &Path, bounds: &Bounds) -> Result<(), ArtifactError> {
    Artifact::new(url, &digest(body)).unwrap().fetch(target, bounds).await
}

/// The names in a directory, hidden ones too: what a fetch leaves behind.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn program() -> Vec<u8> {
    Archive::default().file("Pulumi.yaml", "name: a\nruntime: yaml\n").file("sub/file", "x").gzip()
}

#[tokio::test]
async fn an_artifact_is_fetched_and_fetched_again() {
    let body = program();
    let server = Server::new(vec![ok(&body)]).await;
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("share/source");
    for _ in 0..2 {
        fetch(&server.url(), &body, &target, &bounds()).await.unwrap();
        assert_eq!(names(&target), ["Pulumi.yaml", "sub"]);
        assert_eq!(names(&dir.path().join("share")), ["source"]);
        // What a run leaves in the directory does not survive the next fetch.
        fs::write(target.join("Pulumi.dev.yaml"), "config: {}\n").unwrap();
    }
    let request = &server.requests()[0];
    assert!(request.starts_with("GET /programs/ns/name/1 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("user-agent: pulumi-kubernetes-operator/"), "{request}");
}

#[tokio::test]
async fn a_server_that_is_not_ready_is_asked_again() {
    let body = program();
    let unavailable = answer("503 Service Unavailable", "content-length: 0\r\n", b"");
    let server = Server::new(vec![unavailable.clone(), b"".to_vec(), unavailable, ok(&body)]).await;
    let dir = tempfile::tempdir().unwrap();
    fetch(&server.url(), &body, &dir.path().join("source"), &bounds()).await.unwrap();
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_server_that_never_gets_ready_is_given_up() {
    let server = Server::new(vec![answer("503 Service Unavailable", "content-length: 0\r\n", b"")]).await;
    let dir = tempfile::tempdir().unwrap();
    let error = fetch(&server.url(), b"", &dir.path().join("source"), &bounds()).await.unwrap_err().to_string();
    let expected = format!("failed to download archive from {} (status: 503 Service Unavailable)", server.url());
    assert!(error.starts_with(&expected) && error.ends_with("tried 4 times"), "{error}");
    assert_eq!(server.requests().len(), 4);
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn an_answer_that_will_not_change_is_taken_at_once() {
    for (status, expected) in [
        ("404 Not Found", "file not found"),
        ("403 Forbidden", "(status: 403 Forbidden)"),
        ("501 Not Implemented", "(status: 501 Not Implemented)"),
    ] {
        let server = Server::new(vec![answer(status, "content-length: 0\r\n", b"")]).await;
        let dir = tempfile::tempdir().unwrap();
        let error = fetch(&server.url(), b"", &dir.path().join("source"), &bounds()).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn nobody_listening_is_said_with_its_address_and_without_its_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let dir = tempfile::tempdir().unwrap();
    let url = format!("http://me:hunter2@{address}/x?token=hunter2");
    let error = fetch(&url, b"", &dir.path().join("source"), &bounds()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("from http://{address}/x: ")) && error.contains("refused"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[tokio::test]
async fn an_archive_with_another_digest_replaces_nothing() {
    let (body, other) = (program(), Archive::default().file("evil", "").gzip());
    let server = Server::new(vec![ok(&body), ok(&other)]).await;
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    fetch(&server.url(), &body, &target, &bounds()).await.unwrap();
    let error = fetch(&server.url(), &body, &target, &bounds()).await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("failed to verify archive: computed digest doesn't match provided sha256:"), "{text}");
    assert!(text.contains(&digest(&other)) && text.contains(&digest(&body)), "{text}");
    assert_eq!(names(&target), ["Pulumi.yaml", "sub"]);
    assert_eq!(names(dir.path()), ["source"]);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_tried_again() {
    let body = program();
    let mut cut = ok(&body);
    cut.truncate(cut.len() - 10);
    let server = Server::new(vec![cut.clone(), ok(&body)]).await;
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    fetch(&server.url(), &body, &target, &bounds()).await.unwrap();
    assert_eq!(names(&target), ["Pulumi.yaml", "sub"]);
    assert_eq!(server.requests().len(), 2);

    let server = Server::new(vec![cut]).await;
    let error = fetch(&server.url(), &body, &target, &bounds()).await.unwrap_err().to_string();
    assert!(error.contains("failed to download archive") && error.ends_with("tried 4 times"), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_not_read_to_its_end() {
    let most = 16 << 20;
    let bounds = Bounds { extracted: Limit::bytes(0), ..bounds() };
    let dir = tempfile::tempdir().unwrap();
    let announced = answer("200 OK", "content-length: 1000000000000\r\n", b"");
    let endless = answer("200 OK", "", &vec![0; most + 1]);
    for long in [announced, endless] {
        let server = Server::new(vec![long]).await;
        let error = fetch(&server.url(), b"", &dir.path().join("source"), &bounds).await.unwrap_err();
        assert!(matches!(&error, ArtifactError::Download(DownloadError::TooBig { .. })), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_archive_with_too_much_in_it_is_refused() {
    let body = Archive::default().file("big", &"x".repeat(2048)).gzip();
    let server = Server::new(vec![ok(&body)]).await;
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    let small = Bounds { extracted: Limit::bytes(1024), ..bounds() };
    let error = fetch(&server.url(), &body, &target, &small).await.unwrap_err();
    assert!(matches!(error, ArtifactError::Untar(UntarError::TooBig { .. })), "{error}");
    assert!(error.to_string().contains("bigger than max archive size"), "{error}");
    assert!(!target.exists());
    fetch(&server.url(), &body, &target, &Bounds { extracted: Limit::NONE, ..bounds() }).await.unwrap();
}

#[tokio::test]
async fn a_page_in_place_of_an_archive_is_refused() {
    let body = b"<html>";
    let server = Server::new(vec![ok(body)]).await;
    let dir = tempfile::tempdir().unwrap();
    let error = fetch(&server.url(), body, &dir.path().join("source"), &bounds()).await.unwrap_err().to_string();
    assert!(error.contains("requires gzip-compressed body"), "{error}");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_redirect_is_followed() {
    let body = program();
    let there = Server::new(vec![ok(&body)]).await;
    let location = format!("location: {}\r\ncontent-length: 0\r\n", there.url());
    let here = Server::new(vec![answer("302 Found", &location, b"")]).await;
    let dir = tempfile::tempdir().unwrap();
    fetch(&here.url(), &body, &dir.path().join("source"), &bounds()).await.unwrap();
    assert_eq!((here.requests().len(), there.requests().len()), (1, 1));
}
