//! Everything that can be killed, killed at any moment of a Stack's life: the manager, the agent, the CLI, the pod.
//! The Stack becomes ready by itself, every Update tells the truth, and nothing is left.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]
#![allow(clippy::print_stderr, reason = "the table of a soak goes to the log of the test run")]

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
    sync::mpsc,
    time::{Duration, Instant},
};

use pko_e2e::{
    scene::{STACK, Scene},
    soak,
};
use pko_testkit::{
    chance::Chance,
    cluster::{LocalOperator, condition, list, read, wait_for},
};
use serde_json::{Value, json};

/// How long the provider takes to create the slow thing, and to delete it.
const CREATE: Duration = Duration::from_secs(4);
const DELETE: Duration = Duration::from_secs(3);
/// Beside each file of its backend the CLI keeps another about it, which it does not write in one piece: a CLI that is
/// killed meanwhile leaves a stack that no CLI can read ("failed to load checkpoint: EOF"). Without those files the rest
/// is sound.
const BACKEND: &str = "file:///state?metadata=skip";
/// How long the CLI has to wind down when its pod is deleted.
const GRACE: u32 = 5;
/// A lost update is tried again after ten seconds; the rest is a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);
/// How many rounds go on at once, one of each kind. An operator that is killed is killed under all of them.
const AT_ONCE: usize = Kill::ALL.len();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kill {
    Manager,
    Agent,
    Cli,
    Pod,
}

impl Kill {
    const ALL: [Self; 4] = [Self::Manager, Self::Agent, Self::Cli, Self::Pod];

    fn name(self) -> &'static str {
        match self {
            Self::Manager => "manager",
            Self::Agent => "agent",
            Self::Cli => "CLI",
            Self::Pod => "pod",
        }
    }

    /// Where it can hit: there is no process in a pod that does not run yet.
    fn moments(self) -> &'static [Moment] {
        match self {
            Self::Manager | Self::Pod => &Moment::ALL,
            Self::Agent | Self::Cli => &Moment::ALL[1..],
        }
    }
}

/// Since when the time until the kill is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// The Stack was made; for a pod, it was made.
    Beginning,
    /// The pod runs; for the CLI, its first process.
    Init,
    /// The provider creates the slow thing.
    Create,
    /// It has created it; the CLI still has to save that.
    End,
    /// The first thing of a deleted Stack is destroyed.
    Destroy,
}

impl Moment {
    const ALL: [Self; 5] = [Self::Beginning, Self::Init, Self::Create, Self::End, Self::Destroy];

    fn lasts(self) -> Duration {
        match self {
            Self::Beginning => Duration::from_secs(2),
            Self::Init => Duration::from_millis(800),
            Self::Create => CREATE,
            Self::End => Duration::from_millis(600),
            Self::Destroy => DELETE,
        }
    }

    /// A line of the ledger by which it is known, as a regular expression.
    fn in_ledger(self) -> Option<&'static str> {
        match self {
            Self::Beginning | Self::Init => None,
            Self::Create => Some(r#""op":"create-started","id":"slow-"#),
            Self::End => Some(r#""op":"create","id":"slow-"#),
            Self::Destroy => Some(r#""op":"delete""#),
        }
    }
}

#[derive(Clone, Copy)]
struct Plan {
    round: usize,
    kill: Kill,
    moment: Moment,
    /// After the moment.
    delay: Duration,
}

impl Plan {
    fn new(round: usize, seed: u64) -> Self {
        let mut chance = Chance::new(seed.wrapping_mul(1_000_003).wrapping_add(u64::try_from(round).unwrap()));
        let kill = Kill::ALL[round % Kill::ALL.len()];
        let moment = *chance.pick(kill.moments());
        Self { round, kill, moment, delay: chance.within(moment.lasts()) }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { round, kill, moment, delay } = self;
        write!(f, "round {round}: the {}, {delay:.2?} into {moment:?}", kill.name())
    }
}

/// What the run of the CLI was at when something was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Before,
    During,
    After,
    Destroy,
}

impl Hit {
    const ALL: [Self; 4] = [Self::Before, Self::During, Self::After, Self::Destroy];

