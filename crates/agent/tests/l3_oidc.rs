//! Access tokens that the agent gets for the pod's identity token, with the real CLI and a service that exchanges them.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use std::{fs, time::Duration};

use pko_proto::agent;
use pko_testkit::cloud::{Cloud, Exchange, identity_token};
use support::{Rig, init, reason, stack, up};

const NOTHING: &str = "name: shop\nruntime: yaml\n";
const SUBJECT: &str = "system:serviceaccount:team-a:pulumi";
const AUDIENCE: &str = "urn:pulumi:org:acme";

/// A workspace in whose pod the identity token is projected, and no access token given.
async fn serving(cloud: &Cloud, subject: &str) -> Rig {
    let mut rig = Rig::new(NOTHING);
    rig.set_env("PULUMI_BACKEND_URL", &cloud.url());
    rig.set_env("PULUMI_OIDC_TOKEN_FILE", &rig.path("token").display().to_string());
    project(&rig, subject);
    rig.start_agent().await;
    rig
}

fn project(rig: &Rig, subject: &str) {
    fs::write(rig.path("token"), identity_token(subject, AUDIENCE) + "\n").unwrap();
}

#[tokio::test]
async fn the_identity_token_is_exchanged_once_while_the_access_token_lasts() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, SUBJECT).await;
    rig.init().await;
    assert_eq!(rig.run("u1", up()).await.failure, None);
    assert_eq!(rig.run("u2", up()).await.failure, None);
    let who = rig.automation().await.who_am_i(agent::WhoAmIRequest {}).await.unwrap().into_inner();
    assert_eq!(who.user, "robot");
    let expected = Exchange {
        audience: AUDIENCE.to_owned(),
        token_type: "urn:pulumi:token-type:access_token:organization".to_owned(),
        scope: String::new(),
        expiration: "7200".to_owned(),
        subject: SUBJECT.to_owned(),
        granted: true,
    };
    assert_eq!(cloud.exchanges(), [expected]);
    let identity = fs::read_to_string(rig.path("token")).unwrap();
    for text in [rig.log(), rig.journal(), rig.calls().join("\n")] {
        assert!(!text.contains("pul-exchanged") && !text.contains(identity.trim()), "{text}");
    }
}

#[tokio::test]
async fn a_run_begins_with_a_new_access_token_when_half_of_the_olds_life_is_over() {
    let cloud = Cloud::start();
    // Over at once, as far as the agent knows; the service is more patient.
    cloud.issue_tokens_for(Duration::ZERO);
    let rig = serving(&cloud, SUBJECT).await;
    rig.init().await;
    let before = cloud.exchanges().len();
    assert_eq!(rig.run("u", up()).await.failure, None);
    assert!(cloud.exchanges().len() > before);
}

#[tokio::test]
async fn a_token_file_that_was_replaced_is_read_again() {
    let cloud = Cloud::start();
    cloud.issue_tokens_for(Duration::ZERO);
    let rig = serving(&cloud, SUBJECT).await;
    rig.init().await;
    project(&rig, "system:serviceaccount:team-a:rotated");
    assert_eq!(rig.run("u", up()).await.failure, None);
    let exchanges = cloud.exchanges();
    assert_eq!(exchanges.first().unwrap().subject, SUBJECT);
    assert_eq!(exchanges.last().unwrap().subject, "system:serviceaccount:team-a:rotated");
}

#[tokio::test]
async fn an_access_token_that_is_revoked_is_not_used_for_another_run() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, SUBJECT).await;
    rig.init().await;
    cloud.revoke_tokens();
    let run = rig.run("u1", up()).await;
    assert_eq!(reason(&run), "InvalidAccessToken", "{run:?}");
    assert_eq!(rig.run("u2", up()).await.failure, None);
    assert_eq!(cloud.exchanges().len(), 2);
}

