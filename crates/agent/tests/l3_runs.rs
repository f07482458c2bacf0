//! Runs by the real agent with the real CLI.

mod support;

use pko_proto::{
    agent::{self, ConfigItem, config_item::V},
    runs::{
        AttachRequest, CancelMode, Destroy, GetRequest, ListRequest, Preview, Refresh, Stack, State,
        attach_response::What, start_request::Operation,
    },
};
use serde_json::json;
use support::{Rig, cancel, follow, get, init, program, reason, stack, start, until, up};
use tonic::Code;

fn item(key: &str, value: &serde_json::Value, secret: bool) -> ConfigItem {
    ConfigItem { key: key.to_owned(), v: Some(V::Value(pko_proto::to_value(value))), secret: Some(secret), path: None }
}

#[tokio::test]
async fn init_makes_a_stack_with_its_configuration_and_shows_no_secret_to_anyone() {
    let rig = Rig::serving(&program("value: x")).await;
    let config = vec![
        item("region", &json!("eu-west-1"), false),
        item("dotted.key", &json!("literal"), false),
        item("sizes", &json!([1, {"big": true}]), false),
        item("aws:token", &json!("planted-secret\n"), true),
        item("object", &json!({"password": "planted-secret"}), true),
    ];
    let run = rig.run("w:1", init(vec![Stack { config, ..stack() }])).await;
    assert_eq!(run.failure, None);
    assert_eq!(run.project_info.unwrap().name, "shop");

    assert!(!rig.calls().join("\n").contains("planted"), "{:?}", rig.calls());
    assert!(!rig.journal().contains("planted"));
    assert!(!rig.log().contains("planted"));
    assert_eq!(rig.calls_of("stack "), 1, "selected and created in one: {:?}", rig.calls());
    assert_eq!(rig.calls_of("config set-all"), 1, "{:?}", rig.calls());

    let output = std::process::Command::new("pulumi")
        .args(["config", "--stack", "dev", "--json", "--show-secrets"])
        .current_dir(rig.path("share/source"))
        .envs(rig.env())
        .output()
        .unwrap();
    let set: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(set["shop:region"], json!({"value": "eu-west-1", "secret": false}));
    assert_eq!(set["shop:dotted.key"], json!({"value": "literal", "secret": false}));
    assert_eq!(set["shop:sizes"]["objectValue"], json!([1, {"big": true}]));
    assert_eq!(set["aws:token"], json!({"value": "planted-secret\n", "secret": true}));
    assert_eq!(set["shop:object"], json!({"value": "{\"password\":\"planted-secret\"}", "secret": true}));
}

#[tokio::test]
async fn a_program_that_needs_nothing_is_ready_after_one_call() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    let calls: Vec<String> = rig.calls().into_iter().filter(|c| c != "version").collect();
    assert_eq!(calls, ["stack select --stack dev --create"]);
}

#[tokio::test]
async fn a_stack_that_must_exist_is_not_created() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    let run = rig.run("i", init(vec![Stack { create: false, ..stack() }])).await;
    let failure = run.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.stack_name.as_str()), ("InitializationFailed", "dev"));
    assert!(failure.message.contains("no stack named 'dev' found"), "{}", failure.message);
}

#[tokio::test]
async fn a_cli_that_is_too_old_for_what_it_is_to_do_is_named() {
    let structured = Stack { config: vec![item("k", &json!(5), false)], ..stack() };
    let environments = Stack { environment: vec!["e".to_owned()], ..stack() };
    for (version, program, stack, words) in [
        ("v3.197.0", "", structured, "does not support JSON configuration, require >= v3.202.0"),
        ("v3.94.0", "", environments, "does not support environments, require >= v3.95.0"),
        ("v3.90.1", "packages: {a: b}\n", stack(), "does not support `pulumi install`, require >= v3.91.0"),
        ("v2.9.0", "", stack(), "is none that the agent can drive, require 3.x"),
    ] {
        let mut rig = Rig::new(&format!("name: shop\nruntime: yaml\n{program}"));
        rig.write_script("pulumi", &format!("echo {version}"));
        rig.start_agent().await;
        let failure = rig.run("i", init(vec![stack])).await.failure.unwrap();
        assert_eq!((failure.reason.as_str(), failure.retryable), ("IncompatibleConfiguration", false));
        assert_eq!(failure.message, format!("Pulumi CLI version {} {words}", version.trim_start_matches('v')));
    }
}

#[tokio::test]
async fn an_install_that_fails_says_so() {
    let rig = Rig::serving(&program("value: x")).await;
    rig.write_script("pulumi", "[ \"$2\" = install ] && { echo 'error: no such plugin' >&2; exit 1; }; echo v3.259.0");
    let failure = rig.run("i", init(vec![stack()])).await.failure.unwrap();
    assert_eq!(failure.reason, "InstallationFailed");
    assert!(failure.message.contains("no such plugin"), "{}", failure.message);
}

