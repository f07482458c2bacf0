//! How far a run is, and what a preview finds, by the real agent with the real CLI.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use pko_proto::{
    agent::{ConfigItem, DestroyRequest, PreviewRequest, RefreshRequest, config_item::V},
    runs::{AttachRequest, ListRequest, Phase, Run, Stack, attach_response::What},
};
use serde_json::{Value, json};
use support::{Rig, cancel, destroy_with, follow, get, init, preview_with, program, refresh_with, stack, start, up};

fn current(run: &Run) -> &str {
    &run.progress.as_ref().unwrap().current
}

fn counts(run: &Run) -> (i32, i32) {
    let progress = run.progress.as_ref().unwrap();
    (progress.started, progress.done)
}

#[tokio::test]
async fn what_was_begun_last_is_told_while_a_run_goes_on() {
    let rig = Rig::serving(&program("value: x, createSeconds: 60")).await;
    rig.init().await;
    let mut runs = rig.runs().await;
    start(&mut runs, "u", up()).await.unwrap();
    let request = AttachRequest { run_id: "u".to_owned(), ..AttachRequest::default() };
    let mut stream = runs.attach(request).await.unwrap().into_inner();
    let progress = loop {
        if let Some(What::Progress(progress)) = stream.message().await.unwrap().unwrap().what
            && progress.started > 0
        {
            break progress;
        }
    };
    assert_eq!(progress.current, "creating pkotest:index:Thing a");
    for run in [get(&mut runs, "u").await, runs.list(ListRequest {}).await.unwrap().into_inner().runs.remove(1)] {
        assert_eq!((current(&run), counts(&run)), ("creating pkotest:index:Thing a", (1, 0)));
        assert_eq!(run.progress.unwrap().phase(), Phase::Operating);
    }
    cancel(&mut runs, "u", pko_proto::runs::CancelMode::Graceful).await;
    let (run, _) = follow(&mut runs, "u").await;
    assert_eq!((current(&run), run.progress.as_ref().unwrap().started), ("creating pkotest:index:Thing a", 1));
}

#[tokio::test]
async fn a_run_that_has_ended_tells_how_far_it_was_also_by_the_next_agent() {
    let mut rig = Rig::serving(&program("value: x")).await;
    rig.init().await;
    let mut expected = Vec::new();
    let mut ended = |run: &Run, words: &str| {
        assert_eq!((run.failure.as_ref(), current(run)), (None, words), "{run:?}");
        expected.push((run.run_id.clone(), words.to_owned(), counts(run)));
        counts(run)
    };
    let counted = ended(&rig.run("u1", up()).await, "creating pkotest:index:Thing a");
    assert_eq!(counted, (1, 1));
    rig.write_program(&program("value: y"));
    ended(&rig.run("u2", up()).await, "updating pkotest:index:Thing a");
    ended(&rig.run("u3", up()).await, "");
    ended(&rig.run("r", refresh_with(RefreshRequest::default())).await, "refreshing pkotest:index:Thing a");
    ended(&rig.run("d", destroy_with(DestroyRequest::default())).await, "deleting pkotest:index:Thing a");
    rig.kill_agent();
    rig.start_agent().await;
    for (run_id, words, counted) in expected {
        let run = get(&mut rig.runs().await, &run_id).await;
        assert_eq!((current(&run), counts(&run)), (words.as_str(), counted), "{run_id}");
    }
}

fn secret(key: &str, value: &str) -> ConfigItem {
    let v = Some(V::Value(pko_proto::to_value(&json!(value))));
    ConfigItem { key: key.to_owned(), v, secret: Some(true), path: None }
}

