//! The operator killed again and again while an update runs: the update belongs to the agent and does not notice.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]
#![allow(clippy::print_stderr, reason = "how long it took to go on goes to the log of the test run")]

use std::{
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use pko_e2e::scene::{STACK, Scene};
use pko_testkit::cluster::{Kubectl, LedgerLine, LocalOperator, OPERATOR_NAMESPACE, condition, list, read, wait_for};
use serde_json::{Value, json};

/// How long the provider takes to create the thing that goes through ten crashes.
const CREATE_SECONDS: u32 = 40;

/// Seconds after the provider began: at once, shortly after a new start, in the quiet, and just before the end.
const MOMENTS: [f64; 10] = [0.0, 0.3, 2.0, 7.1, 7.5, 13.0, 20.2, 28.4, 36.0, 39.0];

fn program(create_seconds: u32) -> Value {
    json!({
        "resources": {
            "slow": {
                "type": "pkotest:Thing",
                "properties": {"value": "made slowly", "createSeconds": create_seconds},
                "options": {"version": "0.1.0"},
            },
        },
        "outputs": {"id": "${slow.thingId}", "value": "${slow.value}"},
    })
}

/// Waits until something is there; it is looked for among the objects of some kinds.
fn await_object(scene: &Scene, what: &str, kinds: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, Duration::from_mins(1), || {
        let all = list(scene.kubectl(), kinds)?;
        all.iter().find(|o| is_it(o)).cloned().ok_or_else(|| format!("{} {kinds}", all.len()))
    })
}

fn await_beginning(scene: &Scene) {
    wait_for("the provider to begin", Duration::from_mins(1), || {
        let begun = !scene.volume().ledger().is_empty();
        if begun { Ok(()) } else { Err(read(scene.kubectl(), "stack", "app")?["status"].to_string()) }
    });
}

fn await_end(scene: &Scene) -> LedgerLine {
    wait_for("the provider to end", Duration::from_mins(1), || {
        let ledger = scene.volume().ledger();
        ledger.iter().find(|l| l.operation == "create").cloned().ok_or_else(|| format!("{ledger:?}"))
    })
}

/// Waits until an operator leads; returns how long that took.
fn await_leader(operator: &LocalOperator, limit: Duration) -> Duration {
    let began = Instant::now();
    let home = Kubectl::new().in_namespace(OPERATOR_NAMESPACE);
    wait_for("the operator to lead", limit, || {
        let lease = read(&home, "lease", "operator.pulumi.com")?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        if holder == operator.identity() { Ok(()) } else { Err(format!("{holder:?} leads")) }
    });
    began.elapsed()
}

fn since(moment: SystemTime) -> Duration {
    moment.elapsed().unwrap_or_default()
}

fn crash(operator: &mut LocalOperator) {
    operator.kill();
    operator.respawn();
}

fn in_pod(scene: &Scene, command: &str) -> String {
    scene.kubectl().run(&["exec", "app-workspace-0", "-c", "pulumi", "--", "sh", "-c", command])
}

/// The processes of the CLI in the workspace pod.
fn cli_processes(scene: &Scene) -> Vec<String> {
    in_pod(scene, "pidof pulumi || true").split_whitespace().map(str::to_owned).collect()
}

/// What the agent's journal says was started: operation and run.
fn journal(scene: &Scene) -> Vec<(String, String)> {
    let starts = in_pod(scene, "cat /share/.runs/*/start.json");
    let mut runs: Vec<(String, String)> = serde_json::Deserializer::from_str(&starts)
        .into_iter::<Value>()
        .map(|start| {
            let start = start.unwrap();
            (start["operation"].as_str().unwrap().to_owned(), start["runId"].as_str().unwrap().to_owned())
        })
        .collect();
    runs.sort();
    runs
}

