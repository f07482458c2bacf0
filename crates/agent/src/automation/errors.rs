//! Failures as PKO's operator reads them: a text that names the exit status, and for some kinds a first detail.

use pko_proto::{agent::PulumiErrorInfo, error_details};
use pko_pulumi::{Cannot, Class, Ended};
use tonic::{Code, Status, codegen::Bytes};

use crate::login::NoToken;

/// Line breaks take three bytes in a header, which PKO's client may limit to 8 KiB one day.
const LIMIT: usize = 2 * 1024;

/// A failed call in the words of Pulumi's Automation API, the errors first and each part no longer than its end.
pub(super) fn auto_error(what: &str, ended: &Ended, errors: &str) -> String {
    let code = ended.code.unwrap_or(if ended.signal.is_some() { -1 } else { -2 });
    let errors = if errors.is_empty() { String::new() } else { format!("\n{}", tail(errors)) };
    format!(
        "{what}: {}\ncode: {code}{errors}\nstderr: {}\nstdout: {}\n",
        ended.how(),
        tail(ended.stderr.trim_end()),
        tail(ended.stdout.trim_end())
    )
}

pub(super) fn cannot(what: &str, error: &Cannot) -> Status {
    Status::unknown(format!("{what} failed: {error}"))
}

pub(super) fn no_token(what: &str, error: &NoToken) -> Status {
    let class = if matches!(error, NoToken::Unreachable { .. }) { Class::Other } else { Class::InvalidAccessToken };
    known_kind(format!("{what} failed: {error}"), class)
}

/// Unknown, with a detail if the kind of failure has one.
pub(super) fn known_kind(text: String, class: Class) -> Status {
    let info = match class {
        Class::Conflict => PulumiErrorInfo {
            code: 409,
            reason: "UpdateConflict".to_owned(),
            message: "Another update is currently in progress".to_owned(),
        },
        Class::InvalidAccessToken => PulumiErrorInfo {
            code: 401,
            reason: "InvalidAccessToken".to_owned(),
            message: "Invalid access token used to authenticate with Pulumi Cloud".to_owned(),
        },
        _ => return Status::unknown(text),
    };
    Status::with_details(Code::Unknown, text, Bytes::from(error_details(&info)))
}

fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(LIMIT / 2);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

#[cfg(test)]
mod tests {
    use pko_proto::error_info;

    use super::*;

    #[test]
    fn a_failed_call_is_told_as_pulumis_automation_api_tells_it() {
        let ended =
            Ended { code: Some(255), stdout: "Updating\n".into(), stderr: "error: x\n".into(), ..Ended::default() };
        assert_eq!(
            auto_error("up failed: failed to run update", &ended, ""),
            "up failed: failed to run update: exit status 255\ncode: 255\nstderr: error: x\nstdout: Updating\n"
        );
        let long = Ended { stdout: "é".repeat(100_000), ..ended };
        assert!(auto_error("up", &long, &"e".repeat(100_000)).len() < 4096);
    }

    #[test]
    fn a_conflict_has_its_detail_first() {
        let status = known_kind("text".to_owned(), Class::Conflict);
        let info = error_info(status.details()).unwrap();
        assert_eq!((info.code, info.reason.as_str()), (409, "UpdateConflict"));
        assert!(known_kind("text".to_owned(), Class::Other).details().is_empty());
    }
}
