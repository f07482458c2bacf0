//! Runs over real gRPC with tokens of a real API server, against an agent that does as it is told.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod support;

use std::time::Duration;

use pko_api::Update;
use pko_core::{
    ask::{Answer, Question, RunAnswer, RunState},
    driver::Shell as _,
    effect::{Effect, Operation, Target},
    seen::{Kind, PodRef},
};
use pko_operator::{cluster::Cause, queue::Ended};
use pko_proto::{
    agent::{OutputValue, UpResult, UpdateSummary},
    runs::{OutputChunk, Run},
};
use serde_json::{Value, json};
use support::{
    Scene,
    agent::Agent,
    pko_agent::{PkoAgent, Step},
};

fn pod() -> PodRef {
    PodRef { name: "web-workspace-0".to_owned(), uid: "u".to_owned(), ip: "127.0.0.1".to_owned() }
}

fn run(answer: Answer) -> RunAnswer {
    match answer {
        Answer::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

async fn ask(scene: &Scene, run_id: &str) -> RunAnswer {
    run(scene.ask(Question::Run { pod: pod(), run_id: run_id.to_owned() }).await.unwrap())
}

/// An Update that exists, and its run.
async fn update(scene: &Scene) -> Target {
    let update: Update = serde_json::from_value(json!({"metadata": {"name": "web-1"}, "spec": {}})).unwrap();
    scene.perform(Effect::CreateUpdate(Box::new(update))).await.unwrap();
    scene.target(Kind::Update, "web-1")
}

#[tokio::test]
async fn a_run_is_started_found_again_and_its_end_wakes_who_asked() {
    let (agent, address) = Agent::serve().await;
    let scene = Scene::with_agent("runs", Some(address)).await;
    let key = scene.key(Kind::Update, "web-1");
    assert_eq!(ask(&scene, "r").await, RunAnswer::Unknown);
    let start = Effect::StartUpdate { pod: pod(), run_id: "r".to_owned(), operation: Operation::default() };
    for _ in 0..2 {
        scene.shell.perform(&key, &start).await.unwrap();
    }
    let RunAnswer::Known(seen) = ask(&scene, "r").await else { panic!() };
    assert!(matches!(seen.state, RunState::Running(_)), "{seen:?}");
    agent.end("r");
    let woken = tokio::time::timeout(Duration::from_secs(10), scene.queue.next()).await.expect("the end is noticed");
    assert_eq!(woken, key);
    assert_eq!(*agent.attached.lock().unwrap(), 1, "one task follows a run, however often it is seen");
    let RunAnswer::Known(seen) = ask(&scene, "r").await else { panic!() };
    assert_eq!(seen.state, RunState::Succeeded);
    let tokens = agent.tokens.lock().unwrap();
    assert!(tokens.iter().all(|token| token.starts_with("Bearer ") && token == &tokens[0]), "one token, used again");
}

#[tokio::test]
async fn the_latest_attempt_is_found_among_all_runs() {
    let (agent, address) = Agent::serve().await;
    let scene = Scene::with_agent("latest", Some(address)).await;
    let latest = || scene.ask(Question::LatestRun { pod: pod(), prefix: "init.u.".to_owned() });
    assert_eq!(run(latest().await.unwrap()), RunAnswer::Unknown);
    for id in ["init.u.9", "init.u.10", "other"] {
        agent.runs.lock().unwrap().push(Run { run_id: id.to_owned(), state: 2, ..Run::default() });
    }
    let RunAnswer::Known(seen) = run(latest().await.unwrap()) else { panic!() };
    assert_eq!(seen.run_id, "init.u.10");
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_silent() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap().to_string();
    drop(unused);
    let scene = Scene::with_agent("silent", Some(address)).await;
    let RunAnswer::Silent { why } = ask(&scene, "r").await else { panic!() };
    assert!(why.contains("refused"), "{why}");
}

#[tokio::test]
async fn outputs_are_stored_once_and_shown_masked() {
    let (agent, address) = Agent::serve().await;
    let scene = Scene::with_agent("outputs", Some(address)).await;
    let update = update(&scene).await;
    agent.begin("r");
    agent.end("r");
    let chunk = |name: &str, value: &str, secret| OutputChunk {
        name: name.to_owned(),
        value: value.as_bytes().to_vec(),
        secret,
        last: false,
    };
    let all = [
        chunk("url", "\"https:", false),
        chunk("url", "//a\"", false),
        chunk("password", "\"hush\"", true),
        chunk("large", &"1".repeat(600_000), false),
        chunk("larger", &"1".repeat(700_000), false),
    ];
    *agent.outputs.lock().unwrap() = all.to_vec();
    let store = Effect::StoreOutputs { pod: pod(), run_id: "r".to_owned(), update };
    for _ in 0..2 {
        scene.perform(store.clone()).await.unwrap();
    }
    let secret = scene.read("secret", "web-1-stack-outputs");
    assert_eq!((&secret["immutable"], &secret["data"]["password"]), (&json!(true), &json!("Imh1c2gi")));
    let question = Question::Outputs { secret: "web-1-stack-outputs".to_owned() };
    let Answer::Outputs(Some(mut shown)) = scene.ask(question).await.unwrap() else { panic!() };
    assert!(shown.remove("large").is_some(), "what fits is kept");
    assert_eq!(Value::from_iter(shown), json!({"password": "[secret]", "url": "https://a"}));
}

#[tokio::test]
async fn a_secret_of_someone_else_is_not_taken_for_the_outputs() {
    let (agent, address) = Agent::serve().await;
    let scene = Scene::with_agent("foreign", Some(address)).await;
    let update = update(&scene).await;
    agent.begin("r");
    agent.end("r");
    scene.namespace.kubectl().run(&["create", "secret", "generic", "web-1-stack-outputs"]);
    let failure = scene.perform(Effect::StoreOutputs { pod: pod(), run_id: "r".to_owned(), update }).await.unwrap_err();
    assert_eq!(failure.cause, Cause::Other);
    assert!(failure.to_string().contains("does not belong to Update web-1; delete it"), "{failure}");
}

#[tokio::test]
async fn an_agent_without_runs_is_driven_by_pkos_calls_from_a_token_to_stored_outputs() {
    let (agent, address) = PkoAgent::serve().await;
    let scene = Scene::with_agent("streaming", Some(address)).await;
    let update = update(&scene).await;
    let key = scene.key(Kind::Update, "web-1");
    let summary = UpdateSummary { result: "succeeded".to_owned(), ..UpdateSummary::default() };
    let outputs = [("password".to_owned(), OutputValue { value: b"\"hush\"".to_vec(), secret: true })].into();
    let result = UpResult { summary: Some(summary), outputs, ..UpResult::default() };
    agent.does([Step::Wait, Step::Result(Box::new(result))]);
    assert_eq!(ask(&scene, "r").await, RunAnswer::Unknown);
    let start = Effect::StartUpdate { pod: pod(), run_id: "r".to_owned(), operation: Operation::default() };
    for _ in 0..2 {
        scene.shell.perform(&key, &start).await.unwrap();
    }
    agent.go.add_permits(1);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !matches!(ask(&scene, "r").await, RunAnswer::Known(run) if run.state == RunState::Succeeded) {
        let woken = tokio::time::timeout_at(deadline, scene.queue.next()).await.expect("the end is noticed");
        scene.queue.done(&woken, Ended::Settled);
        assert_eq!(woken, key);
    }
    scene.perform(Effect::StoreOutputs { pod: pod(), run_id: "r".to_owned(), update }).await.unwrap();
    let secret = scene.read("secret", "web-1-stack-outputs");
    assert_eq!(secret["data"], json!({"password": "Imh1c2gi"}));
    assert_eq!(agent.called(), ["select  Some(true) None", "up None None"]);
    let tokens = agent.tokens.lock().unwrap();
    assert!(
        tokens.iter().all(|token| token.starts_with("Bearer ey") && token == &tokens[0]),
        "a real token, used again"
    );
}
