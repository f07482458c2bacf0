//! Every kind of failure that can be provoked here, by the real agent with the real CLI. A policy pack needs a language
//! that is not at hand, so its events are made up after the CLI's sources.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use pko_proto::{
    agent::DestroyRequest,
    runs::{Failure, Stack},
};
use support::{Rig, destroy_with, init, program, stack, up, urn};

const EMPTY: &str = "name: shop\nruntime: yaml\n";

/// A failure has this reason, can or cannot be cured by trying again, and tells all this.
#[track_caller]
fn assert_failure(failure: Option<Failure>, reason: &str, retryable: bool, words: &[&str]) {
    let failure = failure.expect("the run fails");
    assert_eq!((failure.reason.as_str(), failure.retryable), (reason, retryable), "{}", failure.message);
    for word in words {
        assert!(failure.message.contains(word), "{word} is missing: {}", failure.message);
    }
    assert!(!failure.message.contains("using pulumi-language-yaml"), "no noise: {}", failure.message);
}

#[tokio::test]
async fn a_locked_stack_names_its_holder_and_what_to_do() {
    let rig = Rig::serving(EMPTY).await;
    rig.init().await;
    let locks = rig.path("backend/.pulumi/locks/organization/shop/dev");
    std::fs::create_dir_all(&locks).unwrap();
    let lock = r#"{"pid":4711,"username":"ghost","hostname":"other-pod","timestamp":"2020-11-01T00:00:00Z"}"#;
    std::fs::write(locks.join("0b5d1d5e-0000-4000-8000-000000000000.json"), lock).unwrap();
    let words = ["ghost@other-pod (pid 4711) since 2020-11-01T00:00:00Z, ", " days ago", "`pulumi cancel`"];
    assert_failure(rig.run("u", up()).await.failure, "UpdateConflict", true, &words);
    let destroy = destroy_with(DestroyRequest::default());
    assert_failure(rig.run("d", destroy).await.failure, "UpdateConflict", true, &words);
    rig.pulumi(&["cancel", "--yes"]);
    assert_eq!(rig.run("u2", up()).await.failure, None);
}

#[tokio::test]
async fn a_wrong_or_missing_passphrase_is_told_with_its_variable() {
    let mut rig = Rig::serving(EMPTY).await;
    rig.init().await;
    rig.kill_agent();
    rig.set_env("PULUMI_CONFIG_PASSPHRASE", "another");
    rig.start_agent().await;
    let words = ["incorrect passphrase", "Set PULUMI_CONFIG_PASSPHRASE"];
    assert_failure(rig.run("u", up()).await.failure, "InvalidPassphrase", false, &words);
    let config = vec![pko_proto::agent::ConfigItem {
        key: "k".to_owned(),
        secret: Some(true),
        v: Some(pko_proto::agent::config_item::V::Value(pko_proto::to_value(&"s".into()))),
        ..Default::default()
    }];
    let run = rig.run("i", init(vec![Stack { config, ..stack() }])).await;
    assert_failure(run.failure, "InitializationFailed", false, &words);

    rig.kill_agent();
    rig.write_pulumi("unset PULUMI_CONFIG_PASSPHRASE");
    rig.start_agent().await;
    let words = ["passphrase must be set", "through envRefs"];
    assert_failure(rig.run("u2", up()).await.failure, "InvalidPassphrase", false, &words);
}

