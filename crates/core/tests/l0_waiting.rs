//! For what and for whom a Stack waits before it is updated, on hand-built facts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::{
    Stack, Workspace, annotations,
    conditions::{ConditionType, find},
    stack::{LastUpdate, update_state},
    update::update_type,
    workspace::WorkspaceStatus,
};
use pko_core::{
    ask::{Answer, Question},
    effect::Effect,
    references::{ReferenceKind, ReferenceSeen},
    seen::Object,
    step::Then,
};
use rstest::rstest;
use serde_json::json;
use support::*;

const SUCCEEDED: &str = update_state::SUCCEEDED;
const FAILED: &str = update_state::FAILED;

fn world(stack: Stack) -> World {
    World::of_stack(stack).with(Object::Program(Box::new(program())), "program")
}

fn waits_for(effects: &[Effect]) -> (String, String) {
    let status = stack_status(effects);
    let found = find(&status.conditions, ConditionType::RECONCILING).unwrap_or_else(|| panic!("{status:?}"));
    (found.reason.clone(), found.message.clone())
}

fn stalled(effects: &[Effect]) -> (String, String) {
    let status = stack_status(effects);
    let found = find(&status.conditions, ConditionType::STALLED).unwrap_or_else(|| panic!("{status:?}"));
    (found.reason.clone(), found.message.clone())
}

fn other(name: &str, last: Option<LastUpdate>) -> Stack {
    let mut other = stack();
    other.metadata = metadata(name, &format!("{name}-uid"));
    other.metadata.finalizers = stack().metadata.finalizers;
    if let Some(last) = last {
        other = with_last(other, last);
    }
    other
}

fn requiring(names: &[&str], within: Option<&str>) -> Stack {
    let mut stack = stack();
    let entry = |name: &&str| match within {
        Some(within) => json!({"name": name, "requirement": {"succeededWithinDuration": within}}),
        None => json!({"name": name}),
    };
    stack.spec.prerequisites = serde_json::from_value(json!(names.iter().map(entry).collect::<Vec<_>>())).unwrap();
    stack
}

#[rstest]
#[case::it_does_not_exist(None, r#"unable to fetch prerequisite "base": Stack base does not exist"#)]
#[case::it_never_ran(Some(other("base", None)), r#"prerequisite not satisfied for "base": prerequisite has not run"#)]
#[case::it_ran_for_another_generation(
    Some(other("base", Some(LastUpdate { generation: 7, ..last_update(SUCCEEDED) }))),
    r#"prerequisite not satisfied for "base": prerequisite has not run to completion"#
)]
#[case::it_failed(
    Some(other("base", Some(last_update(FAILED)))),
    r#"prerequisite not satisfied for "base": prerequisite failed"#
)]
fn a_prerequisite_that_is_not_met_is_waited_for(#[case] base: Option<Stack>, #[case] expected: &str) {
    let mut world = world(requiring(&["base"], None));
    if let Some(base) = base {
        world = world.with(Object::Stack(Box::new(base)), "base");
    }
    let (effects, then) = world.act();
    let (reason, message) = waits_for(&effects);
    assert_eq!(reason, "PrerequisiteNotSatisfied");
    assert!(message.starts_with(expected), "{message}");
    assert!(matches!(then, Then::Requeue(_)));
    assert_eq!(names(&effects), ["write stack status"]);
}

#[test]
fn several_that_are_not_met_are_named() {
    let (effects, _) = world(requiring(&["a", "b"], None)).act();
    assert_eq!(waits_for(&effects).1, "multiple prerequisites were not satisfied a, b");
}

#[rstest]
#[case::it_is_recent(60, false, false)]
#[case::it_is_too_old(61, true, false)]
#[case::it_was_asked_already(61, true, true)]
fn a_prerequisite_that_is_out_of_date_is_asked_to_run_again(
    #[case] now: i64,
    #[case] waits: bool,
    #[case] asked: bool,
) {
    let mut base = other("base", Some(last_update(SUCCEEDED)));
    if asked {
        let request = (annotations::PREREQUISITE_REQUEST.to_owned(), "after-app-1".to_owned());
        base.metadata.annotations = Some([request].into());
    }
    let mut world = world(requiring(&["base"], Some("1m"))).with(Object::Stack(Box::new(base)), "base").now(now);
    let (effects, _) = world.act();
    if !waits {
        assert!(names(&effects).contains(&"apply workspace"), "{effects:?}");
        return;
    }
    assert!(waits_for(&effects).1.ends_with("prerequisite is out of date"));
    let requests: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::RequestUpdate { on, request } => Some((on.name.as_str(), on.uid.as_str(), request.as_str())),
            _ => None,
        })
        .collect();
    let expected = [("base", "base-uid", "after-app-1")];
    assert_eq!(requests, &expected[usize::from(asked)..]);
}

