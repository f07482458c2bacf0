//! How often what was hit, over one history and over many.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Effects that were carried out, by name.
    Effect,
    /// Effects after which the process that carried them out crashed.
    CrashAfter,
    /// Reasons of conditions of Stacks, as written.
    StackReason,
    /// Reasons of conditions of Workspaces, as written.
    WorkspaceReason,
    /// Reasons of conditions of Updates, as written.
    UpdateReason,
    /// What went wrong.
    Fault,
    /// What users did.
    User,
}

/// Every effect there is, by name.
pub const EFFECTS: [&str; 22] = [
    "write stack status",
    "write program status",
    "write workspace status",
    "write update status",
    "hold stack",
    "release stack",
    "request update",
    "apply workspace",
    "delete workspace",
    "create update",
    "hold update",
    "release update",
    "delete update",
    "apply service",
    "apply statefulset",
    "mark pod initialized",
    "start init run",
    "start update run",
    "cancel run",
    "delete pod",
    "store outputs",
    "publish event",
];

/// A table of counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<Group, BTreeMap<Cow<'static, str>, u64>>);

impl Counts {
    pub(super) fn hit(&mut self, group: Group, what: impl Into<Cow<'static, str>>) {
        *self.0.entry(group).or_default().entry(what.into()).or_default() += 1;
    }

    /// Takes another table in.
    pub fn add(&mut self, other: Self) {
        for (group, counts) in other.0 {
            let own = self.0.entry(group).or_default();
            for (what, count) in counts {
                *own.entry(what).or_default() += count;
            }
        }
    }

    /// How often something was hit.
    pub fn of(&self, group: Group, what: &str) -> u64 {
        self.0.get(&group).and_then(|counts| counts.get(what)).copied().unwrap_or_default()
    }

    /// Everything of a group that was hit.
    pub fn in_group(&self, group: Group) -> impl Iterator<Item = (&str, u64)> {
        self.0.get(&group).into_iter().flatten().map(|(what, count)| (what.as_ref(), *count))
    }

    /// For people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        for (group, counts) in &self.0 {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{group:?}");
            for (what, count) in counts {
                let _ = writeln!(text, "  {what:<28} {count:>9}");
            }
        }
        text
    }
}
