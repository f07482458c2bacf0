//! Every effect, performed on a real API server with the permissions of deploy/install: it can be repeated, a stale view
//! does not win, and what was deleted stays deleted.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod support;

use pko_api::{Update, Workspace, events};
use pko_core::{
    ask::{Answer, Question},
    driver::Shell as _,
    effect::{Effect, Status, Target},
    references::ReferenceKind,
    seen::{Kind, Object, PodRef},
};
use pko_operator::cluster::{Cause, Failure};
use pko_testkit::cluster::list;
use serde_json::{Value, json};
use support::Scene;

const FINALIZER: &str = "finalizer.stack.pulumi.com";

fn cause<T: std::fmt::Debug>(outcome: Result<T, Failure>) -> Cause {
    outcome.unwrap_err().cause
}

fn stack() -> Value {
    json!({"apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": {"name": "web"}, "spec": {"stack": "dev"}})
}

fn update(name: &str) -> Update {
    let update =
        json!({"metadata": {"name": name}, "spec": {"workspaceName": "web", "type": "up", "stackName": "dev"}});
    serde_json::from_value(update).unwrap()
}

fn stack_status(status: Value) -> Status {
    Status::Stack(serde_json::from_value(status).unwrap())
}

fn mark(pod: PodRef) -> Effect {
    Effect::MarkInitialized { pod, stacks_hash: "of-stacks".to_owned() }
}

