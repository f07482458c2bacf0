//! Every operation with every option it has, by the real agent with the real CLI.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use pko_proto::agent::{DestroyRequest, PreviewRequest, RefreshRequest, UpRequest};
use support::{Rig, destroy_with, follow, preview_with, reason, refresh_with, start, up, up_with, urn};

/// Things `a` and `b`, of which `b` depends on `a`, and `c` for itself.
fn three(value: &str) -> String {
    let thing = |name: &str, value: &str, options: &str| {
        format!(
            "  {name}:\n    type: pkotest:Thing\n    properties: {{value: {value}}}\n    options: {{version: 0.1.0{options}}}\n"
        )
    };
    format!(
        "name: shop\nruntime: yaml\nresources:\n{}{}{}",
        thing("a", value, ""),
        thing("b", value, ", dependsOn: ['${a}']"),
        thing("c", value, "")
    )
}

fn changes(run: &pko_proto::runs::Run, op: &str) -> i32 {
    run.resource_changes.get(op).copied().unwrap_or_default()
}

#[tokio::test]
async fn targets_and_replacements_touch_what_they_name() {
    let rig = Rig::serving(&three("x")).await;
    rig.init().await;
    let only = |name: &str| vec![urn(name)];
    let preview = rig.run("p", preview_with(PreviewRequest { target: only("c"), ..PreviewRequest::default() })).await;
    assert_eq!((preview.failure.clone(), changes(&preview, "create")), (None, 2), "the stack and c: {preview:?}");
    let run = rig.run("u1", up_with(UpRequest { target: only("c"), ..UpRequest::default() })).await;
    assert_eq!((run.failure, rig.things()), (None, 1));
    assert_eq!(rig.run("u2", up()).await.failure, None);
    assert_eq!(rig.things(), 3);

    let run = rig.run("u3", up_with(UpRequest { replace: only("c"), ..UpRequest::default() })).await;
    assert_eq!((run.failure.clone(), changes(&run, "replace"), changes(&run, "same")), (None, 1, 3), "{run:?}");
    let run = rig.run("p2", preview_with(PreviewRequest { replace: only("c"), ..PreviewRequest::default() })).await;
    assert_eq!(changes(&run, "replace"), 1, "{run:?}");

    rig.write_program(&three("y"));
    let run = rig.run("u4", up_with(UpRequest { target: only("a"), ..UpRequest::default() })).await;
    assert_eq!((run.failure.clone(), changes(&run, "update")), (None, 1), "{run:?}");

    // A target that others depend on goes with them or not at all.
    let alone = rig.run("d1", destroy_with(DestroyRequest { target: only("a"), ..DestroyRequest::default() })).await;
    assert!(alone.failure.is_some() && rig.things() == 3, "{alone:?}");
    let options = DestroyRequest { target: only("a"), target_dependents: Some(true), ..DestroyRequest::default() };
    let run = rig.run("d2", destroy_with(options)).await;
    assert_eq!((run.failure.clone(), changes(&run, "delete"), rig.things()), (None, 2, 1), "{run:?}");
    let run = rig.run("r", refresh_with(RefreshRequest { target: only("c"), ..RefreshRequest::default() })).await;
    assert_eq!(run.failure, None);
}

#[tokio::test]
async fn changes_that_were_not_expected_fail_a_run_and_others_do_not() {
    let rig = Rig::serving(&three("x")).await;
    rig.init().await;
    assert_eq!(rig.run("u", up()).await.failure, None);
    let calm_up = || up_with(UpRequest { expect_no_changes: Some(true), ..UpRequest::default() });
    let calm_preview = || preview_with(PreviewRequest { expect_no_changes: Some(true), ..PreviewRequest::default() });
    let calm_refresh = || refresh_with(RefreshRequest { expect_no_changes: Some(true), ..RefreshRequest::default() });
    assert_eq!(rig.run("u1", calm_up()).await.failure, None);
    assert_eq!(rig.run("p1", calm_preview()).await.failure, None);
    assert_eq!(rig.run("r1", calm_refresh()).await.failure, None);

    for entry in std::fs::read_dir(rig.path("cloud/things")).unwrap() {
        let file = entry.unwrap().path();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace("\"value\": \"x\"", "\"value\": \"drifted\"")).unwrap();
    }
    let run = rig.run("r2", calm_refresh()).await;
    assert_eq!(reason(&run), "UnexpectedChanges", "{run:?}");
    let failure = run.failure.unwrap();
    assert!(!failure.retryable && failure.message.contains("no changes were expected"), "{}", failure.message);
    let run = rig.run("p2", calm_preview()).await;
    assert_eq!((reason(&run), changes(&run, "update")), ("UnexpectedChanges", 3), "{run:?}");
    let run = rig.run("u2", calm_up()).await;
    assert_eq!((reason(&run), changes(&run, "update")), ("UnexpectedChanges", 3), "{run:?}");
}

#[tokio::test]
async fn an_up_that_refreshes_first_finds_what_is_gone() {
    let rig = Rig::serving(&three("x")).await;
    rig.init().await;
    assert_eq!(rig.run("u", up()).await.failure, None);
    std::fs::remove_dir_all(rig.path("cloud/things")).unwrap();
    assert_eq!(changes(&rig.run("u1", up()).await, "same"), 4, "without a refresh nobody notices");
    let run = rig.run("p", preview_with(PreviewRequest { refresh: Some(true), ..PreviewRequest::default() })).await;
    assert_eq!(changes(&run, "create"), 3, "{run:?}");
    let run = rig.run("u2", up_with(UpRequest { refresh: Some(true), ..UpRequest::default() })).await;
    assert_eq!((run.failure.clone(), changes(&run, "create"), rig.things()), (None, 3, 3), "{run:?}");
    std::fs::remove_dir_all(rig.path("cloud/things")).unwrap();
    let run = rig.run("d", destroy_with(DestroyRequest { refresh: Some(true), ..DestroyRequest::default() })).await;
    assert_eq!((run.failure.clone(), changes(&run, "delete")), (None, 1), "only the stack is left: {run:?}");
}

