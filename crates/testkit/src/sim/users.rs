//! What users do, at any moment: they write, change, annotate and delete what is theirs, and what is not.

use std::collections::BTreeMap;

use pko_api::{
    Checked, Embedded, Program, Stack, Update, annotations,
    conditions::{ConditionType, is_true},
    program::ProgramSpec,
    stack::{
        FluxSource, FluxSourceReference, PrerequisiteRef, ProgramReference, RequirementSpec, ResourceRef,
        SecretSelector, StackSpec, reclaim_policy,
    },
    update::{UpdateSpec, update_type},
};
use pko_core::{
    effect::{Effect, Status},
    seen::{self, Key, Kind, ended},
};
use serde_json::{Value, json};

use super::{
    agent::SIZE,
    api::Deletion,
    caches::key,
    cloud::Mood,
    counts::Group,
    kubelet::{self, Harm},
    things::{Thing, Version},
    world::{PLANTED, World},
};
use crate::chance::Chance;

/// Of the Secret that Stacks refer to.
pub(super) const KEY: &str = "token";
const STACKS: [&str; 3] = ["alpha", "beta", TWIN];
/// About the Pulumi stack of the first, in histories that have it.
const TWIN: &str = "twin";
const PROGRAMS: [&str; 2] = ["site", "api"];

/// Everything that a user does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    CreateStack,
    EditStack,
    Annotate,
    CancelUpdate,
    WriteUpdate,
    UpgradeOperator,
    WriteSecret,
    PushCommit,
    PublishArtifact,
    AskByFlux,
    DeleteStack,
    DeleteStackForeground,
    ForceStackAway,
    CreateProgram,
    EditProgram,
    DeleteProgram,
    DeleteUpdate,
    DeleteWorkspace,
    DeleteWorkspaceForeground,
    EditWorkspace,
    DeletePod,
    ForceDeletePod,
    DeleteStatefulSet,
    Outage,
    OutageEnds,
}

/// How often each is tried, relative to the others.
const ACTS: [(Act, usize); 25] = [
    (Act::CreateStack, 8),
    (Act::EditStack, 14),
    (Act::Annotate, 10),
    (Act::CancelUpdate, 3),
    (Act::WriteUpdate, 3),
    (Act::UpgradeOperator, 2),
    (Act::WriteSecret, 3),
    (Act::PushCommit, 3),
    (Act::PublishArtifact, 2),
    (Act::AskByFlux, 2),
    (Act::DeleteStack, 7),
    (Act::DeleteStackForeground, 3),
    (Act::ForceStackAway, 1),
    (Act::CreateProgram, 8),
    (Act::EditProgram, 6),
    (Act::DeleteProgram, 1),
    (Act::DeleteUpdate, 4),
    (Act::DeleteWorkspace, 3),
    (Act::DeleteWorkspaceForeground, 2),
    (Act::EditWorkspace, 2),
    (Act::DeletePod, 4),
    (Act::ForceDeletePod, 2),
    (Act::DeleteStatefulSet, 2),
    (Act::Outage, 3),
    (Act::OutageEnds, 3),
];

impl Act {
    const fn name(self) -> &'static str {
        match self {
            Self::CreateStack => "create Stack",
            Self::EditStack => "edit Stack",
            Self::Annotate => "request an update",
            Self::CancelUpdate => "cancel an Update",
            Self::WriteUpdate => "write an Update by hand",
            Self::UpgradeOperator => "upgrade the operator",
            Self::WriteSecret => "write a Secret",
            Self::PushCommit => "push a commit",
            Self::PublishArtifact => "publish an artifact",
            Self::AskByFlux => "request an update by Flux's annotation",
            Self::DeleteStack => "delete Stack",
            Self::DeleteStackForeground => "delete Stack in the foreground",
            Self::ForceStackAway => "take all finalizers off a Stack",
            Self::CreateProgram => "create Program",
            Self::EditProgram => "edit Program",
            Self::DeleteProgram => "delete Program",
            Self::DeleteUpdate => "delete Update",
            Self::DeleteWorkspace => "delete Workspace",
            Self::DeleteWorkspaceForeground => "delete Workspace in the foreground",
            Self::EditWorkspace => "edit Workspace",
            Self::DeletePod => "delete pod",
            Self::ForceDeletePod => "delete pod by force",
            Self::DeleteStatefulSet => "delete StatefulSet",
            Self::Outage => "backend or registry breaks",
            Self::OutageEnds => "backend or registry works again",
        }
    }
}

