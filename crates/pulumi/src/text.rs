//! Text of the CLI for people: without colours, and short enough for a status.

/// A failure text fits into a status and into a header.
pub(crate) const LIMIT: usize = 4 * 1024;

/// The end of a text that is too long for a status: the last words tell most.
pub fn shorten(text: &str) -> String {
    cut(text, LIMIT)
}

pub(crate) fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("…{}", &text[text.ceil_char_boundary(text.len() - limit)..])
}

/// What was printed, without anything that is for terminals, and without its middle if it is longer than a status holds.
pub(crate) fn excerpt(printed: &str) -> String {
    const GAP: &str = "\n…\n";
    let shown = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    let text: String = plain(printed).chars().filter(shown).collect();
    if text.len() <= LIMIT {
        return text;
    }
    let half = (LIMIT - GAP.len()) / 2;
    let (from, to) = (text.floor_char_boundary(half), text.ceil_char_boundary(text.len() - half));
    [&text[..from], GAP, &text[to..]].concat()
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
        } else if let Some(command) = tail.strip_prefix("\u{1b}]") {
            // Titles and links end with a bell or with a sequence of their own.
            let ends = ["\u{7}", "\u{1b}\\"].map(|end| command.find(end).map(|at| at + 2 + end.len()));
            ends.into_iter().flatten().min()
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
    fn a_text_is_never_long() {
        let text = shorten(&format!("{}the end", "é".repeat(5000)));
        assert!(text.len() <= LIMIT + 3 && text.starts_with('…') && text.ends_with("the end"));
    }

    #[test]
    fn text_with_angle_brackets_stays() {
        assert_eq!(plain("a < b <c> <{%reset%}>\u{1b}[0m\u{1b}"), "a < b <c> \u{1b}");
    }

    #[test]
    fn links_and_titles_of_terminals_leave_their_text() {
        assert_eq!(plain("\u{1b}]0;title\u{7}see \u{1b}]8;;https://x\u{1b}\\here\u{1b}]8;;\u{1b}\\"), "see here");
    }

    #[test]
    fn a_long_text_loses_its_middle_and_everything_for_terminals() {
        let text = excerpt(&format!("\u{1b}[1mbegin\u{8}\r\n\t{}the end\n", "é".repeat(5000)));
        assert!(text.len() <= LIMIT && text.len() > LIMIT - 8, "{}", text.len());
        assert!(text.starts_with("begin\n\té") && text.ends_with("éthe end") && text.contains("é\n…\né"));
        assert_eq!(excerpt("as it is\n"), "as it is");
    }
}
