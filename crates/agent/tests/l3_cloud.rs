//! Runs on Pulumi Cloud: the real agent and the real CLI, with a service that speaks its protocol.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use std::process::Output;

use pko_proto::{
    agent::{self, ConfigItem, PulumiErrorInfo, config_item::V},
    runs::{CancelMode, Destroy, OutputChunk, Preview, Refresh, Stack, State, Up, start_request::Operation},
};
use pko_testkit::cloud::{Cloud, Status, TOKEN};
use prost::Message as _;
use serde_json::json;
use support::{Rig, cancel, follow, init, program, reason, stack, start, until, up};

const NOTHING: &str = "name: shop\nruntime: yaml\n";

/// A workspace whose backend is the service.
fn rig_on(cloud: &Cloud, program: &str) -> Rig {
    let mut rig = Rig::new(program);
    rig.set_env("PULUMI_BACKEND_URL", &cloud.url());
    rig.set_env("PULUMI_CONSOLE_DOMAIN", "console.test");
    rig
}

/// The same with a token and an agent.
async fn serving(cloud: &Cloud, program: &str) -> Rig {
    let mut rig = rig_on(cloud, program);
    rig.set_env("PULUMI_ACCESS_TOKEN", TOKEN);
    rig.start_agent().await;
    rig
}

/// The CLI in the hands of a user.
fn pulumi(rig: &Rig, args: &[&str]) -> Output {
    let mut command = std::process::Command::new("pulumi");
    command.args(args).current_dir(rig.path("share/source")).env_clear().envs(rig.env()).output().unwrap()
}

fn shown(outputs: Vec<OutputChunk>) -> Vec<(String, String, bool)> {
    outputs.into_iter().map(|o| (o.name, String::from_utf8(o.value).unwrap(), o.secret)).collect()
}

fn secret(key: &str, value: &str) -> ConfigItem {
    let v = Some(V::Value(pko_proto::to_value(&json!(value))));
    ConfigItem { key: key.to_owned(), v, secret: Some(true), path: None }
}

fn with_message(message: &str) -> Operation {
    let options = agent::UpRequest { message: Some(message.to_owned()), ..agent::UpRequest::default() };
    Operation::Up(Up { stack_name: "dev".to_owned(), options: Some(options) })
}

#[tokio::test]
async fn the_service_knows_whose_token_it_is() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, NOTHING).await;
    let who = rig.automation().await.who_am_i(agent::WhoAmIRequest {}).await.unwrap().into_inner();
    assert_eq!((who.user.as_str(), who.organizations), ("robot", vec!["robot".to_owned(), "acme".to_owned()]));
    assert_eq!(who.url, "http://console.test/robot");
}

#[tokio::test]
async fn init_creates_the_stack_and_the_service_encrypts_its_secrets() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, NOTHING).await;
    let run = rig.run("i", init(vec![Stack { config: vec![secret("token", "planted")], ..stack() }])).await;
    assert_eq!(run.failure, None);
    assert_eq!(cloud.stacks(), ["acme/shop/dev"]);
    assert_eq!(cloud.tags("acme/shop/dev")["pulumi:project"], "shop");
    let file = std::fs::read_to_string(rig.path("share/source/Pulumi.dev.yaml")).unwrap();
    assert!(file.contains("secure: ") && !file.contains("encryptionsalt"), "{file}");
    assert!(cloud.requests_of("/acme/shop/dev/encrypt 200") + cloud.requests_of("/batch-encrypt 200") > 0);
    for text in [file, rig.calls().join("\n"), rig.log(), rig.journal()] {
        assert!(!text.contains("planted"), "{text}");
    }
    let known = pulumi(&rig, &["config", "get", "token", "--stack", "dev"]);
    assert_eq!(String::from_utf8_lossy(&known.stdout).trim(), "planted", "{known:?}");
}

