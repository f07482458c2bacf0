//! Decisions about Workspaces and Programs on hand-built facts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Checked, ProjectInfo, Workspace,
    conditions::{ConditionType, find},
    workspace::{WorkspaceSpec, WorkspaceStack, WorkspaceStatus},
};
use pko_core::{
    ask::{Answer, Failure, Packed, Phase, Question, RunAnswer, RunSeen, RunState},
    effect::{Effect, Status},
    seen::{Kind, Object, PodSeen, StatefulSetSeen},
    step::Then,
    workspace::build,
};
use rstest::rstest;
use serde_json::json;
use support::*;

fn workspace() -> Workspace {
    let spec = WorkspaceSpec {
        stacks: vec![WorkspaceStack { name: "dev".to_owned(), create: Some(true), ..WorkspaceStack::default() }],
        ..WorkspaceSpec::default()
    };
    let mut workspace = Workspace::new(NAME, spec);
    workspace.metadata = metadata(NAME, "workspace-uid");
    workspace
}

fn hash() -> String {
    build::stateful_set(&workspace(), &settings()).unwrap().revision_hash
}

fn current_set() -> StatefulSetSeen {
    StatefulSetSeen { revision_hash: Some(hash()), ..stateful_set() }
}

fn fresh_pod() -> PodSeen {
    PodSeen { revision_hash: Some(hash()), initialized: false, ..pod() }
}

fn world(workspace: Workspace) -> World {
    let object = workspace_object(workspace);
    World::new(Kind::Workspace, NAME, object.clone()).live(object, NAME)
}

fn with_pod(workspace: Workspace, pod: PodSeen) -> World {
    world(workspace).with(Object::StatefulSet(current_set()), "app-workspace").with(Object::Pod(pod), "app-workspace-0")
}

fn with_run(world: World, answer: RunAnswer) -> World {
    let question = Question::LatestRun { pod: pod().agent().unwrap(), prefix: "init.pod-uid.".to_owned() };
    world.answer(question, Answer::Run(answer))
}

fn run(state: RunState) -> RunAnswer {
    RunAnswer::Known(Box::new(RunSeen {
        run_id: "init.pod-uid.1".to_owned(),
        state,
        start_time: Some(at(0)),
        end_time: Some(at(0)),
        pulumi_version: "3.259.0".to_owned(),
        ..RunSeen::default()
    }))
}

fn failed(reason: &str) -> RunAnswer {
    run(RunState::Failed(Failure {
        reason: reason.to_owned(),
        message: "no network".to_owned(),
        stack: "dev".to_owned(),
        retryable: true,
    }))
}

fn status(effects: &[Effect]) -> &WorkspaceStatus {
    effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Status { status: Status::Workspace(status), .. } => Some(status.as_ref()),
            _ => None,
        })
        .expect("a status is written")
}

fn ready(effects: &[Effect]) -> (String, String) {
    let ready = find(&status(effects).conditions, ConditionType::READY).unwrap();
    assert_eq!(ready.observed_generation, Some(1));
    (ready.status.clone(), ready.reason.clone())
}

fn not_ready(reason: &str) -> (String, String) {
    ("False".to_owned(), reason.to_owned())
}

#[test]
fn its_service_and_statefulset_are_made() {
    let (effects, then) = world(workspace()).act();
    assert_eq!(names(&effects), ["write workspace status", "apply service", "apply statefulset"]);
    assert_eq!(ready(&effects), not_ready("RollingUpdate"));
    assert!(matches!(then, Then::Requeue(_)));
}

#[test]
fn an_old_view_of_it_does_not_undo_a_newer_pod() {
    let mut newer = workspace();
    newer.metadata.resource_version = Some("8".to_owned());
    let (effects, _) = world(workspace()).live(workspace_object(newer), NAME).act();
    assert_eq!(effects, []);
}

#[test]
fn a_pod_is_not_renewed_under_a_run() {
    let old = StatefulSetSeen { revision_hash: Some("older".to_owned()), ..stateful_set() };
    let world = || world(workspace()).with(Object::StatefulSet(old.clone()), "app-workspace");
    let running = Question::RunsIn { workspace: NAME.to_owned() };
    let (effects, then) = world().answer(running, Answer::Updates(vec![update()])).act();
    assert_eq!(names(&effects), ["write workspace status"]);
    assert!(matches!(then, Then::Requeue(_)));
    assert!(names(&world().act().0).contains(&"apply statefulset"));
}

#[test]
fn a_statefulset_scaled_by_hand_is_scaled_back() {
    let none = StatefulSetSeen { replicas: 0, ..current_set() };
    let (effects, _) = world(workspace()).with(Object::StatefulSet(none), "app-workspace").act();
    assert!(names(&effects).contains(&"apply statefulset"), "{effects:?}");
}

#[rstest]
#[case::it_goes(StatefulSetSeen { deleting: true, ..stateful_set() })]
#[case::it_belongs_to_another(StatefulSetSeen { owner_uid: Some("older".to_owned()), ..stateful_set() })]
fn a_statefulset_in_the_way_is_waited_for(#[case] set: StatefulSetSeen) {
    let (effects, then) = world(workspace()).with(Object::StatefulSet(set), "app-workspace").act();
    assert_eq!(names(&effects), ["write workspace status"]);
    assert_eq!(then, Then::Requeue(Duration::from_secs(2)));
}

