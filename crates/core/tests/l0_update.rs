//! Decisions about Updates on hand-built facts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::{
    Checked, GoDuration, Update, Workspace,
    conditions::{ConditionType, find},
    update::{UpdateRun, UpdateStatus},
    workspace::WorkspaceStatus,
};
use pko_core::{
    ask::{Answer, Failure, Phase, Question, RunAnswer, RunSeen, RunState},
    effect::{Effect, Status},
    seen::{Kind, Object, PodRef, PodSeen},
    step::Then,
};
use rstest::rstest;
use support::*;

fn world(update: &Update) -> World {
    World::new(Kind::Update, "app-2", Object::Update(Box::new(update.clone())))
        .live(Object::Stack(Box::new(with_current(stack()))), NAME)
        .with(workspace_object(ready_workspace()), NAME)
        .with(Object::Pod(pod()), "app-workspace-0")
}

fn ready_workspace() -> Workspace {
    let mut workspace = Workspace::new(NAME, pko_api::workspace::WorkspaceSpec::default());
    workspace.metadata = metadata(NAME, "workspace-uid");
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

fn agent() -> PodRef {
    pod().agent().unwrap()
}

fn with_run(world: World, answer: RunAnswer) -> World {
    world.answer(Question::Run { pod: agent(), run_id: "update-uid".to_owned() }, Answer::Run(answer))
}

fn run(state: RunState) -> RunAnswer {
    RunAnswer::Known(Box::new(RunSeen {
        run_id: "update-uid".to_owned(),
        state,
        start_time: Some(at(1)),
        end_time: Some(at(2)),
        pulumi_version: "3.259.0".to_owned(),
        outputs: 2,
        message: "Initial stack update".to_owned(),
        ..RunSeen::default()
    }))
}

/// An Update whose operation was given to [`pod`].
fn started() -> Update {
    let mut update = update();
    let (effects, _) = world(&update).act();
    update.status = Some(status(&effects).clone());
    assert_eq!(update.status.as_ref().unwrap().run, Some(UpdateRun { pod_uid: "pod-uid".to_owned() }));
    update
}

fn status(effects: &[Effect]) -> &UpdateStatus {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Status { status: Status::Update(status), .. } => Some(status.as_ref()),
            _ => None,
        })
        .expect("a status is written")
}

/// Progressing, Failed and Complete as `status:reason`.
fn triple(status: &UpdateStatus) -> [String; 3] {
    [ConditionType::PROGRESSING, ConditionType::FAILED, ConditionType::COMPLETE].map(|kind| {
        let condition = find(&status.conditions, kind).unwrap();
        format!("{}:{}", condition.status, condition.reason)
    })
}

#[test]
fn the_pod_is_recorded_before_the_operation_starts() {
    let (effects, _) = world(&update()).act();
    assert_eq!(names(&effects), ["write update status", "start update run"]);
    assert_eq!(triple(status(&effects)), ["True:Progressing", "False:Progressing", "False:Progressing"]);
    let Effect::StartUpdate { run_id, .. } = &effects[1] else { panic!("{effects:?}") };
    assert_eq!(run_id, "update-uid");
}

#[test]
fn it_does_not_start_before_its_stack_holds_it() {
    let mut update = update();
    update.metadata.finalizers = None;
    let (effects, then) = world(&update).act();
    assert_eq!(effects, []);
    assert!(matches!(then, Then::Requeue(_)));
}

#[test]
fn one_that_its_stack_does_not_plan_any_more_is_cancelled() {
    let mut update = update();
    update.metadata.finalizers = None;
    let (effects, _) = world(&update).live(Object::Stack(Box::new(stack())), NAME).act();
    assert_eq!(triple(status(&effects)), ["False:Failed", "True:Canceled", "True:Failed"]);
}

#[rstest]
#[case::deleted(|update: &mut Update| update.metadata.deletion_timestamp = Some(Time(at(0))))]
#[case::orphaned(|update: &mut Update| update.metadata.owner_references = None)]
fn one_that_has_not_started_is_cancelled(#[case] change: fn(&mut Update)) {
    let mut update = update();
    change(&mut update);
    let (effects, _) = world(&update).act();
    assert_eq!(triple(status(&effects)), ["False:Failed", "True:Canceled", "True:Failed"]);
}

#[test]
fn one_begun_by_an_operator_without_runs_is_aborted() {
    let mut update = started();
    update.status.as_mut().unwrap().run = None;
    let (effects, _) = world(&update).act();
    assert_eq!(triple(status(&effects)), ["False:Failed", "True:Aborted", "True:Failed"]);
}

#[test]
fn the_watch_is_not_believed_when_it_says_that_the_workspace_is_ready() {
    let mut newer = ready_workspace();
    newer.metadata.generation = Some(2);
    let (effects, then) = world(&update()).live(workspace_object(newer), NAME).act();
    assert_eq!(triple(status(&effects)), ["False:WorkspaceNotReady", "False:Progressing", "False:Progressing"]);
    assert!(matches!(then, Then::Requeue(_)));
}

#[rstest]
#[case::it_goes(|pod: &mut PodSeen| pod.deleting = true)]
#[case::it_is_not_made_ready(|pod: &mut PodSeen| pod.initialized = false)]
#[case::it_does_not_run(|pod: &mut PodSeen| pod.running_since = None)]
#[case::it_has_no_address(|pod: &mut PodSeen| pod.ip = None)]
fn it_does_not_start_in_a_pod_that_is_not_fit(#[case] change: fn(&mut PodSeen)) {
    let mut pod = pod();
    change(&mut pod);
    let (effects, _) = world(&update()).live(Object::Pod(pod), "app-workspace-0").act();
    assert_eq!(triple(status(&effects))[0], "False:WorkspaceNotReady");
}