#[tokio::test]
async fn up_gives_its_outputs_and_its_permalink_and_the_service_has_its_history() {
    let cloud = Cloud::start();
    let text = program("value: hello, secret: planted") + "  hidden: ${a.secretOutput}\n";
    let rig = serving(&cloud, &text).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", with_message("because \"I\" said so")).await.unwrap();
    let (run, outputs) = follow(&mut runs, "u").await;
    assert_eq!(run.failure, None);
    assert_eq!(run.permalink, "http://console.test/acme/shop/dev/updates/1");
    let expected = [("hidden", "\"derived-from-planted\"", true), ("plain", "\"hello\"", false)];
    assert_eq!(shown(outputs), expected.map(|(n, v, s)| (n.to_owned(), v.to_owned(), s)));

    let [update] = cloud.updates().try_into().unwrap();
    assert_eq!((update.kind.as_str(), update.status, update.version), ("update", Status::Succeeded, 1));
    assert_eq!(update.message, "because \"I\" said so");
    assert!(update.checkpoints > 0 && !update.events.is_empty(), "{update:?}");
    let deployment = cloud.deployment("acme/shop/dev").to_string();
    assert!(deployment.contains("pkotest:index:Thing"), "{deployment}");
    for text in [deployment, format!("{:?}", update.events), rig.log(), rig.journal()] {
        assert!(!text.contains("derived-from"), "a secret in clear: {text}");
    }
    let history = pulumi(&rig, &["stack", "history", "--json", "--stack", "dev"]);
    let history: serde_json::Value = serde_json::from_slice(&history.stdout).unwrap();
    assert_eq!((&history[0]["version"], &history[0]["result"]), (&json!(1), &json!("succeeded")));
    assert_eq!(history[0]["resourceChanges"]["create"], 2);
}

#[tokio::test]
async fn a_failed_run_has_its_permalink_too() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, &program("value: x, failCreate: 'quota of 3 things exceeded'")).await;
    rig.init().await;
    let run = rig.run("u", up()).await;
    assert_eq!((run.state(), reason(&run)), (State::Failed, "ProviderFailed"));
    assert!(run.failure.unwrap().message.contains("quota of 3 things exceeded"));
    assert_eq!(run.permalink, "http://console.test/acme/shop/dev/updates/1");
    assert_eq!(cloud.updates()[0].status, Status::Failed);
}

#[tokio::test]
async fn a_run_that_outlives_its_agent_keeps_its_permalink() {
    let cloud = Cloud::start();
    let mut rig = serving(&cloud, &program("value: x, createSeconds: 5")).await;
    rig.init().await;
    start(&mut rig.runs().await, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    until("the permalink is in the journal", || async { rig.journal().contains("/updates/1").then_some(()) }).await;
    rig.kill_agent();
    rig.start_agent().await;
    let (run, _) = follow(&mut rig.runs().await, "u").await;
    assert_eq!(run.failure, None);
    assert_eq!(run.permalink, "http://console.test/acme/shop/dev/updates/1");
}

#[tokio::test]
async fn preview_refresh_and_destroy_go_to_the_service_and_the_stack_goes_if_asked_to() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, &program("value: x")).await;
    rig.init().await;
    let run = rig.run("p", Operation::Preview(Preview { stack_name: "dev".to_owned(), options: None })).await;
    assert_eq!((&run.failure, run.resource_changes.get("create")), (&None, Some(&2)));
    assert!(run.permalink.starts_with("http://console.test/acme/shop/dev/previews/"), "{}", run.permalink);
    assert_eq!(rig.run("u", up()).await.failure, None);
    let run = rig.run("r", Operation::Refresh(Refresh { stack_name: "dev".to_owned(), options: None })).await;
    assert_eq!((run.failure, run.permalink.as_str()), (None, "http://console.test/acme/shop/dev/updates/2"));
    let options = agent::DestroyRequest { remove: Some(true), ..agent::DestroyRequest::default() };
    let destroy = Operation::Destroy(Destroy { stack_name: "dev".to_owned(), options: Some(options) });
    let run = rig.run("d", destroy).await;
    assert_eq!(run.failure, None);
    let made: Vec<_> = cloud.updates().into_iter().map(|u| (u.kind, u.version, u.status)).collect();
    let expected = [("preview", 0), ("update", 1), ("refresh", 2), ("destroy", 3)];
    assert_eq!(made, expected.map(|(kind, version)| (kind.to_owned(), version, Status::Succeeded)));
    assert_eq!((rig.things(), cloud.stacks().len()), (0, 0));
}

#[tokio::test]
async fn a_stack_is_named_with_its_organization_and_project_too() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, "name: shop\nruntime: yaml\noutputs: {n: 5}\n").await;
    let name = "acme/shop/prod".to_owned();
    let run = rig.run("i", init(vec![Stack { name: name.clone(), ..stack() }])).await;
    assert_eq!(run.failure, None);
    assert_eq!(cloud.stacks(), ["acme/shop/prod"]);
    let run = rig.run("u", Operation::Up(Up { stack_name: name, options: None })).await;
    assert_eq!((run.failure, run.output_count), (None, 1));
    assert_eq!(run.permalink, "http://console.test/acme/shop/prod/updates/1");
}