#[tokio::test]
async fn up_gives_its_outputs_and_leaves_no_secret_in_the_journal() {
    let text = program("value: hello, secret: planted") + "  hidden: {deep: ['${a.secretOutput}']}\n  n: 42\n";
    let rig = Rig::serving(&text).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    let message = Some("because \"I\" said so".to_owned());
    let options = agent::UpRequest { message, ..agent::UpRequest::default() };
    let operation = Operation::Up(pko_proto::runs::Up { stack_name: "dev".to_owned(), options: Some(options) });
    start(&mut runs, "u1", operation).await.unwrap();
    let (run, outputs) = follow(&mut runs, "u1").await;
    assert_eq!(run.failure, None);
    assert_eq!(run.state(), State::Succeeded);
    assert_eq!(run.resource_changes.get("create"), Some(&2));
    assert_eq!((run.output_count, run.message.as_str()), (3, "because \"I\" said so"));
    assert_eq!(run.pulumi_version, "3.259.0");
    assert!(run.start_time.unwrap().seconds > 0 && run.end_time.is_some());

    let shown: Vec<(String, String, bool)> = outputs
        .into_iter()
        .map(|o| {
            assert!(o.last);
            (o.name, String::from_utf8(o.value).unwrap(), o.secret)
        })
        .collect();
    let expected =
        [("hidden", "{\"deep\":[\"derived-from-planted\"]}", true), ("n", "42", false), ("plain", "\"hello\"", false)];
    assert_eq!(shown, expected.map(|(n, v, s)| (n.to_owned(), v.to_owned(), s)));
    assert!(!rig.journal().contains("derived-from"), "secret outputs stay in memory");
    assert!(rig.journal().contains("summaryEvent"), "the events are there");
    assert!(!rig.log().contains("derived-from"));
}

#[tokio::test]
async fn an_update_without_secrets_is_one_process_of_the_cli() {
    let rig = Rig::serving("name: shop\nruntime: yaml\noutputs: {n: 5}\n").await;
    rig.init().await;
    until("the version is known", || async { rig.calls().contains(&"version".to_owned()).then_some(()) }).await;
    let before = rig.calls().len();
    let run = rig.run("u", up()).await;
    assert_eq!((run.failure, run.output_count), (None, 1));
    assert_eq!(rig.calls().len() - before, 1, "{:?}", rig.calls());
}

#[tokio::test]
async fn large_outputs_come_in_parts() {
    let text = program("value: x, largeBytes: 2500000") + "  large: ${a.large}\n";
    let rig = Rig::serving(&text).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    let (run, outputs) = follow(&mut runs, "u").await;
    assert_eq!(run.failure, None);
    let parts: Vec<_> = outputs.iter().filter(|o| o.name == "large").collect();
    assert_eq!(parts.iter().map(|p| p.last).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(parts.iter().map(|p| p.value.len()).sum::<usize>(), 2_500_002, "with its quotes");
}

#[tokio::test]
async fn a_run_goes_on_when_its_client_goes_away_and_another_gets_the_result() {
    let rig = Rig::serving(&program("value: x, createSeconds: 2")).await;
    rig.init().await;
    let mut first = rig.runs().await;
    start(&mut first, "u", up()).await.unwrap();
    let request = AttachRequest { run_id: "u".to_owned(), ..AttachRequest::default() };
    let mut stream = first.attach(request).await.unwrap().into_inner();
    rig.until_in_ledger("create-started").await;
    assert!(matches!(stream.message().await.unwrap().unwrap().what, Some(What::Progress(_))));
    drop((stream, first));

    let mut second = rig.runs().await;
    assert_eq!(get(&mut second, "u").await.state(), State::Running);
    let (run, outputs) = follow(&mut second, "u").await;
    assert_eq!(run.failure, None);
    assert_eq!(outputs[0].value, b"\"x\"");
    assert_eq!(rig.things(), 1);
    let listed = second.list(ListRequest {}).await.unwrap().into_inner().runs;
    assert_eq!(listed.iter().map(|r| r.run_id.as_str()).collect::<Vec<_>>(), ["init", "u"]);
}

#[tokio::test]
async fn a_run_is_started_once_however_often_it_is_asked_for() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    start(&mut runs, "u", up()).await.unwrap();
    let (run, _) = follow(&mut runs, "u").await;
    assert_eq!(run.failure, None);
    let again = start(&mut runs, "u", up()).await.unwrap();
    assert_eq!(again.state(), State::Succeeded, "a run that has ended is not started again either");
    assert_eq!(rig.calls_of("up "), 1);
}