#[test]
fn stacks_that_require_each_other_are_named() {
    let requirements = [("app", "base"), ("base", "app")];
    let requirements = requirements.map(|(name, required)| (name.to_owned(), vec![required.to_owned()])).into();
    let (effects, _) =
        world(requiring(&["base"], None)).answer(Question::Requirements, Answer::Requirements(requirements)).act();
    let (reason, message) = stalled(&effects);
    assert_eq!(reason, "SpecInvalid");
    assert!(message.contains("app -> base -> app require each other"), "{message}");
}

#[test]
fn a_stack_that_is_deleted_waits_for_no_prerequisite() {
    let (effects, _) = world(deleted(with_last(requiring(&["base"], None), last_update(SUCCEEDED)))).act();
    assert!(names(&effects).contains(&"apply workspace"), "{effects:?}");
}

#[rstest]
#[case::it_is_destroyed_as_well(true, true, 100, Some("waiting for Stack dependent, which requires this one, to be"))]
#[case::it_may_follow(false, true, 1, Some("waiting a moment for Stack dependent"))]
#[case::it_stays(false, true, 100, None)]
#[case::it_destroys_nothing(true, false, 100, None)]
fn dependents_are_destroyed_first(
    #[case] going: bool,
    #[case] destroys: bool,
    #[case] now: i64,
    #[case] expected: Option<&str>,
) {
    let mut dependent = other("dependent", Some(last_update(SUCCEEDED)));
    dependent.spec.destroy_on_finalize = destroys;
    if going {
        dependent.metadata.deletion_timestamp = Some(Time(at(0)));
    }
    let mut base = deleted(with_last(stack(), last_update(SUCCEEDED)));
    base.metadata.deletion_timestamp = Some(Time(at(0)));
    let (effects, _) = world(base).answer(Question::Dependents, Answer::Stacks(vec![dependent])).now(now).act();
    match expected {
        Some(expected) => assert!(waits_for(&effects).1.starts_with(expected), "{effects:?}"),
        None => assert!(names(&effects).contains(&"apply workspace"), "{effects:?}"),
    }
}

#[test]
fn where_stacks_require_each_other_somebody_is_destroyed_first() {
    let mut dependent = other("dependent", Some(last_update(SUCCEEDED)));
    dependent.metadata.deletion_timestamp = Some(Time(at(0)));
    let circle = [("app", "dependent"), ("dependent", "app")];
    let circle = circle.map(|(name, required)| (name.to_owned(), vec![required.to_owned()])).into();
    let (effects, _) = world(deleted(with_last(stack(), last_update(SUCCEEDED))))
        .answer(Question::Dependents, Answer::Stacks(vec![dependent]))
        .answer(Question::Requirements, Answer::Requirements(circle))
        .now(100)
        .act();
    assert!(names(&effects).contains(&"apply workspace"), "{effects:?}");
}

fn using_a_secret() -> Stack {
    let mut stack = stack();
    let token = json!({"TOKEN": {"type": "Secret", "secret": {"name": "creds", "key": "token"}}});
    stack.spec.env_refs = serde_json::from_value(token).unwrap();
    stack
}

fn creds() -> Question {
    Question::Reference(ReferenceKind::Secret, "creds".to_owned())
}

fn seen(keys: &[(&str, &str)]) -> Answer {
    let keys = keys.iter().map(|(key, digest)| ((*key).to_owned(), (*digest).to_owned())).collect();
    Answer::Reference(Some(ReferenceSeen { keys, changed: None }))
}

#[rstest]
#[case(Answer::Reference(None), "Secret creds does not exist; create it")]
#[case(seen(&[("other", "1")]), "Secret creds has no key token; add it")]
fn what_the_pod_would_wait_for_is_named_before_there_is_a_pod(#[case] answer: Answer, #[case] expected: &str) {
    let (effects, then) = world(using_a_secret()).answer(creds(), answer).act();
    let (reason, message) = stalled(&effects);
    assert_eq!(reason, "SpecInvalid");
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(then, Then::Requeue(Duration::from_mins(1)));
}