/// Names of everything that users do, for tables.
pub fn acts() -> Vec<&'static str> {
    ACTS.iter().map(|(act, _)| act.name()).collect()
}

/// What there is at the beginning of a history.
pub(super) fn begin(world: &mut World) {
    act(world, Act::CreateProgram);
    act(world, Act::CreateStack);
    if world.chance.percent(30) {
        act(world, Act::Outage);
    }
    if world.crash_after == "delete pod" {
        for name in STACKS {
            world.cloud.moods.insert(pulumi_stack(name), Mood { operations: None, init: Some("InitializationFailed") });
        }
    }
}

/// A user does something, if there is something to do it to.
pub(super) fn something(world: &mut World) -> bool {
    let waiting = world.api.all(Kind::Update).any(|thing| thing.update().is_some_and(|update| !ended(update)));
    if waiting && world.chance.percent(35) {
        // At the moment at which it hurts.
        return act(world, Act::DeleteWorkspace);
    }
    // Likewise: what most users do when they see that something goes on, or does not.
    if running(world) && world.chance.percent(25) && act(world, Act::CancelUpdate) {
        return true;
    }
    if stalled(world) && world.chance.percent(85) {
        return act(world, Act::WriteSecret);
    }
    let total = ACTS.iter().map(|(_, weight)| weight).sum();
    let mut drawn = world.chance.below(total);
    for (what, weight) in ACTS {
        if drawn < weight {
            return act(world, what);
        }
        drawn -= weight;
    }
    false
}

/// In histories that are about it, a user acts at the one moment that leads to an effect.
pub(super) fn react(world: &mut World, effect: &Effect) {
    match (world.crash_after, effect) {
        ("cancel run", Effect::StartUpdate { .. }) if world.faults && world.chance.percent(90) => {
            act(world, Act::CancelUpdate);
        }
        ("delete pod", Effect::Status { status: Status::Workspace(status), .. })
            if world.faults && is_true(&status.conditions, ConditionType::STALLED) && world.chance.percent(70) =>
        {
            act(world, Act::WriteSecret);
        }
        _ => {}
    }
}

fn running(world: &World) -> bool {
    world.api.all(Kind::Update).any(|thing| thing.update().is_some_and(seen::running))
}

fn stalled(world: &World) -> bool {
    let conditions = |thing: &Version| Some(thing.workspace()?.status.as_ref()?.conditions.clone());
    let is_stalled = |thing: &Version| conditions(thing).is_some_and(|all| is_true(&all, ConditionType::STALLED));
    world.api.all(Kind::Workspace).any(is_stalled)
}

/// A user wants to get somewhere: what is missing is made, and what is there is to be updated.
pub(super) fn something_useful(world: &mut World) -> bool {
    let useful = [Act::CreateProgram, Act::CreateStack, Act::Annotate, Act::EditStack, Act::EditProgram];
    let missing = PROGRAMS.iter().any(|name| world.api.get(Kind::Program, name).is_none());
    let from = world.chance.below(if missing { 2 } else { useful.len() });
    useful[from..].iter().any(|what| act(world, *what))
}

fn act(world: &mut World, what: Act) -> bool {
    let Some(on) = attempt(world, what) else { return false };
    world.counts.hit(Group::User, what.name());
    world.trace(|| format!("user: {} {on}", what.name()));
    true
}

