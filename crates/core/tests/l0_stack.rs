//! Decisions about Stacks on hand-built facts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::{
    Checked, ProjectInfo, Stack, Update, Workspace, annotations,
    conditions::{ConditionType, find},
    stack::{LastUpdate, update_state},
    update::update_type,
    workspace::WorkspaceStatus,
};
use pko_core::{
    ask::{Answer, Question},
    effect::Effect,
    seen::Object,
    stack::{Present, Synced, cooldown, plan, synced},
    step::Then,
};
use rstest::rstest;
use serde_json::json;
use support::*;

const SUCCEEDED: &str = update_state::SUCCEEDED;
const FAILED: &str = update_state::FAILED;

fn requested(mut stack: Stack, value: &str) -> Stack {
    let request = (annotations::RECONCILIATION_REQUEST.to_owned(), value.to_owned());
    stack.metadata.annotations = Some([request].into());
    stack
}

fn generation(mut stack: Stack, generation: i64) -> Stack {
    stack.metadata.generation = Some(generation);
    stack
}

fn resyncing(mut stack: Stack) -> Stack {
    stack.spec.continue_resync_on_commit_match = true;
    stack
}

fn failures(failures: i64) -> LastUpdate {
    LastUpdate { failures, ..last_update(FAILED) }
}

fn referring(hash: &str, last: LastUpdate) -> LastUpdate {
    LastUpdate { references_hash: hash.to_owned(), ..last }
}

fn annotated(mut stack: Stack, key: &str, value: &str) -> Stack {
    stack.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
    stack
}

fn asked_by_flux(stack: Stack, value: &str) -> Stack {
    annotated(stack, annotations::FLUX_REQUESTED_AT, value)
}

fn asked_by_dependent(stack: Stack, value: &str) -> Stack {
    annotated(stack, annotations::PREREQUISITE_REQUEST, value)
}

fn destroyed() -> LastUpdate {
    LastUpdate { generation: 2, update_type: update_type::DESTROY.to_owned(), ..last_update(SUCCEEDED) }
}