fn hash_of(effects: &[Effect]) -> String {
    let applied = effects.iter().find_map(|effect| match effect {
        Effect::ApplyWorkspace { workspace, .. } => workspace.spec.pod_template.as_ref(),
        _ => None,
    });
    applied.unwrap().metadata.as_ref().unwrap().annotations[annotations::REFERENCES_HASH].clone()
}

#[test]
fn a_pod_is_made_for_the_values_that_are_used_and_renewed_for_others() {
    let hash = |keys: &[(&str, &str)]| hash_of(&world(using_a_secret()).answer(creds(), seen(keys)).act().0);
    let first = hash(&[("token", "1"), ("unused", "1")]);
    assert_eq!(first, hash(&[("token", "1"), ("unused", "2")]));
    assert_ne!(first, hash(&[("token", "2"), ("unused", "1")]));
}

#[rstest]
#[case::it_was_not_recorded("", "1", false)]
#[case::it_has_not_changed("same", "1", false)]
#[case::it_has_changed("same", "2", true)]
fn a_changed_secret_is_a_reason_to_update_if_it_is_known_what_it_was(
    #[case] recorded: &str,
    #[case] digest: &str,
    #[case] updates: bool,
) {
    let before = hash_of(&world(using_a_secret()).answer(creds(), seen(&[("token", "1")])).act().0);
    let mut last = last_update(SUCCEEDED);
    last.references_hash = if recorded.is_empty() { String::new() } else { before };
    let (effects, _) = world(with_last(using_a_secret(), last)).answer(creds(), seen(&[("token", digest)])).act();
    assert_eq!(names(&effects).contains(&"apply workspace"), updates, "{effects:?}");
}

#[test]
fn a_secret_that_vanishes_changes_nothing_until_the_next_update() {
    let mut last = last_update(SUCCEEDED);
    last.references_hash = "before".to_owned();
    let (effects, _) = world(with_last(using_a_secret(), last)).answer(creds(), Answer::Reference(None)).act();
    let status = stack_status(&effects);
    assert_eq!(find(&status.conditions, ConditionType::READY).unwrap().status, "True");
}

/// The Workspace that a Stack has applied, ready.
fn ready(stack: &Stack) -> Workspace {
    let (effects, _) = world(stack.clone()).act();
    let applied = effects.iter().find_map(|effect| match effect {
        Effect::ApplyWorkspace { workspace, .. } => Some((**workspace).clone()),
        _ => None,
    });
    let mut workspace = applied.unwrap_or_else(|| panic!("{effects:?}"));
    workspace.metadata.uid = Some("workspace-uid".to_owned());
    workspace.metadata.generation = Some(1);
    workspace.status = Some(WorkspaceStatus {
        observed_generation: 1,
        conditions: vec![Condition {
            type_: "Ready".to_owned(),
            status: "True".to_owned(),
            reason: "Succeeded".to_owned(),
            message: String::new(),
            last_transition_time: Time(at(0)),
            observed_generation: Some(1),
        }],
        ..WorkspaceStatus::default()
    });
    workspace
}

fn with_twin(stack: Stack, twin: Stack) -> World {
    let workspace = ready(&stack);
    let question = Question::Namesakes { deploys: pko_core::stack::deploys(&stack) };
    world(stack)
        .with(Object::Workspace(Box::new(workspace)), NAME)
        .answer(question, Answer::Stacks(vec![twin.clone()]))
        .live(Object::Stack(Box::new(twin)), "twin")
}

#[rstest]
#[case::it_updates(false, false, true)]
#[case::it_previews(true, false, false)]
#[case::this_one_previews(false, true, false)]
fn stacks_of_one_pulumi_stack_take_turns(#[case] twin_previews: bool, #[case] previews: bool, #[case] waits: bool) {
    let mut twin = with_current(other("twin", None));
    twin.spec.preview = twin_previews;
    let mut stack = stack();
    stack.spec.preview = previews;
    let (effects, _) = with_twin(stack, twin).act();
    if waits {
        let (reason, message) = waits_for(&effects);
        assert_eq!(reason, "StackProcessing");
        assert!(message.starts_with("waiting for Stack twin, which is about the same Pulumi stack"), "{message}");
    } else {
        assert!(names(&effects).contains(&"create update"), "{effects:?}");
    }
}

