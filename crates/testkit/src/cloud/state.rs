//! What the service remembers.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::{Exchange, TOKEN};

#[derive(Debug)]
pub(super) struct State {
    pub(super) tokens: Vec<String>,
    pub(super) token_life: Duration,
    pub(super) refused_subjects: Vec<String>,
    pub(super) exchanges: Vec<Exchange>,
    /// By organization, project and name.
    pub(super) stacks: BTreeMap<String, Stack>,
    pub(super) updates: Vec<Update>,
    /// Definitions by project and name.
    pub(super) environments: BTreeMap<String, Value>,
    /// Environments that were opened.
    pub(super) sessions: Vec<Value>,
    pub(super) requests: Vec<String>,
    pub(super) faults: Vec<Fault>,
    count: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            tokens: vec![TOKEN.to_owned()],
            token_life: Duration::from_hours(2),
            refused_subjects: Vec::new(),
            exchanges: Vec::new(),
            stacks: BTreeMap::new(),
            updates: Vec::new(),
            environments: BTreeMap::new(),
            sessions: Vec::new(),
            requests: Vec::new(),
            faults: Vec::new(),
            count: 0,
        }
    }
}

impl State {
    /// A number that was not given out before.
    pub(super) fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(super) fn active(&self, stack: &str) -> Option<&Update> {
        self.updates.iter().find(|u| u.stack == stack && u.status == Status::Running && !u.is_preview())
    }
}

#[derive(Debug)]
pub(super) struct Stack {
    pub(super) tags: Value,
    /// With its version, as it is exported.
    pub(super) deployment: Value,
    pub(super) version: u64,
}

impl Stack {
    pub(super) fn new(tags: Value, deployment: Option<Value>) -> Self {
        let empty = json!({
            "version": 3,
            "deployment": {"manifest": {"time": "0001-01-01T00:00:00Z", "magic": "", "version": ""}},
        });
        Self { tags, deployment: deployment.unwrap_or(empty), version: 0 }
    }

    pub(super) fn resources(&self) -> usize {
        self.deployment["deployment"]["resources"].as_array().map_or(0, Vec::len)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Requested,
    Running,
    Succeeded,
    Failed,
    Canceled,
}

/// An update or a preview of a stack.
#[derive(Clone, Debug)]
pub struct Update {
    pub id: String,
    pub stack: String,
    /// As in `update`, `preview`, `refresh`, `destroy`.
    pub kind: String,
    pub message: String,
    pub status: Status,
    /// Zero for a preview.
    pub version: u64,
    pub checkpoints: usize,
    /// The engine's events, as they arrived.
    pub events: Vec<Value>,
    pub(super) config: Value,
    pub(super) environment: Value,
    pub(super) lease: String,
    pub(super) started: i64,
    pub(super) ended: i64,
}

impl Update {
    pub(super) fn is_preview(&self) -> bool {
        self.kind == "preview"
    }
}

/// A status for the next requests that contain some words.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) times: usize,
    pub(super) words: String,
    pub(super) status: u16,
}