#[rstest]
#[case::it_was_never_updated(stack(), "1", 0, Some("Initial stack update"))]
#[case::its_spec_changed(
    generation(with_last(stack(), last_update(SUCCEEDED)), 2),
    "1",
    0,
    Some("New stack generation: 2")
)]
#[case::a_deletion_is_a_new_generation(
    deleted(with_last(stack(), last_update(SUCCEEDED))),
    "1",
    0,
    Some("Stack marked for deletion")
)]
#[case::the_user_asked(
    requested(with_last(stack(), last_update(SUCCEEDED)), "now"),
    "1",
    0,
    Some(r#"Sync request: "now""#)
)]
#[case::it_was_destroyed(deleted(with_last(stack(), destroyed())), "1", 0, None)]
#[case::its_source_changed(with_last(stack(), last_update(SUCCEEDED)), "2", 0, Some(r#"New commit detected: "2""#))]
#[case::nothing_changed(with_last(stack(), last_update(SUCCEEDED)), "1", 1_000_000, None)]
#[case::a_resync_is_due(
    resyncing(with_last(stack(), last_update(SUCCEEDED))),
    "1",
    60,
    Some("Resync time elapsed: 1m0s")
)]
#[case::a_resync_is_not_due_yet(resyncing(with_last(stack(), last_update(SUCCEEDED))), "1", 59, None)]
#[case::its_source_changed_after_a_failure(
    with_last(stack(), failures(3)),
    "2",
    0,
    Some(r#"New commit detected: "2""#)
)]
#[case::it_failed_too_often_and_is_tried_all_the_same(
    with_last(stack(), failures(3)),
    "1",
    300,
    Some("Backoff time elapsed: 4m30s")
)]
#[case::it_cools_down(with_last(stack(), failures(1)), "1", 29, None)]
#[case::it_has_cooled_down(with_last(stack(), failures(1)), "1", 33, Some("Backoff time elapsed: 30s"))]
#[case::a_resync_is_due_before_it_has_cooled_down(
    resyncing(with_last(stack(), failures(3))),
    "1",
    66,
    Some("Backoff time elapsed: 1m0s")
)]
#[case::a_secret_changed(
    with_last(stack(), referring("r0", last_update(SUCCEEDED))),
    "1",
    0,
    Some("Referenced Secret or ConfigMap changed")
)]
#[case::a_secret_changed_after_a_failure(
    with_last(stack(), referring("r0", failures(3))),
    "1",
    0,
    Some("Referenced Secret or ConfigMap changed")
)]
#[case::no_secret_changed(with_last(stack(), referring("r1", last_update(SUCCEEDED))), "1", 0, None)]
#[case::flux_asked(
    asked_by_flux(with_last(stack(), last_update(SUCCEEDED)), "2030-01-01T00:00:00Z"),
    "1",
    0,
    Some(r#"Sync request: "2030-01-01T00:00:00Z""#)
)]
#[case::flux_asked_another_operator_long_ago(
    asked_by_flux(with_last(stack(), last_update(SUCCEEDED)), "2020-01-01T00:00:00.5Z"),
    "1",
    0,
    None
)]
#[case::a_dependent_asked(
    asked_by_dependent(with_last(stack(), last_update(SUCCEEDED)), "after-app-1"),
    "1",
    0,
    Some(r#"Sync request: "after-app-1""#)
)]
#[case::a_dependent_asked_for_what_was_done_since(
    asked_by_dependent(with_last(stack(), last_update(SUCCEEDED)), "after-app-0"),
    "1",
    0,
    None
)]
#[case::a_state_nobody_knows(with_last(stack(), last_update("strange")), "1", 0, None)]
fn whether_an_update_is_needed(
    #[case] stack: Stack,
    #[case] commit: &str,
    #[case] now: i64,
    #[case] expected: Option<&str>,
) {
    let expected = expected.map_or(Synced::Yes, |trigger| Synced::No { trigger: trigger.to_owned() });
    let status = stack.status.clone().unwrap_or_default();
    let present = Present { commit, references: Some("r1"), now: at(now) };
    assert_eq!(synced(&stack, &status, present), expected);
}

#[rstest]
#[case(0, None, 10)]
#[case(1, None, 30)]
#[case(2, None, 90)]
#[case(3, None, 270)]
#[case(0, Some(5), 5)]
#[case(2, Some(60), 60)]
#[case(2, Some(-1), 90)]
#[case(i64::MAX, None, 86_400)]
fn waits_after_failures_grow_up_to_their_cap(#[case] failures: i64, #[case] cap: Option<i64>, #[case] seconds: u64) {
    let mut stack = stack();
    stack.spec.retry_max_backoff_duration_seconds = cap.map(Checked::Good);
    assert_eq!(cooldown(&stack, failures), Duration::from_secs(seconds));
}

/// The Workspace that the Stack plans, as the API server would return it, with that condition.
fn workspace(stack: &Stack, condition: &str, reason: &str) -> Workspace {
    let source = plan::Source::Flux {
        url: "http://operator.test:80/programs/team/program/1".to_owned(),
        digest: "sha256:00".to_owned(),
        dir: String::new(),
    };
    let mut workspace = plan::workspace(stack, &source).unwrap();
    let planned = workspace.metadata.clone();
    workspace.metadata = metadata(NAME, "workspace-uid");
    workspace.metadata.annotations = planned.annotations;
    workspace.metadata.owner_references = planned.owner_references;
    workspace.status = Some(WorkspaceStatus {
        observed_generation: 1,
        conditions: vec![Condition {
            type_: condition.to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: "why".to_owned(),
            last_transition_time: Time(at(0)),
            observed_generation: Some(1),
        }],
        ..WorkspaceStatus::default()
    });
    workspace
}

fn world(stack: Stack) -> World {
    World::of_stack(stack).with(Object::Program(Box::new(program())), "program")
}