fn attempt(world: &mut World, what: Act) -> Option<String> {
    let now = world.now;
    match what {
        Act::CreateStack => {
            let missing = |name: &&&str| world.api.get(Kind::Stack, name).is_none();
            let missing: Vec<&str> = STACKS.iter().filter(missing).copied().collect();
            if missing.is_empty() {
                return None;
            }
            let name = *world.chance.pick(&missing);
            if name == TWIN && !world.chance.percent(30) {
                return None;
            }
            let mut spec = stack_spec(name, &mut world.chance);
            if world.crash_after == "request update" && name == STACKS[1] {
                require(&mut spec, "1s");
            }
            if world.crash_after == "delete workspace" {
                spec.workspace_reclaim_policy = Some(reclaim_policy::DELETE.to_owned());
            }
            let told = format!("{name} {}", told(&spec));
            world.api.create(Thing::Stack(Stack::new(name, spec)), now).ok()?;
            Some(told)
        }
        Act::EditStack => {
            let name = any(world, Kind::Stack)?;
            let mut stack = world.api.get(Kind::Stack, &name)?.stack()?.clone();
            edit(&mut stack.spec, &mut world.chance);
            let told = format!("{name} {}", told(&stack.spec));
            world.api.store(Thing::Stack(stack));
            Some(told)
        }
        Act::Annotate => {
            let name = any(world, Kind::Stack)?;
            let mut stack = world.api.get(Kind::Stack, &name)?.stack()?.clone();
            let request = format!("request-{}", world.chance.below(1000));
            let marks = stack.metadata.annotations.get_or_insert_default();
            marks.insert(annotations::RECONCILIATION_REQUEST.to_owned(), request);
            world.api.store(Thing::Stack(stack));
            Some(name)
        }
        Act::AskByFlux => {
            let name = any(world, Kind::Stack)?;
            let mut stack = world.api.get(Kind::Stack, &name)?.stack()?.clone();
            let marks = stack.metadata.annotations.get_or_insert_default();
            marks.insert(annotations::FLUX_REQUESTED_AT.to_owned(), now.to_string());
            world.api.store(Thing::Stack(stack));
            Some(name)
        }
        Act::PushCommit => {
            world.commits += 1;
            Some(world.commit())
        }
        Act::PublishArtifact => {
            world.artifacts += 1;
            wake(world, Kind::Stack);
            Some(world.bucket_digest())
        }
        Act::CancelUpdate => {
            let name = any(world, Kind::Stack)?;
            let mut stack = world.api.get(Kind::Stack, &name)?.stack()?.clone();
            let update = stack.status.as_ref()?.current_update.as_ref()?.name.clone();
            stack.metadata.annotations.get_or_insert_default().insert(annotations::CANCEL_REQUEST.to_owned(), update);
            world.api.store(Thing::Stack(stack));
            Some(name)
        }
        Act::WriteUpdate => {
            let workspace = any(world, Kind::Workspace)?;
            let stacks = &world.api.get(Kind::Workspace, &workspace)?.workspace()?.spec.stacks;
            let stack = stacks.first()?.name.clone();
            let spec = UpdateSpec {
                workspace_name: Some(workspace),
                stack_name: Some(stack),
                update_type: Some(update_type::PREVIEW.to_owned()),
                ..UpdateSpec::default()
            };
            let name = format!("mine-{}", world.chance.below(1000));
            world.api.create(Thing::Update(Update::new(&name, spec)), now).ok()?;
            Some(name)
        }
        Act::UpgradeOperator => {
            world.settings.agent_image = format!("operator:{}", world.chance.below(1000));
            Some(world.settings.agent_image.clone())
        }
        Act::WriteSecret => {
            world.secret_written = now;
            wake(world, Kind::Workspace);
            wake(world, Kind::Stack);
            Some(String::new())
        }
        Act::CreateProgram => {
            let missing = |name: &&&str| world.api.get(Kind::Program, name).is_none();
            let missing: Vec<&str> = PROGRAMS.iter().filter(missing).copied().collect();
            if missing.is_empty() {
                return None;
            }
            let name = *world.chance.pick(&missing);
            let program = Program::new(name, program(&mut world.chance));
            world.api.create(Thing::Program(program), now).ok()?;
            Some(name.to_owned())
        }
        Act::EditProgram => {
            let name = any(world, Kind::Program)?;
            let mut found = world.api.get(Kind::Program, &name)?.program()?.clone();
            found.program = program(&mut world.chance);
            world.api.store(Thing::Program(found));
            Some(name)
        }
        Act::EditWorkspace => {
            let name = any(world, Kind::Workspace)?;
            let mut workspace = world.api.get(Kind::Workspace, &name)?.workspace()?.clone();
            workspace.spec.stacks.first_mut()?.create = None;
            world.api.store(Thing::Workspace(workspace));
            Some(name)
        }
        Act::DeleteStack => delete(world, Kind::Stack, Deletion::Background),
        Act::DeleteStackForeground => delete(world, Kind::Stack, Deletion::Foreground),
        Act::ForceStackAway => {
            let going: Vec<Version> = world.api.all(Kind::Stack).filter(|stack| stack.deleting()).cloned().collect();
            let stack = going.first()?;
            world.forced.insert(stack.uid().to_owned());
            let mut after = (**stack).clone();
            after.meta_mut().finalizers = None;
            world.api.store(after);
            Some(stack.name().to_owned())
        }
        Act::DeleteProgram => delete(world, Kind::Program, Deletion::Background),
        Act::DeleteUpdate => delete(world, Kind::Update, Deletion::Background),
        Act::DeleteWorkspace => delete(world, Kind::Workspace, Deletion::Background),
        Act::DeleteWorkspaceForeground => delete(world, Kind::Workspace, Deletion::Foreground),
        Act::DeletePod => delete(world, Kind::Pod, Deletion::Background),
        Act::DeleteStatefulSet => delete(world, Kind::StatefulSet, Deletion::Background),
        Act::ForceDeletePod => {
            let name = any(world, Kind::Pod)?;
            kubelet::harm(world, &name, Harm::Killed)
        }
        Act::Outage => {
            let name = *world.chance.pick(&STACKS);
            let stack = pulumi_stack(name);
            let mood = outage(&mut world.chance);
            let told = format!("{stack}: {mood:?}");
            world.cloud.moods.insert(stack, mood);
            Some(told)
        }
        Act::OutageEnds => {
            let name = *world.chance.pick(&STACKS);
            let stack = pulumi_stack(name);
            world.cloud.moods.remove(&stack)?;
            Some(stack)
        }
    }
}

