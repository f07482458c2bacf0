//! Runs over PKO's calls, from the operator's agents to a server that speaks the true protocol.

#[allow(dead_code, unreachable_pub, reason = "shared with the test programs")]
#[path = "../../../tests/support/pko_agent.rs"]
mod pko_agent;

use std::{
    convert::Infallible,
    future::{Ready, ready},
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::Instant,
};

use pko_api::workspace::{ConfigItem, WorkspaceStack};
use pko_core::{
    ask::{RunAnswer, RunState},
    effect::{Init, Operation, OperationKind},
    seen::{Key, Kind},
};
use pko_proto::agent::{OutputValue, ProjectInfo, PulumiErrorInfo, UpResult, UpdateSummary};
use serde_json::json;
use tonic::{
    Code,
    codegen::{Service, http},
};

use self::pko_agent::{PkoAgent, Step, wire_to};
use super::*;
use crate::{
    agents::{Account, Agents, Followers},
    cluster::{Cause, Cluster},
    queue::{Ended, Queue},
};

const NAMESPACE: &str = "team";
/// The longest that anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// An API server that only knows tokens.
#[derive(Clone)]
struct Api;

impl Service<http::Request<kube::client::Body>> for Api {
    type Response = http::Response<kube::client::Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<kube::client::Body>) -> Self::Future {
        let status = json!({"token": "hush", "expirationTimestamp": "2999-01-01T00:00:00Z"});
        let answer = json!({"metadata": {}, "spec": {"audiences": ["web.team"]}, "status": status});
        ready(Ok(http::Response::new(kube::client::Body::from(answer.to_string().into_bytes()))))
    }
}

fn agents(address: String) -> Agents {
    let cluster = Cluster::new(kube::Client::new(Api, NAMESPACE), DEADLINE);
    let account = Account { namespace: "operator".to_owned(), name: "manager".to_owned() };
    let mut agents = Agents::new(cluster, account, Some(address));
    agents.streamed.wind_down = Duration::from_millis(10);
    agents
}

async fn scene() -> (Arc<PkoAgent>, Agents) {
    let (agent, address) = PkoAgent::serve().await;
    (agent, agents(address))
}

fn pod() -> PodRef {
    PodRef { name: "web-workspace-0".to_owned(), uid: "u".to_owned(), ip: "127.0.0.1".to_owned() }
}

fn operation(kind: OperationKind) -> Operation {
    Operation { kind, stack: "dev".to_owned(), ..Operation::default() }
}

async fn start(agents: &Agents, run_id: &str, kind: OperationKind) -> RunAnswer {
    agents.start_update(NAMESPACE, &pod(), run_id, &operation(kind)).await.unwrap()
}

async fn ask(agents: &Agents, run_id: &str) -> RunAnswer {
    agents.run(NAMESPACE, &pod(), run_id).await.unwrap()
}

/// A run when it is as the test waits for.
async fn until(agents: &Agents, run_id: &str, is: impl Fn(&RunSeen) -> bool) -> RunSeen {
    let mut run = agents.watch(&pod(), run_id).expect("the run is known");
    // Progress is not told to those who watch.
    let waiting = async {
        loop {
            let seen = run.borrow_and_update().clone();
            if is(&seen) {
                return seen;
            }
            let _ = tokio::time::timeout(Duration::from_millis(20), run.changed()).await;
        }
    };
    let found = tokio::time::timeout(DEADLINE, waiting).await;
    found.unwrap_or_else(|_| panic!("{:?}", agents.watch(&pod(), run_id).map(|run| run.borrow().clone())))
}

async fn ended(agents: &Agents, run_id: &str) -> RunSeen {
    until(agents, run_id, |run| !matches!(run.state, RunState::Running(_))).await
}

