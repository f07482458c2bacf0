//! Where a Stack's program comes from, on hand-built facts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use pko_api::{
    Stack,
    conditions::{ConditionType, find},
    stack::update_state,
};
use pko_core::{
    ask::{Answer, GitTrouble, Listing, Question, SourceRef, SourceSeen},
    effect::Effect,
    seen::Object,
    step::Then,
};
use rstest::rstest;
use serde_json::{Value, json};
use support::*;

const URL: &str = "https://git.test/team/repo.git";

fn with_spec(spec: &Value) -> Stack {
    let mut stack = stack();
    let mut all = serde_json::to_value(&stack.spec).unwrap();
    all.as_object_mut().unwrap().remove("programRef");
    for (name, value) in spec.as_object().unwrap() {
        all[name] = value.clone();
    }
    stack.spec = serde_json::from_value(all).unwrap();
    stack
}

fn on_branch() -> Stack {
    with_spec(&json!({"projectRepo": URL, "branch": "main", "repoDir": "infra/"}))
}

fn stalled(world: &mut World) -> (String, String, Then) {
    let (effects, then) = world.act();
    let status = stack_status(&effects);
    let stalled = find(&status.conditions, ConditionType::STALLED).unwrap_or_else(|| panic!("{status:?}"));
    (stalled.reason.clone(), stalled.message.clone(), then)
}

fn applied(effects: &[Effect]) -> Value {
    let found = effects.iter().find_map(|effect| match effect {
        Effect::ApplyWorkspace { workspace, .. } => Some(serde_json::to_value(&workspace.spec).unwrap()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("{effects:?}"))
}

fn listing(world: &World) -> Listing {
    let listing = world.asked.iter().find_map(|question| match question {
        Question::Revision(listing) => Some((**listing).clone()),
        _ => None,
    });
    listing.unwrap()
}

#[test]
fn a_branch_is_looked_up_and_its_commit_is_checked_out() {
    let mut world = World::of_stack(on_branch());
    let (effects, _) = world.act();
    assert_eq!(listing(&world).reference, "main");
    let git = &applied(&effects)["git"];
    assert_eq!(git, &json!({"url": URL, "ref": "main-1", "dir": "infra/"}));
}

#[test]
fn somebody_who_waits_gets_a_fresh_look_and_who_polls_may_share() {
    let mut world = World::of_stack(on_branch());
    world.act();
    assert_eq!(listing(&world).max_age, Duration::from_secs(5));
    let mut last = last_update(update_state::SUCCEEDED);
    last.last_successful_commit = "main-1".to_owned();
    let mut world = World::of_stack(with_last(on_branch(), last));
    let (_, then) = world.act();
    assert_eq!(listing(&world).max_age, Duration::from_secs(54));
    assert_eq!(then, Then::Requeue(Duration::from_mins(1)), "and it polls");
}

#[rstest]
#[case(json!({"branch": "main"}), Some(60))]
#[case(json!({"branch": "main", "resyncFrequencySeconds": 300}), Some(300))]
#[case(json!({"branch": "a".repeat(40)}), None)]
#[case(json!({"commit": "a".repeat(40)}), None)]
fn what_can_move_is_polled(#[case] mut spec: Value, #[case] every: Option<u64>) {
    spec["projectRepo"] = json!(URL);
    let commit = spec["branch"].as_str().or(spec["commit"].as_str()).unwrap().to_owned();
    let mut last = last_update(update_state::SUCCEEDED);
    last.last_successful_commit = format!("{commit}-1");
    let (_, then) = World::of_stack(with_last(with_spec(&spec), last)).act();
    assert_eq!(then, every.map_or(Then::AwaitChange, |every| Then::Requeue(Duration::from_secs(every))));
}

fn secret(name: &str, key: &str) -> Value {
    json!({"type": "Secret", "secret": {"name": name, "key": key}})
}

fn key(name: &str, key: &str) -> Value {
    json!({"name": name, "key": key})
}

#[rstest]
#[case::token(json!({"gitAuth": {"accessToken": secret("creds", "token")}}), json!({"token": key("creds", "token")}))]
#[case::basic(
    json!({"gitAuth": {"basicAuth": {"userName": secret("creds", "u"), "password": secret("creds", "p")}}}),
    json!({"username": key("creds", "u"), "password": key("creds", "p")})
)]
#[case::ssh(
    json!({"gitAuth": {"sshAuth": {"sshPrivateKey": secret("creds", "key"), "password": secret("creds", "p")}}}),
    json!({"sshPrivateKey": key("creds", "key"), "password": key("creds", "p")})
)]
#[case::app(
    json!({"gitAuth": {"githubApp": {
        "appID": secret("app", "id"), "installationID": secret("app", "inst"), "privateKey": secret("app", "key"),
    }}}),
    json!({"githubApp": {"appID": key("app", "id"), "installationID": key("app", "inst"), "privateKey": key("app", "key")}})
)]
#[case::one_secret(
    json!({"gitAuthSecret": "creds"}),
    json!({
        "sshPrivateKey": {"name": "creds", "key": "sshPrivateKey", "optional": true},
        "username": {"name": "creds", "key": "username", "optional": true},
        "password": {"name": "creds", "key": "password", "optional": true},
        "token": {"name": "creds", "key": "accessToken", "optional": true},
    })
)]
fn credentials_are_for_the_look_and_for_the_clone(#[case] mut spec: Value, #[case] expected: Value) {
    spec["projectRepo"] = json!(URL);
    spec["branch"] = json!("main");
    spec["shallow"] = json!(true);
    let reference = pko_core::references::ReferenceSeen {
        keys: ["token", "u", "p", "key", "id", "inst"].map(|key| (key.to_owned(), String::new())).into(),
        changed: None,
    };
    let mut world = World::of_stack(with_spec(&spec));
    for name in ["creds", "app"] {
        let question = Question::Reference(pko_core::references::ReferenceKind::Secret, name.to_owned());
        world = world.answer(question, Answer::Reference(Some(reference.clone())));
    }
    let (effects, _) = world.act();
    assert_eq!(serde_json::to_value(listing(&world).auth).unwrap(), expected);
    let git = &applied(&effects)["git"];
    assert_eq!((&git["auth"], &git["shallow"]), (&expected, &json!(true)));
}