#[test]
fn an_old_view_of_the_other_is_not_enough_to_begin() {
    let twin = other("twin", None);
    let (effects, _) = with_twin(stack(), twin.clone()).live(Object::Stack(Box::new(with_current(twin))), "twin").act();
    assert!(waits_for(&effects).1.starts_with("waiting for Stack twin"), "{effects:?}");
}

fn ended(kind: &str, reason: Option<&str>) -> Object {
    let mut update = update();
    update.spec.update_type = Some(kind.to_owned());
    let condition = |of: &str, holds: bool, reason: &str| {
        json!({"type": of, "status": if holds { "True" } else { "False" }, "reason": reason, "message": "",
            "lastTransitionTime": "2024-01-01T00:00:00Z"})
    };
    let failed = reason.is_some();
    update.status = Some(
        serde_json::from_value(json!({"observedGeneration": 1, "message": "why", "conditions": [
            condition("Progressing", false, "Complete"),
            condition("Failed", failed, reason.unwrap_or("UpdateSucceeded")),
            condition("Complete", true, "Updated"),
        ]}))
        .unwrap(),
    );
    Object::Update(Box::new(update))
}

#[rstest]
#[case::a_provider("ProviderFailed", 3, "RetryingAfterFailure")]
#[case::the_backend("BackendUnavailable", 3, "RetryingAfterFailure")]
#[case::somebody_else("UpdateConflict", 3, "RetryingAfterFailure")]
#[case::the_program("ProgramFailed", 3, "UpdateFailed")]
#[case::the_configuration("MissingConfiguration", 3, "UpdateFailed")]
#[case::a_policy("PolicyViolation", 3, "UpdateFailed")]
fn what_may_pass_is_retried_for_ever_and_what_hardly_will_is_called_stalled(
    #[case] why: &str,
    #[case] failures: i64,
    #[case] expected: &str,
) {
    let last = LastUpdate { failures: failures - 1, ..last_update(FAILED) };
    let stack = with_last(with_current(stack()), last);
    let (effects, then) = world(stack).with(ended("up", Some(why)), "app-2").act();
    let status = stack_status(&effects);
    let last = status.last_update.as_ref().unwrap();
    assert_eq!((last.reason.as_str(), last.failures), (why, failures));
    let told = status.conditions.iter().find(|c| c.type_ != "Ready").unwrap();
    assert_eq!(told.reason, expected);
    assert!(told.message.contains("next attempt at "), "{}", told.message);
    assert!(matches!(then, Then::Requeue(_)));
}

#[rstest]
#[case(true, 1, "UpdateConflict", 10, 60)]
#[case(false, 2, "RetryingAfterFailure", 90, 100)]
fn a_conflict_counts_unless_the_user_does_not_mind(
    #[case] retries: bool,
    #[case] failures: i64,
    #[case] reason: &str,
    #[case] least: u64,
    #[case] most: u64,
) {
    let mut stack = with_last(with_current(stack()), LastUpdate { failures: 1, ..last_update(FAILED) });
    stack.spec.retry_on_update_conflict = retries;
    let (effects, then) = world(stack).with(ended("up", Some("UpdateConflict")), "app-2").act();
    assert_eq!(stack_status(&effects).last_update.as_ref().unwrap().failures, failures);
    assert_eq!(waits_for(&effects).0, reason);
    let Then::Requeue(wait) = then else { panic!("{then:?}") };
    assert!((least..=most).contains(&wait.as_secs()), "{wait:?}");
}

#[test]
fn another_commit_begins_counting_anew() {
    let last = LastUpdate { failures: 3, last_attempted_commit: "0".to_owned(), ..last_update(FAILED) };
    let stack = with_last(with_current(stack()), last);
    let (effects, _) = world(stack).with(ended("up", Some("ProgramFailed")), "app-2").act();
    assert_eq!(stack_status(&effects).last_update.as_ref().unwrap().failures, 0);
}

fn cautious() -> Stack {
    let mut stack = stack();
    (stack.spec.refresh, stack.spec.expect_no_refresh_changes) = (true, true);
    stack
}

fn created(effects: &[Effect]) -> (String, Option<bool>) {
    let update = effects.iter().find_map(|effect| match effect {
        Effect::CreateUpdate(update) => Some(update),
        _ => None,
    });
    let spec = &update.unwrap_or_else(|| panic!("{effects:?}")).spec;
    (spec.update_type.clone().unwrap(), spec.expect_no_changes)
}

