//! The service that PKO's operator calls, by the real agent with the real CLI.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use std::path::Path;

use nix::sys::signal::Signal;
use pko_proto::{
    agent::{
        ConfigItem, DestroyRequest, InstallRequest, PreviewRequest, PulumiVersionRequest, RefreshRequest,
        SelectStackRequest, SetAllConfigRequest, UpRequest, UpResult, UpStream, WhoAmIRequest, config_item::V,
        destroy_stream, preview_stream, refresh_stream, up_stream,
    },
    runs::ListRequest,
};
use prost_types::Struct;
use support::{Rig, program, until};
use tonic::{Code, Status, Streaming};

/// The kinds of all events and the result of a stream, which is its last message.
async fn collect<T, R>(
    mut stream: Streaming<T>,
    open: impl Fn(T) -> Result<Struct, Box<R>>,
) -> Result<(Vec<String>, R), Status> {
    let (mut kinds, mut result) = (Vec::new(), None);
    while let Some(message) = stream.message().await? {
        assert!(result.is_none(), "nothing follows the result");
        match open(message) {
            Ok(event) => kinds.extend(event.fields.into_keys().filter(|k| k.ends_with("Event"))),
            Err(found) => result = Some(*found),
        }
    }
    Ok((kinds, result.expect("a stream without an error ends with a result")))
}

async fn run_up(rig: &Rig, options: UpRequest) -> Result<(Vec<String>, UpResult), Status> {
    let stream = rig.automation().await.up(options).await?.into_inner();
    collect(stream, |message| match message.response.unwrap() {
        up_stream::Response::Event(event) => Ok(event),
        up_stream::Response::Result(result) => Err(Box::new(result)),
    })
    .await
}

fn select(create: bool) -> SelectStackRequest {
    SelectStackRequest { stack_name: "dev".to_owned(), create: Some(create), secrets_provider: None }
}

#[tokio::test]
async fn the_way_of_pkos_operator_from_version_to_destroy() {
    let text = program("value: x, secret: planted") + "  hidden: ${a.secretOutput}\n";
    let rig = Rig::serving(&text).await;
    let mut client = rig.automation().await;
    let version = client.pulumi_version(PulumiVersionRequest {}).await.unwrap().into_inner().version;
    assert_eq!(version, "3.259.0");
    client.install(InstallRequest {}).await.unwrap();
    let status = client.select_stack(select(false)).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::NotFound, "stack not found"));
    let summary = client.select_stack(select(true)).await.unwrap().into_inner().summary.unwrap();
    assert_eq!(summary.name, "dev");
    let secret = ConfigItem {
        key: "token".to_owned(),
        path: None,
        v: Some(V::Value(pko_proto::to_value(&"planted".into()))),
        secret: Some(true),
    };
    client.set_all_config(SetAllConfigRequest { config: vec![secret] }).await.unwrap();
    assert!(!rig.calls().join("\n").contains("planted"), "{:?}", rig.calls());
    assert!(!client.who_am_i(WhoAmIRequest {}).await.unwrap().into_inner().user.is_empty());

    let stream = client.preview(PreviewRequest::default()).await.unwrap().into_inner();
    let (kinds, preview) = collect(stream, |message| match message.response.unwrap() {
        preview_stream::Response::Event(event) => Ok(event),
        preview_stream::Response::Result(result) => Err(Box::new(result)),
    })
    .await
    .unwrap();
    assert_eq!((kinds.last().unwrap().as_str(), preview.summary), ("cancelEvent", None));

    let message = Some("hello".to_owned());
    let (kinds, up) = run_up(&rig, UpRequest { message, ..UpRequest::default() }).await.unwrap();
    assert_eq!(kinds.iter().filter(|k| *k == "summaryEvent").count(), 1);
    assert_eq!(kinds.last().unwrap(), "cancelEvent");
    let summary = up.summary.unwrap();
    assert_eq!((summary.result.as_str(), summary.message.as_str()), ("succeeded", "hello"));
    assert_eq!(up.project_info.unwrap().name, "shop");
    assert!(up.stdout.contains("2 created"), "{}", up.stdout);
    assert_eq!((up.outputs["plain"].value.as_slice(), up.outputs["plain"].secret), (&b"\"x\""[..], false));
    assert_eq!(up.outputs["hidden"].value, b"\"derived-from-planted\"");
    assert!(up.outputs["hidden"].secret);

    let stream = client.refresh(RefreshRequest::default()).await.unwrap().into_inner();
    let (_, refresh) = collect(stream, |message| match message.response.unwrap() {
        refresh_stream::Response::Event(event) => Ok(event),
        refresh_stream::Response::Result(result) => Err(Box::new(result)),
    })
    .await
    .unwrap();
    assert_eq!(refresh.summary.unwrap().result, "succeeded");

    let remove = DestroyRequest { remove: Some(true), ..DestroyRequest::default() };
    let stream = client.destroy(remove).await.unwrap().into_inner();
    let (_, destroy) = collect(stream, |message| match message.response.unwrap() {
        destroy_stream::Response::Event(event) => Ok(event),
        destroy_stream::Response::Result(result) => Err(Box::new(result)),
    })
    .await
    .unwrap();
    assert_eq!(destroy.summary.unwrap().result, "succeeded");
    assert_eq!(rig.things(), 0);
    let status = client.up(UpRequest::default()).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "no stack is selected"));
}