#[tokio::test]
async fn a_preview_tells_what_it_found_without_any_secret() {
    let text = program("value: x, secret: '${password}'")
        + "  hidden: ${a.secretOutput}\n  own: ${password}\n  said: 'it is ${password}'\n  \
           deep: {list: [1, '${password}', {'fn::secret': planted-too}]}\n  big: 12345678901\n  none: null\n\
           config:\n  password: {type: string, secret: true}\n";
    let mut rig = Rig::serving(&text).await;
    let run = rig.run("i", init(vec![Stack { config: vec![secret("password", "planted")], ..stack() }])).await;
    assert_eq!(run.failure, None);
    let preview = || preview_with(PreviewRequest::default());
    let run = rig.run("p1", preview()).await;
    assert_eq!((run.failure.as_ref(), run.resource_changes["create"], rig.things()), (None, 2, 0));
    assert!(run.standard_output.starts_with("Previewing update (dev):\n"), "{}", run.standard_output);
    assert!(run.standard_output.contains("pkotest:index:Thing: (create)"), "{}", run.standard_output);
    assert!(run.standard_output.ends_with("Resources:\n    + 2 to create"), "{}", run.standard_output);
    let outputs: Value = serde_json::from_str(&run.outputs_json).unwrap();
    let masked = json!("[secret]");
    assert_eq!(outputs["plain"], "x");
    assert_eq!(outputs["big"], json!(12_345_678_901_u64));
    assert_eq!(outputs["own"], masked);
    assert_eq!(outputs["hidden"], "[unknown]", "what is not there yet is not known");
    let up = rig.run("u", up()).await;
    assert_eq!(up.failure, None);
    assert_eq!((up.standard_output.as_str(), up.outputs_json.as_str()), ("", ""), "an up has its outputs elsewhere");

    let run = rig.run("p2", preview()).await;
    assert_eq!((run.failure.as_ref(), run.resource_changes["same"]), (None, 2));
    let outputs: Value = serde_json::from_str(&run.outputs_json).unwrap();
    assert_eq!((&outputs["hidden"], &outputs["said"]), (&masked, &masked));
    let deep = &outputs["deep"];
    assert!(*deep == masked || *deep == json!({"list": [1, "[secret]", "[secret]"]}), "{deep}");

    rig.kill_agent();
    rig.start_agent().await;
    let again = get(&mut rig.runs().await, "p2").await;
    assert_eq!((&again.standard_output, &again.outputs_json), (&run.standard_output, &run.outputs_json));
    assert_eq!(again.resource_changes, run.resource_changes);
    for text in [run.standard_output, run.outputs_json, rig.journal(), rig.log()] {
        assert!(!text.contains("planted"), "{text}");
    }
}

#[tokio::test]
async fn what_a_preview_tells_is_never_long() {
    let text = |n: usize| {
        let outputs: Vec<String> = (0..n).map(|n| format!("  o{n:04}: '{}'\n", "0123456789".repeat(10))).collect();
        format!("name: shop\nruntime: yaml\noutputs:\n{}", outputs.concat())
    };
    let rig = Rig::serving(&text(1)).await;
    rig.init().await;
    for (n, whole, known) in [(5, true, true), (100, false, true), (200, false, false), (1_000, false, false)] {
        rig.write_program(&text(n));
        let run = rig.run(&format!("p{n}"), preview_with(PreviewRequest::default())).await;
        assert_eq!(run.failure, None);
        let printed = &run.standard_output;
        assert!(printed.len() <= 4096 && printed.starts_with("Previewing update (dev):"), "{n}: {printed}");
        assert!(printed.ends_with("+ 1 to create"), "{n}: {printed}");
        assert_eq!(!printed.contains("\n…\n"), whole, "{n}: {printed}");
        assert_eq!(!run.outputs_json.is_empty(), known, "{n}: {}", run.outputs_json.len());
    }
}

#[tokio::test]
async fn a_preview_that_fails_tells_how_far_it_came() {
    let rig = Rig::serving(&program("value: x, bogus: y")).await;
    rig.init().await;
    let run = rig.run("p", preview_with(PreviewRequest::default())).await;
    assert!(run.failure.is_some());
    assert!(run.standard_output.starts_with("Previewing update (dev):\n"), "{}", run.standard_output);
    assert_eq!(run.outputs_json, "");
}