/// A watch that is not modelled in detail shows a change.
fn wake(world: &mut World, kind: Kind) {
    let keys: Vec<Key> = world.api.all(kind).map(|thing| key(kind, thing.name())).collect();
    for operator in world.operators.iter_mut().filter(|operator| operator.alive) {
        operator.queue.extend(keys.iter().cloned());
    }
}

fn delete(world: &mut World, kind: Kind, how: Deletion) -> Option<String> {
    let name = any(world, kind)?;
    world.api.delete(kind, &name, how, world.now);
    Some(name)
}

fn any(world: &mut World, kind: Kind) -> Option<String> {
    let names: Vec<String> = world.api.all(kind).map(|thing| thing.name().to_owned()).collect();
    (!names.is_empty()).then(|| world.chance.pick(&names).clone())
}

fn outage(chance: &mut Chance) -> Mood {
    let operations = *chance.pick(&[
        None,
        Some("UpdateFailed"),
        Some("UpdateFailed"),
        Some("UpdateConflict"),
        Some("InvalidAccessToken"),
        Some("Unknown"),
    ]);
    let init =
        *chance.pick(&[Some("InstallationFailed"), Some("InitializationFailed"), Some("IncompatibleConfiguration")]);
    if operations.is_some() && chance.percent(70) { Mood { operations, init: None } } else { Mood { operations, init } }
}

fn pulumi_stack(name: &str) -> String {
    let name = if name == TWIN { STACKS[0] } else { name };
    format!("organization/project/{name}")
}

/// The value of [`SIZE`] in a Stack's configuration.
pub(super) fn size(spec: &StackSpec) -> String {
    let config = spec.config.as_ref().and_then(Checked::good);
    config.and_then(|config| config.get(SIZE)).map(Value::to_string).unwrap_or_default()
}

fn config(chance: &mut Chance) -> Checked<BTreeMap<String, Value>> {
    Checked::Good(BTreeMap::from([(SIZE.to_owned(), json!(format!("size-{}", chance.below(1000))))]))
}