/// A pod that nobody schedules, so that it stays as it is.
fn idle_pod() -> Value {
    let spec = json!({"schedulerName": "nobody", "containers": [{"name": "pulumi", "image": "none.invalid/none"}]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-workspace-0"}, "spec": spec})
}

fn finalizers(object: &Value) -> Vec<&str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[tokio::test]
async fn a_status_is_written_whole_and_on_the_version_that_was_read() {
    let scene = Scene::new("status").await;
    scene.apply(&stack());
    let read = scene.target(Kind::Stack, "web");
    let planned = json!({"observedGeneration": 1, "currentUpdate": {"generation": 1, "name": "web-1", "commit": "a"}});
    let first = Effect::Status { on: read.clone(), status: stack_status(planned) };
    let version = scene.perform(first).await.unwrap().expect("the new version");
    let on = Target { resource_version: version, ..read.clone() };
    scene.perform(Effect::Status { on: on.clone(), status: stack_status(json!({})) }).await.unwrap();
    assert_eq!(scene.read("stack", "web")["status"]["currentUpdate"], Value::Null, "what is not said any more goes");
    let stale = scene.perform(Effect::Status { on: read, status: stack_status(json!({})) }).await;
    assert_eq!(cause(stale), Cause::Conflict);
    scene.delete("stack", "web");
    let gone = scene.perform(Effect::Status { on, status: stack_status(json!({})) }).await;
    assert_eq!(cause(gone), Cause::NotFound, "what was to follow it must not be done");
    assert!(!scene.exists("stack", "web"));
}

#[tokio::test]
async fn every_kind_has_its_status_written() {
    let scene = Scene::new("statuses").await;
    let program = json!({"apiVersion": "pulumi.com/v1", "kind": "Program", "metadata": {"name": "a"}, "program": {}});
    scene.apply(&program);
    for kind in ["Workspace", "Update"] {
        let api = "auto.pulumi.com/v1alpha1";
        scene.apply(&json!({"apiVersion": api, "kind": kind, "metadata": {"name": "a"}, "spec": {}}));
    }
    let observed = json!({"observedGeneration": 1});
    let statuses = [
        (Kind::Program, Status::Program(serde_json::from_value(observed.clone()).unwrap())),
        (Kind::Workspace, Status::Workspace(serde_json::from_value(observed.clone()).unwrap())),
        (Kind::Update, Status::Update(serde_json::from_value(observed).unwrap())),
    ];
    for (kind, status) in statuses {
        scene.perform(Effect::Status { on: scene.target(kind, "a"), status }).await.unwrap();
        let read = scene.read(&kind.as_str().to_lowercase(), "a");
        assert_eq!(read["status"]["observedGeneration"], 1);
        let manager = format!("pulumi-kubernetes-operator/{}-status", kind.as_str().to_lowercase());
        let managers = read["metadata"]["managedFields"].as_array().unwrap();
        assert!(managers.iter().any(|entry| entry["manager"] == manager), "{manager} is not among {managers:?}");
    }
}

#[tokio::test]
async fn a_stack_is_held_and_released_in_the_version_that_was_read() {
    let scene = Scene::new("hold").await;
    scene.apply(&stack());
    let on = scene.target(Kind::Stack, "web");
    let both = vec!["example.com/other".to_owned(), FINALIZER.to_owned()];
    scene.perform(Effect::HoldStack { on: on.clone(), finalizers: both.clone() }).await.unwrap().expect("a version");
    assert_eq!(finalizers(&scene.read("stack", "web")), both);
    let stale = scene.perform(Effect::ReleaseStack { on: on.clone(), finalizers: Vec::new() }).await;
    assert_eq!(cause(stale), Cause::Conflict);
    let on = scene.target(Kind::Stack, "web");
    let rest = vec!["example.com/other".to_owned()];
    scene.perform(Effect::ReleaseStack { on: on.clone(), finalizers: rest.clone() }).await.unwrap();
    assert_eq!(finalizers(&scene.read("stack", "web")), rest);
    scene.namespace.kubectl().run(&[
        "patch",
        "stack",
        "web",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":[]}}"#,
    ]);
    scene.delete("stack", "web");
    scene.perform(Effect::ReleaseStack { on, finalizers: Vec::new() }).await.expect("what is gone is released");
}

#[tokio::test]
async fn a_workspace_is_applied_and_one_that_was_deleted_does_not_come_back() {
    let scene = Scene::new("workspace").await;
    let workspace: Workspace =
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"image": "a"}})).unwrap();
    let apply = |uid: Option<String>| Effect::ApplyWorkspace { workspace: Box::new(workspace.clone()), uid };
    scene.perform(apply(None)).await.unwrap();
    let on = scene.target(Kind::Workspace, "web");
    scene.perform(apply(Some(on.uid.clone()))).await.unwrap();
    let again = scene.target(Kind::Workspace, "web");
    assert_eq!(again.resource_version, on.resource_version, "the same again changes nothing");
    let other = Target { uid: "another".to_owned(), ..on.clone() };
    scene.perform(Effect::DeleteWorkspace { on: other }).await.expect("another of that name is left alone");
    assert!(scene.exists("workspace", "web"));
    for _ in 0..2 {
        scene.perform(Effect::DeleteWorkspace { on: on.clone() }).await.unwrap();
    }
    assert!(!scene.exists("workspace", "web"));
    assert_eq!(cause(scene.perform(apply(Some(on.uid))).await), Cause::Conflict);
    assert!(!scene.exists("workspace", "web"));
}

#[tokio::test]
async fn an_update_is_created_once_held_and_released() {
    let scene = Scene::new("update").await;
    for _ in 0..2 {
        scene.perform(Effect::CreateUpdate(Box::new(update("web-1")))).await.unwrap();
    }
    let on = scene.target(Kind::Update, "web-1");
    for _ in 0..2 {
        scene.perform(Effect::HoldUpdate { on: on.clone() }).await.unwrap();
    }
    assert_eq!(finalizers(&scene.read("update", "web-1")), [FINALIZER]);
    let other = Target { uid: "another".to_owned(), ..on.clone() };
    scene.perform(Effect::ReleaseUpdate { on: other.clone() }).await.expect("another of that name is left alone");
    scene.perform(Effect::DeleteUpdate { on: other.clone() }).await.expect("another of that name is left alone");
    assert_eq!(cause(scene.perform(Effect::HoldUpdate { on: other }).await), Cause::Conflict);
    assert_eq!(finalizers(&scene.read("update", "web-1")), [FINALIZER]);
    scene.perform(Effect::ReleaseUpdate { on: on.clone() }).await.unwrap();
    assert!(finalizers(&scene.read("update", "web-1")).is_empty());
    scene.perform(Effect::DeleteUpdate { on: on.clone() }).await.unwrap();
    scene.perform(Effect::ReleaseUpdate { on: on.clone() }).await.expect("what is gone is released");
    assert_eq!(cause(scene.perform(Effect::HoldUpdate { on }).await), Cause::Conflict);
    assert!(!scene.exists("update", "web-1"), "what is gone cannot be held");
}