#[tokio::test]
async fn an_update_of_someone_else_is_a_conflict_and_is_left_alone() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, NOTHING).await;
    rig.init().await;
    let foreign = cloud.begin_foreign_update("acme/shop/dev");
    let failure = rig.run("u", up()).await.failure.unwrap();
    assert_eq!(failure.reason, "UpdateConflict");
    assert!(
        failure.message.starts_with("Another update of the stack is currently in progress."),
        "{}",
        failure.message
    );
    assert_eq!(cloud.active_update("acme/shop/dev").unwrap().id, foreign);
    let preview = rig.run("p", Operation::Preview(Preview { stack_name: "dev".to_owned(), options: None })).await;
    assert_eq!(preview.failure, None, "a preview keeps nobody from anything");
    assert_eq!(cloud.requests_of("/cancel"), 0);
}

#[tokio::test]
async fn someone_else_is_kept_from_the_stack_while_a_run_updates_it() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, &program("value: x, createSeconds: 5")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    let second = pulumi(&rig, &["refresh", "--yes", "--skip-preview", "--non-interactive", "--stack", "dev"]);
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("[409] Conflict: Another update is currently in progress."), "{said}");
    let (run, _) = follow(&mut runs, "u").await;
    assert_eq!(run.failure, None);
}

#[tokio::test]
async fn a_token_that_the_service_does_not_take_is_named() {
    let cloud = Cloud::start();
    let mut rig = rig_on(&cloud, NOTHING);
    rig.set_env("PULUMI_ACCESS_TOKEN", "pul-planted");
    rig.start_agent().await;
    let failure = rig.run("i", init(vec![stack()])).await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.stack_name.as_str()), ("InvalidAccessToken", "dev"));
    assert!(failure.message.contains("No credentials provided or are invalid"), "{}", failure.message);
    let run = rig.run("u", up()).await;
    assert_eq!(reason(&run), "InvalidAccessToken", "{run:?}");
    let status = rig.automation().await.who_am_i(agent::WhoAmIRequest {}).await.unwrap_err();
    let detail = b"type.googleapis.com/agent.PulumiErrorInfo";
    assert!(status.details().windows(detail.len()).any(|part| part == detail), "{status:?}");
    let info = PulumiErrorInfo { code: 401, reason: "InvalidAccessToken".to_owned(), ..PulumiErrorInfo::default() };
    let info = info.encode_to_vec();
    assert!(status.details().windows(info.len()).any(|part| part == info), "{status:?}");
    assert!(!rig.log().contains("pul-planted") && !rig.journal().contains("pul-planted"));
}

#[tokio::test]
async fn a_token_that_is_revoked_between_two_runs_is_named() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, NOTHING).await;
    rig.init().await;
    cloud.revoke_tokens();
    let run = rig.run("u", up()).await;
    assert_eq!(reason(&run), "InvalidAccessToken", "{run:?}");
}

#[tokio::test]
async fn a_run_that_is_canceled_gracefully_gives_the_stack_back() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, &program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    assert!(cloud.active_update("acme/shop/dev").is_some());
    cancel(&mut runs, "u", CancelMode::Graceful).await;
    let (run, _) = follow(&mut runs, "u").await;
    assert_eq!(reason(&run), "Canceled", "{run:?}");
    assert_eq!(run.permalink, "http://console.test/acme/shop/dev/updates/1");
    assert!(cloud.active_update("acme/shop/dev").is_none());
}

#[tokio::test]
async fn an_update_that_someone_cancels_on_the_service_ends_in_failure_and_says_so() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, &program("value: x, createSeconds: 5")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    let canceled = pulumi(&rig, &["cancel", "--yes", "--stack", "dev"]);
    assert!(canceled.status.success(), "{canceled:?}");
    assert_eq!(cloud.updates()[0].status, Status::Canceled);
    let (run, _) = follow(&mut runs, "u").await;
    let failure = run.failure.unwrap();
    // The CLI learns of it when it reports next, and what it made until then is there.
    assert_eq!((failure.reason.as_str(), rig.things()), ("UpdateFailed", 1));
    for words in ["someone ended this update on the service", "[409] Conflict: The Update has already completed"] {
        assert!(failure.message.contains(words), "{words} in {}", failure.message);
    }
    assert_eq!(run.permalink, "http://console.test/acme/shop/dev/updates/1");
    assert_eq!(cloud.updates()[0].status, Status::Canceled);
}

