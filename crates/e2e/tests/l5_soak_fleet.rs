//! Many Stacks whose updates run all at once: the manager stays small, and another Stack is answered at once.
//!
//! Of ten runs one is of the real CLI. The others have a stand-in, which says what the CLI says and takes no memory.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]
#![allow(clippy::print_stderr, reason = "the figures of a soak go to the log of the test run")]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use pko_e2e::{scene::Scene, soak};
use pko_testkit::cluster::{Kubectl, LocalOperator, Volume, condition, list, read, wait_for};
use serde_json::{Value, json};

/// What the manager may hold while all updates run, in kB.
const MEMORY: u64 = 40 * 1024;
/// How soon a Stack says that it does what it is asked for.
const REACTION: Duration = Duration::from_secs(1);
/// How often one is asked.
const REQUESTS: usize = 5;
/// In the volume, the stand-ins wait for it.
const END: &str = "end";

/// Answers what an agent asks of the CLI. `up` writes the events of an update of a stack without resources.
const STAND_IN: &str = r#"#!/bin/sh
[ "$1" = --non-interactive ] && shift
case "$1" in
version) echo v3.259.0 ;;
up)
    while [ $# -gt 0 ]; do
        [ "$1" = --event-log ] && log=$2
        shift
    done
    echo '{"sequence":0,"preludeEvent":{"config":{}}}' >"$log"
    until [ -e /state/end ]; do sleep 2; done
    echo '{"sequence":1,"resOutputsEvent":{"metadata":{"op":"create","type":"pulumi:pulumi:Stack","new":{"outputs":{"by":"a stand-in"}}}}}' >>"$log"
    echo '{"sequence":2,"summaryEvent":{"resourceChanges":{"create":1},"result":"succeeded"}}' >>"$log"
    echo '{"sequence":3,"cancelEvent":{}}' >>"$log"
    ;;
esac
"#;

struct Fleet {
    real: usize,
    stand_ins: usize,
}

impl Fleet {
    fn new() -> Self {
        let size = soak::size(4);
        let real = size.div_ceil(10);
        Self { real, stand_ins: size - real }
    }

    fn size(&self) -> usize {
        self.real + self.stand_ins
    }

    /// Long enough for all real runs to overlap, though their pods start one after the other.
    fn create_seconds(&self) -> usize {
        12 + 8 * self.real
    }
}

/// Pods of which a node takes hundreds.
fn small(of_pod: &Value) -> Value {
    let mut pod = json!({"terminationGracePeriodSeconds": 5});
    for (field, value) in of_pod.as_object().into_iter().flatten() {
        pod[field] = value.clone();
    }
    Scene::workspace_template(&json!({"resources": {"requests": {"cpu": "1m", "memory": "16Mi"}}}), &pod)
}

/// The same with a stand-in before the CLI.
fn with_stand_in() -> Value {
    let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
    small(&json!({
        "containers": [{
            "name": "pulumi",
            "env": [{"name": "PATH", "value": "/stand-in:/usr/bin:/bin"}],
            "volumeMounts": [mount("state", "/state"), mount("stand-in", "/stand-in")],
        }],
        "volumes": [
            {"name": "state", "persistentVolumeClaim": {"claimName": Volume::CLAIM}},
            {"name": "stand-in", "configMap": {"name": "stand-in", "defaultMode": 0o555}},
        ],
    }))
}

fn apply_programs(scene: &Scene, fleet: &Fleet) {
    let config_map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "stand-in"},
        "data": {"pulumi": STAND_IN},
    });
    scene.kubectl().apply(&config_map.to_string());
    scene.apply_program("stood-in", &json!({"outputs": {"by": "a stand-in"}}));
    let thing = |seconds: usize| {
        json!({
            "resources": {"thing": {
                "type": "pkotest:Thing",
                "properties": {"value": "made", "createSeconds": seconds},
                "options": {"version": "0.1.0"},
            }},
            "outputs": {"value": "${thing.value}"},
        })
    };
    scene.apply_program("real", &thing(fleet.create_seconds()));
    scene.apply_program("asked", &thing(0));
}

/// Waits until so many Updates run.
fn until_running(scene: &Scene, wanted: usize, limit: Duration) {
    let template = "jsonpath={range .items[*]}{.status.conditions[?(@.type=='Progressing')].reason} \
                    {.status.startTime}{'\\n'}{end}";
    wait_for(&format!("{wanted} updates to run at once"), limit, || {
        let all = scene.kubectl().try_run(&["get", "updates", "-o", template])?;
        // One that runs has a beginning.
        let running = all.lines().filter(|line| line.starts_with("Progressing ") && line.len() > 20).count();
        if running >= wanted { Ok(()) } else { Err(format!("{running} of {} run", all.lines().count())) }
    });
}

/// A watch on one Stack: when it changed, the request that it carries and the update that it has begun.
struct Watch {
    child: Child,
    changes: mpsc::Receiver<(Instant, String, String)>,
}