#[tokio::test]
async fn a_finalizer_that_another_set_is_taken_off_as_well_and_only_that() {
    let scene = Scene::new("release").await;
    scene.perform(Effect::CreateUpdate(Box::new(update("web-1")))).await.unwrap();
    let patch = json!({"metadata": {"finalizers": [FINALIZER, "example.com/other"]}}).to_string();
    scene.namespace.kubectl().run(&["patch", "update", "web-1", "--type=merge", "-p", &patch]);
    let on = scene.target(Kind::Update, "web-1");
    scene.perform(Effect::HoldUpdate { on: on.clone() }).await.unwrap();
    for _ in 0..2 {
        scene.perform(Effect::ReleaseUpdate { on: on.clone() }).await.unwrap();
    }
    assert_eq!(finalizers(&scene.read("update", "web-1")), ["example.com/other"]);
}

#[tokio::test]
async fn a_service_and_a_stateful_set_are_applied_and_a_refusal_is_told() {
    let scene = Scene::new("sets").await;
    let labels = json!({"auto.pulumi.com/component": "workspace", "auto.pulumi.com/workspace-name": "web"});
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web-workspace", "labels": labels},
        "spec": {"clusterIP": "None", "selector": labels, "ports": [{"name": "grpc", "port": 50051}]},
    });
    let container = json!({"name": "pulumi", "image": "none.invalid/none"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web-workspace", "labels": labels},
        "spec": {
            "replicas": 0, "serviceName": "web-workspace", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    });
    for _ in 0..2 {
        scene.perform(Effect::ApplyService { service: service.clone() }).await.unwrap();
        scene.perform(Effect::ApplyStatefulSet { stateful_set: set.clone() }).await.unwrap();
    }
    let uid = scene.read("statefulset", "web-workspace")["metadata"]["uid"].clone();
    let mut other = set;
    other["spec"]["serviceName"] = json!("another");
    let refusal = scene.perform(Effect::ApplyStatefulSet { stateful_set: other }).await.unwrap_err();
    assert_eq!(refusal.cause, Cause::Invalid);
    let text = refusal.to_string();
    assert!(text.contains("applying StatefulSet") && text.contains("updates to statefulset spec"), "{text}");
    assert_eq!(scene.read("statefulset", "web-workspace")["metadata"]["uid"], uid);
}

#[tokio::test]
async fn a_pod_is_marked_if_it_is_that_very_one() {
    let scene = Scene::new("mark").await;
    scene.apply(&idle_pod());
    let on = scene.target(Kind::Pod, "web-workspace-0");
    let pod = |uid: &str| PodRef { name: on.name.clone(), uid: uid.to_owned(), ip: String::new() };
    let marked =
        || scene.read("pod", "web-workspace-0")["metadata"]["annotations"]["auto.pulumi.com/initialized"].clone();
    let other = scene.perform(mark(pod("5a6f0000-0000-0000-0000-000000000000"))).await;
    assert_eq!(cause(other), Cause::Conflict);
    assert_eq!(marked(), Value::Null);
    for _ in 0..2 {
        scene.perform(mark(pod(&on.uid))).await.unwrap();
    }
    assert_eq!(marked(), "true");
    let of_stacks = "auto.pulumi.com/stacks-hash";
    assert_eq!(scene.read("pod", "web-workspace-0")["metadata"]["annotations"][of_stacks], "of-stacks");
}