#[test]
fn an_unknown_type_fails_with_the_type_in_its_message() {
    let mut update = update();
    update.spec.update_type = Some("upgrade".to_owned());
    let (effects, _) = world(&update).act();
    assert_eq!(triple(status(&effects)), ["False:Complete", "True:Unknown", "True:Updated"]);
    assert_eq!(status(&effects).message, r#"unsupported update type "upgrade""#);
}

#[test]
fn an_agent_that_does_not_answer_is_told_of_once_and_asked_again() {
    let silent = RunAnswer::Silent { why: "connection refused".to_owned() };
    let mut update = update();
    let (effects, then) = with_run(world(&update), silent.clone()).act();
    assert_eq!(names(&effects), ["write update status", "publish event"]);
    assert_eq!(triple(status(&effects))[0], "False:TransientFailure");
    assert_eq!(then, Then::Requeue(Duration::from_secs(5)));
    update.status = Some(status(&effects).clone());
    assert_eq!(with_run(world(&update), silent).act().0, []);
}

#[test]
fn silence_during_the_operation_is_reported_and_is_no_end() {
    let silent = RunAnswer::Silent { why: "timed out".to_owned() };
    let (effects, then) = with_run(world(&started()), silent).act();
    assert_eq!(triple(status(&effects)), ["True:Progressing", "False:Progressing", "False:Progressing"]);
    let progressing = find(&status(&effects).conditions, ConditionType::PROGRESSING).unwrap();
    assert!(progressing.message.contains("timed out"), "{}", progressing.message);
    assert_eq!(then, Then::Requeue(Duration::from_secs(5)));
}

#[test]
fn an_operation_that_never_reached_its_agent_is_started() {
    let (effects, _) = with_run(world(&started()), RunAnswer::Unknown).act();
    assert_eq!(names(&effects), ["start update run"]);
}

#[rstest]
#[case::it_is_gone(None)]
#[case::it_is_another(Some(PodSeen { uid: "new-uid".to_owned(), ..pod() }))]
#[case::it_ended(Some(PodSeen { ended: true, ..pod() }))]
fn an_operation_whose_pod_is_lost_is_aborted(#[case] found: Option<PodSeen>) {
    let answer = Answer::Object(found.map(Object::Pod));
    let (effects, _) = world(&started())
        .answer(Question::Live(Kind::Pod, "app-workspace-0".to_owned()), answer.clone())
        .answer(Question::Cached(Kind::Pod, "app-workspace-0".to_owned()), answer)
        .act();
    assert_eq!(triple(status(&effects)), ["False:Failed", "True:Aborted", "True:Failed"]);
}

#[test]
fn a_pod_that_only_the_watch_lost_is_still_there() {
    let gone = Question::Cached(Kind::Pod, "app-workspace-0".to_owned());
    let world = with_run(world(&started()), run(RunState::Running(Phase::Operating)));
    let (effects, _) = world.answer(gone, Answer::Object(None)).act();
    assert_eq!(triple(status(&effects))[0], "True:Progressing");
    assert_eq!(status(&effects).start_time, Some(Time(at(1))));
}

#[test]
fn outputs_are_stored_before_success_is_told() {
    let (effects, _) = with_run(world(&started()), run(RunState::Succeeded)).act();
    assert_eq!(names(&effects), ["store outputs", "write update status", "publish event"]);
    let status = status(&effects);
    assert_eq!(triple(status), ["False:Complete", "False:UpdateSucceeded", "True:Updated"]);
    assert_eq!((status.outputs.as_str(), status.message.as_str()), ("app-2-stack-outputs", "Initial stack update"));
    assert_eq!((status.start_time.clone(), status.end_time.clone()), (Some(Time(at(1))), Some(Time(at(2)))));
}

#[test]
fn a_failure_keeps_its_reason_and_its_words() {
    let failure = Failure {
        reason: "UpdateConflict".to_owned(),
        message: "the stack is locked".to_owned(),
        ..Failure::default()
    };
    let (effects, _) = with_run(world(&started()), run(RunState::Failed(failure))).act();
    assert_eq!(names(&effects), ["write update status", "publish event"]);
    assert_eq!(triple(status(&effects)), ["False:Complete", "True:UpdateConflict", "True:Updated"]);
    assert_eq!(status(&effects).message, "the stack is locked");
}

#[test]
fn deleting_a_running_update_of_a_stack_does_not_stop_it() {
    let mut update = started();
    update.metadata.deletion_timestamp = Some(Time(at(0)));
    let (effects, _) = with_run(world(&update), run(RunState::Running(Phase::Operating))).act();
    assert_eq!(triple(status(&effects))[0], "True:Progressing");
}

fn ended() -> Update {
    let mut update = started();
    let (effects, _) = with_run(world(&update), run(RunState::Succeeded)).act();
    update.status = Some(status(&effects).clone());
    update.spec.ttl_after_completed = Some(Checked::Good(GoDuration::from_secs(3600)));
    update
}

#[test]
fn an_ended_update_stays_for_its_time_and_goes() {
    let wait = Duration::from_mins(10);
    assert_eq!(world(&ended()).now(3000).act(), (Vec::new(), Then::Requeue(wait)));
    let (effects, _) = world(&ended()).now(3600).act();
    assert_eq!(names(&effects), ["delete update", "publish event"]);
}

#[test]
fn an_ended_update_whose_stack_is_gone_is_let_go() {
    let mut update = ended();
    update.metadata.deletion_timestamp = Some(Time(at(0)));
    assert_eq!(world(&update).act().0, [], "its Stack will do that");
    let gone = Question::Live(Kind::Stack, NAME.to_owned());
    let (effects, _) = world(&update).answer(gone, Answer::Object(None)).act();
    assert_eq!(names(&effects), ["release update"]);
}
