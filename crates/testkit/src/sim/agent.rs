//! The agents in the pods: runs by identifier, one at a time, with a journal that outlives a container.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pko_api::{ProjectInfo, workspace::WorkspaceStack};
use pko_core::{
    ask::{Failure, Phase, RunAnswer, RunSeen, RunState},
    effect::{Init, Operation, OperationKind},
};
use serde_json::Value;

use super::{
    api::Refused,
    cloud::{Cloud, Deployed, End, Execution},
};
use crate::chance::Chance;

pub(super) const PULUMI_VERSION: &str = "3.259.0";
/// The configuration key by which the model tells what was deployed.
pub(super) const SIZE: &str = "size";

/// What a run does.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Init { stacks: Vec<WorkspaceStack>, skip_install: bool },
    Operation(Operation),
}

/// A run in an agent's journal.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) work: Work,
    pub(super) state: RunState,
    start: Timestamp,
    end: Option<Timestamp>,
    /// When its present phase ends.
    due: Timestamp,
    /// Resources by what happened to them.
    pub(super) changes: BTreeMap<String, i32>,
}

/// What a pod holds. The container comes and goes; the journal stays as long as the pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Agent {
    pub(super) workspace: String,
    pub(super) up: bool,
    pub(super) silent_until: Option<Timestamp>,
    pub(super) refuses_until: Option<Timestamp>,
    /// Told to end: nothing new is started.
    pub(super) terminating: bool,
    /// Digest of the program that was fetched.
    pub(super) program: String,
    pub(super) runs: Vec<Run>,
}

/// All agents, by the UID of their pods.
#[derive(Debug, Default)]
pub(super) struct Agents(pub(super) BTreeMap<String, Agent>);

/// A run that came to its end.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) workspace: String,
    pub(super) run_id: String,
    pub(super) init: bool,
    pub(super) told: String,
}

impl Agent {
    fn answers(&self, now: Timestamp) -> Result<(), RunAnswer> {
        if !self.up || self.silent_until.is_some_and(|until| now < until) {
            return Err(RunAnswer::Silent { why: "connection refused".to_owned() });
        }
        if self.refuses_until.is_some_and(|until| now < until) {
            return Err(RunAnswer::Refused { code: "Unauthenticated".to_owned(), message: "invalid token".to_owned() });
        }
        Ok(())
    }

    pub(super) fn active(&self) -> Option<&Run> {
        self.runs.iter().find(|run| matches!(run.state, RunState::Running(_)))
    }

    /// What an update from this pod leaves in the cloud: the program that was fetched, as configured by the last
    /// successful initialisation.
    fn leaves(&self) -> Deployed {
        let init = self.runs.iter().rev().find_map(|run| match (&run.work, &run.state) {
            (Work::Init { stacks, .. }, RunState::Succeeded) => Some(stacks),
            _ => None,
        });
        let size = init.and_then(|stacks| stacks.first()).and_then(|stack| {
            stack.config.iter().find(|item| item.key == SIZE).and_then(|item| item.value.as_ref()).map(Value::to_string)
        });
        Deployed { program: self.program.clone(), size: size.unwrap_or_default(), whole: true }
    }

    pub(super) fn initialized(&self) -> bool {
        self.runs.iter().any(|run| matches!(run.work, Work::Init { .. }) && run.state == RunState::Succeeded)
    }
}

impl Agents {
    pub(super) fn run(&self, pod: &str, run_id: &str, now: Timestamp) -> RunAnswer {
        self.find(pod, now, |run| run.id == run_id)
    }

    pub(super) fn latest(&self, pod: &str, prefix: &str, now: Timestamp) -> RunAnswer {
        self.find(pod, now, |run| run.id.starts_with(prefix))
    }

    fn find(&self, pod: &str, now: Timestamp, wanted: impl Fn(&Run) -> bool) -> RunAnswer {
        let Some(agent) = self.0.get(pod) else { return RunAnswer::Silent { why: "no route to host".to_owned() } };
        if let Err(silence) = agent.answers(now) {
            return silence;
        }
        let found = agent.runs.iter().rev().find(|run| wanted(run));
        found.map_or(RunAnswer::Unknown, |run| RunAnswer::Known(Box::new(seen(run))))
    }

