//! Decisions about Workspaces and Programs on hand-built facts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Checked, Embedded, ProjectInfo, Workspace,
    conditions::{ConditionType, find},
    update::UpdateRun,
    workspace::{WorkspaceSpec, WorkspaceStack, WorkspaceStatus},
};
use pko_core::{
    ask::{Answer, Failure, Packed, Phase, Question, RunAnswer, RunSeen, RunState},
    effect::{Effect, Status},
    references::{ReferenceKind, ReferenceSeen},
    seen::{Kind, Object, PodSeen, StatefulSetSeen},
    step::Then,
    workspace::build::{self, StatefulSetPlan},
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

fn plan(workspace: &Workspace) -> StatefulSetPlan {
    build::stateful_set(workspace, &settings()).unwrap()
}

fn hash() -> String {
    plan(&workspace()).revision_hash
}

fn current_set() -> StatefulSetSeen {
    StatefulSetSeen { revision_hash: Some(hash()), spec_hash: Some(plan(&workspace()).spec_hash), ..stateful_set() }
}

/// The identifier of an attempt to make the pod ready.
fn init(attempt: u32) -> String {
    format!("init.pod-uid.{}.1.{attempt}", plan(&workspace()).stacks_hash)
}

/// A pod that was made ready for the stacks of [`workspace`].
fn ready_pod() -> PodSeen {
    PodSeen { initialized: true, stacks_hash: Some(plan(&workspace()).stacks_hash), ..fresh_pod() }
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
        run_id: init(1),
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
    assert_eq!((run_id, init.stacks[0].name.as_str(), init.skip_install), (&self::init(1), "dev", false));
}

#[test]
fn a_workspace_without_a_program_installs_nothing() {
    let mut workspace = workspace();
    workspace.spec.project_info =
        Some(ProjectInfo { name: "p".to_owned(), runtime: "yaml".to_owned(), ..ProjectInfo::default() });
    let hash = Some(build::stateful_set(&workspace, &settings()).unwrap().revision_hash);
    let set = StatefulSetSeen { revision_hash: hash.clone(), spec_hash: Some("any".to_owned()), ..stateful_set() };
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
    let mut world = with_pod(steady, ready_pod());
    assert_eq!(world.act(), (Vec::new(), Then::AwaitChange));
    assert!(!world.asked.iter().any(|question| matches!(question, Question::LatestRun { .. })), "{:?}", world.asked);
}

#[rstest]
#[case("InstallationFailed", "InstallationFailed")]
#[case("InitializationFailed", "InitializationFailed")]
#[case("IncompatibleConfiguration", "IncompatibleConfiguration")]
#[case("Canceled", "InitializationFailed")]
fn a_failed_run_stalls_it_until_it_is_tried_again(#[case] reason: &str, #[case] shown: &str) {
    let (effects, then) = with_run(with_pod(workspace(), fresh_pod()), failed(reason)).now(4).act();
    assert_eq!(names(&effects), ["write workspace status", "publish event"]);
    let stalled = find(&status(&effects).conditions, ConditionType::STALLED).unwrap();
    assert_eq!((stalled.reason.as_str(), stalled.message.as_str()), (shown, "no network"));
    assert_eq!(then, Then::Requeue(Duration::from_secs(6)));
    let (effects, _) = with_run(with_pod(workspace(), fresh_pod()), failed(reason)).now(10).act();
    let Some(Effect::StartInit { run_id, .. }) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(*run_id, init(2));
    assert_eq!(find(&status(&effects).conditions, ConditionType::STALLED), None);
}

#[rstest]
#[case::first(1, true, 10)]
#[case::second(2, true, 30)]
#[case::fourth(4, true, 270)]
#[case::many(40, true, 300)]
#[case::hopeless(1, false, 1800)]
fn failures_are_tried_again_ever_more_rarely(#[case] attempt: u32, #[case] retryable: bool, #[case] wait: u64) {
    let RunAnswer::Known(mut run) = failed("InitializationFailed") else { panic!() };
    run.run_id = init(attempt);
    if let RunState::Failed(failure) = &mut run.state {
        failure.retryable = retryable;
    }
    let (_, then) = with_run(with_pod(workspace(), fresh_pod()), RunAnswer::Known(run)).act();
    assert_eq!(then, Then::Requeue(Duration::from_secs(wait)));
}

/// A Workspace that gets a variable from a Secret.
fn referring() -> Workspace {
    let mut workspace = workspace();
    let selector = json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "creds", "key": "a"}}});
    workspace.spec.env = vec![Embedded::new(selector)];
    workspace
}

