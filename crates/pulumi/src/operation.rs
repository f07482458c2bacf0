//! The four operations on a stack, and their arguments. One process of the CLI each.

use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Preview,
    Up,
    Refresh,
    Destroy,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Preview => "preview",
            Self::Up => "up",
            Self::Refresh => "refresh",
            Self::Destroy => "destroy",
        }
    }
}

/// What a user may ask for. What an operation does not have is left out of its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub parallel: Option<i32>,
    pub message: Option<String>,
    pub expect_no_changes: bool,
    pub replace: Vec<String>,
    pub target: Vec<String>,
    pub target_dependents: bool,
    pub policy_packs: Vec<String>,
    pub refresh: bool,
    pub continue_on_error: bool,
    pub run_program: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    pub kind: Kind,
    pub stack: String,
    pub options: Options,
    /// Where the CLI writes what happens, a JSON document a line.
    pub event_log: PathBuf,
    /// Beyond zero, the CLI logs to its standard error.
    pub log_level: u32,
    /// Who runs the CLI, as its history shows it.
    pub agent: String,
}

impl Operation {
    pub(crate) fn args(&self) -> Vec<String> {
        use Kind::{Destroy, Preview, Refresh, Up};
        let Options {
            parallel,
            message,
            expect_no_changes,
            replace,
            target,
            target_dependents,
            policy_packs,
            refresh,
            continue_on_error,
            run_program,
        } = &self.options;
        let kind = self.kind;
        let mut args = vec![kind.name().to_owned()];
        let mut flag = |when: bool, flag: &str| {
            if when {
                args.push(flag.to_owned());
            }
        };
        flag(kind != Preview, "--yes");
        flag(kind != Preview, "--skip-preview");
        flag(matches!(kind, Preview | Up), "--diff");
        flag(kind == Up, "--suppress-progress");
        flag(self.log_level > 0, "--logtostderr");
        flag(self.log_level > 0, &format!("-v={}", self.log_level));
        flag(true, "--exec-kind=auto.local");
        flag(true, &format!("--exec-agent={}", self.agent));
        if let Some(message) = message.as_deref().filter(|m| !m.is_empty()) {
            flag(true, &format!("--message={message}"));
        }
        flag(*expect_no_changes && kind != Destroy, "--expect-no-changes");
        for urn in replace.iter().filter(|_| matches!(kind, Preview | Up)) {
            flag(true, &format!("--replace={urn}"));
        }
        for urn in target {
            flag(true, &format!("--target={urn}"));
        }
        flag(*target_dependents && kind != Refresh, "--target-dependents");
        for pack in policy_packs.iter().filter(|_| matches!(kind, Preview | Up)) {
            flag(true, &format!("--policy-pack={pack}"));
        }
        if let Some(parallel) = parallel.filter(|p| *p > 0) {
            flag(true, &format!("--parallel={parallel}"));
        }
        flag(*refresh && kind != Refresh, "--refresh");
        flag(*continue_on_error && matches!(kind, Up | Destroy), "--continue-on-error");
        flag(*run_program && matches!(kind, Refresh | Destroy), "--run-program=true");
        args.extend(["--event-log".to_owned(), self.event_log.display().to_string()]);
        args.extend(["--stack".to_owned(), self.stack.clone()]);
        args
    }
}
