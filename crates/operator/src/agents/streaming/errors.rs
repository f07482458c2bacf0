//! What PKO's agent answers when something went wrong, as the failure of a run.

use pko_api::reasons::update as reason;
use pko_core::ask::Failure;
use pko_proto::agent::PulumiErrorInfo;
use tonic::{Code, Status};

use crate::agents::runs::{LONGEST_TEXT, why};

/// As agents with Runs say it: the run was cut off, which says nothing about the Stack.
const INTERRUPTED: &str = "Interrupted";
/// How much of the beginning of a long text is kept. The CLI says at its end what is wrong.
const BEGINNING: usize = 1024;

/// A failed operation: its text, or the detail that says more.
pub(super) fn of_operation(status: &Status) -> Failure {
    classified(status).unwrap_or_else(|| failure(reason::UNKNOWN.as_str(), status.message()))
}

/// A step of making a workspace ready that failed, as PKO shows it: in the words of its gRPC library.
pub(super) fn of_init(status: &Status, reason: &str) -> Failure {
    let text = || format!("rpc error: code = {} desc = {}", gos_name(status.code()), status.message());
    classified(status).unwrap_or_else(|| failure(reason, &text()))
}

pub(super) fn failure(reason: &str, message: &str) -> Failure {
    Failure {
        reason: reason.to_owned(),
        message: shortened(message),
        stack: String::new(),
        retryable: reason != reason::INVALID_ACCESS_TOKEN.as_str(),
    }
}

pub(super) fn final_failure(reason: &str, message: &str) -> Failure {
    Failure { retryable: false, ..failure(reason, message) }
}

pub(super) fn canceled() -> Failure {
    final_failure(reason::CANCELED.as_str(), "the run was canceled")
}

/// Whether the CLI may have been left running in the pod, for its agent to end it.
pub(super) fn leaves_cli_behind(failure: &Failure) -> bool {
    failure.reason == INTERRUPTED || failure.reason == reason::CANCELED.as_str()
}

fn classified(status: &Status) -> Option<Failure> {
    if broke(status) {
        let text = format!("contact with the agent was lost: {}", why(status));
        return Some(failure(INTERRUPTED, &text));
    }
    let info = pko_proto::error_info(status.details()).filter(|info| !info.reason.is_empty())?;
    let PulumiErrorInfo { reason, message, .. } = info;
    Some(failure(&reason, &message))
}

/// Whether an answer got lost. What an agent answers has no source on our side.
fn broke(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
        || matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded)
}

fn gos_name(code: Code) -> String {
    match code {
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    }
}

/// The beginning and the end of a text that is too long for a status.
pub(super) fn shortened(text: &str) -> String {
    if text.len() <= LONGEST_TEXT {
        return text.to_owned();
    }
    let beginning = &text[..text.floor_char_boundary(BEGINNING)];
    let end = &text[text.ceil_char_boundary(text.len() - (LONGEST_TEXT - BEGINNING - "\n…\n".len()))..];
    format!("{beginning}\n…\n{end}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_pod_is_gone(Code::Unavailable, "Interrupted", "contact with the agent was lost: why")]
    #[case::the_cli_failed(Code::Unknown, "Unknown", "why")]
    #[case::no_stack_is_selected(Code::FailedPrecondition, "Unknown", "why")]
    fn a_failed_operation_is(#[case] code: Code, #[case] reason: &str, #[case] message: &str) {
        let failure = of_operation(&Status::new(code, "why"));
        assert_eq!((failure.reason.as_str(), failure.message.as_str(), failure.retryable), (reason, message, true));
    }

    #[test]
    fn a_detail_says_more_than_the_text() {
        let info = PulumiErrorInfo { code: 401, reason: "InvalidAccessToken".to_owned(), message: "no".to_owned() };
        let details = pko_proto::error_details(&info);
        let failure = of_operation(&Status::with_details(Code::Unknown, "up failed: …", details.into()));
        assert_eq!((failure.reason.as_str(), failure.message.as_str()), ("InvalidAccessToken", "no"));
        assert!(!failure.retryable, "nothing changes by itself");
        let garbage = of_operation(&Status::with_details(Code::Unknown, "text", vec![0xff, 1, 2].into()));
        assert_eq!((garbage.reason.as_str(), garbage.message.as_str()), ("Unknown", "text"));
    }

    #[test]
    fn a_failed_step_is_told_in_the_words_of_pkos_library() {
        let failure = of_init(&Status::aborted("could not install dependencies"), "InstallationFailed");
        assert_eq!(failure.reason, "InstallationFailed");
        assert_eq!(failure.message, "rpc error: code = Aborted desc = could not install dependencies");
    }

    #[test]
    fn of_a_long_text_the_beginning_and_the_end_are_kept() {
        let text = format!("up failed{}error: the bucket exists", "é".repeat(LONGEST_TEXT));
        let short = shortened(&text);
        assert!(short.len() <= LONGEST_TEXT && short.len() > LONGEST_TEXT - 8, "{}", short.len());
        assert!(short.starts_with("up failed") && short.ends_with("error: the bucket exists"));
    }
}
