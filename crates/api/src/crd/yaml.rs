//! JSON written as YAML in block style: sorted, and the same on every run.

use std::fmt::Write as _;

use serde_json::Value;

/// The document as YAML.
pub fn to_yaml(document: &Value) -> String {
    let mut out = String::new();
    write_block(&mut out, document, 0);
    out
}

/// Writes a value at the beginning of a line of that indentation.
fn write_block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            for key in keys {
                pad(out, indent);
                write_field(out, key, &fields[key], indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                pad(out, indent);
                write_item(out, item, indent);
            }
        }
        scalar => {
            pad(out, indent);
            out.push_str(&scalar_text(scalar));
            out.push('\n');
        }
    }
}

fn write_field(out: &mut String, key: &str, value: &Value, indent: usize) {
    out.push_str(&text(key));
    out.push(':');
    if is_nested(value) {
        out.push('\n');
        // Lists hang at the indentation of their key, as kubectl prints them.
        let inner = if value.is_array() { indent } else { indent + 2 };
        write_block(out, value, inner);
    } else {
        out.push(' ');
        out.push_str(&scalar_text(value));
        out.push('\n');
    }
}

/// Writes a list item: its content is a block of its own that starts on the line of the dash.
fn write_item(out: &mut String, item: &Value, indent: usize) {
    let mut block = String::new();
    write_block(&mut block, item, indent + 2);
    out.push_str("- ");
    out.push_str(block.trim_start_matches(' '));
}

fn is_nested(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        // Empty collections, numbers, booleans and null are the same in both languages.
        other => other.to_string(),
    }
}

/// Plain where no reader can take it for anything but a string, else in JSON's quotes.
fn text(string: &str) -> String {
    const OTHER_MEANING: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "nan"];
    let mut characters = string.chars();
    let plain = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '$')
        && characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '$'))
        && string.len() > 1
        && !OTHER_MEANING.contains(&string.to_ascii_lowercase().as_str());
    if plain { string.to_owned() } else { quoted(string) }
}

/// In JSON's quotes, with what JSON leaves alone and YAML does not allow escaped.
fn quoted(string: &str) -> String {
    let mut out = String::new();
    for c in Value::from(string).to_string().chars() {
        match c {
            '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out
}