#[test]
fn an_update_goes_through_ten_crashes_of_the_operator_as_if_there_were_none() {
    let mut operator = LocalOperator::start("crash");
    let scene = Scene::new("crash");
    scene.apply_program("app", &program(CREATE_SECONDS));
    scene.apply_stack("app", &json!({}));

    // On the way to the update: as soon as each object appears.
    crash(&mut operator);
    await_object(&scene, "the Workspace", "workspaces", |_| true);
    crash(&mut operator);
    await_object(&scene, "the workspace pod", "pods", |_| true);
    crash(&mut operator);
    await_object(&scene, "the pod to run", "pods", |pod| pod["status"]["phase"] == "Running");
    crash(&mut operator);
    let update = await_object(&scene, "the Update", "updates", |_| true);
    crash(&mut operator);
    let before = operator.kills();

    // While it runs.
    await_beginning(&scene);
    let began = scene.volume().ledger_written();
    let mut processes = Vec::new();
    for moment in MOMENTS {
        // A moment is all that is awaited here.
        std::thread::sleep(Duration::from_secs_f64(moment).saturating_sub(since(began)));
        crash(&mut operator);
        let (happened, ledger) = (since(began), scene.volume().ledger());
        eprintln!("crashed {happened:.1?} after the provider had begun");
        assert_eq!(ledger.len(), 1, "the update still runs {happened:.1?} after it began: {ledger:?}");
        // One that ends is not to be counted.
        if moment < f64::from(CREATE_SECONDS) - 3.0 {
            processes.push(cli_processes(&scene));
        }
    }
    assert_eq!(operator.kills() - before, 10);
    processes.dedup();
    assert!(processes.len() == 1 && processes[0].len() == 1, "one process of the CLI all the time: {processes:?}");

    // While its result is taken over.
    let created = await_end(&scene);
    crash(&mut operator);
    let stack = scene.until_updated("app", "");
    let took = since(scene.volume().ledger_written());
    eprintln!("the Stack was ready {took:.1?} after the provider had ended");
    assert!(took < Duration::from_secs(15), "the Stack was ready only {took:.1?} after the provider had ended");

    // Ledger, state, history, journal, Update and Stack tell the same story.
    let id = created.id.clone();
    let line = |operation: &str| LedgerLine { operation: operation.into(), id: id.clone(), resource: "slow".into() };
    assert_eq!(scene.volume().ledger(), [line("create-started"), line("create")]);
    assert_eq!(scene.volume().things(), std::slice::from_ref(&id));

    let updates = list(scene.kubectl(), "updates").unwrap();
    let uid = update["metadata"]["uid"].as_str().unwrap();
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!(updates[0]["metadata"]["uid"], uid, "the same Update");
    assert_eq!(condition(&updates[0], "Complete")["status"], "True");
    assert_eq!(condition(&updates[0], "Failed")["reason"], "UpdateSucceeded");
    assert_eq!(stack["status"]["lastUpdate"]["name"], updates[0]["metadata"]["name"]);
    assert_eq!(stack["status"]["lastUpdate"]["failures"].as_i64().unwrap_or(0), 0);
    assert_eq!(stack["status"]["outputs"], json!({"id": id, "value": "made slowly"}));

    let runs = journal(&scene);
    let operations: Vec<&str> = runs.iter().map(|(operation, _)| operation.as_str()).collect();
    assert_eq!(operations, ["init", "up"], "{runs:?}");
    assert_eq!(runs[1].1, uid, "the run is known by the Update's uid");
    let history = scene.volume().backend().history("app", STACK);
    assert_eq!(history.len(), 1, "the CLI ran once: {history:?}");
    assert_eq!(history[0]["result"], "succeeded");
    assert_eq!(scene.volume().backend().locks(), Vec::<PathBuf>::new());

    let exported: Value = serde_json::from_str(&scene.pulumi("app", &["stack", "export"])).unwrap();
    let deployment = &exported["deployment"];
    let things: Vec<&Value> =
        deployment["resources"].as_array().unwrap().iter().filter(|r| r["type"] == "pkotest:index:Thing").collect();
    assert_eq!(things.len(), 1, "{deployment}");
    assert_eq!(things[0]["id"], id);
    assert!(deployment["pending_operations"].is_null(), "{deployment}");
}

#[test]
fn another_operator_takes_over_a_running_update_when_the_leader_ends_or_is_lost() {
    let mut operator = LocalOperator::start("succession");
    let scene = Scene::new("succession");
    scene.apply_program("app", &program(25));
    scene.apply_stack("app", &json!({}));
    await_beginning(&scene);

    let status = operator.terminate();
    assert!(status.success(), "a manager that is asked to end ends well: {status}\n{}", operator.log());
    operator.respawn_elsewhere();
    let took = await_leader(&operator, Duration::from_secs(5));
    eprintln!("after a leader that ended, the next one led within {took:.1?}");

    operator.kill();
    operator.respawn_elsewhere();
    // The lease is good for 15 s and looked at every 2 s.
    let took = await_leader(&operator, Duration::from_secs(20));
    eprintln!("after a leader that was lost, the next one led within {took:.1?}");

    await_end(&scene);
    let stack = scene.until_updated("app", "");
    assert_eq!(stack["status"]["outputs"]["value"], "made slowly");
    assert_eq!(list(scene.kubectl(), "updates").unwrap().len(), 1);
    let operations: Vec<String> = scene.volume().ledger().into_iter().map(|l| l.operation).collect();
    assert_eq!(operations, ["create-started", "create"]);
    assert_eq!(scene.volume().backend().locks(), Vec::<PathBuf>::new());
}

#[test]
fn an_upgrade_of_the_operator_leaves_running_updates_and_idle_pods_alone() {
    let mut operator = LocalOperator::start("upgrade");
    let scene = Scene::new("upgrade");
    scene.apply_program("idle", &json!({"outputs": {"n": 1}}));
    scene.apply_stack("idle", &json!({"stack": "idle"}));
    let idle = scene.until_updated("idle", "");
    scene.apply_program("app", &program(20));
    scene.apply_stack("app", &json!({}));
    await_beginning(&scene);
    let pod = |name: &str| {
        let pod = read(scene.kubectl(), "pod", &format!("{name}-workspace-0")).unwrap();
        (pod["metadata"]["uid"].clone(), pod["status"]["containerStatuses"][0]["restartCount"].clone())
    };
    let before = [pod("idle"), pod("app")];

    // Something that is in every pod with a fetched program.
    operator.terminate();
    operator.respawn_with("FLUX_MAX_UNTAR_SIZE_BYTES", "123456789");
    await_leader(&operator, Duration::from_secs(30));
    scene.until_updated("app", "");
    assert_eq!([pod("idle"), pod("app")], before);
    let updates = list(scene.kubectl(), "updates").unwrap();
    assert_eq!(updates.len(), 2, "nothing was run a second time: {updates:?}");

    // The next use is in a pod of the new version.
    scene.kubectl().run(&["annotate", "stack", "idle", "pulumi.com/reconciliation-request=now"]);
    scene.until_updated("idle", idle["status"]["lastUpdate"]["name"].as_str().unwrap());
    assert_ne!(pod("idle").0, before[0].0);
    assert_eq!(pod("app"), before[1]);
}
