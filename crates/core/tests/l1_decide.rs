//! Decisions on facts that nobody would build by hand.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::{
    ProjectInfo, Stack, Update, Workspace, finalizers,
    stack::{LastUpdate, update_state},
    update::{UpdateRun, UpdateStatus, update_type},
    workspace::{WorkspaceSpec, WorkspaceStatus},
};
use pko_core::{
    ask::{Answer, Failure, Generations, GitTrouble, Phase, Question, RunAnswer, RunSeen, RunState, SourceSeen},
    effect::{Effect, Status},
    references::ReferenceSeen,
    seen::{Kind, Object, PodSeen, StatefulSetSeen},
    step::Then,
};
use proptest::prelude::*;
use support::*;

/// Chance as data: takes choices off a list of numbers.
struct Dice(Vec<u8>);

impl Dice {
    fn roll(&mut self, sides: u8) -> u8 {
        self.0.pop().unwrap_or_default() % sides
    }

    fn flip(&mut self) -> bool {
        self.roll(2) == 1
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.roll(u8::try_from(choices.len()).unwrap()))].clone()
    }
}

fn condition(dice: &mut Dice, kind: &str, reasons: &[&str]) -> Condition {
    Condition {
        type_: kind.to_owned(),
        status: dice.one_of(&["True", "False", "Unknown"]).to_owned(),
        reason: dice.one_of(reasons).to_owned(),
        message: String::new(),
        last_transition_time: Time(at(-i64::from(dice.roll(100)))),
        observed_generation: Some(1),
    }
}

fn a_stack(dice: &mut Dice) -> Stack {
    let mut stack = stack();
    stack.metadata.generation = Some(i64::from(dice.roll(3)));
    if dice.flip() {
        stack.metadata.deletion_timestamp = Some(Time(at(-5)));
    }
    if dice.roll(5) == 0 {
        stack.metadata.finalizers = None;
    }
    stack.spec.destroy_on_finalize = dice.flip();
    stack.spec.preview = dice.roll(4) == 0;
    stack.spec.run_program = dice.flip();
    stack.spec.continue_resync_on_commit_match = dice.flip();
    stack.spec.workspace_reclaim_policy = dice.flip().then(|| "Delete".to_owned());
    if dice.roll(4) == 0 {
        stack.spec.program_ref = None;
    }
    if dice.flip() {
        stack = with_current(stack);
    }
    if dice.flip() {
        let last = LastUpdate {
            generation: i64::from(dice.roll(3)),
            failures: i64::from(dice.roll(5)),
            update_type: dice.one_of(&[update_type::UP, update_type::PREVIEW, update_type::DESTROY, ""]).to_owned(),
            last_successful_commit: dice.one_of(&["", "1", "2"]).to_owned(),
            ..last_update(dice.one_of(&[update_state::SUCCEEDED, update_state::FAILED, ""]))
        };
        stack = with_last(stack, last);
    }
    if dice.flip() {
        stack.status.get_or_insert_default().project_info =
            Some(ProjectInfo { name: "program".to_owned(), runtime: "yaml".to_owned(), ..ProjectInfo::default() });
    }
    stack
}

fn an_update(dice: &mut Dice) -> Update {
    let mut update = update();
    if dice.roll(4) == 0 {
        update.metadata.finalizers = None;
    }
    if dice.roll(4) == 0 {
        update.metadata.deletion_timestamp = Some(Time(at(-5)));
    }
    if dice.roll(6) == 0 {
        update.metadata.owner_references = None;
    }
    update.spec.update_type = dice.one_of(&[Some("up"), Some("destroy"), Some("odd"), None]).map(str::to_owned);
    if dice.flip() {
        let reasons = ["Progressing", "Complete", "Aborted", "UpdateFailed"];
        update.status = Some(UpdateStatus {
            observed_generation: i64::from(dice.roll(2)),
            outputs: dice.one_of(&["", "app-2-stack-outputs"]).to_owned(),
            run: dice.flip().then(|| UpdateRun { pod_uid: dice.one_of(&["pod-uid", "gone"]).to_owned() }),
            conditions: ["Progressing", "Failed", "Complete"].map(|kind| condition(dice, kind, &reasons)).into(),
            ..UpdateStatus::default()
        });
    }
    update
}

