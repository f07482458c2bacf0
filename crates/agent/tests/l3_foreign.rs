//! A client that shares no line with this project, grpcurl with a contract of its own, and the real agent.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use std::{fs, process::Command};

use base64::Engine as _;
use serde_json::{Value, json};
use support::{Rig, program};

/// Calls one method; yields its messages, or the error.
fn call(rig: &Rig, method: &str, request: &Value) -> Result<Vec<Value>, Value> {
    let output = Command::new(support::from_xtask("PKO_TEST_GRPCURL"))
        .args(["-plaintext", "-format-error", "-emit-defaults", "-max-time", "60", "-import-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign"))
        .args(["-proto", "agent.proto", "-d", &request.to_string(), rig.address()])
        .arg(format!("agent.AutomationService/{method}"))
        .output()
        .unwrap();
    if output.status.success() {
        let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
        return Ok(messages.collect::<Result<_, _>>().unwrap());
    }
    let text = String::from_utf8(output.stderr).unwrap();
    let at = text.find('{').unwrap_or_else(|| panic!("grpcurl says: {text}"));
    Err(serde_json::from_str(&text[at..]).unwrap_or_else(|_| panic!("grpcurl says: {text}")))
}

fn one(rig: &Rig, method: &str, request: &Value) -> Value {
    let mut messages = call(rig, method, request).unwrap_or_else(|error| panic!("{method}: {error}"));
    assert_eq!(messages.len(), 1, "{method}: {messages:?}");
    messages.remove(0)
}

/// The names of all events, and the result, which is the last message.
fn stream(rig: &Rig, method: &str, request: &Value) -> (Vec<String>, Value) {
    let mut messages = call(rig, method, request).unwrap_or_else(|error| panic!("{method}: {error}"));
    let result = messages.pop().unwrap()["result"].clone();
    assert!(result.is_object(), "{method} ends with its result");
    let kinds = |message: &Value| -> Vec<String> {
        let event = message["event"].as_object().expect("all but the last message are events");
        assert!(event["sequence"].is_number() && event["timestamp"].is_number());
        event.keys().filter(|key| key.ends_with("Event")).cloned().collect()
    };
    (messages.iter().flat_map(kinds).collect(), result)
}

fn project() -> Value {
    json!({"name": "shop", "runtime": "yaml"})
}