#[test]
fn an_update_that_expects_no_drift_begins_with_a_refresh() {
    let stack = cautious();
    let workspace = Object::Workspace(Box::new(ready(&stack)));
    let (effects, _) = world(stack.clone()).with(workspace.clone(), NAME).act();
    assert_eq!(created(&effects), ("refresh".to_owned(), Some(true)));
    // The refresh found nothing: then comes the update, and the Stack is not called ready in between.
    let running = with_current(stack.clone());
    let (effects, _) = world(running).with(workspace, NAME).with(ended(update_type::REFRESH, None), "app-2").act();
    assert_eq!(created(&effects), ("up".to_owned(), None));
    let status = stack_status(&effects);
    assert_eq!(status.last_update.as_ref().unwrap().last_successful_commit, "", "nothing was deployed by it");
    assert!(find(&status.conditions, ConditionType::RECONCILING).is_some());
}

#[test]
fn drift_that_was_not_expected_stops_the_stack_until_it_is_asked_for() {
    let stack = with_current(cautious());
    let (effects, then) =
        world(stack.clone()).with(ended(update_type::REFRESH, Some("UnexpectedChanges")), "app-2").act();
    let (reason, message) = stalled(&effects);
    assert_eq!(reason, "UpdateFailed");
    assert!(message.contains("changed outside of Pulumi"), "{message}");
    assert_eq!(then, Then::AwaitChange);
    let mut asked = stack;
    asked.status = Some(stack_status(&effects).clone());
    asked.metadata.annotations = Some([(annotations::RECONCILIATION_REQUEST.to_owned(), "go".to_owned())].into());
    let workspace = Object::Workspace(Box::new(ready(&cautious())));
    let (effects, _) = world(asked).with(workspace, NAME).act();
    assert_eq!(created(&effects).0, "refresh", "and then the update");
}

#[test]
fn a_preview_leaves_what_it_has_shown_and_the_outputs_of_the_last_update_stay() {
    let mut stack = with_current(stack());
    stack.spec.preview = true;
    let outputs = [("url".to_owned(), json!("https://app.test"))].into();
    stack.status.as_mut().unwrap().outputs = Some(outputs);
    let Object::Update(mut update) = ended("preview", None) else { panic!() };
    let status = update.status.as_mut().unwrap();
    status.permalink = "https://app.test/previews/1".to_owned();
    status.resource_changes.insert("create".to_owned(), 3);
    status.preview = Some(serde_json::from_value(json!({"standardOutput": "+ 3", "outputs": {"a": 1}})).unwrap());
    let (effects, _) = world(stack).with(Object::Update(update), "app-2").act();
    let status = stack_status(&effects);
    let last = status.last_update.as_ref().unwrap();
    assert_eq!((last.update_type.as_str(), last.permalink.as_str()), ("preview", "https://app.test/previews/1"));
    assert_eq!(last.resource_changes["create"], 3);
    assert_eq!(last.preview.as_ref().unwrap().standard_output, "+ 3");
    assert_eq!(status.outputs.as_ref().unwrap()["url"], "https://app.test");
}

#[test]
fn what_flux_asked_for_is_recorded_when_an_update_is_planned() {
    let mut stack = stack();
    let asked = (annotations::FLUX_REQUESTED_AT.to_owned(), "2030-01-01T00:00:00Z".to_owned());
    stack.metadata.annotations = Some([asked].into());
    let workspace = Object::Workspace(Box::new(ready(&stack)));
    let (effects, _) = world(stack).with(workspace, NAME).act();
    assert_eq!(stack_status(&effects).last_handled_reconcile_at.as_deref(), Some("2030-01-01T00:00:00Z"));
}

#[test]
fn a_watched_reference_is_one_of_the_spec_or_of_its_template_or_of_its_repository() {
    let mut stack = using_a_secret();
    stack.spec.git_auth_secret = Some("git".to_owned());
    stack.spec.envs = vec!["settings".to_owned()];
    let found: Vec<_> = pko_core::stack::references(&stack).into_iter().map(|it| (it.kind.as_str(), it.name)).collect();
    let expected = [("Secret", "creds"), ("ConfigMap", "settings"), ("Secret", "git")];
    assert_eq!(found, expected.map(|(kind, name)| (kind, name.to_owned())));
}