    fn now(scene: &Scene, plan: Plan) -> Self {
        if plan.moment == Moment::Destroy {
            Self::Destroy
        } else if !scene.volume().backend().history("app", STACK).is_empty() {
            Self::After
        } else if scene.volume().ledger().is_empty() {
            Self::Before
        } else {
            Self::During
        }
    }
}

/// How a round went.
struct Story {
    hit: Hit,
    /// Until the Stack was ready, or gone when it was being destroyed.
    took: Duration,
    succeeded: usize,
    lost: usize,
    /// Things in the cloud that no state knows of.
    orphans: usize,
}

fn program() -> Value {
    let thing =
        |properties: Value| json!({"type": "pkotest:Thing", "properties": properties, "options": {"version": "0.1.0"}});
    let slow = json!({"value": "slow", "createSeconds": CREATE.as_secs(), "deleteSeconds": DELETE.as_secs()});
    json!({
        "resources": {
            "slow": thing(slow),
            "one": thing(json!({"value": "1"})),
            "two": thing(json!({"value": "2"})),
            "three": thing(json!({"value": "${one.value}3"})),
        },
        "outputs": {
            "slow": "${slow.thingId}",
            "one": "${one.thingId}",
            "two": "${two.thingId}",
            "three": "${three.thingId}",
        },
    })
}

/// Of the process to kill and of what it waits for, nothing is seen from outside the pod fast enough.
fn script(plan: Plan) -> String {
    let (victim, exists) = match plan.kill {
        Kill::Agent => (
            "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in \
             '/share/agent serve '*) echo ${p#/proc/};; esac; done",
            "true",
        ),
        _ => ("pidof pulumi", "pidof pulumi"),
    };
    let moment = match plan.moment.in_ledger() {
        Some(line) => format!("grep -q '{line}' /state/cloud/ledger.jsonl"),
        None => exists.to_owned(),
    };
    let delay = plan.delay.as_secs_f64();
    format!(
        "until {moment} >/dev/null 2>&1; do sleep 0.02; done; sleep {delay}; victim=$({victim}); \
         echo \"killed $victim\" >>/state/killed; [ -z \"$victim\" ] || kill -9 $victim"
    )
}

fn kill_in_pod(scene: &Scene, plan: Plan) {
    let script = script(plan);
    let exec = ["exec", "app-workspace-0", "-c", "pulumi", "--", "timeout", "100", "sh", "-c", &script];
    wait_for("something to kill in the pod", PATIENCE, || {
        // That the container ends is no failure, and that it has not begun yet neither.
        let said = scene.kubectl().try_run(&exec);
        scene.volume().file("killed").ok_or_else(|| format!("{said:?}"))
    });
}

fn await_moment(scene: &Scene, plan: Plan) {
    let pod = |is_it: &dyn Fn(&Value) -> bool| {
        wait_for("the pod", PATIENCE, || {
            let pod = read(scene.kubectl(), "pod", "app-workspace-0")?;
            if is_it(&pod) { Ok(()) } else { Err(pod["status"].to_string()) }
        });
    };
    match plan.moment {
        Moment::Beginning if plan.kill == Kill::Pod => pod(&|_| true),
        Moment::Beginning => {}
        Moment::Init => pod(&|pod| pod["status"]["phase"] == "Running"),
        moment => {
            let operation = if moment == Moment::Create { "create-started" } else { "create" };
            let found = |line: &pko_testkit::cluster::LedgerLine| match moment {
                Moment::Destroy => line.operation == "delete",
                _ => line.operation == operation && line.resource == "slow",
            };
            wait_for(&format!("{moment:?}"), PATIENCE, || {
                let ledger = scene.volume().ledger();
                if ledger.iter().any(found) { Ok(()) } else { Err(format!("{ledger:?}")) }
            });
        }
    }
    // A moment is all that is awaited here.
    std::thread::sleep(plan.delay);
}

/// Kills at the planned moment; returns what that hit, and when.
fn strike(scene: &Scene, plan: Plan, kill_manager: &dyn Fn()) -> (Hit, Instant) {
    match plan.kill {
        Kill::Agent | Kill::Cli => {
            kill_in_pod(scene, plan);
            (Hit::now(scene, plan), Instant::now())
        }
        Kill::Manager => {
            await_moment(scene, plan);
            let hit = Hit::now(scene, plan);
            kill_manager();
            (hit, Instant::now())
        }
        Kill::Pod => {
            await_moment(scene, plan);
            let hit = Hit::now(scene, plan);
            // One that is gone already is as good as deleted.
            scene.kubectl().run(&["delete", "pod", "app-workspace-0", "--wait=false", "--ignore-not-found"]);
            (hit, Instant::now())
        }
    }
}

fn failed(update: &Value) -> bool {
    condition(update, "Failed")["status"] == "True"
}

/// What no wait is going to mend.
fn assert_hope(stack: &Value, updates: &[Value]) {
    for update in updates.iter().filter(|update| failed(update)) {
        let (reason, message) = (&condition(update, "Failed")["reason"], &update["status"]["message"]);
        assert_ne!(reason, "UpdateConflict", "no Update fails on a lock that a run of ours left: {message}");
    }
    let stalled = condition(stack, "Stalled");
    assert!(
        stalled["status"] != "True" || stalled["reason"] != "UpdateFailed",
        "a Stack does not give up because something was killed once: {stalled}, {updates:#?}"
    );
}

fn until_ready(scene: &Scene) -> Value {
    wait_for("the Stack to be ready", PATIENCE, || {
        let stack = read(scene.kubectl(), "stack", "app")?;
        assert_hope(&stack, &list(scene.kubectl(), "updates")?);
        let done = condition(&stack, "Ready")["status"] == "True" && stack["status"]["currentUpdate"].is_null();
        if done { Ok(stack) } else { Err(stack["status"].to_string()) }
    })
}

/// Waits until the Stack and all that was its own is gone; returns the last that was seen of its Updates.
fn until_gone(scene: &Scene) -> BTreeMap<String, Value> {
    let mut seen = BTreeMap::new();
    wait_for("the Stack to go with all that was its own", PATIENCE, || {
        let left = list(scene.kubectl(), "stacks,workspaces,updates")?;
        let of = |kind: &str| left.iter().filter(|o| o["kind"] == kind).cloned().collect::<Vec<Value>>();
        let updates = of("Update");
        for stack in of("Stack") {
            assert_hope(&stack, &updates);
        }
        seen.extend(updates.into_iter().map(|u| (u["metadata"]["name"].as_str().unwrap().to_owned(), u)));
        let shown = |o: &Value| format!("{} {} {}", o["kind"], o["metadata"]["finalizers"], o["status"]);
        if left.is_empty() { Ok(()) } else { Err(left.iter().map(shown).collect::<Vec<_>>().join("\n")) }
    });
    seen
}

/// Each Update has ended and says of its run what the CLI's own history says. Returns how many succeeded and were lost.
fn check_updates(scene: &Scene, plan: Plan, stack: &Value) -> (usize, usize) {
    let updates = list(scene.kubectl(), "updates").unwrap();
    let history = scene.volume().backend().history("app", STACK);
    for update in &updates {
        assert_eq!(condition(update, "Complete")["status"], "True", "an Update of a ready Stack has ended: {update:#}");
        assert_eq!(condition(update, "Progressing")["status"], "False", "{update:#}");
        let runs: Vec<&Value> = history.iter().filter(|run| run["message"] == update["spec"]["message"]).collect();
        let results: Vec<&Value> = runs.iter().map(|run| &run["result"]).collect();
        let ended = condition(update, "Failed");
        if failed(update) {
            let told = |text: &Value| text.as_str().is_some_and(|text| !text.is_empty());
            assert!(told(&ended["reason"]) && told(&update["status"]["message"]), "a lost Update says why: {update:#}");
            // The agent may have been killed after the CLI had ended: whether it had is then not known, and the Update
            // does not claim it.
            assert!(runs.len() <= 1, "an Update is one run at most: {runs:#?}");
        } else {
            assert_eq!(ended["reason"], "UpdateSucceeded", "{update:#}");
            assert_eq!(results, ["succeeded"], "an Update that succeeded is one run that succeeded: {update:#}");
        }
    }
    let lost: Vec<&Value> = updates.iter().filter(|update| failed(update)).collect();
    let most = usize::from(!(plan.kill == Kill::Manager || plan.moment == Moment::Destroy));
    assert!(lost.len() <= most, "{plan} may cost {most} Updates, not {}: {lost:#?}", lost.len());
    let told = &stack["status"]["lastUpdate"];
    assert_eq!(told["state"], "succeeded");
    let update = updates.iter().find(|update| update["metadata"]["name"] == told["name"]).expect("it is kept");
    assert!(!failed(update), "the Stack tells what its last Update tells: {told} {update:#}");
    assert_eq!(stack["status"]["outputs"].as_object().map(serde_json::Map::len), Some(4), "{stack:#}");
    (updates.len() - lost.len(), lost.len())
}

/// Cloud, ledger, state and Stack tell of the same things. Returns the things that no state knows of.
fn check_things(scene: &Scene, plan: Plan, stack: &Value) -> BTreeSet<String> {
    let exported = wait_for("a pod that exports the state", PATIENCE, || {
        let exec = ["exec", "app-workspace-0", "-c", "pulumi", "--", "pulumi", "stack", "export", "--stack", STACK];
        let text = scene.kubectl().try_run(&exec)?;
        serde_json::from_str::<Value>(&text).map_err(|error| format!("{error}: {text}"))
    });
    let deployment = &exported["deployment"];
    let resources = deployment["resources"].as_array().cloned().unwrap_or_default();
    let in_state: BTreeMap<String, Value> = resources
        .iter()
        .filter(|r| r["type"] == "pkotest:index:Thing")
        .map(|r| (r["urn"].as_str().unwrap().rsplit("::").next().unwrap().to_owned(), r["id"].clone()))
        .collect();
    assert_eq!(json!(in_state), stack["status"]["outputs"], "the Stack's outputs are of the things in its state");

    let name = stack["status"]["lastUpdate"]["name"].as_str().unwrap();
    let changes = read(scene.kubectl(), "update", name).unwrap()["status"]["resourceChanges"].clone();
    let counted: i64 = changes.as_object().into_iter().flatten().filter_map(|(_, count)| count.as_i64()).sum();
    // The stack itself counts; providers do not.
    assert_eq!(
        counted,
        i64::try_from(in_state.len()).unwrap() + 1,
        "the last Update counts what is in the state: {changes}"
    );

    let ledger = scene.volume().ledger();
    let of = |operation: &str| -> BTreeSet<String> {
        ledger.iter().filter(|l| l.operation == operation).map(|l| l.id.clone()).collect()
    };
    let cloud: BTreeSet<String> = scene.volume().things().into_iter().collect();
    let booked: BTreeSet<String> = of("create").difference(&of("delete")).cloned().collect();
    // A provider that is killed between a thing and its line in the ledger leaves the thing.
    assert!(booked.is_subset(&cloud) && cloud.is_subset(&of("create-started")), "{booked:?} {cloud:?} {ledger:?}");
    let known: BTreeSet<String> = in_state.values().map(|id| id.as_str().unwrap().to_owned()).collect();
    assert!(known.is_subset(&cloud), "nothing is in the state that is not in the cloud: {known:?} {cloud:?}");

    // A create that was begun and never ended in the ledger has made nothing, and the next run makes the thing anew. One
    // that the provider ended when the CLI was dead is known to nobody but the cloud; that takes a lost run.
    let orphans: BTreeSet<String> = cloud.difference(&known).cloned().collect();
    let updates = list(scene.kubectl(), "updates").unwrap();
    let some_lost = plan.kill != Kill::Manager && updates.iter().any(failed);
    assert!(orphans.is_empty() || some_lost, "a CLI that lives saves what it creates: {orphans:?} {ledger:?}");
    orphans
}

fn round(plan: Plan, kill_manager: &dyn Fn()) -> Story {
    let scene = Scene::new(&format!("kills-{}", plan.kill.name().to_lowercase()));
    let template = Scene::workspace_template(&json!({}), &json!({"terminationGracePeriodSeconds": GRACE}));
    scene.apply_program("app", &program());
    let spec = json!({"destroyOnFinalize": true, "workspaceTemplate": template, "backend": BACKEND});
    scene.apply_stack("app", &spec);

    let early = (plan.moment != Moment::Destroy).then(|| strike(&scene, plan, kill_manager));
    let stack = until_ready(&scene);
    let ready = Instant::now();
    let no_locks = || assert_eq!(scene.volume().backend().locks(), Vec::<PathBuf>::new(), "{plan}");
    no_locks();
    let (succeeded, lost) = check_updates(&scene, plan, &stack);
    let orphans = check_things(&scene, plan, &stack);

    scene.kubectl().run(&["delete", "stack", "app", "--wait=false"]);
    let (hit, took, lost_destroys) = if let Some((hit, at)) = early {
        until_gone(&scene);
        (hit, ready.saturating_duration_since(at), 0)
    } else {
        let (hit, at) = strike(&scene, plan, kill_manager);
        let updates = until_gone(&scene);
        (hit, at.elapsed(), updates.values().filter(|update| failed(update)).count())
    };
    no_locks();
    assert_eq!(scene.volume().backend().resources("app", STACK), Vec::<Value>::new(), "all was destroyed");
    let left: BTreeSet<String> = scene.volume().things().into_iter().collect();
    assert_eq!(left, orphans, "what the state knew of is gone");
    Story { hit, took, succeeded, lost: lost + lost_destroys, orphans: orphans.len() }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Runs some rounds at once. The operator stays with this thread, which kills it when a round asks for that.
fn together(plans: &[Plan], operator: &mut LocalOperator) -> Vec<(Plan, Result<Story, String>)> {
    let (ask, asked) = mpsc::channel::<mpsc::Sender<()>>();
    std::thread::scope(|scope| {
        let rounds: Vec<_> = plans
            .iter()
            .map(|plan| {
                let ask = ask.clone();
                let kill_manager = move || {
                    let (done, wait) = mpsc::channel();
                    ask.send(done).unwrap();
                    wait.recv().unwrap();
                };
                (*plan, scope.spawn(move || round(*plan, &kill_manager)))
            })
            .collect();
        drop(ask);
        for done in asked {
            operator.kill();
            operator.respawn();
            done.send(()).unwrap();
        }
        let end = |round: std::thread::ScopedJoinHandle<'_, Story>| round.join().map_err(|panic| words(&*panic));
        rounds.into_iter().map(|(plan, round)| (plan, end(round))).collect()
    })
}

fn print_table(rounds: &[(Plan, Result<Story, String>)]) {
    eprintln!(
        "\nkill      rounds  failed   before  during   after  destroy   succeeded    lost  orphans   median    worst"
    );
    for kill in Kill::ALL {
        let of: Vec<_> = rounds.iter().filter(|(plan, _)| plan.kill == kill).collect();
        let stories: Vec<&Story> = of.iter().filter_map(|(_, story)| story.as_ref().ok()).collect();
        let [before, during, after, destroy] =
            Hit::ALL.map(|hit| stories.iter().filter(|story| story.hit == hit).count());
        let succeeded: usize = stories.iter().map(|story| story.succeeded).sum();
        let lost: usize = stories.iter().map(|story| story.lost).sum();
        let orphans: usize = stories.iter().map(|story| story.orphans).sum();
        let mut times: Vec<f64> = stories.iter().map(|story| story.took.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        let worst = times.last().copied().unwrap_or_default();
        let failed = of.len() - stories.len();
        eprintln!(
            "{:<8} {:>7} {failed:>7}  {before:>7} {during:>7} {after:>7} {destroy:>8}  {succeeded:>10} {lost:>7} \
             {orphans:>8} {median:>7.1}s {worst:>7.1}s",
            kill.name(),
            of.len()
        );
    }
    eprintln!("(times are from the kill until the Stack was ready; of a destroy, until it was gone)");
    eprintln!("(orphans are things that the provider went on creating when the CLI was dead)");
}

#[test]
fn a_soak_of_kills_leaves_every_stack_ready_and_nothing_lost_or_left() {
    let (size, seed) = (soak::size(AT_ONCE), soak::seed());
    eprintln!("{size} rounds from seed {seed}; again with PKO_SOAK_SEED={seed}");
    let mut operator = LocalOperator::start("kills");
    let plans: Vec<Plan> = (0..size).map(|round| Plan::new(round, seed)).collect();
    let mut rounds = Vec::new();
    for some in plans.chunks(AT_ONCE) {
        for (plan, story) in together(some, &mut operator) {
            match &story {
                Ok(Story { hit, took, lost, orphans, .. }) => {
                    eprintln!("{plan}: {hit:?}, {lost} lost, {orphans} orphans, {took:.1?}");
                }
                Err(why) => eprintln!("{plan}: FAILED: {}", why.lines().next().unwrap_or_default()),
            }
            rounds.push((plan, story));
        }
    }
    print_table(&rounds);
    let failed: Vec<String> =
        rounds.iter().filter_map(|(plan, story)| Some(format!("{plan}: {}", story.as_ref().err()?))).collect();
    assert!(failed.is_empty(), "{} of {size} rounds failed:\n{}", failed.len(), failed.join("\n"));
}