async fn failure(agents: &Agents, run_id: &str) -> Failure {
    match ended(agents, run_id).await.state {
        RunState::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

fn event(event: &serde_json::Value) -> Step {
    Step::Event(pko_proto::to_struct(event.as_object().unwrap()))
}

fn succeeded() -> UpResult {
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let summary = UpdateSummary {
        start_time: time(1_000),
        end_time: time(2_000),
        result: "succeeded".to_owned(),
        message: "why".to_owned(),
    };
    UpResult { summary: Some(summary), ..UpResult::default() }
}

fn output(value: &str, secret: bool) -> OutputValue {
    OutputValue { value: value.as_bytes().to_vec(), secret }
}

#[tokio::test]
async fn an_operation_is_a_run_from_its_start_to_its_outputs() {
    let (agent, agents) = scene().await;
    let step = json!({"op": "create", "type": "aws:s3/bucket:Bucket", "urn": "urn:pulumi:dev::shop::b::logs"});
    let result = UpResult {
        permalink: Some("https://app".to_owned()),
        project_info: Some(ProjectInfo { name: "shop".to_owned(), runtime: "yaml".to_owned() }),
        outputs: [("url".to_owned(), output("\"a\"", false)), ("password".to_owned(), output("\"b\"", true))].into(),
        ..succeeded()
    };
    agent.does([
        event(&json!({"resourcePreEvent": {"metadata": step}})),
        Step::Wait,
        event(&json!({"summaryEvent": {"resourceChanges": {"create": 1}}})),
        Step::Result(Box::new(result)),
    ]);
    assert_eq!(ask(&agents, "r").await, RunAnswer::Unknown);
    let wanted = Operation { message: Some("why".to_owned()), refresh: Some(false), ..operation(OperationKind::Up) };
    let RunAnswer::Known(begun) = agents.start_update(NAMESPACE, &pod(), "r", &wanted).await.unwrap() else { panic!() };
    assert_eq!((begun.state.clone(), begun.start_time), (RunState::Running(Phase::Initializing), None));
    let running = until(&agents, "r", |run| run.progress.begun == 1).await;
    assert_eq!(running.state, RunState::Running(Phase::Operating));
    assert_eq!(running.progress.current, "creating aws:s3:Bucket logs");
    assert!(running.start_time.is_some(), "whoever writes this down does not start it again");
    agent.go.add_permits(1);
    let run = ended(&agents, "r").await;
    assert_eq!(run.state, RunState::Succeeded);
    assert_eq!((run.permalink.as_str(), run.message.as_str(), run.outputs), ("https://app", "why", 2));
    assert_eq!(run.project_info.unwrap().name, "shop");
    assert_eq!((run.start_time.unwrap().as_second(), run.end_time.unwrap().as_second()), (1_000, 2_000));
    assert_eq!((run.changes["create"], run.pulumi_version.as_str()), (1, "3.259.0"));
    let collected = agents.outputs(NAMESPACE, &pod(), "r").await.unwrap();
    assert_eq!(
        (collected.outputs["password"].secret, collected.outputs["url"].value.as_slice()),
        (true, &b"\"a\""[..])
    );
    start(&agents, "r", OperationKind::Up).await;
    assert_eq!(agent.called(), ["select dev Some(true) None", "up Some(\"why\") Some(false)"], "once only");
    assert!(agent.tokens.lock().unwrap().iter().all(|token| token == "Bearer hush"));
}

#[tokio::test]
async fn every_operation_goes_its_way_and_options_that_are_absent_stay_absent() {
    let (agent, agents) = scene().await;
    let kinds = [OperationKind::Preview, OperationKind::Up, OperationKind::Refresh, OperationKind::Destroy];
    for (kind, id) in kinds.into_iter().zip(["a", "b", "c", "d"]) {
        agent.does([Step::Result(Box::new(UpResult { stdout: "+ 1 to create".to_owned(), ..succeeded() }))]);
        start(&agents, id, kind).await;
        let run = ended(&agents, id).await;
        assert_eq!(run.state, RunState::Succeeded, "{kind:?}");
        assert_eq!(run.standard_output == "+ 1 to create", kind == OperationKind::Preview, "{kind:?}");
        assert!(run.start_time < run.end_time, "{kind:?}");
    }
    let (creates, not) = ("select dev Some(true) None", "select dev None None");
    let expected = [creates, "preview", creates, "up None None", creates, "refresh", not, "destroy None"];
    assert_eq!(agent.called(), expected, "a destroy never creates its stack");
}

#[tokio::test]
async fn a_destroy_of_a_stack_that_is_not_there_does_not_pass_for_one() {
    let (agent, agents) = scene().await;
    agent.fails("select", Status::not_found("stack not found"));
    start(&agents, "r", OperationKind::Destroy).await;
    let failure = failure(&agents, "r").await;
    assert_eq!((failure.reason.as_str(), failure.retryable), ("StackNotFound", false));
    assert_eq!(failure.message, "the backend has no stack dev");
    assert_eq!(agent.called(), ["select dev None None"]);
}

#[tokio::test]
async fn a_stream_that_breaks_interrupts_its_run() {
    let (agent, address) = PkoAgent::serve().await;
    let (wire_address, wire) = wire_to(address).await;
    let agents = agents(wire_address);
    agent.does([event(&json!({"sequence": 1})), Step::Wait]);
    start(&agents, "r", OperationKind::Up).await;
    until(&agents, "r", |run| run.state == RunState::Running(Phase::Operating)).await;
    wire.abort();
    let failure = failure(&agents, "r").await;
    assert_eq!((failure.reason.as_str(), failure.retryable), ("Interrupted", true), "{}", failure.message);
    assert!(failure.message.starts_with("contact with the agent was lost: "), "{}", failure.message);
    let Err(unreachable) = agents.start_update(NAMESPACE, &pod(), "s", &Operation::default()).await else { panic!() };
    assert_eq!(unreachable.cause, Cause::Unreachable);
    assert!(matches!(ask(&agents, "s").await, RunAnswer::Silent { .. }));
}

#[tokio::test]
async fn a_failed_operation_is_told_by_its_detail_or_by_its_text() {
    let (agent, agents) = scene().await;
    let text = format!("up failed: exit status 255\nstdout: {}\nstderr: error: no bucket", "é\n".repeat(1 << 20));
    agent.does([Step::Fail(Status::unknown(text))]);
    start(&agents, "a", OperationKind::Up).await;
    let long = failure(&agents, "a").await;
    assert_eq!(long.reason, "Unknown", "{}", long.message);
    assert!(long.message.starts_with("up failed: exit status 255") && long.message.ends_with("error: no bucket"));
    let info = PulumiErrorInfo { code: 409, reason: "UpdateConflict".to_owned(), message: "busy".to_owned() };
    let details = pko_proto::error_details(&info).into();
    agent.does([Step::Fail(Status::with_details(Code::Unknown, "up failed: …", details))]);
    start(&agents, "b", OperationKind::Up).await;
    let conflict = failure(&agents, "b").await;
    assert_eq!((conflict.reason.as_str(), conflict.message.as_str()), ("UpdateConflict", "busy"));
    agent.does([]);
    start(&agents, "c", OperationKind::Up).await;
    assert_eq!(failure(&agents, "c").await.message, "didn't receive a result");
}

#[tokio::test]
async fn a_huge_result_arrives_and_only_what_can_be_stored_is_held() {
    let (agent, agents) = scene().await;
    let huge = "1".repeat(20 << 20);
    // The second one gets its turn when the first was taken.
    for run_id in ["r", "s"] {
        let outputs = [("huge".to_owned(), output(&huge, false)), ("small".to_owned(), output("1", false))].into();
        agent.does([Step::Result(Box::new(UpResult { stdout: huge.clone(), outputs, ..succeeded() }))]);
        start(&agents, run_id, OperationKind::Up).await;
        let run = ended(&agents, run_id).await;
        assert_eq!((run.state, run.outputs), (RunState::Succeeded, 2));
        let collected = agents.outputs(NAMESPACE, &pod(), run_id).await.unwrap();
        assert_eq!(collected.outputs.keys().collect::<Vec<_>>(), ["small"]);
        assert_eq!(collected.left_out, ["huge"]);
    }
}

#[tokio::test]
async fn a_run_that_is_canceled_cancels_its_call_and_others_may_follow() {
    let (agent, agents) = scene().await;
    agent.does([event(&json!({"sequence": 1})), Step::Wait]);
    start(&agents, "r", OperationKind::Up).await;
    until(&agents, "r", |run| run.state == RunState::Running(Phase::Operating)).await;
    agents.cancel(NAMESPACE, &pod(), "r").await.unwrap();
    let failure = failure(&agents, "r").await;
    assert_eq!((failure.reason.as_str(), failure.retryable), ("Canceled", false));
    agents.cancel(NAMESPACE, &pod(), "r").await.unwrap();
    agents.cancel(NAMESPACE, &pod(), "never started").await.unwrap();
    assert!(matches!(start(&agents, "s", OperationKind::Up).await, RunAnswer::Known(_)));
}

#[tokio::test]
async fn a_pod_has_one_run_at_a_time_also_while_the_cli_of_a_canceled_one_winds_down() {
    let (agent, mut agents) = scene().await;
    agents.streamed.wind_down = Duration::from_hours(1);
    agent.does([event(&json!({"sequence": 1})), Step::Wait]);
    start(&agents, "r", OperationKind::Up).await;
    until(&agents, "r", |run| run.state == RunState::Running(Phase::Operating)).await;
    for phase in [Phase::Operating, Phase::Finishing] {
        until(&agents, "r", |run| run.state == RunState::Running(phase)).await;
        let busy = agents.start_update(NAMESPACE, &pod(), "s", &Operation::default()).await.unwrap_err();
        assert!(busy.to_string().contains("run r is active; only one run is active at a time"), "{busy}");
        agents.cancel(NAMESPACE, &pod(), "r").await.unwrap();
    }
    until(&agents, "r", |_| agent.canceled.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn a_workspace_is_made_ready_call_by_call() {
    let (agent, agents) = scene().await;
    agent.slow.lock().unwrap().push("install");
    let latest = async || agents.latest_run(NAMESPACE, &pod(), "init.u.").await;
    assert_eq!(latest().await.unwrap(), RunAnswer::Unknown);
    let item = |key: &str| ConfigItem { key: key.to_owned(), value: Some(json!(1)), ..ConfigItem::default() };
    let stack = WorkspaceStack {
        name: "dev".to_owned(),
        create: Some(true),
        secrets_provider: Some("passphrase".to_owned()),
        config: vec![item("a"), item("b")],
        environment: vec!["e".to_owned()],
    };
    let other = WorkspaceStack { name: "prod".to_owned(), ..WorkspaceStack::default() };
    let init = Init { stacks: vec![stack, other], skip_install: false };
    agents.start_init(NAMESPACE, &pod(), "init.u.1", &init).await.unwrap();
    let RunAnswer::Known(run) = latest().await.unwrap() else { panic!() };
    assert_eq!(run.state, RunState::Running(Phase::Installing));
    agent.go.add_permits(1);
    let run = ended(&agents, "init.u.1").await;
    assert_eq!((run.state, run.pulumi_version.as_str()), (RunState::Succeeded, "3.259.0"));
    let expected = [
        "install",
        "select dev Some(true) Some(\"passphrase\")",
        "config a b",
        "environments e",
        "select prod None None",
    ];
    assert_eq!(agent.called(), expected);
    agents.start_init(NAMESPACE, &pod(), "init.u.2", &Init { skip_install: true, stacks: Vec::new() }).await.unwrap();
    ended(&agents, "init.u.2").await;
    let RunAnswer::Known(run) = latest().await.unwrap() else { panic!() };
    assert_eq!((run.run_id.as_str(), agent.called().len()), ("init.u.2", expected.len()), "nothing was called");
}

#[tokio::test]
async fn a_workspace_that_cannot_be_made_ready_says_why() {
    let (agent, agents) = scene().await;
    let item = ConfigItem { key: "a".to_owned(), value: Some(json!({"b": 1})), ..ConfigItem::default() };
    let stack = WorkspaceStack { name: "dev".to_owned(), config: vec![item], ..WorkspaceStack::default() };
    let mut init = Init { stacks: vec![stack], skip_install: false };
    let failed = async |id: &str, init: &Init| {
        agents.start_init(NAMESPACE, &pod(), id, init).await.unwrap();
        let failure = failure(&agents, id).await;
        (failure.reason, failure.message, failure.stack)
    };
    let told = |reason: &str, message: &str, stack: &str| (reason.to_owned(), message.to_owned(), stack.to_owned());

    *agent.version.lock().unwrap() = "3.201.0".to_owned();
    let too_old = "Pulumi CLI version 3.201.0 does not support JSON configuration, require >= v3.202.0";
    assert_eq!(failed("1", &init).await, told("IncompatibleConfiguration", too_old, ""));
    *agent.version.lock().unwrap() = "3.202.0".to_owned();

    agent.fails("config", Status::unknown("unable to set all config"));
    let text = "rpc error: code = Unknown desc = unable to set all config";
    assert_eq!(failed("2", &init).await, told("InitializationFailed", text, "dev"));

    agent.fails("install", Status::aborted("could not install dependencies"));
    let text = "rpc error: code = Aborted desc = could not install dependencies";
    assert_eq!(failed("3", &init).await, told("InstallationFailed", text, ""));

    init.stacks[0].config[0].path = Some(true);
    init.skip_install = true;
    let text = "path=true is incompatible with structured values (objects, arrays, etc.) for key \"a\"";
    assert_eq!(failed("4", &init).await, told("InitializationFailed", text, "dev"));
}

#[tokio::test]
async fn an_agent_that_refuses_us_is_given_no_run() {
    let (agent, agents) = scene().await;
    agent.fails("version", Status::unauthenticated("who are you"));
    let refused = RunAnswer::Refused { code: "Unauthenticated".to_owned(), message: "who are you".to_owned() };
    assert_eq!(ask(&agents, "r").await, refused);
    assert_eq!(agents.latest_run(NAMESPACE, &pod(), "init.u.").await.unwrap(), refused);
    assert!(agents.start_update(NAMESPACE, &pod(), "r", &Operation::default()).await.is_err());
    agent.fails("version", Status::unimplemented("unknown method"));
    assert!(matches!(ask(&agents, "r").await, RunAnswer::Refused { code, .. } if code == "Unimplemented"));
    assert!(agent.called().is_empty());
}

#[tokio::test]
async fn whoever_follows_a_run_is_woken_by_each_phase_and_by_its_end() {
    let (agent, agents) = scene().await;
    let (agents, queue) = (Arc::new(agents), Arc::<Queue>::default());
    let followers = Arc::new(Followers::new(Arc::clone(&agents), Arc::clone(&queue)));
    *agent.slow.lock().unwrap() = vec!["install", "select"];
    let key = Key { kind: Kind::Workspace, namespace: NAMESPACE.to_owned(), name: "web".to_owned() };
    let init = Init { stacks: vec![WorkspaceStack::default()], skip_install: false };
    agents.start_init(NAMESPACE, &pod(), "r", &init).await.unwrap();
    followers.follow(&key, &pod(), "r");
    let expected = [RunState::Running(Phase::Initializing), RunState::Succeeded];
    for state in expected {
        agent.go.add_permits(1);
        let woken = tokio::time::timeout(DEADLINE, queue.next()).await.unwrap_or_else(|_| panic!("not {state:?}"));
        assert_eq!((woken, agents.streamed.find(&pod(), "r").unwrap().seen().state), (key.clone(), state));
        queue.done(&key, Ended::Settled);
    }
}

#[tokio::test]
async fn an_ended_run_is_forgotten_when_nobody_asked_for_it_in_a_while() {
    let (agent, agents) = scene().await;
    agent.does([Step::Result(Box::new(succeeded()))]);
    start(&agents, "r", OperationKind::Up).await;
    ended(&agents, "r").await;
    agents.tidy();
    assert!(matches!(ask(&agents, "r").await, RunAnswer::Known(_)));
    agents.streamed.find(&pod(), "r").unwrap().last_asked_for(Instant::now().checked_sub(KEPT).unwrap());
    agents.tidy();
    assert_eq!(ask(&agents, "r").await, RunAnswer::Unknown);
    assert!(agents.streamed.lock().is_empty());
}