#[tokio::test]
async fn a_second_run_is_refused_while_one_is_active_and_the_active_one_is_named() {
    let rig = Rig::serving(&program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "first-run", up()).await.unwrap();
    let status = start(&mut runs, "second-run", up()).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("first-run"), "{}", status.message());
    let missing = runs.get(GetRequest { run_id: "second-run".to_owned() }).await.unwrap_err();
    assert_eq!(missing.code(), Code::NotFound);
    cancel(&mut runs, "first-run", CancelMode::Graceful).await;
    follow(&mut runs, "first-run").await;
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_it_is_begun() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    let mut runs = rig.runs().await;
    let nameless = Operation::Up(pko_proto::runs::Up::default());
    let too_long = "x".repeat(300);
    for (run_id, operation) in [("u", nameless), ("", up()), (too_long.as_str(), up())] {
        assert_eq!(start(&mut runs, run_id, operation).await.unwrap_err().code(), Code::InvalidArgument);
    }
    assert!(runs.list(ListRequest {}).await.unwrap().into_inner().runs.is_empty());
    assert_eq!(rig.calls_of("up"), 0);
}

#[tokio::test]
async fn a_run_that_is_canceled_gracefully_leaves_no_lock() {
    let rig = Rig::serving(&program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    rig.until_in_ledger("create-started").await;
    assert!(!rig.locks().is_empty(), "an update in progress holds a lock");
    cancel(&mut runs, "u", CancelMode::Graceful).await;
    let (run, _) = follow(&mut runs, "u").await;
    assert_eq!(reason(&run), "Canceled", "{run:?}");
    assert_eq!(rig.locks(), Vec::<std::path::PathBuf>::new());
    assert_eq!(rig.things(), 0);
}

#[tokio::test]
async fn a_failing_resource_gives_the_providers_own_words() {
    let rig = Rig::serving(&program("value: x, failCreate: 'quota of 3 things exceeded'")).await;
    rig.init().await;
    let run = rig.run("u", up()).await;
    let failure = run.failure.clone().unwrap();
    assert_eq!(failure.reason, "ProviderFailed");
    assert!(failure.message.contains("quota of 3 things exceeded"), "{}", failure.message);
    assert!(failure.message.contains("pkotest:index:Thing (a)"), "{}", failure.message);
    assert_eq!(run.state(), State::Failed);
}

#[tokio::test]
async fn a_stack_that_someone_else_has_locked_is_a_conflict() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    rig.lock_stack("ghost", "other-pod");
    let failure = rig.run("u", up()).await.failure.unwrap();
    assert_eq!(failure.reason, "UpdateConflict");
    assert!(failure.message.contains("ghost@other-pod"), "who holds it: {}", failure.message);
}

#[tokio::test]
async fn destroy_empties_the_cloud_and_removes_the_stack_if_asked_to() {
    let rig = Rig::serving(&program("value: x")).await;
    rig.init().await;
    assert_eq!(rig.run("u", up()).await.failure, None);
    assert_eq!(rig.things(), 1);
    let options = agent::DestroyRequest { remove: Some(true), ..agent::DestroyRequest::default() };
    let destroy = Operation::Destroy(Destroy { stack_name: "dev".to_owned(), options: Some(options) });
    let run = rig.run("d", destroy).await;
    assert_eq!(run.failure, None);
    assert_eq!((rig.things(), run.resource_changes.get("delete")), (0, Some(&2)));
    assert_eq!(rig.calls_of("stack rm --yes dev"), 1);
    let run = rig.run("u2", up()).await;
    assert!(run.failure.unwrap().message.contains("no stack named 'dev' found"), "the stack is gone");
}

#[tokio::test]
async fn preview_and_refresh_change_nothing() {
    let rig = Rig::serving(&program("value: x")).await;
    rig.init().await;
    let run = rig.run("p", Operation::Preview(Preview { stack_name: "dev".to_owned(), options: None })).await;
    assert_eq!((run.failure, run.resource_changes.get("create")), (None, Some(&2)));
    assert_eq!(rig.things(), 0);
    assert_eq!(rig.run("u", up()).await.failure, None);
    let run = rig.run("r", Operation::Refresh(Refresh { stack_name: "dev".to_owned(), options: None })).await;
    assert_eq!(run.failure, None);
    assert_eq!(rig.things(), 1);
}

#[tokio::test]
async fn a_cli_that_says_nothing_still_fails_with_a_sentence() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    rig.write_script("pulumi", "exit 5");
    let failure = rig.run("u", up()).await.failure.unwrap();
    assert_eq!(failure.reason, "UpdateFailed");
    assert_eq!(failure.message, "pulumi up failed without saying why: exit status 5");
}

#[tokio::test]
async fn a_forced_end_kills_a_cli_that_does_not_listen() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    rig.write_script("pulumi", &format!("trap '' INT\ntouch {}\nsleep 600", rig.path("deaf").display()));
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    until("the CLI is deaf", || async { rig.path("deaf").exists().then_some(()) }).await;
    cancel(&mut runs, "u", CancelMode::Graceful).await;
    cancel(&mut runs, "u", CancelMode::Forced).await;
    let (run, _) = follow(&mut runs, "u").await;
    assert_eq!(reason(&run), "Canceled");
    assert!(run.failure.unwrap().message.contains("killed by signal 9"));
}
