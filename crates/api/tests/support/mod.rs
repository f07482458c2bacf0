//! Reads the files under `tests/fixtures`.

use std::path::PathBuf;

use serde_json::Value;

/// Path of a fixture.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A fixture's text.
pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("fixture {name}: {error}"))
}

/// A YAML fixture as JSON.
#[allow(dead_code, reason = "not every test reads YAML")]
pub(crate) fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&text(name)).unwrap_or_else(|error| panic!("fixture {name}: {error}"))
}

/// The items of a YAML list.
#[allow(dead_code, reason = "not every test reads YAML")]
pub(crate) fn items(name: &str) -> Vec<Value> {
    yaml(name)["items"].as_array().expect("a list").clone()
}