#[tokio::test]
async fn an_up_is_canceled_when_its_client_goes_away() {
    let rig = Rig::serving(&program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut client = rig.automation().await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    rig.until_in_ledger("create-started").await;
    drop((stream, client));
    rig.until_in_ledger("create-failed").await;
    until("the lock is gone", || async { rig.locks().is_empty().then_some(()) }).await;
    assert_eq!(rig.things(), 0);
}

#[tokio::test]
async fn a_failure_tells_the_exit_status_and_the_providers_words_in_few_bytes() {
    let rig = Rig::serving(&program("value: x, failCreate: 'quota exceeded', noise: 2000")).await;
    rig.init().await;
    let status = run_up(&rig, UpRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let text = status.message();
    assert!(text.starts_with("up failed: failed to run update: exit status "), "{text}");
    assert!(text.contains("quota exceeded") && text.len() < 4096, "{} bytes: {text}", text.len());
}

#[tokio::test]
async fn a_locked_stack_is_told_as_a_conflict() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    rig.lock_stack("ghost", "pod");
    let status = run_up(&rig, UpRequest::default()).await.unwrap_err();
    let details = String::from_utf8_lossy(status.details()).into_owned();
    assert!(details.contains("type.googleapis.com/agent.PulumiErrorInfo") && details.contains("UpdateConflict"));
}

#[tokio::test]
async fn an_agent_that_stops_sends_the_last_event_and_then_says_why_the_update_ended() {
    let rig = Rig::serving(&program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut stream = rig.automation().await.up(UpRequest::default()).await.unwrap().into_inner();
    rig.until_in_ledger("create-started").await;
    rig.signal_agent(Signal::SIGTERM);
    let mut kinds: Vec<String> = Vec::new();
    let status = loop {
        match stream.message().await {
            Ok(Some(UpStream { response: Some(up_stream::Response::Event(event)) })) => {
                kinds.extend(event.fields.into_keys().filter(|k| k.ends_with("Event")));
            }
            Ok(other) => panic!("neither an event nor an error: {other:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!(kinds.last().map(String::as_str), Some("cancelEvent"));
    assert_eq!(status.code(), Code::Unknown);
    assert!(status.message().starts_with("up failed: failed to run update: "), "{}", status.message());
    for words in ["the workspace pod was shut down during the run", "pulumi:pulumi:Stack::shop-dev", "^C received"] {
        assert!(status.message().contains(words), "{}", status.message());
    }
    assert!(rig.locks().is_empty());
}

#[tokio::test]
async fn a_cli_without_json_still_tells_who_we_are() {
    let mut rig = Rig::new("name: shop\nruntime: yaml\n");
    rig.write_script("pulumi", "case \"$*\" in version) echo v3.57.1;; *--json*) exit 1;; *whoami) echo alice;; esac");
    rig.start_agent().await;
    let who = rig.automation().await.who_am_i(WhoAmIRequest {}).await.unwrap().into_inner();
    assert_eq!(who.user, "alice");
}

#[tokio::test]
async fn an_agent_that_is_told_to_have_no_runs_answers_pkos_calls_only() {
    let mut rig = Rig::new(&program("value: x"));
    for switch in ["--no-runs", "PULUMI_AGENT_NO_RUNS"] {
        if switch.starts_with("--") {
            rig.start_agent_with(&["serve", switch], Path::new(env!("CARGO_BIN_EXE_agent"))).await;
        } else {
            rig.set_env(switch, "true");
            rig.start_agent().await;
        }
        let status = rig.runs().await.list(ListRequest {}).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{switch}");
        let version = rig.automation().await.pulumi_version(PulumiVersionRequest {}).await.unwrap().into_inner();
        assert_eq!(version.version, "3.259.0", "{switch}");
        rig.kill_agent();
    }
}