impl Watch {
    fn on(scene: &Scene, stack: &str) -> Self {
        let columns = r"jsonpath={.metadata.annotations.pulumi\.com/reconciliation-request} {.status.currentUpdate.reconcileRequest}{'\n'}";
        let mut child = Command::new("kubectl")
            .args(["--namespace", scene.namespace(), "get", "stack", stack, "--watch", "-o", columns])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, changes) = mpsc::channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let (asked, begun) = line.split_once(' ').unwrap_or((&line, ""));
                if tell.send((Instant::now(), asked.to_owned(), begun.to_owned())).is_err() {
                    return;
                }
            }
        });
        // What it is like now comes first.
        let watch = Self { child, changes };
        watch.changes.recv_timeout(Duration::from_secs(30)).expect("a watch begins with what there is");
        watch
    }

    /// Requests an update; returns how long after the request was stored an update of it had begun.
    fn request(&self, kubectl: &Kubectl, stack: &str, request: &str) -> Duration {
        kubectl.run(&[
            "annotate",
            "stack",
            stack,
            "--overwrite",
            &format!("pulumi.com/reconciliation-request={request}"),
        ]);
        let mut stored = None;
        loop {
            let (at, asked, begun) =
                self.changes.recv_timeout(Duration::from_secs(30)).expect("a requested update begins");
            if asked == request && stored.is_none() {
                stored = Some(at);
            }
            if begun == request {
                return at - stored.unwrap();
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn until_all_ready(scene: &Scene, limit: Duration) {
    wait_for("every Stack to be ready", limit, || {
        let stacks = list(scene.kubectl(), "stacks")?;
        let waiting: Vec<&Value> =
            stacks.iter().filter(|stack| condition(stack, "Ready")["status"] != "True").collect();
        let first = waiting.first().map(|stack| format!("{} {}", stack["metadata"]["name"], stack["status"]));
        first.map_or(Ok(()), |first| Err(format!("{} wait, of them {first}", waiting.len())))
    });
}

#[test]
fn a_soak_of_a_fleet_keeps_the_manager_small_and_another_stack_answered_within_a_second() {
    let fleet = Fleet::new();
    eprintln!("{} real runs and {} stand-ins", fleet.real, fleet.stand_ins);
    let operator = LocalOperator::start("fleet");
    let scene = Scene::new("fleet");
    apply_programs(&scene, &fleet);
    scene.apply_stack("asked", &json!({"workspaceTemplate": small(&json!({}))}));
    scene.until_updated("asked", "");
    let idle = operator.memory();

    let each = |count: usize, more: usize| Duration::from_secs(60 + 5 * u64::try_from(count + more).unwrap());
    let began = Instant::now();
    for number in 0..fleet.stand_ins {
        let template = with_stand_in();
        let (program, stack) = (json!({"name": "stood-in"}), format!("s{number}"));
        scene.apply_stack(&stack, &json!({"programRef": program, "stack": stack, "workspaceTemplate": template}));
    }
    until_running(&scene, fleet.stand_ins, each(fleet.stand_ins, 0));
    let stood_in = began.elapsed();
    for number in 0..fleet.real {
        let (program, stack) = (json!({"name": "real"}), format!("r{number}"));
        scene.apply_stack(
            &stack,
            &json!({"programRef": program, "stack": stack, "workspaceTemplate": small(&json!({}))}),
        );
    }
    until_running(&scene, fleet.size(), each(fleet.real, 24));
    let all = began.elapsed();

    let watch = Watch::on(&scene, "asked");
    let mut reactions = Vec::new();
    let mut most = operator.memory();
    for number in 0..REQUESTS {
        let before = read(scene.kubectl(), "stack", "asked").unwrap()["status"]["lastUpdate"]["name"].clone();
        reactions.push(watch.request(scene.kubectl(), "asked", &format!("request-{number}")));
        scene.until_updated("asked", before.as_str().unwrap());
        most = most.max(operator.memory());
    }
    until_running(&scene, fleet.size(), Duration::ZERO);
    reactions.sort();
    eprintln!(
        "\n{} updates at once: the stand-ins after {stood_in:.0?}, all after {all:.0?}\n\
         manager: {:.1} MB with one Stack, {:.1} MB with all running\n\
         from a request to its update, {REQUESTS} times: {reactions:.0?}",
        fleet.size(),
        kb(idle),
        kb(most),
    );
    assert!(most <= MEMORY, "the manager holds {most} kB");
    assert!(reactions.last().is_some_and(|worst| *worst <= REACTION), "{reactions:?}");

    scene.volume().put(END, "");
    until_all_ready(&scene, each(fleet.size(), fleet.create_seconds()));
    let failures = list(scene.kubectl(), "updates").unwrap();
    let failures: Vec<&Value> = failures.iter().filter(|u| condition(u, "Failed")["status"] == "True").collect();
    assert!(failures.is_empty(), "every update succeeds at the first attempt: {failures:#?}");
    eprintln!("all ready after {:.0?}; manager: {:.1} MB", began.elapsed(), kb(operator.memory()));
}

#[allow(clippy::cast_precision_loss, reason = "of megabytes one digit is shown")]
fn kb(kb: u64) -> f64 {
    kb as f64 / 1024.0
}