fn stack_spec(name: &str, chance: &mut Chance) -> StackSpec {
    let mut spec = StackSpec {
        stack: pulumi_stack(name),
        config: Some(config(chance)),
        secrets: BTreeMap::from([("password".to_owned(), format!("{PLANTED}-in-spec"))]),
        destroy_on_finalize: chance.percent(65),
        preview: chance.percent(8),
        run_program: chance.percent(15),
        continue_resync_on_commit_match: chance.percent(15),
        workspace_reclaim_policy: chance.percent(25).then(|| reclaim_policy::DELETE.to_owned()),
        ..StackSpec::default()
    };
    refer(&mut spec, chance);
    spec.retry_on_update_conflict = chance.percent(30);
    if chance.percent(10) {
        (spec.refresh, spec.expect_no_refresh_changes) = (true, true);
    }
    if name == STACKS[1] && chance.percent(40) {
        require(&mut spec, *chance.pick(&["1s", "30s", "1h"]));
    }
    if name == STACKS[0] && chance.percent(2) {
        // Round in a circle, if the other requires this one.
        spec.prerequisites = vec![PrerequisiteRef { name: STACKS[1].to_owned(), requirement: None }];
    }
    if chance.percent(70) {
        let selector = SecretSelector { name: "creds".to_owned(), key: KEY.to_owned(), ..SecretSelector::default() };
        let reference = ResourceRef { ref_type: "Secret".to_owned(), secret: Some(selector), ..ResourceRef::default() };
        spec.env_refs = BTreeMap::from([("TOKEN".to_owned(), reference)]);
    }
    if chance.percent(25) {
        let text = *chance.pick(&["30s", "5m", "0s"]);
        spec.update_template = Some(Embedded::new(json!({"spec": {"ttlAfterCompleted": text}})));
    }
    if chance.percent(3) {
        break_spec(&mut spec);
    }
    spec
}

/// The second Stack requires the first, and that it has succeeded lately.
fn require(spec: &mut StackSpec, within: &str) {
    let within = Some(Checked::of(json!(within)));
    let requirement = Some(RequirementSpec { succeeded_within_duration: within });
    spec.prerequisites = vec![PrerequisiteRef { name: STACKS[0].to_owned(), requirement }];
}

/// From a Program, from Git, from Flux, or from the image.
fn refer(spec: &mut StackSpec, chance: &mut Chance) {
    (spec.program_ref, spec.flux_source, spec.workspace_template) = (None, None, None);
    (spec.project_repo, spec.branch) = (None, None);
    if chance.percent(15) {
        (spec.project_repo, spec.branch) = (Some("https://git.test/repo".to_owned()), Some("main".to_owned()));
    } else if chance.percent(10) {
        let reference = FluxSourceReference {
            api_version: "source.toolkit.fluxcd.io/v1".to_owned(),
            kind: "Bucket".to_owned(),
            name: "bucket".to_owned(),
        };
        spec.flux_source = Some(FluxSource { source_ref: reference, dir: None });
    } else if chance.percent(90) {
        let name = if chance.percent(85) { PROGRAMS[0] } else { PROGRAMS[1] };
        spec.program_ref = Some(ProgramReference { name: name.to_owned() });
    } else {
        spec.workspace_template = Some(Embedded::new(json!({"spec": {"local": {"dir": "/app"}}})));
    }
}

fn break_spec(spec: &mut StackSpec) {
    spec.resync_frequency_seconds = Some(Checked::of(json!("soon")));
}

fn edit(spec: &mut StackSpec, chance: &mut Chance) {
    match chance.below(8) {
        0 => refer(spec, chance),
        1 => spec.destroy_on_finalize = !spec.destroy_on_finalize,
        2 => spec.preview = !spec.preview,
        3 if spec.resync_frequency_seconds.is_some() => spec.resync_frequency_seconds = None,
        3 => break_spec(spec),
        4 => spec.continue_resync_on_commit_match = !spec.continue_resync_on_commit_match,
        _ => {}
    }
    spec.config = Some(config(chance));
}

fn program(chance: &mut Chance) -> ProgramSpec {
    let version = json!(format!("version-{}", chance.below(10_000)));
    ProgramSpec { outputs: BTreeMap::from([("version".to_owned(), version)]), ..ProgramSpec::default() }
}

fn told(spec: &StackSpec) -> String {
    let flags = [
        (spec.destroy_on_finalize, "destroyOnFinalize"),
        (spec.preview, "preview"),
        (spec.run_program, "runProgram"),
        (spec.continue_resync_on_commit_match, "resync"),
        (spec.workspace_reclaim_policy.is_some(), "reclaim"),
        (spec.resync_frequency_seconds.is_some(), "broken"),
    ];
    let flags: Vec<&str> = flags.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    let program = spec.program_ref.as_ref().map(|program| program.name.as_str());
    format!("{} {flags:?} program {program:?}", size(spec))
}