fn with_update(world: World, update: &Update) -> World {
    world.with(Object::Update(Box::new(update.clone())), "app-2")
}

fn ended(failed: Option<&str>) -> Update {
    let mut update = update();
    let condition = |kind: &str, holds: bool, reason: &str| Condition {
        type_: kind.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: String::new(),
        last_transition_time: Time(at(0)),
        observed_generation: Some(1),
    };
    let status = update.status.get_or_insert_default();
    status.observed_generation = 1;
    status.conditions = vec![
        condition("Progressing", false, "Complete"),
        condition("Failed", failed.is_some(), failed.unwrap_or("UpdateSucceeded")),
        condition("Complete", true, "Updated"),
    ];
    update
}

#[test]
fn a_new_stack_gets_its_finalizer_before_anything_else() {
    let mut stack = stack();
    stack.metadata.finalizers = Some(vec!["someone.else".to_owned()]);
    let (effects, then) = world(stack).act();
    let [Effect::HoldStack { finalizers, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(finalizers, &["someone.else", "finalizer.stack.pulumi.com"]);
    assert_eq!(then, Then::AwaitChange);
}

#[test]
fn a_deleted_stack_without_our_finalizer_is_left_alone() {
    let mut stack = deleted(stack());
    stack.metadata.finalizers = Some(vec!["someone.else".to_owned()]);
    assert_eq!(world(stack).act(), (Vec::new(), Then::AwaitChange));
}

#[test]
fn the_workspace_is_applied_and_waited_for_before_an_update() {
    let (effects, then) = world(stack()).act();
    assert_eq!(names(&effects), ["write stack status", "apply workspace"]);
    let waiting = find(&stack_status(&effects).conditions, ConditionType::RECONCILING).unwrap();
    assert_eq!(
        (waiting.reason.as_str(), waiting.message.as_str()),
        ("StackProcessing", "waiting for workspace readiness")
    );
    assert!(matches!(then, Then::Requeue(_)));
}

#[rstest]
#[case("WaitingForReplicas", "Waiting for the workspace pod to be available", "")]
#[case("WaitingForReplicas", "Waiting for the workspace pod to be available: no room", ": no room")]
#[case("Installing", "Installing packages and plugins required by the program", "")]
#[case("ConnectionFailed", "connection refused", ": ConnectionFailed: connection refused")]
fn what_keeps_its_workspace_from_becoming_ready_is_told_on_the_stack(
    #[case] reason: &str,
    #[case] message: &str,
    #[case] told: &str,
) {
    let mut workspace = workspace(&stack(), "Ready", reason);
    let ready = &mut workspace.status.as_mut().unwrap().conditions[0];
    "False".clone_into(&mut ready.status);
    message.clone_into(&mut ready.message);
    let (effects, _) = world(stack()).with(workspace_object(workspace), NAME).act();
    let waiting = find(&stack_status(&effects).conditions, ConditionType::RECONCILING).unwrap();
    assert_eq!(waiting.message, format!("waiting for workspace readiness{told}"));
}

#[test]
fn what_the_server_refuses_is_told_on_the_stack() {
    let (effects, _) = world(stack()).refused("workspaces is forbidden").act();
    let waiting = find(&stack_status(&effects).conditions, ConditionType::RECONCILING).unwrap();
    assert_eq!(waiting.message, "waiting for workspace readiness: workspaces is forbidden");
}

#[test]
fn an_old_view_of_the_stack_does_not_touch_the_workspace() {
    let mut newer = stack();
    newer.metadata.resource_version = Some("8".to_owned());
    let (effects, then) = world(stack()).live(Object::Stack(Box::new(newer)), NAME).act();
    assert_eq!(effects, []);
    assert!(matches!(then, Then::Requeue(_)));
}

#[test]
fn an_update_is_planned_in_the_status_before_it_is_created() {
    let stack = stack();
    let workspace = workspace(&stack, "Ready", "Succeeded");
    let (effects, _) = world(stack).with(workspace_object(workspace), NAME).act();
    assert_eq!(names(&effects), ["write stack status", "create update", "publish event"]);
    let planned = stack_status(&effects).current_update.clone().unwrap();
    let Effect::CreateUpdate(update) = &effects[1] else { panic!("{effects:?}") };
    assert_eq!(update.metadata.name.as_deref(), Some(planned.name.as_str()));
    assert_eq!(planned.name, format!("app-{:x}", at(0).as_millisecond()));
    assert_eq!((planned.generation, planned.commit.as_str()), (1, "1"));
    let Effect::Status { on, .. } = &effects[0] else { panic!("{effects:?}") };
    assert_eq!(on.resource_version, "7", "guarded by the version that was read");
}

#[test]
fn a_planned_update_that_does_not_exist_is_created_under_its_name() {
    let stack = with_current(stack());
    let workspace = workspace(&stack, "Ready", "Succeeded");
    let (effects, _) = world(stack).with(workspace_object(workspace), NAME).act();
    let created: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::CreateUpdate(update) => update.metadata.name.as_deref(),
            _ => None,
        })
        .collect();
    assert_eq!(created, ["app-2"]);
}