#[rstest]
#[case::it_goes(PodSeen { deleting: true, ..fresh_pod() }, "RollingUpdate")]
#[case::it_is_of_an_older_revision(PodSeen { revision_hash: Some("older".to_owned()), ..fresh_pod() }, "RollingUpdate")]
#[case::it_is_of_an_older_set(PodSeen { owner_uid: Some("older".to_owned()), ..fresh_pod() }, "RollingUpdate")]
#[case::it_does_not_run(PodSeen { running_since: None, ..fresh_pod() }, "WaitingForReplicas")]
#[case::it_ended(PodSeen { ended: true, ..fresh_pod() }, "WaitingForReplicas")]
fn a_pod_that_is_not_fit_is_waited_for(#[case] pod: PodSeen, #[case] reason: &str) {
    let (effects, then) = with_pod(workspace(), pod).act();
    assert_eq!(names(&effects), ["write workspace status"]);
    assert_eq!(ready(&effects), not_ready(reason));
    assert!(matches!(then, Then::Requeue(_)));
}

#[test]
fn what_keeps_a_pod_from_running_is_said() {
    let trouble = Some("container fetch is in ImagePullBackOff".to_owned());
    let (effects, _) = with_pod(workspace(), PodSeen { running_since: None, trouble, ..fresh_pod() }).act();
    let ready = find(&status(&effects).conditions, ConditionType::READY).unwrap();
    assert_eq!(ready.message, "Waiting for the workspace pod to be available: container fetch is in ImagePullBackOff");
}

#[test]
fn a_running_pod_is_made_ready_by_a_run() {
    let (effects, _) = with_pod(workspace(), fresh_pod()).act();
    assert_eq!(names(&effects), ["write workspace status", "start init run"]);
    assert_eq!(ready(&effects), not_ready("Installing"));
    let Effect::StartInit { run_id, init, .. } = &effects[1] else { panic!("{effects:?}") };
    assert_eq!((run_id.as_str(), init.stacks[0].name.as_str(), init.skip_install), ("init.pod-uid.1", "dev", false));
}

#[test]
fn a_workspace_without_a_program_installs_nothing() {
    let mut workspace = workspace();
    workspace.spec.project_info =
        Some(ProjectInfo { name: "p".to_owned(), runtime: "yaml".to_owned(), ..ProjectInfo::default() });
    let hash = Some(build::stateful_set(&workspace, &settings()).unwrap().revision_hash);
    let set = StatefulSetSeen { revision_hash: hash.clone(), ..stateful_set() };
    let (effects, _) = world(workspace)
        .with(Object::StatefulSet(set), "app-workspace")
        .with(Object::Pod(PodSeen { revision_hash: hash, ..fresh_pod() }), "app-workspace-0")
        .act();
    let Some(Effect::StartInit { init, .. }) = effects.last() else { panic!("{effects:?}") };
    assert!(init.skip_install);
}

#[rstest]
#[case(Phase::Installing, "Installing")]
#[case(Phase::Initializing, "Initializing")]
fn the_run_is_followed(#[case] phase: Phase, #[case] reason: &str) {
    let (effects, then) = with_run(with_pod(workspace(), fresh_pod()), run(RunState::Running(phase))).act();
    assert_eq!(names(&effects), ["write workspace status"]);
    assert_eq!(ready(&effects), not_ready(reason));
    assert!(matches!(then, Then::Requeue(_)));
}

#[test]
fn the_pod_is_marked_before_the_workspace_is_ready() {
    let (effects, then) = with_run(with_pod(workspace(), fresh_pod()), run(RunState::Succeeded)).act();
    assert_eq!(names(&effects), ["mark pod initialized", "write workspace status", "publish event"]);
    assert_eq!(ready(&effects), ("True".to_owned(), "Succeeded".to_owned()));
    let status = status(&effects);
    assert_eq!((status.address.as_str(), status.pulumi_version.as_str()), ("app-workspace.team:50051", "3.259.0"));
    assert_eq!(then, Then::AwaitChange);
}

#[test]
fn a_ready_workspace_asks_no_agent_and_writes_nothing() {
    let (effects, _) = with_run(with_pod(workspace(), fresh_pod()), run(RunState::Succeeded)).act();
    let mut steady = workspace();
    steady.status = Some(status(&effects).clone());
    let mut world = with_pod(steady, PodSeen { initialized: true, ..fresh_pod() });
    assert_eq!(world.act(), (Vec::new(), Then::AwaitChange));
    assert!(!world.asked.iter().any(|question| matches!(question, Question::LatestRun { .. })), "{:?}", world.asked);
}

