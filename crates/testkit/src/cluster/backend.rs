//! Pulumi's file backend, read from outside: locks, history and the state of a stack.

use std::{fs, path::PathBuf};

use serde_json::Value;

/// The `.pulumi` directory of a backend.
#[derive(Debug)]
pub struct Backend {
    dir: PathBuf,
}

impl Backend {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The lock files that are there, of all stacks.
    pub fn locks(&self) -> Vec<PathBuf> {
        files(self.dir.join("locks"))
    }

    /// The updates that the CLI has recorded for a stack, oldest first. Each is one run of the CLI.
    pub fn history(&self, project: &str, stack: &str) -> Vec<Value> {
        let dir = self.dir.join("history").join(project).join(stack);
        files(dir).into_iter().filter(|f| f.to_string_lossy().ends_with(".history.json")).map(|f| json(&f)).collect()
    }

    /// The resources in a stack's state.
    pub fn resources(&self, project: &str, stack: &str) -> Vec<Value> {
        let file = self.dir.join("stacks").join(project).join(format!("{stack}.json"));
        json(&file)["checkpoint"]["latest"]["resources"].as_array().cloned().unwrap_or_default()
    }
}

/// Every file below a directory, sorted; none when it is not there.
fn files(dir: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn json(file: &PathBuf) -> Value {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("reading {}: {error}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
