//! Texts quoted as Go's `%q` does, because messages that scripts match on contain them.

use std::fmt::Write as _;

/// The text in double quotes, with control and unprintable characters escaped.
pub fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        push_escaped(&mut quoted, character);
    }
    quoted.push('"');
    quoted
}

fn push_escaped(quoted: &mut String, character: char) {
    let code = u32::from(character);
    let short = match character {
        '"' => Some("\\\""),
        '\\' => Some("\\\\"),
        '\u{7}' => Some("\\a"),
        '\u{8}' => Some("\\b"),
        '\u{c}' => Some("\\f"),
        '\n' => Some("\\n"),
        '\r' => Some("\\r"),
        '\t' => Some("\\t"),
        '\u{b}' => Some("\\v"),
        _ => None,
    };
    // Writing to a String cannot fail.
    let _ = match short {
        Some(escape) => quoted.write_str(escape),
        None if printable(character) => quoted.write_char(character),
        None if code < 0x80 => write!(quoted, "\\x{code:02x}"),
        None if code < 0x1_0000 => write!(quoted, "\\u{code:04x}"),
        None => write!(quoted, "\\U{code:08x}"),
    };
}

/// Rust's notion of what needs no escape, which is Go's but for rare characters of new scripts.
fn printable(character: char) -> bool {
    // Behind a letter, so that a combining mark has something to combine with.
    character == '\'' || String::from_iter(['a', character]).escape_debug().count() == 2
}