#[tokio::test]
async fn an_error_ends_an_up_or_a_destroy_unless_it_is_to_go_on() {
    let things = |fail: &str| {
        let thing = |name: &str, more: &str| {
            format!(
                "  {name}: {{type: 'pkotest:Thing', properties: {{value: x{more}}}, options: {{version: 0.1.0}}}}\n"
            )
        };
        let bad = thing("bad", &format!(", {fail}"));
        let after = "  after: {type: 'pkotest:Thing', properties: {value: x}, options: {version: 0.1.0, \
                     dependsOn: ['${slow}']}}\n";
        format!("name: shop\nruntime: yaml\nresources:\n{bad}{}{after}", thing("slow", ", createSeconds: 2"))
    };
    let rig = Rig::serving(&things("failCreate: 'no'")).await;
    rig.init().await;
    let run = rig.run("u", up()).await;
    assert_eq!((reason(&run), rig.things()), ("ProviderFailed", 1), "what had begun is finished: {run:?}");
    let run = rig.run("u2", up_with(UpRequest { continue_on_error: Some(true), ..UpRequest::default() })).await;
    assert_eq!((reason(&run), rig.things()), ("ProviderFailed", 2), "{run:?}");

    rig.write_program(&things("failDelete: 'stays'"));
    assert_eq!(rig.run("u3", up()).await.failure, None);
    let options = DestroyRequest { continue_on_error: Some(true), ..DestroyRequest::default() };
    let run = rig.run("d", destroy_with(options)).await;
    assert_eq!((reason(&run), rig.things()), ("ProviderFailed", 1), "all but one are gone: {run:?}");
    assert!(run.failure.unwrap().message.contains("stays"));
}

#[tokio::test]
async fn the_message_is_in_the_history_as_it_was_given_and_parallelism_is_passed_on() {
    let rig = Rig::serving("name: shop\nruntime: yaml\n").await;
    rig.init().await;
    let message = "say \"hi\" \\ 'there' --yes\n$HOME";
    let options = UpRequest { message: Some(message.to_owned()), parallel: Some(3), ..UpRequest::default() };
    let run = rig.run("u", up_with(options)).await;
    assert_eq!((run.failure, run.message.as_str()), (None, message));
    let history: serde_json::Value = serde_json::from_str(&rig.pulumi(&["stack", "history", "--json"])).unwrap();
    assert_eq!(history[0]["message"], message);
    assert_eq!(history[0]["environment"]["exec.kind"], "auto.local");
    assert!(rig.calls().iter().any(|c| c.contains("--parallel=3")), "{:?}", rig.calls());
    for line in ["Updating (dev):", "pulumi:pulumi:Stack: (create)", "Resources:", "    + 1 created"] {
        assert!(rig.log().contains(line), "the pod's log shows what the console shows: {line}");
    }
}

#[tokio::test]
async fn refresh_and_destroy_run_the_program_if_asked_to() {
    let rig = Rig::serving(&three("x")).await;
    rig.init().await;
    assert_eq!(rig.run("u", up()).await.failure, None);
    rig.write_program("name: shop\nruntime: yaml\noutputs: {x: '${nope.x}'}\n");
    assert_eq!(rig.run("r1", refresh_with(RefreshRequest::default())).await.failure, None, "it is not run");
    let run =
        rig.run("r2", refresh_with(RefreshRequest { run_program: Some(true), ..RefreshRequest::default() })).await;
    assert_eq!(reason(&run), "ProgramFailed", "{run:?}");
    let run =
        rig.run("d1", destroy_with(DestroyRequest { run_program: Some(true), ..DestroyRequest::default() })).await;
    assert_eq!((reason(&run), rig.things()), ("ProgramFailed", 3), "{run:?}");
    let run = rig.run("d2", destroy_with(DestroyRequest::default())).await;
    assert_eq!((run.failure, rig.things()), (None, 0));
}

#[tokio::test]
async fn outputs_with_unusual_keys_and_values_arrive_as_they_are() {
    let program = r#"
name: shop
runtime: yaml
resources:
  a: {type: 'pkotest:Thing', properties: {value: x, secret: planted}, options: {version: 0.1.0}}
outputs:
  "with space": 1
  "dots.and/slashes": [true, null, 1.5]
  "quo\"te": "line\nbreak"
  "ünïcødé ✓": {"": "empty key", "a b": []}
  "[secret]": "[secret]"
  "-dash": "--yes"
  hidden: {deep: ['${a.secretOutput}']}
"#;
    let rig = Rig::serving(program).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    let (run, outputs) = follow(&mut runs, "u").await;
    assert_eq!((run.failure, run.output_count), (None, 7));
    let shown: Vec<(&str, serde_json::Value, bool)> =
        outputs.iter().map(|o| (o.name.as_str(), serde_json::from_slice(&o.value).unwrap(), o.secret)).collect();
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(
        shown,
        [
            ("-dash", json("\"--yes\""), false),
            ("[secret]", json("\"[secret]\""), false),
            ("dots.and/slashes", json("[true,null,1.5]"), false),
            ("hidden", json("{\"deep\":[\"derived-from-planted\"]}"), true),
            ("quo\"te", json("\"line\\nbreak\""), false),
            ("with space", json("1"), false),
            ("ünïcødé ✓", json("{\"\":\"empty key\",\"a b\":[]}"), false),
        ]
    );
}
