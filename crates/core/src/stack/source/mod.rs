//! Where the Stack's program comes from, and at which revision.

mod flux;
mod git;
mod program;

use std::time::Duration;

use pko_api::{Stack, Unreadable, events, reasons::stack as reason, workspace::GitAuth};

use super::{draft::Draft, finalize, plan::Source};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    seen::Kind,
    step::{Decision, Step, Then},
};

pub(super) use git::{follows_a_branch, identity};

/// How long a source that is not there is waited for, unless its appearance is seen.
const UNAVAILABLE: Duration = Duration::from_secs(30);

/// A source at a revision.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resolved {
    pub(super) from: Source,
    /// Empty if the source has no revisions.
    pub(super) commit: String,
}

/// Finds the program, or says why it cannot be had.
pub(super) fn resolve(facts: &Facts, draft: &mut Draft) -> Decision<Resolved> {
    let stack = draft.stack;
    if let Some(problem) = stack.spec.problems().first() {
        return Err(draft.spec_invalid(&problem.to_string()));
    }
    if draft.deleting()
        && finalize::destroys(draft)
        && !stack.spec.run_program
        && let Some(project) = draft.status.project_info.clone()
    {
        return Ok(Resolved { from: Source::ProjectInfo(project), commit: String::new() });
    }
    one_at_most(draft)?;
    if stack.spec.has_git_source() {
        git::resolve(facts, draft)
    } else if let Some(source) = &stack.spec.flux_source {
        flux::resolve(facts, draft, source)
    } else if let Some(program) = &stack.spec.program_ref {
        program::resolve(facts, draft, &program.name)
    } else {
        Ok(Resolved { from: Source::None, commit: String::new() })
    }
}

/// Credentials for the Stack's repository, as keys of Secrets; nothing if it has none, or they cannot be used.
pub(super) fn git_auth(stack: &Stack) -> Option<GitAuth> {
    git::auth(stack).ok().flatten()
}

fn one_at_most(draft: &mut Draft) -> Decision<()> {
    let spec = &draft.stack.spec;
    let given = [
        ("a Git repository (spec.projectRepo and what belongs to it)", spec.has_git_source()),
        ("spec.fluxSource", spec.flux_source.is_some()),
        ("spec.programRef", spec.program_ref.is_some()),
    ];
    let given: Vec<&str> = given.into_iter().filter_map(|(field, given)| given.then_some(field)).collect();
    if given.len() > 1 {
        let text = format!("spec: has {}; a program comes from one place, keep one of them", given.join(" and "));
        return Err(draft.spec_invalid(&text));
    }
    Ok(())
}

fn unavailable(draft: &mut Draft, why: impl Into<String>) -> Step {
    draft.stalled(reason::SOURCE_UNAVAILABLE, why, Then::Requeue(UNAVAILABLE))
}

/// A Stack that does not decode. Its status is left alone: writing it would lose what cannot be read.
pub(super) fn unreadable(bad: &Unreadable) -> Step {
    let on = Target::new(Kind::Stack, &bad.metadata);
    let event = events::stack::config_invalid(&bad.why);
    Step::Do { effects: vec![Effect::Publish { on, event }], then: Then::AwaitChange }
}
