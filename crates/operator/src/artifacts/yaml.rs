//! JSON as block YAML. Our own, since the digest of an artifact must not change with the version of a library, and since
//! it has to read the same to every YAML parser: strings are always quoted.

use std::fmt::Write as _;

use serde_json::Value;

/// A document.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(_) | Value::Array(_) => block(&mut text, value, 0),
        scalar => inline(&mut text, scalar),
    }
    text
}

/// The lines of a value that is not written behind its key.
fn block(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                indent(text, depth);
                key(text, name);
                text.push(':');
                behind(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(text, depth);
                text.push('-');
                behind(text, item, depth);
            }
        }
        scalar => {
            indent(text, depth);
            inline(text, scalar);
        }
    }
}

/// A value behind its key or dash: on the same line if it is short, else below.
fn behind(text: &mut String, value: &Value, depth: usize) {
    let below = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if below {
        text.push('\n');
        block(text, value, depth + 1);
    } else {
        text.push(' ');
        inline(text, value);
    }
}

/// Scalars, `[]` and `{}`, as JSON writes them, to the end of the line.
fn inline(text: &mut String, value: &Value) {
    for c in value.to_string().chars() {
        match c {
            // Where JSON is not YAML: what is not printable, and what some take for the end of a line.
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text.push('\n');
}

fn indent(text: &mut String, depth: usize) {
    for _ in 0..depth {
        text.push_str("  ");
    }
}

/// Plain where no parser can take it for anything but a word.
fn key(text: &mut String, name: &str) {
    const WORDS: &[&str] = &["true", "false", "null", "yes", "no", "on", "off"];
    let mut letters = name.chars();
    let plain = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && name.len() > 1
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        && !WORDS.contains(&name.to_ascii_lowercase().as_str());
    if plain {
        text.push_str(name);
    } else {
        inline(text, &Value::from(name));
        text.pop();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_reads_as_what_it_was_made_from() {
        let value = json!({
            "name": "web",
            "yes": true,
            "y": null,
            "12": [1, -2.5, 1e21, "012", "1_000", "2001-01-01", "0x1f", "~", "null", ""],
            "${a}": {"empty": {}, "none": [], "nested": [[1, 2], [], [{"a": "b", "c": ["d"]}]]},
            "text": "one\ntwo: # \"three\"\ttab \\ \u{1f600} \u{85} \u{2028} \u{7f}",
            "a: b\u{7f}": "- c",
            "merge": {"<<": "x"},
        });
        let text = document(&value);
        let read: Value = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(read, value, "{text}");
    }

    #[test]
    fn a_document_is_block_style_and_sorted() {
        let value = json!({"runtime": "yaml", "name": "a", "resources": {"b": {"type": "x:Y", "options": {"p": [1]}}}});
        let expected = "name: \"a\"\nresources:\n  \"b\":\n    options:\n      \"p\":\n        - 1\n    type: \"x:Y\"\nruntime: \"yaml\"\n";
        assert_eq!(document(&value), expected);
    }
}