#[tokio::test]
async fn an_environment_gives_its_values_to_the_program_and_is_added_once() {
    let cloud = Cloud::start();
    let text = program("value: x")
        + "  said: ${greeting}\n  hidden: ${password}\n  size: ${size}\nconfig:\n  greeting: {type: string}\n  \
           password: {type: string}\n  size: {type: integer}\n";
    let rig = serving(&cloud, &text).await;
    let elsewhere = rig.path("elsewhere");
    cloud.define_environment(
        "base",
        json!({
            "pulumiConfig": {"shop:greeting": "hello", "shop:password": {"fn::secret": "planted"}},
            "environmentVariables": {"PKOTEST_CLOUD": elsewhere},
        }),
    );
    cloud.define_environment("shop/prod", json!({"pulumiConfig": {"shop:size": 3}}));
    let environment = vec!["base".to_owned(), "shop/prod".to_owned()];
    // The program's own file names one of them already.
    std::fs::write(rig.path("share/source/Pulumi.dev.yaml"), "environment:\n  - base\n").unwrap();
    for run_id in ["i1", "i2"] {
        let run = rig.run(run_id, init(vec![Stack { environment: environment.clone(), ..stack() }])).await;
        assert_eq!(run.failure, None);
    }
    assert_eq!(rig.calls_of("config env add"), 1, "{:?}", rig.calls());
    let file = std::fs::read_to_string(rig.path("share/source/Pulumi.dev.yaml")).unwrap();
    assert_eq!(pko_pulumi::Settings::parse(&file).unwrap().environments(), ["base", "shop/prod"], "{file}");
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    let (run, outputs) = follow(&mut runs, "u").await;
    assert_eq!(run.failure, None);
    let expected = [
        ("hidden", "\"planted\"", true),
        ("plain", "\"x\"", false),
        ("said", "\"hello\"", false),
        ("size", "3", false),
    ];
    assert_eq!(shown(outputs), expected.map(|(n, v, s)| (n.to_owned(), v.to_owned(), s)));
    let made = std::fs::read_dir(elsewhere.join("things")).unwrap().count();
    assert_eq!((made, rig.things()), (1, 0), "the provider has the environment's variables");
    assert!(!rig.log().contains("planted") && !rig.journal().contains("planted"));
}

#[tokio::test]
async fn an_environment_that_is_no_longer_wanted_is_gone_and_the_repositorys_own_stay() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, NOTHING).await;
    for name in ["own", "a", "b"] {
        cloud.define_environment(name, json!({"pulumiConfig": {"shop:last": name}}));
    }
    std::fs::write(rig.path("share/source/Pulumi.dev.yaml"), "environment:\n  - own\n").unwrap();
    for (run_id, wanted, calls) in [
        ("i1", vec!["a", "b"], 1),
        ("i2", vec!["own", "a", "b"], 1),
        ("i3", vec!["b"], 1),
        ("i4", vec!["b", "a"], 2),
        ("i5", vec![], 2),
    ] {
        let environment: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
        let run = rig.run(run_id, init(vec![Stack { environment, ..stack() }])).await;
        assert_eq!(run.failure, None);
        let text = std::fs::read_to_string(rig.path("share/source/Pulumi.dev.yaml")).unwrap();
        let found = pko_pulumi::Settings::parse(&text).unwrap();
        let own = ["own"].into_iter().filter(|own| !wanted.contains(own));
        assert_eq!(found.environments(), own.chain(wanted.iter().copied()).collect::<Vec<_>>(), "{run_id}: {text}");
        assert_eq!(rig.calls_of("config env add"), calls, "{run_id}: {:?}", rig.calls());
    }
}

#[tokio::test]
async fn an_environment_that_does_not_exist_is_named() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, NOTHING).await;
    let run = rig.run("i", init(vec![Stack { environment: vec!["nowhere".to_owned()], ..stack() }])).await;
    assert_eq!(run.failure, None, "the CLI adds what it does not know");
    let failure = rig.run("u", up()).await.failure.unwrap();
    assert_eq!(failure.reason, "UpdateFailed");
    assert!(failure.message.contains("unknown environment \"nowhere\""), "{}", failure.message);
}

#[tokio::test]
async fn a_service_that_fails_for_a_moment_fails_no_run() {
    let cloud = Cloud::start();
    let rig = serving(&cloud, &program("value: x")).await;
    rig.init().await;
    cloud.fail_next(1, "GET /api/stacks/acme/shop/dev", 503);
    cloud.fail_next(2, "/checkpoint", 503);
    cloud.fail_next(1, "/complete", 503);
    let run = rig.run("u", up()).await;
    assert_eq!(run.failure, None, "{:?}", cloud.requests());
    assert_eq!(cloud.requests_of(" 503"), 4);
    assert_eq!(cloud.updates()[0].status, Status::Succeeded);
    assert!(cloud.deployment("acme/shop/dev").to_string().contains("pkotest:index:Thing"));
}