#[tokio::test]
async fn a_refusal_is_told_with_its_remedy() {
    let cloud = Cloud::start();
    cloud.refuse_subject(SUBJECT);
    let rig = serving(&cloud, SUBJECT).await;
    let failure = rig.run("i", init(vec![stack()])).await.failure.unwrap();
    assert_eq!(failure.reason, "InvalidAccessToken");
    for words in
        ["/api/oauth/token", "403 Forbidden: access_denied: no policy of the issuer allows this subject", "OIDC issuer"]
    {
        assert!(failure.message.contains(words), "{words} in {}", failure.message);
    }
    assert_eq!(rig.calls_of("stack "), 0, "the CLI is not started without a token: {:?}", rig.calls());
    let status = rig.automation().await.who_am_i(agent::WhoAmIRequest {}).await.unwrap_err();
    assert!(status.message().contains("access_denied") && !status.details().is_empty(), "{status:?}");
}

#[tokio::test]
async fn a_token_that_is_not_there_is_told_and_tried_again_when_it_is() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, SUBJECT).await;
    fs::remove_file(rig.path("token")).unwrap();
    let failure = rig.run("i1", init(vec![stack()])).await.failure.unwrap();
    assert_eq!(failure.reason, "InvalidAccessToken");
    assert!(failure.message.contains("PULUMI_OIDC_TOKEN_FILE"), "{}", failure.message);
    project(&rig, SUBJECT);
    assert_eq!(rig.run("i2", init(vec![stack()])).await.failure, None);
}

#[tokio::test]
async fn a_service_that_fails_for_a_moment_is_asked_again() {
    let cloud = Cloud::start();
    cloud.fail_next(2, "POST /api/oauth/token", 503);
    let rig = serving(&cloud, SUBJECT).await;
    rig.init().await;
    assert_eq!(cloud.requests_of("POST /api/oauth/token"), 3);
}

#[tokio::test]
async fn a_service_that_cannot_be_reached_is_told_and_is_no_matter_of_tokens() {
    let mut rig = Rig::new(NOTHING);
    // Port 1 of this machine is closed.
    rig.set_env("PULUMI_BACKEND_URL", "http://127.0.0.1:1");
    rig.set_env("PULUMI_OIDC_TOKEN_FILE", &rig.path("token").display().to_string());
    project(&rig, SUBJECT);
    rig.start_agent().await;
    let failure = rig.run("i", init(vec![stack()])).await.failure.unwrap();
    assert_eq!(failure.reason, "InitializationFailed");
    for words in ["http://127.0.0.1:1/api/oauth/token", "refused"] {
        assert!(failure.message.contains(words), "{words} in {}", failure.message);
    }
}

#[tokio::test]
async fn a_token_for_a_team_is_asked_for_as_such_and_in_time() {
    let cloud = Cloud::start();
    let mut rig = Rig::new(NOTHING);
    let file = rig.path("token").display().to_string();
    for (name, value) in [
        ("PULUMI_BACKEND_URL", cloud.url().as_str()),
        ("PULUMI_OIDC_TOKEN_FILE", &file),
        ("PULUMI_OIDC_ORG", "acme"),
        ("PULUMI_OIDC_TEAM", "platform"),
        ("PULUMI_OIDC_EXPIRATION", "1h30m"),
    ] {
        rig.set_env(name, value);
    }
    project(&rig, SUBJECT);
    rig.start_agent().await;
    rig.init().await;
    let [asked] = cloud.exchanges().try_into().unwrap();
    assert_eq!(asked.token_type, "urn:pulumi:token-type:access_token:team");
    assert_eq!((asked.scope.as_str(), asked.expiration.as_str()), ("team:platform", "5400"));
}

#[tokio::test]
async fn an_access_token_that_is_given_is_used_instead() {
    let cloud = Cloud::start();
    let rig = {
        let mut rig = Rig::new(NOTHING);
        rig.set_env("PULUMI_BACKEND_URL", &cloud.url());
        rig.set_env("PULUMI_OIDC_TOKEN_FILE", "/no/such/token");
        fs::write(rig.path("share/.env"), format!("PULUMI_ACCESS_TOKEN={}\n", pko_testkit::cloud::TOKEN)).unwrap();
        rig.start_agent().await;
        rig
    };
    rig.init().await;
    assert_eq!(cloud.exchanges(), []);
}