#[tokio::test]
async fn a_token_that_is_missing_or_refused_is_told_as_such() {
    let mut rig = Rig::new(EMPTY);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let body = r#"{"code":401,"message":"Unauthorized: No credentials provided or are invalid."}"#;
            let _ = write!(
                stream,
                "HTTP/1.1 401 Unauthorized\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Connection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    rig.set_env("PULUMI_BACKEND_URL", &address);
    rig.start_agent().await;
    let words = ["PULUMI_ACCESS_TOKEN must be set", "envRefs"];
    assert_failure(rig.run("u", up()).await.failure, "InvalidAccessToken", false, &words);
    assert_failure(rig.run("i", init(vec![stack()])).await.failure, "InvalidAccessToken", false, &words);
    rig.kill_agent();
    rig.set_env("PULUMI_ACCESS_TOKEN", "pul-planted");
    rig.start_agent().await;
    let failure = rig.run("u2", up()).await.failure;
    assert!(!failure.as_ref().unwrap().message.contains("planted"));
    assert_failure(failure, "InvalidAccessToken", false, &["envRefs"]);
}

#[tokio::test]
async fn a_project_or_a_stack_that_is_not_there_is_told_as_such() {
    let rig = Rig::serving(EMPTY).await;
    assert_failure(
        rig.run("u", up()).await.failure,
        "StackNotFound",
        false,
        &["no stack named 'dev' found", "backend"],
    );
    let missing = init(vec![Stack { create: false, ..stack() }]);
    let words = ["no stack named 'dev' found"];
    assert_failure(rig.run("i", missing).await.failure, "InitializationFailed", false, &words);
    rig.init().await;
    rig.write_program("name: shop\nruntime: yaml\nresources: [\n");
    assert_failure(rig.run("u2", up()).await.failure, "ProjectNotFound", false, &["invalid YAML file", "line "]);
    std::fs::remove_file(rig.path("share/source/Pulumi.yaml")).unwrap();
    assert_failure(rig.run("u3", up()).await.failure, "ProjectNotFound", false, &["no Pulumi.yaml", "repoDir"]);
}

#[tokio::test]
async fn a_plugin_or_a_language_that_is_not_there_is_named() {
    let mut rig = Rig::new(EMPTY);
    rig.set_env("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true");
    rig.start_agent().await;
    rig.init().await;
    rig.write_program(
        "name: shop\nruntime: yaml\nresources:\n  a: {type: 'nosuch:index:Thing', options: {version: 1.2.3}}\n",
    );
    let words = ["The plugin pulumi-resource-nosuch v1.2.3 is not in the workspace"];
    assert_failure(rig.run("u", up()).await.failure, "PluginNotFound", false, &words);
    rig.write_program("name: shop\nruntime: nosuchlang\n");
    let words = ["no language host for nosuchlang"];
    assert_failure(rig.run("u2", up()).await.failure, "PluginNotFound", false, &words);
    assert_failure(rig.run("i", init(vec![stack()])).await.failure, "InstallationFailed", false, &words);
}

#[tokio::test]
async fn a_plugin_that_cannot_be_downloaded_is_worth_another_try() {
    let rig = Rig::serving(EMPTY).await;
    rig.init().await;
    // Nothing listens on this port.
    rig.write_program(
        "name: shop\nruntime: yaml\nresources:\n  a:\n    type: nosuch:index:Thing\n    options: {version: 1.2.3, \
         pluginDownloadURL: 'http://127.0.0.1:9'}\n",
    );
    let words = ["failed to download plugin", "The plugin ", "use an image that holds it"];
    assert_failure(rig.run("i", init(vec![stack()])).await.failure, "InstallationFailed", true, &words);
    assert_failure(rig.run("u", up()).await.failure, "PluginDownloadFailed", true, &["pulumi-resource-nosuch v1.2.3"]);
}

#[tokio::test]
async fn configuration_that_the_program_lacks_is_named() {
    let rig = Rig::serving("name: shop\nruntime: yaml\nconfig: {region: {type: string}}\n").await;
    rig.init().await;
    let words = ["'region'", "Add the value"];
    assert_failure(rig.run("u", up()).await.failure, "MissingConfiguration", false, &words);
}

#[tokio::test]
async fn errors_of_programs_are_told_in_their_own_words() {
    let rig = Rig::serving("name: shop\nruntime: yaml\noutputs: {x: '${nope.x}'}\n").await;
    rig.init().await;
    let words = ["resource or variable named \"nope\" could not be found", "Pulumi.yaml line"];
    assert_failure(rig.run("u", up()).await.failure, "ProgramFailed", true, &words);
    rig.write_program(&program("value: x, bogus: 1"));
    let words = ["Property bogus does not exist on 'pkotest:index:Thing'", "on Pulumi.yaml line 6"];
    assert_failure(rig.run("u2", up()).await.failure, "ProgramFailed", true, &words);
}

#[tokio::test]
async fn errors_of_providers_name_the_resource() {
    let rig = Rig::serving(&program("value: x, failCreate: '[409] Conflict: invalid access token'")).await;
    rig.init().await;
    let words = ["pkotest:index:Thing (a): ", "[409] Conflict: invalid access token"];
    assert_failure(rig.run("u", up()).await.failure, "ProviderFailed", true, &words);
}

#[tokio::test]
async fn a_protected_resource_is_named_with_the_command_that_unprotects_it() {
    let protected = program("value: x, replaceOn: one").replace("version: 0.1.0", "version: 0.1.0, protect: true");
    let rig = Rig::serving(&protected).await;
    rig.init().await;
    assert_eq!(rig.run("u", up()).await.failure, None);
    let command = format!("`pulumi state unprotect '{}'`", urn("a"));
    let run = rig.run("d", destroy_with(DestroyRequest::default())).await;
    assert_failure(run.failure, "ProtectedResource", false, &["because it is protected", &command]);
    rig.write_program(&protected.replace("replaceOn: one", "replaceOn: two"));
    assert_failure(rig.run("u2", up()).await.failure, "ProtectedResource", false, &["marked for protection", &command]);
    assert_eq!(rig.things(), 1);
}

#[tokio::test]
async fn a_violated_plan_of_which_the_cli_says_nothing_gets_a_sentence() {
    let rig = Rig::serving("name: shop\nruntime: yaml\noutputs: {x: 1}\n").await;
    rig.init().await;
    let plan = rig.path("plan.json").display().to_string();
    rig.pulumi(&["preview", "--save-plan", &plan]);
    rig.write_program("name: shop\nruntime: yaml\noutputs: {x: 1, y: 2}\n");
    rig.write_pulumi(&format!("[ \"$2\" = up ] && set -- \"$@\" --plan {plan}"));
    let words = ["something that its plan does not allow", "Make a new plan"];
    assert_failure(rig.run("u", up()).await.failure, "PlanViolation", false, &words);
}

#[tokio::test]
async fn a_mandatory_policy_is_named_with_what_it_says() {
    let rig = Rig::serving(EMPTY).await;
    rig.init().await;
    let policy = serde_json::json!({"sequence": 0, "timestamp": 1, "policyEvent": {
        "resourceUrn": urn("a"), "message": "things must not be public\n", "color": "raw", "policyName": "no-public",
        "policyPackName": "house-rules", "policyPackVersion": "1.2.0", "policyPackVersionTag": "1.2.0",
        "enforcementLevel": "mandatory"}});
    let summary = r#"{"sequence":1,"timestamp":1,"summaryEvent":{"maybeCorrupt":false,"durationSeconds":1,"resourceChanges":{},"PolicyPacks":{"house-rules":"1.2.0"},"isPreview":false,"result":"failed"}}"#;
    let end = r#"{"sequence":2,"timestamp":1,"cancelEvent":{}}"#;
    rig.write_pulumi_with_events(&format!("{policy}\n{summary}\n{end}\n"), "exit 1");
    let words = ["pkotest:index:Thing (a): policy no-public of house-rules 1.2.0: things must not be public"];
    assert_failure(rig.run("u", up()).await.failure, "PolicyViolation", false, &words);
}