#[test]
fn an_update_that_seems_missing_to_an_old_view_is_not_created_again() {
    let mut newer = with_last(stack(), last_update(SUCCEEDED));
    newer.metadata.resource_version = Some("8".to_owned());
    let (effects, _) = world(with_current(stack())).live(Object::Stack(Box::new(newer)), NAME).act();
    assert_eq!(effects, []);
}

#[test]
fn a_running_update_is_held_and_waited_for_whatever_else_changed() {
    let mut update = update();
    update.metadata.finalizers = None;
    let stack = deleted(with_current(stack()));
    let (effects, then) = with_update(world(stack), &update).act();
    assert_eq!(names(&effects), ["write stack status", "hold update"]);
    assert_eq!(stack_status(&effects).current_update.as_ref().unwrap().name, "app-2");
    assert!(matches!(then, Then::Requeue(_)));
}

#[test]
fn a_result_is_taken_over_before_its_update_is_let_go() {
    let mut update = ended(None);
    let status = update.status.as_mut().unwrap();
    status.outputs = "app-2-stack-outputs".to_owned();
    status.project_info =
        Some(ProjectInfo { name: "program".to_owned(), runtime: "yaml".to_owned(), ..ProjectInfo::default() });
    let outputs = BTreeMap::from([("plain".to_owned(), json!(1)), ("hidden".to_owned(), json!("[secret]"))]);
    let (effects, then) = with_update(world(with_current(stack())), &update)
        .answer(Question::Outputs { secret: "app-2-stack-outputs".to_owned() }, Answer::Outputs(Some(outputs.clone())))
        .now(5)
        .act();
    assert_eq!(names(&effects), ["write stack status", "release update", "publish event"]);
    let status = stack_status(&effects);
    assert_eq!(status.current_update, None);
    assert_eq!(status.outputs.as_ref(), Some(&outputs));
    let last = status.last_update.as_ref().unwrap();
    assert_eq!(
        (last.state.as_str(), last.name.as_str(), last.last_successful_commit.as_str()),
        (SUCCEEDED, "app-2", "1")
    );
    assert_eq!(last.last_resync_time, Some(Time(at(5))));
    assert_eq!(find(&status.conditions, ConditionType::READY).unwrap().status, "True");
    assert_eq!(then, Then::AwaitChange);
}

#[rstest]
#[case::the_first_failure_of_a_generation_counts_nothing(None, "UpdateFailed", 0)]
#[case::the_next_one_does(Some(failures(1)), "UpdateFailed", 2)]
#[case::one_that_was_lost_does_not(Some(failures(1)), "Aborted", 1)]
#[case::nor_one_that_never_began(Some(failures(1)), "Canceled", 1)]
#[case::one_of_another_generation_begins_anew(Some(LastUpdate { generation: 9, ..failures(2) }), "UpdateFailed", 0)]
fn failures_are_counted_per_generation(
    #[case] before: Option<LastUpdate>,
    #[case] reason: &str,
    #[case] expected: i64,
) {
    let mut stack = with_current(stack());
    stack.status.as_mut().unwrap().last_update = before;
    let (effects, then) = with_update(world(stack), &ended(Some(reason))).act();
    let last = stack_status(&effects).last_update.clone().unwrap();
    assert_eq!((last.state.as_str(), last.failures), (FAILED, expected));
    assert!(matches!(then, Then::Requeue(_)), "it is tried again");
}

