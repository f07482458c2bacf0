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
pub(super) fn ready(
    facts: &Facts,
    report: &mut Report,
    pod: &PodSeen,
    stacks_hash: &str,
    then: Then,
) -> Decision<Step> {
    let mut version = report.pulumi_version();
    if version.is_empty()
        && let Some(agent) = pod.agent()
        && let RunAnswer::Known(run) = facts.latest_run(&agent, &prefix(&agent, stacks_hash))?
    {
        version.clone_from(&run.pulumi_version);
    }
    let address = names::agent_address(&facts.key.name, &facts.key.namespace);
    Ok(report.ready(address, version, Vec::new(), Vec::new(), then))
}

/// Starts the run, follows it, reports its end, and tries again what may work later.
pub(super) fn run(facts: &Facts, report: &mut Report, pod: &PodSeen, stacks_hash: &str) -> Decision<Step> {
    let Some(agent) = pod.agent() else { return Ok(report.no_pod(None, SILENT)) };
    match facts.latest_run(&agent, &prefix(&agent, stacks_hash))? {
        RunAnswer::Silent { why } => Ok(silent(facts, report, pod, why)),
        RunAnswer::Refused { code, message } => {
            let event = events::workspace::connection_failure(message);
            Ok(report.not_ready_with(&Reason::reported(code), message, event, Then::Requeue(SILENT)))
        }
        RunAnswer::Unknown => Ok(start(report, agent, stacks_hash, 1)),
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

fn start(report: &mut Report, pod: PodRef, stacks_hash: &str, attempt: u32) -> Step {
    let spec = report.spec();
    let init = Init { stacks: spec.stacks.clone(), skip_install: spec.project_info.is_some() };
    let run_id = format!("{}{attempt}", prefix(&pod, stacks_hash));
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
    let attempt = attempt(&run.run_id);
    let period = if failure.retryable { backoff(attempt) } else { RARE_RETRY };
    let wait = period.saturating_sub(run.end_time.map_or(period, |end| elapsed(end, facts.now)));
    if failure.reason == INTERRUPTED || wait.is_zero() {
        return Ok(start(report, pod, stacks_hash, attempt + 1));
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

/// What the identifiers of all attempts in a pod to make the same stacks ready begin with.
fn prefix(pod: &PodRef, stacks_hash: &str) -> String {
    format!("init.{}.{stacks_hash}.", pod.uid)
}

fn attempt(run_id: &str) -> u32 {
    run_id.rsplit('.').next().and_then(|number| number.parse().ok()).unwrap_or(1)
}