#[rstest]
#[case(json!({"branch": "main"}), r#"missing "projectRepo""#)]
#[case(json!({"projectRepo": URL}), r#"missing "commit" or "branch""#)]
#[case(json!({"projectRepo": URL, "branch": "main", "commit": "1"}), r#"only one of "commit" or "branch" should be"#)]
#[case(json!({"projectRepo": URL, "branch": "m", "gitAuth": {}}), "gitAuth config must specify exactly one of")]
#[case(
    json!({"projectRepo": URL, "branch": "m", "gitAuth": {"accessToken": {"type": "Literal", "literal": {"value": "x"}}}}),
    "resolving gitAuth personal access token: Literal selectors are no longer supported in v2"
)]
#[case(
    json!({"projectRepo": URL, "branch": "m", "gitAuth": {"accessToken": {"type": "Secret"}}}),
    "spec.gitAuth.accessToken: resolving gitAuth personal access token: missing secret reference in ResourceRef; add"
)]
#[case(
    json!({"projectRepo": URL, "branch": "m", "gitAuth": {"sshAuth": {"sshPrivateKey":
        {"type": "Secret", "secret": {"name": "a", "key": "b", "namespace": "other"}}}}}),
    "resolving gitAuth SSH private key: cross-namespace refs are not allowed; copy the Secret"
)]
#[case(json!({"projectRepo": URL, "branch": "m", "programRef": {"name": "p"}}), "a program comes from one place")]
#[case(
    json!({"programRef": {"name": "p"}, "fluxSource": {"sourceRef": {"apiVersion": "v1", "kind": "A", "name": "b"}}}),
    "spec: has spec.fluxSource and spec.programRef; a program comes from one place"
)]
#[case(
    json!({"fluxSource": {"sourceRef": {"apiVersion": "a/b/c", "kind": "A", "name": "b"}}}),
    "cannot process source reference: apiVersion must be"
)]
fn a_source_that_makes_no_sense_is_told_by_its_field(#[case] spec: Value, #[case] expected: &str) {
    let (reason, message, _) = stalled(&mut World::of_stack(with_spec(&spec)));
    assert_eq!(reason, "SpecInvalid");
    assert!(message.contains(expected), "{message}");
}