fn with_pod_of(workspace: Workspace, pod: PodSeen) -> World {
    let plan = plan(&workspace);
    let hash = Some(plan.revision_hash);
    let set = StatefulSetSeen { revision_hash: hash.clone(), spec_hash: Some(plan.spec_hash), ..stateful_set() };
    world(workspace)
        .with(Object::StatefulSet(set), "app-workspace")
        .with(Object::Pod(PodSeen { revision_hash: hash, ..pod }), "app-workspace-0")
}

fn secret(keys: &[&str], changed: i64) -> Answer {
    let keys = keys.iter().map(|key| ((*key).to_owned(), String::new())).collect();
    Answer::Reference(Some(ReferenceSeen { keys, changed: Some(at(changed)) }))
}

fn creds() -> Question {
    Question::Reference(ReferenceKind::Secret, "creds".to_owned())
}

#[test]
fn what_failed_is_tried_in_a_new_pod_at_once_when_a_secret_has_changed() {
    let pod = PodSeen { created: Some(at(-60)), ..fresh_pod() };
    let world = |changed| {
        with_run(with_pod_of(referring(), pod.clone()), failed("InitializationFailed"))
            .answer(creds(), secret(&["a"], changed))
    };
    assert!(!names(&world(-61).act().0).contains(&"delete pod"), "it was that before the pod started");
    assert_eq!(names(&world(-59).act().0), ["write workspace status", "delete pod"]);
}

#[rstest]
#[case::no_secret(Answer::Reference(None), "Secret creds does not exist; create it")]
#[case::no_key(secret(&["b"], 0), "Secret creds has no key a; add it")]
fn a_pod_that_does_not_start_for_want_of_a_secret_says_which(#[case] found: Answer, #[case] expected: &str) {
    let slow = PodSeen { running_since: None, created: Some(at(-6)), ..fresh_pod() };
    let (effects, _) = with_pod_of(referring(), slow).answer(creds(), found).act();
    let ready = find(&status(&effects).conditions, ConditionType::READY).unwrap();
    assert!(ready.message.contains(expected), "{}", ready.message);
}

#[test]
fn a_pod_that_the_cluster_refuses_is_told_in_its_words() {
    let world = |workspace| world(workspace).with(Object::StatefulSet(current_set()), "app-workspace");
    let (effects, then) = world(workspace()).act();
    assert_eq!(then, Then::Requeue(Duration::from_secs(5)), "it may take a moment to appear");
    let mut waiting = workspace();
    waiting.status = Some(status(&effects).clone());
    let question = Question::Admission { stateful_set: "app-workspace".to_owned() };
    let refusal = Answer::Admission(Some("exceeded quota".to_owned()));
    let (effects, _) = world(waiting).answer(question, refusal).act();
    let ready = find(&status(&effects).conditions, ConditionType::READY).unwrap();
    assert!(ready.message.ends_with(": the cluster refuses the pod: exceeded quota"), "{}", ready.message);
}

#[test]
fn what_the_server_refuses_is_told_until_it_no_longer_does() {
    let (effects, _) = world(workspace()).refused("statefulsets is forbidden").act();
    let ready = find(&status(&effects).conditions, ConditionType::READY).unwrap();
    assert_eq!(ready.message, "Waiting for the statefulset to be updated: statefulsets is forbidden");
    assert!(names(&effects).contains(&"apply statefulset"), "it is tried again");
}

/// The Workspace with another configuration of its stack.
fn reconfigured() -> Workspace {
    let mut workspace = workspace();
    workspace.spec.stacks[0].environment = vec!["dev".to_owned()];
    workspace.metadata.generation = Some(2);
    workspace
}

#[test]
fn another_configuration_is_set_in_the_pod_that_is_there() {
    let (effects, _) = with_pod(reconfigured(), ready_pod()).act();
    let Some(Effect::StartInit { run_id, init, .. }) = effects.last() else { panic!("{effects:?}") };
    assert_eq!(init.stacks[0].environment, ["dev"]);
    assert!(!run_id.starts_with(self::init(1).trim_end_matches('1')), "{run_id}");
}

