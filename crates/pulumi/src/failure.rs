//! What went wrong, in a word that programs understand and in a few KiB that people do.

use crate::Ended;

/// A failure text fits into a status and into a header.
const LIMIT: usize = 4 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Another update of the stack is going on, or has left its lock.
    Conflict,
    InvalidAccessToken,
    StackNotFound,
    Canceled,
    Other,
}

/// The first class whose words are in the text; these are the CLI's words since long ago.
pub fn classify(text: &str) -> Class {
    let has = |words: &str| text.contains(words);
    let stack_not_found =
        || text.lines().any(|l| l.split_once("no stack named").is_some_and(|(_, rest)| rest.contains("found")));
    if has("Conflict: Another update is currently in progress") || has("the stack is currently locked by") {
        Class::Conflict
    } else if has("invalid access token") {
        Class::InvalidAccessToken
    } else if stack_not_found() {
        Class::StackNotFound
    } else if ["update", "preview", "refresh", "destroy"].iter().any(|w| has(&format!("error: {w} canceled"))) {
        Class::Canceled
    } else {
        Class::Other
    }
}

/// Why a call failed: its error messages, else what it printed last, else how it ended. Never empty.
pub fn describe<'a>(what: &str, errors: impl Iterator<Item = &'a str>, ended: &Ended) -> String {
    // The engine ends with a message of its own that says nothing once there are others.
    let generic = ["update failed", "preview failed", "refresh failed", "destroy failed"];
    let all: Vec<&str> = errors.collect();
    let telling: Vec<&str> = all.iter().copied().filter(|e| !generic.contains(&e.trim())).collect();
    if !telling.is_empty() {
        return shorten(&telling.join("\n"));
    }
    let stderr: Vec<&str> =
        ended.stderr.lines().filter(|l| !l.trim().is_empty() && !l.starts_with("warning: ")).collect();
    for printed in [stderr.join("\n").as_str(), ended.stdout.trim(), ended.stderr.trim()] {
        let text = plain(printed);
        if !text.is_empty() && !generic.contains(&text.trim_start_matches("error: ")) {
            return shorten(&format!("{what}: {}\n{text}", ended.how()));
        }
    }
    format!("{what} failed without saying why: {}", ended.how())
}

/// The end of a text that is too long for a status: the last words tell most.
pub fn shorten(text: &str) -> String {
    if text.len() <= LIMIT {
        return text.to_owned();
    }
    let mut from = text.len() - LIMIT;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    format!("…{}", &text[from..])
}

/// Text without colours: neither terminal sequences nor the engine's own directives.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\u{1b}', '<']) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        let end = if let Some(sequence) = tail.strip_prefix("\u{1b}[") {
            sequence.find(|c: char| c.is_ascii_alphabetic()).map(|e| e + 3)
        } else if tail.starts_with("<{%") {
            tail.find("%}>").map(|e| e + 3)
        } else {
            None
        };
        if end.is_none() {
            out.push_str(&tail[..1]);
        }
        rest = &tail[end.unwrap_or(1)..];
    }
    out.push_str(rest);
    out.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_classed_by_the_words_of_the_cli() {
        for (text, class) in [
            ("error: [409] Conflict: Another update is currently in progress.", Class::Conflict),
            ("error: the stack is currently locked by 1 lock(s). Either wait", Class::Conflict),
            ("error: getting secrets manager: invalid access token", Class::InvalidAccessToken),
            ("error: no stack named 'dev' found", Class::StackNotFound),
            ("error: update canceled", Class::Canceled),
            ("error: no such host", Class::Other),
        ] {
            assert_eq!(classify(text), class, "{text}");
        }
    }

    #[test]
    fn the_engines_own_words_come_last() {
        let ended = Ended { code: Some(1), stderr: "error: update failed\n".into(), ..Ended::default() };
        let text = describe("pulumi up", ["a (b): no zone", "update failed"].into_iter(), &ended);
        assert_eq!(text, "a (b): no zone");
        let text = describe("pulumi up", ["update failed"].into_iter(), &ended);
        assert_eq!(text, "pulumi up failed without saying why: exit status 1");
    }

    #[test]
    fn without_diagnostics_the_last_words_are_taken() {
        let ended = Ended {
            code: Some(255),
            stdout: "Updating\n".into(),
            stderr: "warning: old\n\u{1b}[31merror:\u{1b}[0m no backend\n".into(),
            ..Ended::default()
        };
        assert_eq!(describe("pulumi up", [].into_iter(), &ended), "pulumi up: exit status 255\nerror: no backend");
    }

    #[test]
    fn a_text_is_never_empty_and_never_long() {
        let killed = Ended { signal: Some(9), ..Ended::default() };
        assert_eq!(
            describe("pulumi up", [].into_iter(), &killed),
            "pulumi up failed without saying why: killed by signal 9, perhaps for lack of memory"
        );
        let long = format!("{}the end", "é".repeat(5000));
        let text = shorten(&long);
        assert!(text.len() <= LIMIT + 3 && text.starts_with('…') && text.ends_with("the end"));
    }

    #[test]
    fn text_with_angle_brackets_stays() {
        assert_eq!(plain("a < b <c> <{%reset%}>\u{1b}[0m\u{1b}"), "a < b <c> \u{1b}");
    }
}