    /// Starts a run, unless one of that identifier was started before. Whether it is one that may be is not the
    /// agent's to say, apart from there being one at a time.
    pub(super) fn start(
        &mut self,
        pod: &str,
        run_id: &str,
        work: Work,
        stack_uid: &str,
        cloud: &mut Cloud,
        (now, chance): (Timestamp, &mut Chance),
    ) -> Result<Option<String>, Refused> {
        let agent = self.0.get_mut(pod).ok_or(Refused::Failed("no route to host"))?;
        agent.answers(now).map_err(|_| Refused::Failed("the agent does not answer"))?;
        if agent.runs.iter().any(|run| run.id == run_id) {
            return Ok(None);
        }
        if let Some(active) = agent.active() {
            return Err(Refused::Conflict(format!("run {} is active", active.id)));
        }
        if agent.terminating {
            return Err(Refused::Failed("the agent is shutting down"));
        }
        let (phase, wrong) = match &work {
            Work::Init { skip_install: true, .. } => (Phase::Initializing, None),
            Work::Init { .. } => (Phase::Installing, None),
            Work::Operation(operation) => {
                let execution = Execution {
                    run_id: run_id.to_owned(),
                    stack_uid: stack_uid.to_owned(),
                    stack: operation.stack.clone(),
                    workspace: agent.workspace.clone(),
                    kind: operation.kind,
                    end: None,
                };
                let unready = (!agent.initialized())
                    .then(|| format!("run {run_id} was started in a pod that was never made ready"));
                (Phase::Operating, cloud.start(execution).err().or(unready))
            }
        };
        let due = now + jiff::SignedDuration::from_millis(chance.between(200, 20_000));
        agent.runs.push(Run {
            id: run_id.to_owned(),
            work,
            state: RunState::Running(phase),
            start: now,
            end: None,
            due,
            changes: BTreeMap::new(),
        });
        Ok(wrong)
    }