#[rstest]
#[case(GitTrouble::Address("invalid URL scheme: hhtp".to_owned()), "SpecInvalid", "spec.projectRepo: invalid URL", None)]
#[case(GitTrouble::Credentials("no key \"x\"".to_owned()), "SpecInvalid", "no key \"x\"", Some(60))]
#[case(GitTrouble::NoRevision("it has dev".to_owned()), "SourceUnavailable", "no commits found for ref \"main\": it has dev", Some(30))]
#[case(GitTrouble::Unavailable("no route".to_owned()), "SourceUnavailable", "listing: no route", Some(30))]
fn a_repository_that_does_not_tell_is_asked_again(
    #[case] trouble: GitTrouble,
    #[case] reason: &str,
    #[case] expected: &str,
    #[case] after: Option<u64>,
) {
    let mut world = World::of_stack(on_branch());
    world.act();
    let question = Question::Revision(Box::new(listing(&world)));
    let mut world = World::of_stack(on_branch()).answer(question, Answer::Revision(Err(trouble)));
    let (told, message, then) = stalled(&mut world);
    assert_eq!(told, reason);
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(then, after.map_or(Then::AwaitChange, |after| Then::Requeue(Duration::from_secs(after))));
}

fn from_flux() -> Stack {
    let reference = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "Bucket", "name": "state"});
    with_spec(&json!({"fluxSource": {"sourceRef": reference, "dir": "infra"}}))
}

fn flux(seen: SourceSeen) -> World {
    let question = Question::Source(SourceRef {
        api_version: "source.toolkit.fluxcd.io/v1".to_owned(),
        kind: "Bucket".to_owned(),
        name: "state".to_owned(),
    });
    World::of_stack(from_flux()).answer(question, Answer::Source(seen))
}

#[test]
fn a_flux_artifact_is_fetched_with_its_digest() {
    let artifact = SourceSeen::Artifact {
        url: "http://source-controller/a.tar.gz".to_owned(),
        revision: "main@sha1:1".to_owned(),
        digest: "sha256:1".to_owned(),
    };
    let (effects, _) = flux(artifact).act();
    let expected = json!({"url": "http://source-controller/a.tar.gz", "digest": "sha256:1", "dir": "infra"});
    assert_eq!(applied(&effects)["flux"], expected);
}

#[rstest]
#[case(SourceSeen::Missing("not found".to_owned()), "could not resolve sourceRef: not found")]
#[case(SourceSeen::Unreadable("no such kind".to_owned()), "could not resolve sourceRef: no such kind")]
#[case(SourceSeen::Empty { why: String::new() }, "Flux source has no artifact")]
#[case(SourceSeen::Empty { why: "auth failed".to_owned() }, "Flux source has no artifact: auth failed")]
fn a_flux_source_with_nothing_to_offer_is_waited_for(#[case] seen: SourceSeen, #[case] expected: &str) {
    let (reason, message, then) = stalled(&mut flux(seen));
    assert_eq!((reason.as_str(), message.as_str()), ("SourceUnavailable", expected));
    assert_eq!(then, Then::Requeue(Duration::from_secs(30)));
}

#[test]
fn a_branch_that_moves_does_not_restart_a_pod_that_is_starting() {
    let stack = on_branch();
    let (effects, _) = World::of_stack(stack.clone()).act();
    let Some(Effect::ApplyWorkspace { workspace, .. }) = effects.get(1) else { panic!("{effects:?}") };
    let mut starting = (**workspace).clone();
    starting.metadata.uid = Some("workspace-uid".to_owned());
    starting.metadata.generation = Some(1);
    let mut world = World::of_stack(stack.clone());
    world.act();
    let moved = Question::Revision(Box::new(listing(&world)));
    let at_two = |workspace: pko_api::Workspace| {
        World::of_stack(stack.clone())
            .answer(moved.clone(), Answer::Revision(Ok("main-2".to_owned())))
            .with(Object::Workspace(Box::new(workspace)), NAME)
            .act()
            .0
    };
    let waits = at_two(starting.clone());
    assert!(!names(&waits).contains(&"apply workspace"), "{waits:?}");
    // What is ready, or cannot become so, is brought to the new commit.
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"});
    for kind in ["Ready", "Stalled"] {
        let mut done = starting.clone();
        let status = json!({"observedGeneration": 1, "conditions": [condition(kind)]});
        done.status = Some(serde_json::from_value(status).unwrap());
        assert_eq!(applied(&at_two(done))["git"]["ref"], "main-2", "{kind}");
    }
}
