//! What a run does, apart from the wire.

use pko_proto::{agent, runs};
use pko_pulumi::{Kind, Options};

#[derive(Debug)]
pub(crate) enum Work {
    Init(runs::Init),
    Operate { kind: Kind, stack: String, options: Options, remove: bool },
}

impl Work {
    /// Nothing, if the request names no operation or one of a version to come.
    pub(crate) fn of(operation: runs::start_request::Operation) -> Self {
        use runs::start_request::Operation as Asked;
        match operation {
            Asked::Init(init) => Self::Init(init),
            Asked::Preview(asked) => Self::preview(asked.stack_name, asked.options.unwrap_or_default()),
            Asked::Up(asked) => Self::up(asked.stack_name, asked.options.unwrap_or_default()),
            Asked::Refresh(asked) => Self::refresh(asked.stack_name, asked.options.unwrap_or_default()),
            Asked::Destroy(asked) => Self::destroy(asked.stack_name, asked.options.unwrap_or_default()),
        }
    }

    pub(crate) fn preview(stack: String, asked: agent::PreviewRequest) -> Self {
        let options = Options {
            parallel: asked.parallel,
            message: asked.message,
            expect_no_changes: asked.expect_no_changes.unwrap_or_default(),
            replace: asked.replace,
            target: asked.target,
            target_dependents: asked.target_dependents.unwrap_or_default(),
            policy_packs: packs(asked.policy_pack),
            refresh: asked.refresh.unwrap_or_default(),
            ..Options::default()
        };
        Self::Operate { kind: Kind::Preview, stack, options, remove: false }
    }

    pub(crate) fn up(stack: String, asked: agent::UpRequest) -> Self {
        let options = Options {
            parallel: asked.parallel,
            message: asked.message,
            expect_no_changes: asked.expect_no_changes.unwrap_or_default(),
            replace: asked.replace,
            target: asked.target,
            target_dependents: asked.target_dependents.unwrap_or_default(),
            policy_packs: packs(asked.policy_pack),
            refresh: asked.refresh.unwrap_or_default(),
            continue_on_error: asked.continue_on_error.unwrap_or_default(),
            ..Options::default()
        };
        Self::Operate { kind: Kind::Up, stack, options, remove: false }
    }

    pub(crate) fn refresh(stack: String, asked: agent::RefreshRequest) -> Self {
        let options = Options {
            parallel: asked.parallel,
            message: asked.message,
            expect_no_changes: asked.expect_no_changes.unwrap_or_default(),
            target: asked.target,
            run_program: asked.run_program.unwrap_or_default(),
            ..Options::default()
        };
        Self::Operate { kind: Kind::Refresh, stack, options, remove: false }
    }

    pub(crate) fn destroy(stack: String, asked: agent::DestroyRequest) -> Self {
        let options = Options {
            parallel: asked.parallel,
            message: asked.message,
            target: asked.target,
            target_dependents: asked.target_dependents.unwrap_or_default(),
            refresh: asked.refresh.unwrap_or_default(),
            continue_on_error: asked.continue_on_error.unwrap_or_default(),
            run_program: asked.run_program.unwrap_or_default(),
            ..Options::default()
        };
        Self::Operate { kind: Kind::Destroy, stack, options, remove: asked.remove.unwrap_or_default() }
    }

    pub(crate) const INIT: &str = "init";

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Init(_) => Self::INIT,
            Self::Operate { kind, .. } => kind.name(),
        }
    }

    /// What the CLI is told the run is for.
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Init(_) => "",
            Self::Operate { options, .. } => options.message.as_deref().unwrap_or_default(),
        }
    }

    /// The stack that is selected in the end.
    pub(crate) fn selects(&self) -> Option<&str> {
        match self {
            Self::Init(init) => init.stacks.last().map(|stack| stack.name.as_str()),
            Self::Operate { .. } => None,
        }
    }

    pub(crate) fn stack(&self) -> Option<&str> {
        match self {
            Self::Init(_) => None,
            Self::Operate { stack, .. } => Some(stack),
        }
    }
}

fn packs(packs: Vec<agent::PolicyPack>) -> Vec<String> {
    packs.into_iter().map(|pack| pack.name).collect()
}
