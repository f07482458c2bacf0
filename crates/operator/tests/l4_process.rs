//! Leader election between two, the watches with the server of artifacts, and `explain`.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod support;

use std::{process::Command, sync::Arc, time::Duration};

use pko_core::{lease::Timing, seen::Kind};
use pko_operator::{artifacts, cluster::Cluster, http, leader::Candidate, watch};
use pko_testkit::cluster::Namespace;
use serde_json::json;
use support::{Scene, connect, kubeconfig_of_the_operator, kubeconfig_of_the_test};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn candidate(cluster: &Cluster, namespace: &Namespace, identity: &str) -> Candidate {
    let timing = Timing {
        lease: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry: Duration::from_millis(200),
    };
    Candidate::new(cluster.clone(), namespace.name().to_owned(), identity.to_owned(), timing)
}

/// Leases in a namespace of the test's own, for which the operator has no permissions.
async fn own() -> (Cluster, Namespace) {
    (connect(kubeconfig_of_the_test()).await, Namespace::new("lease"))
}

#[tokio::test]
async fn one_leads_and_another_takes_over_when_it_gives_up() {
    let (cluster, namespace) = own().await;
    let (mut first, mut second) = (candidate(&cluster, &namespace, "first"), candidate(&cluster, &namespace, "second"));
    timeout(PATIENCE, first.lead()).await.unwrap();
    let kept = timeout(Duration::from_secs(5), async {
        tokio::select! {
            lost = first.keep() => panic!("{lost:?}"),
            () = second.lead() => panic!("two lead"),
        }
    });
    assert!(kept.await.is_err(), "the first leads for longer than a lease is good for");
    first.release().await.unwrap();
    timeout(Duration::from_secs(2), second.lead()).await.expect("nobody waits for a lease that was given up");
    let lease = lease_in(&namespace);
    assert_eq!((&lease["holderIdentity"], &lease["leaseTransitions"]), (&json!("second"), &json!(2)));
}

fn lease_in(namespace: &Namespace) -> serde_json::Value {
    pko_testkit::cluster::read(namespace.kubectl(), "lease", "operator.pulumi.com").unwrap()["spec"].take()
}

#[tokio::test]
async fn a_leader_that_falls_silent_is_replaced_and_notices() {
    let (cluster, namespace) = own().await;
    let (mut first, mut second) = (candidate(&cluster, &namespace, "first"), candidate(&cluster, &namespace, "second"));
    timeout(PATIENCE, first.lead()).await.unwrap();
    timeout(PATIENCE, second.lead()).await.expect("a lease that is not renewed is taken");
    timeout(PATIENCE, first.keep()).await.expect("whoever was replaced stops");
}

#[tokio::test]
async fn a_restarted_container_resumes_at_once() {
    let (cluster, namespace) = own().await;
    timeout(PATIENCE, candidate(&cluster, &namespace, "pod").lead()).await.unwrap();
    timeout(Duration::from_secs(2), candidate(&cluster, &namespace, "pod").lead()).await.expect("it is its own lease");
}

async fn get(address: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_program_is_seen_by_the_watch_and_served() {
    let scene = Scene::new("served").await;
    let watches = watch::start(&scene.cluster, &scene.store, &scene.queue);
    let program = json!({"apiVersion": "pulumi.com/v1", "kind": "Program", "metadata": {"name": "a"}, "program": {}});
    scene.apply(&program);
    let key = scene.key(Kind::Program, "a");
    timeout(PATIENCE, async {
        while scene.store.get(&key).is_none() || !scene.store.complete() {
            scene.queue.next().await;
        }
    })
    .await
    .expect("the watch shows it, and wakes it");
    let listener = http::listen("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(artifacts::serve(listener, Arc::clone(&scene.store), artifacts::Copies::new(scene.cluster.clone())));
    let path = format!("/programs/{}/a", scene.namespace.name());
    let served = get(&address, &format!("{path}/1")).await;
    let program = scene.store.get(&key).unwrap();
    assert!(
        served.starts_with(b"HTTP/1.1 200 OK\r\n")
            && served.ends_with(&artifacts::pack(program.program().unwrap()).unwrap())
    );
    assert!(get(&address, &format!("{path}/2")).await.starts_with(b"HTTP/1.1 404"));
    drop(watches);
}

#[tokio::test]
async fn an_object_can_be_explained_without_changing_it() {
    let scene = Scene::new("explained").await;
    scene.apply(&json!({
        "apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": {"name": "web"},
        "spec": {"stack": "dev", "programRef": {"name": "absent"}, "config": {"password": "hush"}},
    }));
    let before = scene.target(Kind::Stack, "web");
    let file = std::env::temp_dir().join(format!("pko-explain-{}", std::process::id()));
    std::fs::write(&file, kubeconfig_of_the_operator().to_string()).unwrap();
    let explain = |object: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manager"));
        command.args(["explain", "stack", object, "--kubeconfig"]).arg(&file).output().unwrap()
    };
    let told = explain(&format!("{}/web", scene.namespace.name()));
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("hold stack") && text.contains("It is looked at again"), "{text}");
    assert!(!text.contains("hush"), "{text}");
    assert_eq!(scene.target(Kind::Stack, "web"), before);
    let absent = explain(&format!("{}/absent", scene.namespace.name()));
    let _ = std::fs::remove_file(&file);
    assert!(!absent.status.success());
    assert!(String::from_utf8(absent.stderr).unwrap().contains("there is no Stack"));
}