#[test]
fn after_too_many_failures_it_says_so_and_when_it_is_tried_again() {
    let stack = with_last(with_current(stack()), failures(2));
    let (effects, then) = with_update(world(stack), &ended(Some("UpdateFailed"))).act();
    let stalled = find(&stack_status(&effects).conditions, ConditionType::STALLED).unwrap().clone();
    assert_eq!(stalled.reason, "UpdateFailed");
    let Some(next) = stalled.message.strip_prefix("up failed 3 times; next attempt at ") else {
        panic!("{}", stalled.message)
    };
    let Some(next) = next.strip_suffix(", or when the spec or source changes") else { panic!("{next}") };
    let next: jiff::Timestamp = next.parse().unwrap();
    assert!(next >= at(270) && next <= at(297), "{next}");
    let Then::Requeue(wait) = then else { panic!("{then:?}") };
    assert_eq!(at(0) + jiff::SignedDuration::try_from(wait).unwrap(), next);
}

#[test]
fn a_stack_that_keeps_its_resources_is_let_go_at_once() {
    let mut stack = deleted(with_last(stack(), last_update(SUCCEEDED)));
    stack.spec.destroy_on_finalize = false;
    let (effects, _) = world(stack).act();
    assert_eq!(names(&effects), ["write stack status", "release stack"]);
}

#[test]
fn a_preview_stack_destroys_nothing() {
    let mut stack = deleted(with_last(stack(), last_update(SUCCEEDED)));
    stack.spec.preview = true;
    let (effects, _) = world(stack).act();
    assert!(names(&effects).contains(&"release stack"), "{effects:?}");
}

#[test]
fn a_deleted_stack_is_destroyed_before_it_is_let_go() {
    let stack = deleted(with_last(stack(), last_update(SUCCEEDED)));
    let (effects, _) = world(stack).act();
    assert_eq!(names(&effects), ["write stack status", "apply workspace"]);
}

#[rstest]
#[case::its_source_is_gone(with_last(stack(), last_update(SUCCEEDED)), false)]
#[case::its_source_never_was(stack(), true)]
fn a_stack_that_cannot_be_destroyed_stays_unless_it_never_made_anything(#[case] stack: Stack, #[case] goes: bool) {
    let (effects, _) = World::of_stack(deleted(stack)).act();
    assert_eq!(names(&effects).contains(&"release stack"), goes, "{effects:?}");
    let stalled = find(&stack_status(&effects).conditions, ConditionType::STALLED).map(|it| it.reason.as_str());
    assert_eq!(stalled, (!goes).then_some("SourceUnavailable"));
}

#[test]
fn a_namespace_that_goes_away_is_told_with_what_to_do() {
    let mut last = last_update(SUCCEEDED);
    last.permalink = "https://app.test/1".to_owned();
    let terminating = (Question::NamespaceTerminating, Answer::Terminating(true));
    let (effects, then) = world(deleted(with_last(stack(), last))).answer(terminating.0, terminating.1).act();
    assert_eq!(names(&effects), ["write stack status"], "the finalizer stays");
    let stalled = find(&stack_status(&effects).conditions, ConditionType::STALLED).unwrap();
    assert_eq!(stalled.reason, "NamespaceTerminating");
    assert!(stalled.message.contains("(see https://app.test/1)"), "{}", stalled.message);
    assert_eq!(then, Then::Requeue(Duration::from_secs(30)));
}