    /// When the next phase of some run ends.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|agent| agent.active().map(|run| run.due)).min()
    }

    /// Pods whose runs have something due.
    pub(super) fn due(&self, now: Timestamp) -> Vec<String> {
        let due = |agent: &Agent| agent.active().is_some_and(|run| run.due <= now);
        self.0.iter().filter(|(_, agent)| due(agent)).map(|(pod, _)| pod.clone()).collect()
    }

    /// The active run of a pod goes into its next phase, or ends.
    pub(super) fn go_on(
        &mut self,
        pod: &str,
        cloud: &mut Cloud,
        flaky: bool,
        (now, chance): (Timestamp, &mut Chance),
    ) -> Option<Ended> {
        let agent = self.0.get_mut(pod)?;
        let leaves = agent.leaves();
        let workspace = agent.workspace.clone();
        let run = agent.runs.iter_mut().find(|run| matches!(run.state, RunState::Running(_)))?;
        let fails = |mood: Option<&'static str>, chance: &mut Chance, spontaneous: &'static str| {
            mood.or_else(|| (flaky && chance.percent(6)).then_some(spontaneous))
        };
        let after = |chance: &mut Chance| now + jiff::SignedDuration::from_millis(chance.between(100, 10_000));
        let failed = |reason: &str, stack: &str| {
            let message = format!("it failed with {reason}");
            RunState::Failed(Failure { reason: reason.to_owned(), message, stack: stack.to_owned(), retryable: true })
        };
        let state = match (&run.work, &run.state) {
            (Work::Init { stacks, .. }, RunState::Running(phase)) => {
                let stack = stacks.first().map(|stack| stack.name.clone()).unwrap_or_default();
                let mood = cloud.mood(&stack).init;
                let early = mood.filter(|reason| *reason != "InitializationFailed");
                match phase {
                    Phase::Installing if early.is_some() => failed(early.unwrap_or_default(), &stack),
                    Phase::Installing => {
                        run.due = after(chance);
                        RunState::Running(Phase::Initializing)
                    }
                    _ => fails(mood, chance, "InitializationFailed")
                        .map_or(RunState::Succeeded, |reason| failed(reason, &stack)),
                }
            }
            (Work::Operation(_), RunState::Running(Phase::Operating)) if chance.one_in(4) => {
                run.due = after(chance);
                RunState::Running(Phase::Finishing)
            }
            (Work::Operation(operation), _) => {
                let spontaneous = *chance.pick(&["UpdateFailed", "UpdateConflict", "Unknown"]);
                let drift = operation.kind == OperationKind::Refresh && chance.percent(20);
                let mood = cloud.mood(&operation.stack).operations.or(drift.then_some("UnexpectedChanges"));
                let locked = cloud.locked(&run.id).then_some("UpdateConflict");
                let reason = locked.or_else(|| fails(mood, chance, spontaneous));
                if operation.kind == OperationKind::Destroy && cloud.stacks.contains_key(&operation.stack) {
                    run.changes.insert("delete".to_owned(), 1);
                }
                let end = match reason {
                    None => End::Succeeded,
                    // What finds its stack locked does nothing.
                    Some(_) if locked.is_some() => End::Refused,
                    Some(_) => End::Failed,
                };
                cloud.end(&run.id, end, &leaves);
                reason.map_or(RunState::Succeeded, |reason| failed(reason, &operation.stack))
            }
            (Work::Init { .. }, ended) => ended.clone(),
        };
        run.state = state;
        let told = format!("agent of {workspace}: run {} is now {:?}", run.id, run.state);
        if matches!(run.state, RunState::Running(_)) {
            return Some(Ended { workspace: String::new(), run_id: String::new(), init: false, told });
        }
        run.end = Some(now);
        Some(Ended { workspace, run_id: run.id.clone(), init: matches!(run.work, Work::Init { .. }), told })
    }

    /// Ends the active run of a pod by force, or gracefully as far as the reason says.
    pub(super) fn kill(&mut self, pod: &str, reason: &str, cloud: &mut Cloud, now: Timestamp) {
        let Some(agent) = self.0.get_mut(pod) else { return };
        let leaves = agent.leaves();
        let Some(run) = agent.runs.iter_mut().find(|run| matches!(run.state, RunState::Running(_))) else { return };
        let message = "the run was interrupted".to_owned();
        run.state = RunState::Failed(Failure { reason: reason.to_owned(), message, ..Failure::default() });
        run.end = Some(now);
        if matches!(run.work, Work::Operation(_)) {
            cloud.end(&run.id, End::Killed, &leaves);
        }
    }

    /// Whether something runs, or the agent is not as it will be.
    pub(super) fn is_busy(&self, pod: &str, now: Timestamp) -> bool {
        let away = |agent: &Agent| [agent.silent_until, agent.refuses_until].iter().flatten().any(|until| now < *until);
        self.is_operating(pod) || self.0.get(pod).is_some_and(away)
    }

    /// When an agent answers again that does not.
    pub(super) fn next_answer(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self.0.values().flat_map(|agent| [agent.silent_until, agent.refuses_until]).flatten();
        until.filter(|until| *until > now).min()
    }

    pub(super) fn is_operating(&self, pod: &str) -> bool {
        self.0.get(pod).and_then(Agent::active).is_some()
    }
}

fn seen(run: &Run) -> RunSeen {
    let (message, outputs) = match &run.work {
        Work::Init { .. } => (String::new(), 0),
        Work::Operation(operation) => (
            operation.message.clone().unwrap_or_default(),
            u32::from(operation.kind == OperationKind::Up && run.state == RunState::Succeeded) * 2,
        ),
    };
    let done = run.end.is_some();
    RunSeen {
        run_id: run.id.clone(),
        state: run.state.clone(),
        start_time: Some(run.start),
        end_time: run.end,
        permalink: String::new(),
        project_info: (done && matches!(run.work, Work::Operation(_))).then(|| ProjectInfo {
            name: "project".to_owned(),
            runtime: "yaml".to_owned(),
            ..ProjectInfo::default()
        }),
        pulumi_version: PULUMI_VERSION.to_owned(),
        outputs,
        message,
        changes: run.changes.clone(),
        ..RunSeen::default()
    }
}

/// An initialisation to be run.
pub(super) fn init(init: &Init) -> Work {
    Work::Init { stacks: init.stacks.clone(), skip_install: init.skip_install }
}