#[tokio::test]
async fn a_pod_is_deleted_if_it_is_that_very_one() {
    let scene = Scene::new("delete-pod").await;
    scene.apply(&idle_pod());
    let on = scene.target(Kind::Pod, "web-workspace-0");
    let pod = |uid: &str| PodRef { name: on.name.clone(), uid: uid.to_owned(), ip: String::new() };
    let other = Effect::DeletePod { pod: pod("5a6f0000-0000-0000-0000-000000000000") };
    scene.perform(other).await.unwrap();
    assert!(scene.exists("pod", "web-workspace-0"));
    for _ in 0..2 {
        scene.perform(Effect::DeletePod { pod: pod(&on.uid) }).await.unwrap();
    }
    assert!(!scene.exists("pod", "web-workspace-0"), "nothing of it ran");
}

#[tokio::test]
async fn of_a_secret_only_its_keys_and_its_time_are_told() {
    let scene = Scene::new("reference").await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"}, "stringData": {"a": "1"}});
    scene.apply(&secret);
    let creds = || Question::Reference(ReferenceKind::Secret, "creds".to_owned());
    let Answer::Reference(Some(first)) = scene.ask(creds()).await.unwrap() else { panic!() };
    assert_eq!(first.keys.keys().collect::<Vec<_>>(), ["a"]);
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "creds"}, "binaryData": {"b": "AA=="}});
    scene.apply(&config);
    let config = Question::Reference(ReferenceKind::ConfigMap, "creds".to_owned());
    let Answer::Reference(Some(config)) = scene.ask(config).await.unwrap() else { panic!() };
    assert_eq!(config.keys.keys().collect::<Vec<_>>(), ["b"]);
    // Times have whole seconds.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    scene
        .apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds"}, "stringData": {"a": "2"}}));
    let Answer::Reference(Some(second)) = scene.ask(creds()).await.unwrap() else { panic!() };
    assert!(second.changed > first.changed, "{first:?} {second:?}");
    assert_ne!(second.keys["a"], first.keys["a"], "another value has another digest");
    let none = Question::Reference(ReferenceKind::Secret, "none".to_owned());
    assert_eq!(scene.ask(none).await.unwrap(), Answer::Reference(None));
}