#[rstest]
#[case("InstallationFailed", "InstallationFailed")]
#[case("InitializationFailed", "InitializationFailed")]
#[case("IncompatibleConfiguration", "IncompatibleConfiguration")]
#[case("Canceled", "InitializationFailed")]
fn a_failed_run_stalls_it_until_it_is_tried_again(#[case] reason: &str, #[case] shown: &str) {
    let (effects, then) = with_run(with_pod(workspace(), fresh_pod()), failed(reason)).now(100).act();
    assert_eq!(names(&effects), ["write workspace status", "publish event"]);
    let stalled = find(&status(&effects).conditions, ConditionType::STALLED).unwrap();
    assert_eq!((stalled.reason.as_str(), stalled.message.as_str()), (shown, "no network"));
    assert_eq!(then, Then::Requeue(Duration::from_secs(200)));
    let (effects, _) = with_run(with_pod(workspace(), fresh_pod()), failed(reason)).now(300).act();
    let Some(Effect::StartInit { run_id, .. }) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(run_id, "init.pod-uid.2");
    assert_eq!(find(&status(&effects).conditions, ConditionType::STALLED), None);
}

#[test]
fn a_run_that_ended_with_its_container_is_begun_again_at_once() {
    let (effects, _) = with_run(with_pod(workspace(), fresh_pod()), failed("Interrupted")).now(1).act();
    assert!(names(&effects).contains(&"start init run"), "{effects:?}");
}

#[test]
fn an_agent_is_given_time_to_start_before_its_silence_is_told() {
    let silent = RunAnswer::Silent { why: "connection refused".to_owned() };
    let starting = PodSeen { running_since: Some(at(-1)), ..fresh_pod() };
    let (effects, then) = with_run(with_pod(workspace(), starting), silent.clone()).act();
    assert_eq!(ready(&effects), not_ready("WaitingForReplicas"));
    assert_eq!(then, Then::Requeue(Duration::from_millis(250)));
    let (effects, _) = with_run(with_pod(workspace(), fresh_pod()), silent).act();
    assert_eq!(names(&effects), ["write workspace status", "publish event"]);
    assert_eq!(ready(&effects), not_ready("ConnectionFailed"));
}

#[test]
fn an_agent_that_refuses_us_is_told_with_its_code() {
    let refused = RunAnswer::Refused { code: "Unauthenticated".to_owned(), message: "unauthenticated".to_owned() };
    let (effects, _) = with_run(with_pod(workspace(), fresh_pod()), refused).act();
    assert_eq!(ready(&effects), not_ready("Unauthenticated"));
}

#[test]
fn a_spec_that_makes_no_pod_stalls_it() {
    let mut workspace = workspace();
    workspace.spec.pulumi_log_level = Some(Checked::of(json!(-1)));
    let (effects, _) = world(workspace).act();
    assert_eq!(names(&effects), ["write workspace status"]);
    let stalled = find(&status(&effects).conditions, ConditionType::STALLED).unwrap();
    assert!(stalled.message.contains("spec.pulumiLogLevel"), "{}", stalled.message);
}

#[test]
fn one_that_is_deleted_says_so_and_makes_nothing() {
    let mut workspace = workspace();
    workspace.metadata.deletion_timestamp = Some(Time(at(0)));
    let (effects, _) = world(workspace).act();
    assert_eq!(names(&effects), ["write workspace status"]);
    assert_eq!(ready(&effects), not_ready("Deleting"));
}

#[test]
fn one_that_destroys_a_stack_goes_when_that_is_gone() {
    let mut workspace = workspace();
    workspace.metadata.labels = Some([("pulumi.com/stack-name".to_owned(), NAME.to_owned())].into());
    workspace.metadata.annotations = Some([("pulumi.com/destroys".to_owned(), "stack-uid".to_owned())].into());
    let there = Object::Stack(Box::new(stack()));
    assert!(names(&world(workspace.clone()).live(there, NAME).act().0).contains(&"apply statefulset"));
    assert_eq!(names(&world(workspace.clone()).act().0), ["delete workspace"]);
    let mut another = stack();
    another.metadata.uid = Some("another".to_owned());
    let another = Object::Stack(Box::new(another));
    assert_eq!(names(&world(workspace).live(another, NAME).act().0), ["delete workspace"]);
}

#[test]
fn a_program_is_packed_once_per_generation() {
    let mut program = program();
    program.status = None;
    let packed = || Answer::Artifact(Ok(Packed { digest: "sha256:aa".to_owned(), size: 10 }));
    let world = |program| {
        World::new(Kind::Program, "program", Object::Program(Box::new(program))).answer(Question::Artifact, packed())
    };
    let (effects, _) = world(program.clone()).act();
    let [Effect::Status { status: Status::Program(status), .. }] = effects.as_slice() else { panic!("{effects:?}") };
    let artifact = status.artifact.clone().unwrap();
    assert_eq!(artifact.url, "http://operator.test:80/programs/team/program/1");
    assert_eq!(artifact.path, "programs/team/program/1.tar.gz");
    assert_eq!((artifact.revision.as_str(), artifact.digest.as_deref(), artifact.size), ("1", Some("sha256:aa"), 10));
    program.status = Some(status.as_ref().clone());
    assert_eq!(world(program).now(100).act(), (Vec::new(), Then::AwaitChange));
}
