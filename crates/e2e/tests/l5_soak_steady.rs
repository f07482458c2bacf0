//! Stacks that are ready and left alone: nothing is written for them.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]
#![allow(clippy::print_stderr, reason = "the figures of a soak go to the log of the test run")]

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use pko_e2e::{scene::Scene, soak};
use pko_testkit::cluster::{Kubectl, LocalOperator, condition, list, wait_for};
use serde_json::json;

/// How long nothing is written before the cluster has come to rest. Our own timers are a minute at most.
const REST: Duration = Duration::from_secs(5);

const WRITES: [&str; 6] = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];

/// What the API server has counted, by what was done to what.
type Counts = BTreeMap<String, u64>;

fn label<'a>(line: &'a str, name: &str) -> &'a str {
    let rest = line.split_once(&format!("{name}=\"")).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

/// Whether a count is of something that the operator writes. What the cluster itself writes all the time is not: the
/// status of pods and nodes, leases, tokens.
fn is_ours(line: &str) -> bool {
    let (group, resource, subresource) = (label(line, "group"), label(line, "resource"), label(line, "subresource"));
    let kinds = [("apps", "statefulsets"), ("", "services"), ("", "secrets"), ("", "configmaps"), ("", "events")];
    ["pulumi.com", "auto.pulumi.com", "events.k8s.io"].contains(&group)
        || kinds.contains(&(group, resource))
        || (group, resource) == ("", "pods") && subresource != "status"
}

fn counts(wanted: impl Fn(&str) -> bool) -> Counts {
    let metrics = Kubectl::new().run(&["get", "--raw", "/metrics"]);
    let mut counts = Counts::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let verb = label(line, "verb");
        if !WRITES.contains(&verb) || !wanted(line) {
            continue;
        }
        let parts = [label(line, "group"), label(line, "resource"), label(line, "subresource")];
        let what: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let count = line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count is small and positive")]
        let count = count as u64;
        *counts.entry(format!("{verb} {} {}", what.join("/"), label(line, "code"))).or_default() += count;
    }
    counts
}

fn since(before: &Counts, now: &Counts) -> Counts {
    let more = |what: &String, count: &u64| count - before.get(what).copied().unwrap_or_default();
    now.iter().map(|(what, count)| (what.clone(), more(what, count))).filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_soak_of_stacks_left_alone_causes_no_write() {
    let (size, watched) = (soak::size(3), soak::duration(Duration::from_secs(30)));
    let operator = LocalOperator::start("steady");
    let scene = Scene::new("steady");
    scene.apply_program("app", &json!({"outputs": {"greeting": "hello"}}));
    let template = Scene::workspace_template(
        &json!({"resources": {"requests": {"cpu": "1m", "memory": "16Mi"}}}),
        &json!({"terminationGracePeriodSeconds": 5}),
    );
    for number in 0..size {
        let stack = format!("s{number}");
        let program = json!({"name": "app"});
        scene.apply_stack(&stack, &json!({"programRef": program, "stack": stack, "workspaceTemplate": template}));
    }
    let limit = Duration::from_secs(60 + 5 * u64::try_from(size).unwrap());
    wait_for("every Stack to be ready", limit, || {
        let stacks = list(scene.kubectl(), "stacks")?;
        let ready = stacks.iter().filter(|stack| condition(stack, "Ready")["status"] == "True").count();
        if ready == size { Ok(()) } else { Err(format!("{ready} of {size} are ready")) }
    });

    // What other tests have left goes away meanwhile.
    let (mut last, mut rested) = (counts(is_ours), Instant::now());
    wait_for("the cluster to come to rest", Duration::from_mins(3), || {
        let now = counts(is_ours);
        let written = since(&std::mem::replace(&mut last, now.clone()), &now);
        if !written.is_empty() {
            rested = Instant::now();
        }
        if rested.elapsed() > REST { Ok(()) } else { Err(format!("{written:?}")) }
    });

    let all = |_: &str| true;
    let (before, before_all, memory) = (counts(is_ours), counts(all), operator.memory());
    let counted =
        ["APPLY", "PATCH"].iter().any(|verb| before.contains_key(&format!("{verb} pulumi.com/stacks/status 200")));
    assert!(counted, "the API server counts what the operator wrote until now: {before:#?}");
    // It is the time in which nothing happens that is of interest.
    std::thread::sleep(watched);
    let (written, written_by_all) = (since(&before, &counts(is_ours)), since(&before_all, &counts(all)));
    eprintln!(
        "\n{size} Stacks left alone for {watched:?}: writes of ours {written:?}\nmanager: {} kB, then {} kB\n\
         all writes in the cluster: {written_by_all:#?}",
        memory,
        operator.memory()
    );
    assert!(written.is_empty(), "{size} Stacks were left alone for {watched:?}, and this was written: {written:#?}");
}