#[tokio::test]
async fn why_the_cluster_refuses_a_pod_is_found_out_without_making_one() {
    let scene = Scene::new("admission").await;
    let template = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "pulumi", "image": "none.invalid/none"}]},
    });
    scene.apply(&json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web-workspace"},
        "spec": {"replicas": 0, "serviceName": "web", "selector": {"matchLabels": {"a": "b"}}, "template": template},
    }));
    let ask = || scene.ask(Question::Admission { stateful_set: "web-workspace".to_owned() });
    assert_eq!(ask().await.unwrap(), Answer::Admission(None));
    scene.apply(&json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}},
    }));
    let refusal = async || match ask().await.unwrap() {
        Answer::Admission(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    // The quota counts when its controller has seen it.
    let mut told = None;
    for _ in 0..100 {
        told = refusal().await;
        if told.as_ref().is_some_and(|told| told.contains("exceeded quota")) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(told.as_ref().is_some_and(|told| told.contains("exceeded quota: none")), "{told:?}");
    assert!(!scene.exists("pod", "web-workspace-0"));
}

#[tokio::test]
async fn an_event_that_is_repeated_is_counted() {
    let scene = Scene::new("events").await;
    scene.apply(&json!({
        "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace", "metadata": {"name": "web"}, "spec": {},
    }));
    let on = scene.target(Kind::Workspace, "web");
    let effect = Effect::Publish { on: on.clone(), event: events::workspace::connection_failure("no answer") };
    for _ in 0..3 {
        // Decided about an Update, which cannot reach its Workspace.
        scene.shell.perform(&scene.key(Kind::Update, "web-1"), &effect).await.unwrap();
    }
    let events = list(scene.namespace.kubectl(), "events").unwrap();
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!(
        (&event["count"], &event["reason"], &event["type"]),
        (&json!(3), &json!("ConnectionFailure"), &json!("Warning"))
    );
    assert_eq!(event["source"]["component"], "update-controller");
    assert_eq!(
        (&event["involvedObject"]["kind"], &event["involvedObject"]["uid"]),
        (&json!("Workspace"), &json!(on.uid))
    );
}

#[tokio::test]
async fn what_is_read_live_is_what_is_there() {
    let scene = Scene::new("reads").await;
    scene.apply(&stack());
    for name in ["web-1", "web-2", "web-3"] {
        scene.perform(Effect::CreateUpdate(Box::new(update(name)))).await.unwrap();
    }
    let time = "2024-01-01T00:00:00Z";
    let complete =
        json!([{"type": "Complete", "status": "True", "reason": "A", "message": "", "lastTransitionTime": time}]);
    for (name, status) in [
        ("web-1", json!({"observedGeneration": 1, "run": {"podUID": "u"}})),
        ("web-2", json!({"observedGeneration": 1, "run": {"podUID": "u"}, "conditions": complete})),
    ] {
        let status = Status::Update(serde_json::from_value(status).unwrap());
        scene.perform(Effect::Status { on: scene.target(Kind::Update, name), status }).await.unwrap();
    }
    let Answer::Updates(runs) = scene.ask(Question::RunsIn { workspace: "web".to_owned() }).await.unwrap() else {
        panic!()
    };
    assert_eq!(runs.iter().filter_map(|update| update.metadata.name.as_deref()).collect::<Vec<_>>(), ["web-1"]);
    let Answer::Object(Some(found)) = scene.ask(Question::Live(Kind::Stack, "web".to_owned())).await.unwrap() else {
        panic!()
    };
    assert_eq!(found.stack().unwrap().metadata.managed_fields, None);
    for kind in [Kind::Stack, Kind::Program, Kind::Workspace, Kind::Update, Kind::StatefulSet, Kind::Pod] {
        let answer = scene.ask(Question::Live(kind, "absent".to_owned())).await.unwrap();
        assert_eq!(answer, Answer::Object(None));
    }
    assert_eq!(scene.ask(Question::Outputs { secret: "absent".to_owned() }).await.unwrap(), Answer::Outputs(None));
}

#[tokio::test]
async fn a_copy_of_a_program_is_kept_found_and_let_go() {
    let scene = Scene::new("copies").await;
    let manifest = |output: &str| {
        json!({"apiVersion": "pulumi.com/v1", "kind": "Program", "metadata": {"name": "web"},
            "program": {"outputs": {"text": output}}})
    };
    scene.apply(&manifest("first"));
    let live = async || match scene.ask(Question::Live(Kind::Program, "web".to_owned())).await.unwrap() {
        Answer::Object(Some(Object::Program(program))) => program,
        other => panic!("{other:?}"),
    };
    let first = live().await;
    for _ in 0..2 {
        scene.perform(Effect::KeepProgram(first.clone())).await.unwrap();
    }
    scene.apply(&manifest("second"));
    let second = live().await;
    assert_ne!(first.metadata.generation, second.metadata.generation);
    let key = scene.key(Kind::Program, "web");
    let kept = async || match scene.shell.answer(&key, &Question::Generations).await.unwrap() {
        Answer::Generations(generations) => generations.kept.into_iter().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(kept().await, [1]);
    let copies = pko_operator::artifacts::Copies::new(scene.cluster.clone());
    let found = copies.of(&second, 1).await.unwrap().unwrap();
    assert_eq!(found.program, first.program);
    assert_eq!(copies.of(&second, 7).await.unwrap(), None);
    let mut another = second.clone();
    another.metadata.uid = Some("of-another".to_owned());
    assert_eq!(copies.of(&another, 1).await.unwrap(), None, "a Program of that name that is gone");
    scene.perform(Effect::DropProgram { on: scene.target(Kind::Program, "web"), generation: 1 }).await.unwrap();
    assert_eq!(kept().await, Vec::<i64>::new());
}
