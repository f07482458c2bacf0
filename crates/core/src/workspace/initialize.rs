//! Makes a pod ready for operations, as a run of its agent: dependencies, stacks, configuration.

use std::time::Duration;

use pko_api::{
    events,
    messages::workspace as message,
    names,
    reasons::{Reason, workspace as reason},
};

use super::{missing, report::Report};
use crate::{
    ask::{Failure, Phase, RunAnswer, RunSeen, RunState},
    effect::{Effect, Init},
    facts::Facts,
    seen::{PodRef, PodSeen},
    step::{Decision, Step, Then},
    time::elapsed,
};

/// The end of a run wakes its Workspace; this is for a stream that broke.
const LOOK_AGAIN: Duration = Duration::from_mins(1);
/// An agent that has just been started is given this long to answer, and is asked again this soon at first.
const START_UP: Duration = Duration::from_secs(10);
const STARTING: Duration = Duration::from_millis(100);
/// How soon an agent that does not answer, or refuses us, is asked again.
const SILENT: Duration = Duration::from_secs(5);
/// When what failed is tried again: a registry or a backend may be back. Each further failure triples the wait.
const FIRST_RETRY: Duration = Duration::from_secs(10);
const LONGEST_RETRY: Duration = Duration::from_mins(5);
/// When that is tried again which will hardly pass by itself.
const RARE_RETRY: Duration = Duration::from_mins(30);

/// A run that ended with its container, whose next attempt need not wait.
const INTERRUPTED: &str = "Interrupted";

/// The pod was made ready before.
pub(super) fn ready(facts: &Facts, report: &mut Report, pod: &PodSeen, then: Then) -> Decision<Step> {
    let mut version = report.pulumi_version();
    if version.is_empty()
        && let Some(agent) = pod.agent()
        && let RunAnswer::Known(run) = facts.latest_run(&agent, &Attempt::prefix(&agent))?
    {
        version.clone_from(&run.pulumi_version);
    }
    let address = names::agent_address(&facts.key.name, &facts.key.namespace);
    Ok(report.ready(address, version, Vec::new(), Vec::new(), then))
}

/// Starts the run, follows it, reports its end, and tries again what may work later.
pub(super) fn run(facts: &Facts, report: &mut Report, pod: &PodSeen, stacks_hash: &str) -> Decision<Step> {
    let Some(agent) = pod.agent() else { return Ok(report.no_pod(None, SILENT)) };
    match facts.latest_run(&agent, &Attempt::prefix(&agent))? {
        RunAnswer::Silent { why } => Ok(silent(facts, report, pod, why)),
        RunAnswer::Refused { code, message } => {
            let event = events::workspace::connection_failure(message);
            Ok(report.not_ready_with(&Reason::reported(code), message, event, Then::Requeue(SILENT)))
        }
        RunAnswer::Unknown => Ok(start(report, agent, stacks_hash, Attempt::first())),
        // What made the pod ready for other stacks has undone what made it ready for these, if anything had.
        RunAnswer::Known(run)
            if !Attempt::is_for(&run.run_id, stacks_hash) && !matches!(run.state, RunState::Running(_)) =>
        {
            Ok(start(report, agent, stacks_hash, Attempt::of(&run.run_id).anew()))
        }
        RunAnswer::Known(run) => match &run.state {
            RunState::Running(Phase::Installing) => {
                let then = Then::Requeue(LOOK_AGAIN);
                Ok(report.not_ready(&reason::INSTALLING, message::INSTALLING, Vec::new(), then))
            }
            RunState::Running(_) => {
                let then = Then::Requeue(LOOK_AGAIN);
                Ok(report.not_ready(&reason::INITIALIZING, message::INITIALIZING, Vec::new(), then))
            }
            RunState::Succeeded => Ok(succeeded(facts, report, agent, stacks_hash, run)),
            RunState::Failed(failure) => failed(facts, report, (pod, agent), stacks_hash, run, failure),
        },
    }
}

fn silent(facts: &Facts, report: &mut Report, pod: &PodSeen, why: &str) -> Step {
    let up = pod.running_since.map(|since| elapsed(since, facts.now)).unwrap_or_default();
    if up < START_UP {
        return report.no_pod(None, STARTING.max(up / 4));
    }
    let event = events::workspace::connection_failure(why);
    report.not_ready_with(&reason::CONNECTION_FAILED, why, event, Then::Requeue(SILENT))
}

