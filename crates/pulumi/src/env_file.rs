//! The file in which a user's init containers leave variables for the CLI: the dotenv dialect of PKO.

use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct BadEnvFile {
    pub line: usize,
    pub problem: &'static str,
}

/// Linux takes no longer variable. Each may name others twice, so that without an end a few lines fill the memory.
const LONGEST: usize = 128 * 1024;

/// The variables in the order of the file. A later one of the same name wins where they are used.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, BadEnvFile> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut found: Vec<(String, String)> = Vec::new();
    let mut known: HashMap<String, String> = HashMap::new();
    let mut rest = text.as_str();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(found);
        }
        let before = text.len() - rest.len();
        let bad = |problem| BadEnvFile { line: text[..before].matches('\n').count() + 1, problem };
        if rest.starts_with('#') {
            rest = rest.split_once('\n').map_or("", |(_, after)| after);
            continue;
        }
        let assignment = rest.strip_prefix("export").filter(|r| r.starts_with([' ', '\t'])).unwrap_or(rest);
        let end = assignment.find(['=', ':', '\n']).ok_or_else(|| bad("neither = nor : after the name"))?;
        if assignment[end..].starts_with('\n') {
            return Err(bad("neither = nor : after the name"));
        }
        let name = assignment[..end].trim();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') {
            return Err(bad("a name has letters, digits, _ and . only"));
        }
        let after = assignment[end + 1..].trim_start_matches([' ', '\t']);
        let (value, remaining) = value(after, &known).ok_or_else(|| bad("a quote is not closed"))?;
        if value.len() > LONGEST {
            return Err(bad("a value is longer than 128 KiB"));
        }
        known.insert(name.to_owned(), value.clone());
        found.push((name.to_owned(), value));
        rest = remaining;
    }
}

fn value<'a>(text: &'a str, known: &HashMap<String, String>) -> Option<(String, &'a str)> {
    let Some(quote @ ('\'' | '"')) = text.chars().next() else {
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        return Some((expand(without_comment(line).trim(), known), rest));
    };
    let inner = &text[1..];
    let mut escaped = false;
    let end = inner.find(|c| {
        let closes = c == quote && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    })?;
    let (inner, rest) = (&inner[..end], &inner[end + 1..]);
    // What follows the closing quote is ignored up to the end of the line.
    let rest = rest.split_once('\n').map_or("", |(_, after)| after);
    Some((if quote == '"' { expand(&unescape(inner), known) } else { inner.to_owned() }, rest))
}

fn without_comment(line: &str) -> &str {
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if c == '#' && before.is_whitespace() {
            return &line[..at];
        }
        before = c;
    }
    line
}

/// An escaped dollar keeps its backslash, for `expand` to see.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some('$') => out.push_str("\\$"),
                Some(other) => out.push(other),
                None => out.push('\\'),
            },
            (c, _) => out.push(c),
        }
    }
    out
}

/// `$NAME` and `${NAME}` of variables before this one; an unknown one is empty.
fn expand(text: &str, known: &HashMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['$', '\\']) {
        out.push_str(&rest[..at]);
        let tail = &rest[at..];
        if let Some(after) = tail.strip_prefix("\\$") {
            out.push('$');
            rest = after;
            continue;
        }
        let (name, after) = variable(tail);
        if name.is_empty() {
            out.push_str(&tail[..1]);
        } else {
            out.push_str(known.get(name).map_or("", String::as_str));
        }
        if out.len() > LONGEST {
            return out;
        }
        rest = after;
    }
    out + rest
}

fn variable(tail: &str) -> (&str, &str) {
    let skip = || ("", &tail[1..]);
    let Some(after) = tail.strip_prefix('$') else { return skip() };
    let braced = after.strip_prefix('{');
    let body = braced.unwrap_or(after);
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let end = body.find(|c| !is_name(c)).unwrap_or(body.len());
    if end == 0 {
        return skip();
    }
    match (braced, body[end..].strip_prefix('}')) {
        (Some(_), Some(rest)) => (&body[..end], rest),
        (Some(_), None) => skip(),
        (None, _) => (&body[..end], &body[end..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> String {
        parse(text).unwrap().pop().unwrap().1
    }

    #[test]
    fn the_dialect_is_read() {
        for (text, value) in [
            ("A=b", "b"),
            ("export A=b", "b"),
            ("A: b", "b"),
            ("A = b # comment", "b"),
            ("A=b#c", "b#c"),
            ("A=", ""),
            ("A='b # $C \\n'", "b # $C \\n"),
            ("A=\"b\\n\\\"c\\\"\"", "b\n\"c\""),
            ("A=\"two\nlines\"", "two\nlines"),
            ("B=x\r\nA=\"${B}y$B\"\r\n", "xyx"),
            ("B=x\nA=$B-$UNKNOWN.", "x-."),
            ("A=\"\\$B\"", "$B"),
            ("A=\\$B", "$B"),
            ("A=5$", "5$"),
            ("A=\"b\" # after", "b"),
        ] {
            assert_eq!(one(text), value, "{text}");
        }
    }

    #[test]
    fn comments_and_empty_lines_are_skipped_and_order_is_kept() {
        let names: Vec<String> = parse("# x\n\nB=1\n  # y\nA.b=2\n").unwrap().into_iter().map(|v| v.0).collect();
        assert_eq!(names, ["B", "A.b"]);
    }

    #[test]
    fn an_error_names_its_line() {
        assert_eq!(parse("A=1\nB=\"x\n").unwrap_err().to_string(), "line 2: a quote is not closed");
        assert_eq!(parse("A=1\n\nnothing\n").unwrap_err().to_string(), "line 3: neither = nor : after the name");
        assert!(parse("A B=1").is_err());
        let doubled: Vec<String> = (0..40).map(|n| format!("V{}=$V{n}$V{n}", n + 1)).collect();
        assert_eq!(
            parse(&format!("V0=x\n{}", doubled.join("\n"))).unwrap_err().problem,
            "a value is longer than 128 KiB"
        );
    }
}
