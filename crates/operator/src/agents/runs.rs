//! What agents say about runs, in the core's words.

use jiff::Timestamp;
use pko_api::ProjectInfo;
use pko_core::ask::{Failure, Phase, Progress, RunAnswer, RunSeen, RunState};
use pko_proto::runs::{self, Run};
use tonic::{Code, Status};

use crate::cluster::innermost;

/// Longest text that is taken from an agent.
pub(super) const LONGEST_TEXT: usize = 4096;
const OTHER_VERSION: &str =
    "the agent in this pod has neither runs nor PKO's calls; it is of another operator version and will be renewed";

/// An answer, a refusal, or silence.
pub(super) fn answer(answer: Result<Option<Run>, Status>) -> RunAnswer {
    match answer {
        Ok(Some(run)) => RunAnswer::Known(Box::new(seen(run))),
        Ok(None) => RunAnswer::Unknown,
        Err(status) => match status.code() {
            Code::NotFound => RunAnswer::Unknown,
            Code::Unimplemented => RunAnswer::Refused { code: name(status.code()), message: OTHER_VERSION.to_owned() },
            Code::Unauthenticated | Code::PermissionDenied => {
                RunAnswer::Refused { code: name(status.code()), message: why(&status) }
            }
            _ => RunAnswer::Silent { why: why(&status) },
        },
    }
}

/// The run of the latest attempt, by the numbers that its identifier ends with.
pub(super) fn latest(runs: Vec<Run>, prefix: &str) -> Option<Run> {
    let attempt = |run: &Run| attempt(&run.run_id, prefix);
    runs.into_iter().filter(|run| attempt(run).is_some()).max_by_key(attempt)
}

/// The turn and the number of an attempt, which come after what it was for.
pub(super) fn attempt(run_id: &str, prefix: &str) -> Option<(u32, u32)> {
    let mut numbers = run_id.strip_prefix(prefix)?.rsplit('.').map(|part| part.parse().ok());
    let number = numbers.next()??;
    Some((numbers.next().flatten().unwrap_or_default(), number))
}

/// As in conditions: `Unauthenticated`, `PermissionDenied`.
fn name(code: Code) -> String {
    format!("{code:?}")
}

/// The reason behind a status, cut where it would flood a condition.
pub(super) fn why(status: &Status) -> String {
    let text = match std::error::Error::source(status) {
        Some(source) => innermost(source),
        None => status.message().to_owned(),
    };
    let text = if text.is_empty() { name(status.code()) } else { text };
    shortened(text)
}

pub(super) fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_TEXT {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('…');
    }
    text
}

fn seen(run: Run) -> RunSeen {
    let state = match run.state() {
        runs::State::Succeeded => RunState::Succeeded,
        runs::State::Failed => RunState::Failed(failure(run.failure.clone().unwrap_or_default())),
        // A state of a later version is no end.
        runs::State::Running | runs::State::Unspecified => RunState::Running(phase(run.phase())),
    };
    let named = |text: String| Some(text).filter(|text| !text.is_empty());
    let (backend, stack_config_dir) = (named(run.project_backend), named(run.project_stack_config_dir));
    RunSeen {
        state,
        start_time: run.start_time.as_ref().and_then(timestamp),
        end_time: run.end_time.as_ref().and_then(timestamp),
        permalink: run.permalink,
        project_info: run.project_info.map(|info| ProjectInfo {
            name: info.name,
            runtime: info.runtime,
            backend,
            stack_config_dir,
        }),
        pulumi_version: run.pulumi_version,
        outputs: u32::try_from(run.output_count).unwrap_or_default(),
        message: shortened(run.message),
        progress: run.progress.map(progress).unwrap_or_default(),
        changes: run.resource_changes.into_iter().collect(),
        standard_output: shortened(run.standard_output),
        expected_outputs: serde_json::from_str(&run.outputs_json).unwrap_or_default(),
        run_id: run.run_id,
    }
}

fn failure(failure: runs::Failure) -> Failure {
    Failure {
        reason: failure.reason,
        message: shortened(failure.message),
        stack: failure.stack_name,
        retryable: failure.retryable,
    }
}

pub(super) fn progress(progress: runs::Progress) -> Progress {
    Progress { begun: progress.started, done: progress.done, current: shortened(progress.current) }
}

fn phase(phase: runs::Phase) -> Phase {
    match phase {
        runs::Phase::Installing => Phase::Installing,
        runs::Phase::Initializing => Phase::Initializing,
        runs::Phase::Finishing => Phase::Finishing,
        runs::Phase::Operating | runs::Phase::Unspecified => Phase::Operating,
    }
}

pub(super) fn timestamp(time: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(time.seconds, time.nanos).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn run(run_id: &str) -> Run {
        Run { run_id: run_id.to_owned(), state: runs::State::Running.into(), ..Run::default() }
    }

    #[rstest]
    #[case::no_such_run(Code::NotFound, RunAnswer::Unknown)]
    #[case::a_wrong_token(
        Code::Unauthenticated,
        RunAnswer::Refused { code: "Unauthenticated".to_owned(), message: "why".to_owned() }
    )]
    #[case::no_permission(
        Code::PermissionDenied,
        RunAnswer::Refused { code: "PermissionDenied".to_owned(), message: "why".to_owned() }
    )]
    #[case::another_version(
        Code::Unimplemented,
        RunAnswer::Refused { code: "Unimplemented".to_owned(), message: OTHER_VERSION.to_owned() }
    )]
    #[case::no_connection(Code::Unavailable, RunAnswer::Silent { why: "why".to_owned() })]
    #[case::too_late(Code::DeadlineExceeded, RunAnswer::Silent { why: "why".to_owned() })]
    #[case::a_bug(Code::Internal, RunAnswer::Silent { why: "why".to_owned() })]
    fn a_refusal_means(#[case] code: Code, #[case] expected: RunAnswer) {
        assert_eq!(answer(Err(Status::new(code, "why"))), expected);
    }

    #[test]
    fn the_latest_attempt_is_the_highest_and_not_the_last_by_spelling() {
        let runs = ["init.a.9", "init.a.10", "init.b.11", "init.a.x", "other"].map(run).to_vec();
        assert_eq!(latest(runs, "init.a.").unwrap().run_id, "init.a.10");
        let runs = ["init.a.h.1.1", "init.a.g.2.9", "init.a.g.2.10", "init.a.h.10.1", "init.b.h.11.1"].map(run);
        assert_eq!(latest(runs.to_vec(), "init.a.").unwrap().run_id, "init.a.h.10.1");
        assert_eq!(latest(vec![run("other")], "init.a."), None);
    }

    #[test]
    fn a_state_of_a_later_version_is_no_end() {
        let RunAnswer::Known(seen) = answer(Ok(Some(Run { state: 99, ..run("a") }))) else { panic!() };
        assert_eq!(seen.state, RunState::Running(Phase::Operating));
    }

    #[test]
    fn floods_are_cut_between_characters() {
        let text = shortened("é".repeat(LONGEST_TEXT));
        assert_eq!(text.chars().count(), LONGEST_TEXT / 2 + 1);
    }
}