fn start(report: &mut Report, pod: PodRef, stacks_hash: &str, attempt: Attempt) -> Step {
    let spec = report.spec();
    let init = Init { stacks: spec.stacks.clone(), skip_install: spec.project_info.is_some() };
    let run_id = attempt.run_id(&pod, stacks_hash);
    let effects = vec![Effect::StartInit { pod, run_id, init }];
    report.not_ready(&reason::INSTALLING, message::INSTALLING, effects, Then::Requeue(LOOK_AGAIN))
}

fn succeeded(facts: &Facts, report: &mut Report, pod: PodRef, stacks_hash: &str, run: &RunSeen) -> Step {
    let event = events::workspace::initialized(&pod.name);
    let address = names::agent_address(&facts.key.name, &facts.key.namespace);
    let mark = Effect::MarkInitialized { pod, stacks_hash: stacks_hash.to_owned() };
    report.ready(address, run.pulumi_version.clone(), vec![mark], vec![event], Then::AwaitChange)
}

fn failed(
    facts: &Facts,
    report: &mut Report,
    (seen, pod): (&PodSeen, PodRef),
    stacks_hash: &str,
    run: &RunSeen,
    failure: &Failure,
) -> Decision<Step> {
    let attempt = Attempt::of(&run.run_id);
    let period = if failure.retryable { backoff(attempt.number) } else { RARE_RETRY };
    let wait = period.saturating_sub(run.end_time.map_or(period, |end| elapsed(end, facts.now)));
    if failure.reason == INTERRUPTED || wait.is_zero() {
        return Ok(start(report, pod, stacks_hash, attempt.next()));
    }
    if missing::outlived(facts, report.spec(), seen)? && facts.runs_in(&facts.key.name)?.is_empty() {
        // What has changed reaches a pod's environment only when it starts.
        return Ok(report.rolling("", vec![Effect::DeletePod { pod }], LOOK_AGAIN));
    }
    let (why, event) = if failure.reason == reason::INCOMPATIBLE_CONFIGURATION.as_str() {
        (reason::INCOMPATIBLE_CONFIGURATION, events::workspace::version_too_old(&run.pulumi_version))
    } else if failure.reason == reason::INSTALLATION_FAILED.as_str() {
        (reason::INSTALLATION_FAILED, events::workspace::installation_failure(&failure.message))
    } else {
        let event = events::workspace::stack_initialization_failure(&failure.stack, &failure.message);
        (reason::INITIALIZATION_FAILED, event)
    };
    Ok(report.stalled(&why, &failure.message, Some(event), Then::Requeue(wait)))
}

fn backoff(attempt: u32) -> Duration {
    FIRST_RETRY.saturating_mul(3_u32.saturating_pow(attempt.saturating_sub(1))).min(LONGEST_RETRY)
}

/// Which attempt it is to make a pod ready: how often the pod was to be made ready for other stacks than before, and the
/// number of tries since then. The stacks may be the same again that they once were, so they alone do not tell.
#[derive(Clone, Copy)]
struct Attempt {
    turn: u32,
    number: u32,
}

impl Attempt {
    const fn first() -> Self {
        Self { turn: 1, number: 1 }
    }

    const fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }

    const fn anew(self) -> Self {
        Self { turn: self.turn + 1, number: 1 }
    }

    fn of(run_id: &str) -> Self {
        let mut numbers = run_id.rsplit('.').map(|part| part.parse().unwrap_or(1));
        let mut number = || numbers.next().unwrap_or(1);
        let (number, turn) = (number(), number());
        Self { turn, number }
    }

    /// What the identifiers of all attempts in a pod begin with.
    fn prefix(pod: &PodRef) -> String {
        format!("init.{}.", pod.uid)
    }

    fn run_id(self, pod: &PodRef, stacks_hash: &str) -> String {
        format!("{}{stacks_hash}.{}.{}", Self::prefix(pod), self.turn, self.number)
    }

    fn is_for(run_id: &str, stacks_hash: &str) -> bool {
        run_id.rsplit('.').nth(2) == Some(stacks_hash)
    }
}
