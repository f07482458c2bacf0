//! Stacks whose program is an artifact of the real Flux source-controller.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pko_e2e::{
    repositories::{GitHost, greets},
    scene::Scene,
};
use pko_testkit::{
    cluster::{condition, install_operator},
    flux::{Bucket, FluxController, FluxSource, Registry},
    shared::Shared,
};
use serde_json::{Value, json};

/// A Stack looks at its source every minute at the latest; whoever is quicker was told.
const TOLD: Duration = Duration::from_secs(30);

/// The operator, and the controller that all tests share.
fn flux() -> Arc<FluxController> {
    static FLUX: Shared<FluxController> = Shared::new();
    install_operator();
    FLUX.get(FluxController::start)
}

/// Waits for the Stack `app` to run the program of the source's revision that is not the one named; returns that.
fn follow(scene: &Scene, source: &FluxSource, not: &str, last_update: &str, greeting: &str) -> (String, Value) {
    let revision = source.until_revision(not);
    let began = Instant::now();
    let stack = scene.until_updated("app", last_update);
    let took = began.elapsed();
    assert_eq!(stack["status"]["outputs"], json!({"greeting": greeting}));
    assert_eq!(stack["status"]["lastUpdate"]["lastSuccessfulCommit"], revision);
    assert_eq!(condition(&stack, "Ready")["reason"], "ProcessingCompleted");
    assert!(took < TOLD, "the Stack followed after {took:?}");
    (revision, stack)
}

fn update_name(stack: &Value) -> &str {
    stack["status"]["lastUpdate"]["name"].as_str().unwrap()
}

#[test]
fn a_bucket_of_flux_is_followed() {
    let flux = flux();
    let scene = Scene::new("bucket");
    let bucket = Bucket::start();
    bucket.put("infra/Pulumi.yaml", &greets("app", "first"));
    scene.apply_secret("keys", &json!({"accesskey": "any", "secretkey": "thing"}));
    let spec = json!({
        "provider": "generic",
        "bucketName": Bucket::NAME,
        "endpoint": bucket.endpoint(),
        "insecure": true,
        "secretRef": {"name": "keys"},
    });
    let mut source = flux.source(scene.kubectl(), "Bucket", "app", &spec);
    scene.apply_stack_from("app", &json!({"fluxSource": {"sourceRef": source.reference(), "dir": "infra"}}));
    let (first, stack) = follow(&scene, &source, "", "", "first");
    assert!(first.starts_with("sha256:"), "{first}");

    bucket.put("infra/Pulumi.yaml", &greets("app", "second"));
    source.look();
    follow(&scene, &source, &first, update_name(&stack), "second");
}

#[test]
fn a_git_repository_of_flux_is_followed_and_missed() {
    let flux = flux();
    let scene = Scene::new("git");
    let git = GitHost::start();
    let first = git.create("app.git", "first");
    let spec = json!({"url": git.open.url("app.git"), "ref": {"branch": "main"}});
    let mut source = flux.source(scene.kubectl(), "GitRepository", "app", &spec);
    scene.apply_stack_from("app", &json!({"fluxSource": {"sourceRef": source.reference()}}));
    let (revision, stack) = follow(&scene, &source, "", "", "first");
    assert_eq!(revision, format!("main@sha1:{first}"));

    let second = git.commit("app.git", &[("Pulumi.yaml", &greets("app", "second"))]);
    source.look();
    let (revision, _) = follow(&scene, &source, &revision, update_name(&stack), "second");
    assert_eq!(revision, format!("main@sha1:{second}"));

    source.delete();
    let began = Instant::now();
    let stack = scene.until_stalled("app", "SourceUnavailable");
    let message = condition(&stack, "Stalled")["message"].as_str().unwrap();
    assert!(message.starts_with("could not resolve sourceRef") && message.contains("app"), "{message}");
    assert!(began.elapsed() < TOLD, "the Stack noticed after {:?}", began.elapsed());
}

#[test]
fn an_oci_repository_of_flux_is_followed() {
    let flux = flux();
    let scene = Scene::new("oci");
    let registry = Registry::start();
    let push = |greeting: &str| {
        let files = [("README.md", "a program"), ("infra/dev/Pulumi.yaml", &greets("app", greeting))];
        registry.push("programs/app", "stable", &files)
    };
    let first = push("first");
    let spec = json!({"url": registry.url("programs/app"), "ref": {"tag": "stable"}, "insecure": true});
    let mut source = flux.source(scene.kubectl(), "OCIRepository", "app", &spec);
    scene.apply_stack_from("app", &json!({"fluxSource": {"sourceRef": source.reference(), "dir": "infra/dev"}}));
    let (revision, stack) = follow(&scene, &source, "", "", "first");
    assert_eq!(revision, format!("stable@{first}"));

    let second = push("second");
    source.look();
    let (revision, _) = follow(&scene, &source, &revision, update_name(&stack), "second");
    assert_eq!(revision, format!("stable@{second}"));
}