fn destroy(deleted_resources: i32) -> Update {
    let mut update = ended(None);
    update.spec.update_type = Some(update_type::DESTROY.to_owned());
    let changes = &mut update.status.as_mut().unwrap().resource_changes;
    if deleted_resources > 0 {
        changes.insert("delete".to_owned(), deleted_resources);
    }
    update
}

#[rstest]
#[case::something_was_there(last_update(SUCCEEDED), 2, true)]
#[case::nothing_was_there_after_a_success(last_update(SUCCEEDED), 0, false)]
#[case::nothing_was_there_after_a_failure(last_update(FAILED), 0, true)]
#[case::the_user_insists(LastUpdate { update_type: "destroy".to_owned(), ..last_update(FAILED) }, 0, true)]
fn a_destroy_that_finds_nothing_of_what_was_made_lets_nothing_go(
    #[case] last: LastUpdate,
    #[case] found: i32,
    #[case] goes: bool,
) {
    let mut stack = deleted(with_last(with_current(stack()), last));
    stack.status.as_mut().unwrap().current_update.as_mut().unwrap().generation = 2;
    let (effects, then) = with_update(world(stack.clone()), &destroy(found)).act();
    assert_eq!(names(&effects).contains(&"release stack"), goes, "{effects:?}");
    if !goes {
        let status = stack_status(&effects).clone();
        let stalled = find(&status.conditions, ConditionType::STALLED).unwrap();
        assert!(stalled.message.contains("found nothing to destroy"), "{}", stalled.message);
        assert_eq!(then, Then::AwaitChange, "nobody tries it again unasked");
        stack.status = Some(status);
        assert_eq!(world(stack).now(1_000_000).act(), (Vec::new(), Then::AwaitChange));
    }
}

#[test]
fn a_destroyed_stack_is_let_go() {
    let (effects, _) = world(deleted(with_last(stack(), destroyed()))).act();
    assert_eq!(names(&effects), ["write stack status", "release stack"]);
}

#[test]
fn what_a_destroy_needs_belongs_to_nobody_and_goes_before_the_stack() {
    let stack = deleted(with_last(stack(), last_update(SUCCEEDED)));
    let (effects, _) = world(stack.clone()).act();
    let Some(Effect::ApplyWorkspace { workspace: planned, .. }) = effects.get(1) else { panic!("{effects:?}") };
    assert_eq!(planned.metadata.owner_references, None, "the garbage collector would take it away");
    let ownerless = workspace(&stack, "Ready", "Succeeded");
    assert_eq!(ownerless.metadata.owner_references, None);
    let (effects, _) = world(stack).with(workspace_object(ownerless.clone()), NAME).act();
    let Some(Effect::CreateUpdate(update)) = effects.get(1) else { panic!("{effects:?}") };
    let owners: Vec<_> = update.metadata.owner_references.iter().flatten().map(|owner| owner.kind.as_str()).collect();
    assert_eq!(owners, ["Workspace"]);
    let destroyed = world(deleted(with_last(support::stack(), destroyed())));
    let (effects, _) = destroyed.with(workspace_object(ownerless), NAME).act();
    assert_eq!(names(&effects), ["write stack status", "delete workspace", "release stack"]);
}

#[test]
fn a_destroy_that_failed_keeps_the_stack() {
    let last = LastUpdate { generation: 2, update_type: update_type::DESTROY.to_owned(), ..failures(3) };
    let (effects, then) = world(deleted(with_last(stack(), last))).act();
    assert_eq!(names(&effects), ["write stack status"]);
    assert!(matches!(then, Then::Requeue(_)), "it is tried for ever");
}

#[test]
fn a_destroy_needs_no_source_once_the_project_is_known() {
    let mut stack = deleted(with_last(stack(), last_update(SUCCEEDED)));
    stack.status.as_mut().unwrap().project_info =
        Some(ProjectInfo { name: "program".to_owned(), runtime: "yaml".to_owned(), ..ProjectInfo::default() });
    let (effects, _) = World::of_stack(stack).act();
    let Some(Effect::ApplyWorkspace { workspace, .. }) = effects.get(1) else { panic!("{effects:?}") };
    assert_eq!(workspace.spec.project_info.as_ref().unwrap().name, "program");
    assert_eq!(workspace.spec.stacks[0].create, Some(false), "a destroy never creates a stack");
}