fn a_workspace(dice: &mut Dice) -> Workspace {
    let mut workspace = Workspace::new(NAME, WorkspaceSpec::default());
    workspace.metadata = metadata(NAME, dice.one_of(&["workspace-uid", "other"]));
    if dice.roll(5) == 0 {
        workspace.metadata.deletion_timestamp = Some(Time(at(-5)));
    }
    let reasons = ["Succeeded", "InstallationFailed", "IncompatibleConfiguration"];
    workspace.status = dice.flip().then(|| WorkspaceStatus {
        observed_generation: i64::from(dice.roll(2)),
        conditions: ["Ready", "Stalled"].map(|kind| condition(dice, kind, &reasons)).into(),
        ..WorkspaceStatus::default()
    });
    workspace
}

fn a_pod(dice: &mut Dice) -> PodSeen {
    PodSeen {
        uid: dice.one_of(&["pod-uid", "other"]).to_owned(),
        deleting: dice.flip(),
        initialized: dice.flip(),
        ended: dice.roll(4) == 0,
        ip: dice.flip().then(|| "10.0.0.1".to_owned()),
        running_since: dice.flip().then(|| at(-i64::from(dice.roll(100)))),
        revision_hash: dice.flip().then(|| "hash".to_owned()),
        ..pod()
    }
}

fn a_run(dice: &mut Dice) -> RunAnswer {
    let failure = Failure { reason: "Unknown".to_owned(), message: "why".to_owned(), ..Failure::default() };
    match dice.roll(6) {
        0 => RunAnswer::Silent { why: "quiet".to_owned() },
        1 => RunAnswer::Refused { code: "Unauthenticated".to_owned(), message: "no".to_owned() },
        2 => RunAnswer::Unknown,
        state => RunAnswer::Known(Box::new(RunSeen {
            run_id: "run".to_owned(),
            state: match state {
                3 => RunState::Running(dice.one_of(&[Phase::Installing, Phase::Operating])),
                4 => RunState::Succeeded,
                _ => RunState::Failed(failure),
            },
            end_time: dice.flip().then(|| at(-10)),
            outputs: u32::from(dice.roll(2)),
            ..RunSeen::default()
        })),
    }
}

fn a_revision(dice: &mut Dice) -> Result<String, GitTrouble> {
    match dice.roll(6) {
        0 => Err(GitTrouble::Address("none".to_owned())),
        1 => Err(GitTrouble::Credentials("none".to_owned())),
        2 => Err(GitTrouble::NoRevision("none".to_owned())),
        3 => Err(GitTrouble::Unavailable("no".to_owned())),
        commit => Ok(format!("commit-{commit}")),
    }
}

fn a_source(dice: &mut Dice) -> SourceSeen {
    match dice.roll(5) {
        0 => SourceSeen::Missing("no".to_owned()),
        1 => SourceSeen::Unreadable("no".to_owned()),
        2 => SourceSeen::Empty { why: String::new() },
        revision => SourceSeen::Artifact {
            url: "http://flux/a".to_owned(),
            revision: format!("main@{revision}"),
            digest: "sha256:a".to_owned(),
        },
    }
}

/// A circle, and a way out of it.
fn some_requirements() -> BTreeMap<String, Vec<String>> {
    let required = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    [(NAME.to_owned(), required(&["other"])), ("other".to_owned(), required(&[NAME, "third"]))].into()
}

/// What each question hears is the same however often it is asked, as in a world that stands still.
fn answer(dice: &mut Dice, question: &Question) -> Answer {
    let there = dice.roll(4) != 0;
    match question {
        Question::Cached(kind, _) | Question::Live(kind, _) => Answer::Object(there.then(|| match kind {
            Kind::Stack => Object::Stack(Box::new(a_stack(dice))),
            Kind::Program => Object::Program(Box::new(program())),
            Kind::Workspace => Object::Workspace(Box::new(a_workspace(dice))),
            Kind::Update => Object::Update(Box::new(an_update(dice))),
            Kind::StatefulSet => {
                Object::StatefulSet(StatefulSetSeen { replicas: i32::from(dice.roll(2)), ..stateful_set() })
            }
            Kind::Pod => Object::Pod(a_pod(dice)),
        })),
        Question::UpdatesOf { .. } | Question::UpdatesIn { .. } | Question::RunsIn { .. } => {
            Answer::Updates(there.then(|| an_update(dice)).into_iter().collect())
        }
        Question::Reference(..) => Answer::Reference(
            there.then(|| ReferenceSeen { changed: dice.flip().then(|| at(-10)), ..ReferenceSeen::default() }),
        ),
        Question::Revision(_) => Answer::Revision(a_revision(dice)),
        Question::Source(_) => Answer::Source(a_source(dice)),
        Question::Requirements => Answer::Requirements(there.then(some_requirements).unwrap_or_default()),
        Question::Dependents | Question::Namesakes { .. } => {
            Answer::Stacks(there.then(|| a_stack(dice)).into_iter().collect())
        }
        Question::NamespaceTerminating => Answer::Terminating(there),
        Question::Admission { .. } => Answer::Admission(there.then(|| "no room".to_owned())),
        Question::Outputs { .. } => Answer::Outputs(there.then(Default::default)),
        Question::Generations => Answer::Generations(Generations::default()),
        Question::Artifact => Answer::Artifact(Err("cannot".to_owned())),
        Question::Run { .. } | Question::LatestRun { .. } => Answer::Run(a_run(dice)),
    }
}

