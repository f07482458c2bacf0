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
    ask::{Answer, Failure, Phase, Progress, Question, RunAnswer, RunSeen, RunState},
    effect::{Effect, Status},
    seen::{Kind, Object, PodRef, PodSeen},
    step::Then,
    workspace::build,
};
use rstest::rstest;
use serde_json::json;
use support::{NAME, World, at, metadata, names, settings, stack, update, with_current, workspace_object};

fn world(update: &Update) -> World {
    World::new(Kind::Update, "app-2", Object::Update(Box::new(update.clone())))
        .live(Object::Stack(Box::new(with_current(stack()))), NAME)
        .with(workspace_object(ready_workspace()), NAME)
        .with(Object::Pod(pod()), "app-workspace-0")
}

/// The pod that is made for [`ready_workspace`].
fn pod() -> PodSeen {
    let planned = build::stateful_set(&ready_workspace(), &settings()).unwrap();
    PodSeen { revision_hash: Some(planned.revision_hash), ..support::pod() }
}

/// One that a user wrote: it belongs to nobody.
fn hand_written() -> Update {
    let mut update = update();
    (update.metadata.owner_references, update.metadata.finalizers) = (None, None);
    update
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
#[case::orphaned(|update: &mut Update| {
    update.metadata.owner_references = None;
    update.metadata.labels = Some([("pulumi.com/stack-name".to_owned(), NAME.to_owned())].into());
})]
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
#[case::it_is_of_another_version(|pod: &mut PodSeen| pod.revision_hash = Some("older".to_owned()))]
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
    let message = "the stack is locked\nsee `kubectl logs --namespace team app-workspace-0 --container pulumi`";
    assert_eq!(status(&effects).message, message);
}

#[test]
fn a_failure_with_a_page_points_to_it() {
    let RunAnswer::Known(mut run) = run(RunState::Failed(Failure::default())) else { panic!() };
    run.permalink = "https://app.pulumi.com/o/p/dev/updates/3".to_owned();
    let (effects, _) = with_run(world(&started()), RunAnswer::Known(run)).act();
    assert!(status(&effects).message.ends_with("see https://app.pulumi.com/o/p/dev/updates/3"));
    assert_eq!(status(&effects).permalink, "https://app.pulumi.com/o/p/dev/updates/3");
}

#[test]
fn one_that_a_user_wrote_runs_without_an_owner() {
    let (effects, _) = world(&hand_written()).act();
    assert_eq!(names(&effects), ["write update status", "start update run"]);
}

#[test]
fn one_at_a_time_runs_in_a_workspace_and_the_next_says_for_which_it_waits() {
    let others = |others: Vec<Update>| {
        let question = Question::UpdatesIn { workspace: NAME.to_owned() };
        world(&update()).answer(question, Answer::Updates(others)).act().0
    };
    let mut running = started();
    running.metadata = metadata("b-running", "other-uid");
    let effects = others(vec![update(), running.clone()]);
    assert_eq!(triple(status(&effects)), ["False:WorkspaceBusy", "False:Progressing", "False:Progressing"]);
    let progressing = find(&status(&effects).conditions, ConditionType::PROGRESSING).unwrap();
    assert_eq!(progressing.message, "waiting for Update b-running to end");
    let waiting = |name: &str| Update { metadata: metadata(name, "other-uid"), ..update() };
    assert_eq!(triple(status(&others(vec![waiting("a-earlier")])))[0], "False:WorkspaceBusy");
    assert_eq!(triple(status(&others(vec![waiting("b-later")])))[0], "True:Progressing");
}

#[test]
fn the_progress_of_a_long_run_is_told_now_and_then() {
    let running = |done: i32| {
        let RunAnswer::Known(mut run) = run(RunState::Running(Phase::Operating)) else { panic!() };
        run.progress = Progress { begun: 5, done, current: "creating a:b:C thing".to_owned() };
        RunAnswer::Known(run)
    };
    let mut update = started();
    let (_, then) = with_run(world(&update), running(0)).now(4).act();
    assert_eq!(then, Then::Requeue(Duration::from_secs(7)), "it is looked at even if nothing is heard");
    let mut told = |second: i64, done: i32| {
        let (effects, _) = with_run(world(&update), running(done)).now(second).act();
        if !effects.is_empty() {
            update.status = Some(status(&effects).clone());
        }
        update.status.as_ref().unwrap().progress.as_ref().map(|progress| progress.done)
    };
    assert_eq!(told(5, 1), None, "a short run is over before anyone looks");
    assert_eq!(told(12, 2), Some(2));
    assert_eq!(told(20, 3), Some(2), "not more often than every ten seconds");
    assert_eq!(told(22, 3), Some(3));
    assert_eq!(told(1022, 4), Some(4));
    assert_eq!(told(1052, 5), Some(4), "rarer when it takes long");
    let (effects, _) = with_run(world(&update), run(RunState::Succeeded)).now(2000).act();
    assert_eq!(status(&effects).progress, None);
}

#[test]
fn a_preview_leaves_what_it_has_shown() {
    let mut update = started();
    update.spec.update_type = Some("preview".to_owned());
    let RunAnswer::Known(mut run) = run(RunState::Succeeded) else { panic!() };
    run.changes = [("create".to_owned(), 2)].into();
    "Previewing update".clone_into(&mut run.standard_output);
    run.expected_outputs = [("url".to_owned(), json!("https://a"))].into();
    let (effects, _) = with_run(world(&update), RunAnswer::Known(run)).act();
    assert_eq!(names(&effects), ["write update status", "publish event"], "no Secret is made of it");
    let status = serde_json::to_value(status(&effects)).unwrap();
    assert_eq!(status["resourceChanges"], json!({"create": 2}));
    assert_eq!(status["preview"], json!({"standardOutput": "Previewing update", "outputs": {"url": "https://a"}}));
}

#[test]
fn its_stack_can_ask_for_its_end() {
    let mut asking = with_current(stack());
    asking.metadata.annotations = Some([("pulumi.com/cancel-request".to_owned(), "app-2".to_owned())].into());
    let asking = Object::Stack(Box::new(asking));
    let (effects, _) =
        with_run(world(&started()), run(RunState::Running(Phase::Operating))).with(asking.clone(), NAME).act();
    assert_eq!(names(&effects), ["write update status", "cancel run"]);
    let (effects, _) = world(&update()).with(asking, NAME).act();
    assert_eq!(triple(status(&effects)), ["False:Failed", "True:Canceled", "True:Failed"], "it has not begun");
}

#[test]
fn deleting_one_that_a_user_wrote_cancels_its_run() {
    let mut update = hand_written();
    update.status = started().status;
    let running = || run(RunState::Running(Phase::Operating));
    let mut deleting = update.clone();
    deleting.metadata.deletion_timestamp = Some(Time(at(0)));
    assert!(names(&with_run(world(&deleting), running()).act().0).contains(&"cancel run"), "something else holds it");
    assert_eq!(names(&with_run(world(&update), running()).gone().act().0), ["cancel run"]);
    assert_eq!(with_run(world(&update), run(RunState::Succeeded)).gone().act().0, []);
    assert_eq!(with_run(world(&started()), running()).gone().act().0, [], "one of a Stack goes on");
}

#[test]
fn what_an_agent_refuses_is_told() {
    let (effects, _) = with_run(world(&started()), RunAnswer::Unknown).refused("run x is active").act();
    let progressing = find(&status(&effects).conditions, ConditionType::PROGRESSING).unwrap();
    assert_eq!(progressing.message, "run x is active");
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