#[tokio::test]
async fn every_rpc_answers_a_foreign_client() {
    let text = program("value: x, secret: planted") + "  hidden: ${a.secretOutput}\n  big: {n: [1, 2.5]}\n";
    let mut rig = Rig::new(&text);
    rig.set_env("FOO", "from env");
    rig.start_agent().await;
    let file = rig.path("value");
    fs::write(&file, "{\"from\": \"file\"}").unwrap();

    assert_eq!(one(&rig, "PulumiVersion", &json!({})), json!({"version": "3.259.0"}));
    assert_eq!(one(&rig, "Install", &json!({})), json!({}));
    let who = one(&rig, "WhoAmI", &json!({}));
    assert_eq!(who["url"], format!("file://{}", rig.path("backend").display()));
    assert!(!who["user"].as_str().unwrap().is_empty());

    let error = call(&rig, "Info", &json!({})).unwrap_err();
    assert_eq!((&error["code"], &error["message"]), (&json!(9), &json!("no stack is selected")));
    let error = call(&rig, "SelectStack", &json!({"stack": "dev"})).unwrap_err();
    assert_eq!((&error["code"], &error["message"]), (&json!(5), &json!("stack not found")));
    let error = call(&rig, "SelectStack", &json!({"stack": ""})).unwrap_err();
    assert_eq!((&error["code"], &error["message"]), (&json!(3), &json!("invalid stack name")));
    let error = call(&rig, "SelectStack", &json!({"stack": "dev", "create": true, "provider": "bad"})).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("unknown secrets provider type 'bad'"), "{error}");
    let selected = one(&rig, "SelectStack", &json!({"stack": "dev", "create": true, "provider": "passphrase"}));
    assert_eq!((&selected["facts"]["name"], &selected["facts"]["busy"]), (&json!("dev"), &json!(false)));

    let items = json!({"items": [
        {"key": "plain", "literal": "bar"},
        {"key": "other:env", "from": {"env": "FOO"}},
        {"key": "a.b", "literal": "dotted"},
        {"key": "outer.inner", "path": true, "literal": "nested"},
        {"key": "count", "literal": 42},
        {"key": "list", "literal": ["us-west-2", true]},
        {"key": "doc", "from": {"file": file, "json": true}},
        {"key": "token", "literal": "planted", "secret": true},
    ]});
    assert_eq!(one(&rig, "SetAllConfig", &items), json!({}));
    let settings: Value =
        serde_saphyr::from_str(&fs::read_to_string(rig.path("share/source/Pulumi.dev.yaml")).unwrap()).unwrap();
    let config = &settings["config"];
    assert_eq!((&config["shop:plain"], &config["other:env"]), (&json!("bar"), &json!("from env")));
    assert_eq!((&config["shop:a.b"], &config["shop:outer"]), (&json!("dotted"), &json!({"inner": "nested"})));
    assert_eq!((&config["shop:count"], &config["shop:list"]), (&json!(42), &json!(["us-west-2", true])));
    assert_eq!(config["shop:doc"], json!({"from": "file"}));
    assert!(config["shop:token"]["secure"].is_string());
    let error = call(&rig, "SetAllConfig", &json!({"items": [{"key": "k", "from": {"env": "NONE"}}]})).unwrap_err();
    assert_eq!(error["code"], 3);
    assert!(error["message"].as_str().unwrap().contains("missing value for environment variable: NONE"), "{error}");

    let error = call(&rig, "AddEnvironments", &json!({"names": ["team/base"]})).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("does not support environments"), "{error}");

    let (kinds, result) = stream(&rig, "Preview", &json!({"message": "look", "refresh": true, "parallel": 4}));
    assert_eq!((kinds.last().map(String::as_str), &result["summary"]), (Some("cancelEvent"), &Value::Null));
    assert_eq!(result["project"], project());

    let (kinds, result) = stream(&rig, "Up", &json!({"message": "hello \"you\"", "continue_on_error": true}));
    assert!(kinds.iter().any(|kind| kind == "resOutputsEvent") && kinds.iter().any(|kind| kind == "summaryEvent"));
    assert_eq!(
        (&result["summary"]["result"], &result["summary"]["message"]),
        (&json!("succeeded"), &json!("hello \"you\""))
    );
    assert!(result["summary"]["began"].as_str().unwrap() < result["summary"]["ended"].as_str().unwrap());
    assert_eq!(result["project"], project());
    let output = |name: &str| {
        let bytes = base64::prelude::BASE64_STANDARD.decode(result["outputs"][name]["value"].as_str().unwrap());
        (String::from_utf8(bytes.unwrap()).unwrap(), result["outputs"][name]["secret"] == true)
    };
    assert_eq!(output("plain"), ("\"x\"".to_owned(), false));
    assert_eq!(output("big"), ("{\"n\":[1,2.5]}".to_owned(), false));
    assert_eq!(output("hidden"), ("\"derived-from-planted\"".to_owned(), true));

    let facts = one(&rig, "Info", &json!({}))["facts"].clone();
    assert_eq!((&facts["name"], &facts["resources"], &facts["busy"]), (&json!("dev"), &json!(3), &json!(false)));
    assert!(facts["updated"].is_string(), "{facts}");

    let (_, result) = stream(&rig, "Refresh", &json!({"expect_no_changes": true}));
    assert_eq!(result["summary"]["result"], "succeeded");
    let error = call(&rig, "Up", &json!({"target": ["urn:pulumi:dev::shop::pkotest:index:Thing::none"]})).unwrap_err();
    assert_eq!(error["code"], 2);
    assert!(error["message"].as_str().unwrap().starts_with("up failed: failed to run update: exit status "), "{error}");

    let (_, result) = stream(&rig, "Destroy", &json!({"remove": true, "refresh": true}));
    assert_eq!((&result["summary"]["result"], &result["project"]), (&json!("succeeded"), &project()));
    assert_eq!((rig.things(), rig.calls_of("stack rm")), (0, 1));
    assert!(!rig.calls().join("\n").contains("planted"), "{:?}", rig.calls());
}

#[tokio::test]
async fn a_foreign_client_finds_the_detail_of_a_conflict_first() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    rig.lock_stack("ghost", "pod");
    one(&rig, "SelectStack", &json!({"stack": "dev"}));
    let error = call(&rig, "Up", &json!({})).unwrap_err();
    assert_eq!(error["details"][0]["@type"], "type.googleapis.com/agent.PulumiErrorInfo", "{error}");
    assert_eq!((&error["details"][0]["code"], &error["details"][0]["reason"]), (&json!(409), &json!("UpdateConflict")));
}