fn decided(kind: Kind, object: Object, dice: &mut Dice) -> (World, Vec<Effect>, Then) {
    let name = if kind == Kind::Update { "app-2" } else { NAME };
    let mut world = World::new(kind, name, object.clone());
    if dice.flip() {
        world = world.live(object, name);
    }
    let (effects, then) = world.act_with(|question| answer(dice, question));
    (world, effects, then)
}

fn with_status(object: Object, effects: &[Effect]) -> Object {
    let status = effects.iter().find_map(|effect| match effect {
        Effect::Status { status, .. } => Some(status.clone()),
        _ => None,
    });
    match (object, status) {
        (Object::Stack(mut stack), Some(Status::Stack(status))) => {
            stack.status = Some(*status);
            Object::Stack(stack)
        }
        (Object::Workspace(mut workspace), Some(Status::Workspace(status))) => {
            workspace.status = Some(*status);
            Object::Workspace(workspace)
        }
        (Object::Update(mut update), Some(Status::Update(status))) => {
            update.status = Some(*status);
            Object::Update(update)
        }
        (object, _) => object,
    }
}

fn writes_status(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Status { .. }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_decision_ends_and_says_the_same_when_nothing_changed(rolls in prop::collection::vec(any::<u8>(), 200)) {
        let mut dice = Dice(rolls);
        for kind in [Kind::Stack, Kind::Workspace, Kind::Update] {
            let object = match kind {
                Kind::Stack => Object::Stack(Box::new(a_stack(&mut dice))),
                Kind::Workspace => Object::Workspace(Box::new(a_workspace(&mut dice))),
                _ => Object::Update(Box::new(an_update(&mut dice))),
            };
            let (world, effects, _) = decided(kind, object.clone(), &mut dice);
            let after = with_status(object.clone(), &effects);
            // What a Stack takes over, or plans, leads to a next step of its own.
            let moved = effects.iter().any(|effect| {
                matches!(effect, Effect::CreateUpdate(_) | Effect::ReleaseUpdate { .. } | Effect::ReleaseStack { .. })
            });
            if writes_status(&effects) && !moved {
                let mut again = world.again(after);
                let (next, _) = again.act_with(|question| answer(&mut dice, question));
                prop_assert!(
                    !writes_status(&next) || again.asked_anew(),
                    "{kind:?} writes its status twice:\n{object:#?}\n{effects:#?}\n{next:#?}"
                );
            }
        }
    }

    #[test]
    fn a_stack_is_let_go_only_when_its_resources_are_gone_or_not_its_own(
        rolls in prop::collection::vec(any::<u8>(), 200),
    ) {
        let mut dice = Dice(rolls);
        let stack = a_stack(&mut dice);
        let (_, effects, _) = decided(Kind::Stack, Object::Stack(Box::new(stack.clone())), &mut dice);
        let released = effects.iter().any(|effect| matches!(effect, Effect::ReleaseStack { .. }));
        if released {
            prop_assert!(stack.metadata.deletion_timestamp.is_some());
            prop_assert!(stack.metadata.finalizers.iter().flatten().any(|name| name == finalizers::STACK));
            if stack.spec.destroy_on_finalize && !stack.spec.preview {
                let written = effects.iter().find_map(|effect| match effect {
                    Effect::Status { status: Status::Stack(status), .. } => Some(status.as_ref().clone()),
                    _ => None,
                });
                let status = written.or(stack.status).unwrap_or_default();
                let destroyed = status.last_update.as_ref().is_some_and(|last| {
                    last.update_type == update_type::DESTROY && last.state == update_state::SUCCEEDED
                });
                let never_begun = status.last_update.is_none() && status.current_update.is_none();
                prop_assert!(destroyed || never_begun, "{status:#?}");
            }
        }
    }
}