#[rstest]
#[case::its_program_is_missing(false, "unable to retrieve program for stack")]
#[case::its_program_is_not_packed(true, "Program has no artifact")]
fn without_a_program_it_is_stalled_and_looks_again(#[case] exists: bool, #[case] expected: &str) {
    let mut world = World::of_stack(stack());
    if exists {
        let mut program = program();
        program.status = None;
        world = world.with(Object::Program(Box::new(program)), "program");
    }
    let (effects, then) = world.act();
    let stalled = find(&stack_status(&effects).conditions, ConditionType::STALLED).unwrap();
    assert_eq!((stalled.reason.as_str(), stalled.message.as_str()), ("SourceUnavailable", expected));
    assert_eq!(then, Then::Requeue(Duration::from_secs(30)));
}

#[test]
fn a_stalled_workspace_stalls_its_stack_with_the_same_words() {
    let stack = stack();
    let workspace = workspace(&stack, "Stalled", "InstallationFailed");
    let (effects, _) = world(stack).with(workspace_object(workspace), NAME).act();
    let stalled = find(&stack_status(&effects).conditions, ConditionType::STALLED).unwrap();
    assert_eq!((stalled.reason.as_str(), stalled.message.as_str()), ("WorkspaceFailed", "InstallationFailed: why"));
}

#[test]
fn a_workspace_of_another_is_not_touched() {
    let stack = stack();
    let mut workspace = workspace(&stack, "Ready", "Succeeded");
    workspace.metadata.owner_references.as_mut().unwrap()[0].uid = "an-older-stack".to_owned();
    let (effects, then) = world(stack).with(workspace_object(workspace), NAME).act();
    assert_eq!(names(&effects), ["write stack status"]);
    assert!(matches!(then, Then::Requeue(_)));
}

#[test]
fn a_workspace_that_was_edited_is_put_back() {
    let stack = stack();
    let mut workspace = workspace(&stack, "Ready", "Succeeded");
    workspace.spec.stacks[0].name = "other".to_owned();
    let (effects, _) = world(stack).with(workspace_object(workspace), NAME).act();
    assert!(names(&effects).contains(&"apply workspace"), "{effects:?}");
}

#[test]
fn a_ready_stack_writes_nothing() {
    let stack = with_last(stack(), last_update(SUCCEEDED));
    let (effects, _) = world(stack.clone()).act();
    let mut steady = stack;
    steady.status = Some(stack_status(&effects).clone());
    assert_eq!(world(steady).now(100).act(), (Vec::new(), Then::AwaitChange));
}

#[test]
fn a_spec_that_cannot_be_carried_out_is_named_once() {
    let mut stack = stack();
    stack.spec.config = Some(Checked::of(json!(5)));
    let (effects, then) = world(stack.clone()).act();
    assert_eq!(names(&effects), ["write stack status", "publish event"]);
    let stalled = find(&stack_status(&effects).conditions, ConditionType::STALLED).unwrap();
    assert_eq!(stalled.reason, "SpecInvalid");
    assert!(stalled.message.contains("spec.config"), "{}", stalled.message);
    assert_eq!(then, Then::AwaitChange);
    stack.status = Some(stack_status(&effects).clone());
    assert_eq!(world(stack).now(100).act().0, []);
}

#[test]
fn an_update_left_held_by_a_crash_is_let_go() {
    let stack = with_last(stack(), last_update(SUCCEEDED));
    let question = Question::UpdatesOf { stack: NAME.to_owned() };
    let (effects, _) = world(stack).answer(question, Answer::Updates(vec![ended(None)])).act();
    assert!(names(&effects).contains(&"release update"), "{effects:?}");
}