#[test]
fn another_configuration_waits_for_the_run_that_began_with_the_old_one() {
    let running = Question::RunsIn { workspace: NAME.to_owned() };
    let (effects, _) = with_pod(reconfigured(), ready_pod()).answer(running, Answer::Updates(vec![update()])).act();
    assert_eq!(names(&effects), ["write workspace status"]);
    let ready = find(&status(&effects).conditions, ConditionType::READY).unwrap();
    assert!(ready.message.ends_with("waiting for Update app-2 to end"), "{}", ready.message);
}

#[test]
fn with_init_containers_of_the_user_another_configuration_takes_another_pod() {
    let bringing = |mut workspace: Workspace| {
        workspace.spec.init_containers = vec![Embedded::new(json!({"name": "i", "image": "busybox"}))];
        plan(&workspace)
    };
    assert_ne!(bringing(workspace()).revision_hash, bringing(reconfigured()).revision_hash);
    assert_eq!(plan(&workspace()).revision_hash, plan(&reconfigured()).revision_hash);
}

/// The Workspace as an operator of another version left it: ready, with a pod that this one would make differently.
fn outdated(spec_hash: Option<String>) -> World {
    let mut workspace = workspace();
    workspace.status = Some(WorkspaceStatus { observed_generation: 1, ..WorkspaceStatus::default() });
    let older = Some("older".to_owned());
    let set = StatefulSetSeen { revision_hash: older.clone(), spec_hash, ..stateful_set() };
    let pod = PodSeen { revision_hash: older, created: Some(at(-3600)), ..ready_pod() };
    with_run(world(workspace), run(RunState::Succeeded))
        .with(Object::StatefulSet(set), "app-workspace")
        .with(Object::Pod(pod), "app-workspace-0")
}

fn renews(world: &mut World) -> bool {
    names(&world.act().0).contains(&"apply statefulset")
}

#[test]
fn a_new_version_of_the_operator_renews_no_pod_that_works() {
    let as_asked = || Some(plan(&workspace()).spec_hash);
    let (effects, then) = outdated(as_asked()).act();
    assert_eq!(ready(&effects).0, "True");
    let Then::Requeue(wait) = then else { panic!("it is renewed some day") };
    assert!(wait > Duration::from_hours(7 * 24 - 1) && wait <= Duration::from_hours(8 * 24), "{wait:?}");
    assert!(!renews(&mut outdated(None)), "nor one of another operator");
}

#[test]
fn a_pod_of_another_version_is_renewed_before_it_is_used_and_when_it_is_old() {
    let as_asked = || Some(plan(&workspace()).spec_hash);
    let updates = || Question::UpdatesIn { workspace: NAME.to_owned() };
    assert!(renews(&mut outdated(as_asked()).answer(updates(), Answer::Updates(vec![update()]))));
    let mut running = update();
    running.status.get_or_insert_default().run = Some(UpdateRun::default());
    assert!(!renews(&mut outdated(as_asked()).answer(updates(), Answer::Updates(vec![running]))));
    assert!(renews(&mut outdated(as_asked()).now(8 * 24 * 3600)));
    assert!(renews(&mut outdated(Some("another wish".to_owned()))));
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
fn stacks_that_are_as_they_once_were_are_made_ready_anew() {
    // In between, the same pod was made ready for others.
    let others = RunSeen {
        run_id: "init.pod-uid.other.2.3".to_owned(),
        state: RunState::Succeeded,
        end_time: Some(at(-1)),
        ..RunSeen::default()
    };
    let (effects, _) = with_run(with_pod(workspace(), fresh_pod()), RunAnswer::Known(Box::new(others))).act();
    let started = effects.iter().find_map(|effect| match effect {
        Effect::StartInit { run_id, .. } => Some(run_id.as_str()),
        _ => None,
    });
    let hash = plan(&workspace()).stacks_hash;
    assert_eq!(started, Some(format!("init.pod-uid.{hash}.3.1").as_str()), "{effects:?}");
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
    let [_, Effect::Status { status: Status::Program(status), .. }] = effects.as_slice() else { panic!("{effects:?}") };
    let artifact = status.artifact.clone().unwrap();
    assert_eq!(artifact.url, "http://operator.test:80/programs/team/program/1");
    assert_eq!(artifact.path, "programs/team/program/1.tar.gz");
    assert_eq!((artifact.revision.as_str(), artifact.digest.as_deref(), artifact.size), ("1", Some("sha256:aa"), 10));
    program.status = Some(status.as_ref().clone());
    assert_eq!(world(program).now(100).act(), (Vec::new(), Then::AwaitChange));
}
