//! Where the Stack's program comes from, and at which revision.

use std::time::Duration;

use pko_api::{Unreadable, events, messages::stack as message, reasons::stack as reason};

use super::{draft::Draft, finalize, plan::Source};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    seen::Kind,
    step::{Decision, Step, Then},
};

/// How long a source that is not there is waited for, unless its appearance is seen.
const UNAVAILABLE: Duration = Duration::from_secs(30);
/// How long a Program that was just changed is given to be packed, unless that is seen.
const BEING_PACKED: Duration = Duration::from_secs(5);

/// A source at a revision.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Resolved {
    pub(super) from: Source,
    /// Empty if the source has no revisions.
    pub(super) commit: String,
}

/// Finds the program, or says why it cannot be had.
pub(super) fn resolve(facts: &Facts, draft: &mut Draft) -> Decision<Resolved> {
    let spec = &draft.stack.spec;
    if draft.deleting()
        && finalize::destroys(draft)
        && !spec.run_program
        && let Some(project) = draft.status.project_info.clone()
    {
        return Ok(Resolved { from: Source::ProjectInfo(project), commit: String::new() });
    }
    usable(draft)?;
    let Some(program) = &spec.program_ref else { return Ok(Resolved { from: Source::None, commit: String::new() }) };
    let Some(program) = facts.cached_program(&program.name)? else {
        return Err(draft.stalled(
            reason::SOURCE_UNAVAILABLE,
            message::PROGRAM_UNAVAILABLE,
            Then::Requeue(UNAVAILABLE),
        ));
    };
    let artifact = program.status.as_ref().and_then(|status| status.artifact.as_ref());
    let Some(artifact) = artifact else {
        return Err(draft.stalled(
            reason::SOURCE_UNAVAILABLE,
            message::PROGRAM_WITHOUT_ARTIFACT,
            Then::Requeue(UNAVAILABLE),
        ));
    };
    if artifact.revision != program.metadata.generation.unwrap_or_default().to_string() {
        // Only the present generation is served. It is being packed, which takes a moment.
        return Err(draft.reconciling(reason::STACK_PROCESSING, message::BEING_PROCESSED, Vec::new(), BEING_PACKED));
    }
    let from = Source::Flux {
        url: artifact.url.clone(),
        digest: artifact.digest.clone().unwrap_or_default(),
        dir: String::new(),
    };
    Ok(Resolved { from, commit: artifact.revision.clone() })
}

/// What the schema admits and cannot be carried out.
fn usable(draft: &mut Draft) -> Decision<()> {
    let spec = &draft.stack.spec;
    if let Some(problem) = spec.problems().first() {
        let text = problem.to_string();
        return Err(draft.spec_invalid(&text));
    }
    let unsupported = [
        (spec.has_git_source(), "spec.projectRepo: programs from Git are not supported yet, use spec.programRef"),
        (spec.flux_source.is_some(), "spec.fluxSource: Flux sources are not supported yet, use spec.programRef"),
        (!spec.prerequisites.is_empty(), "spec.prerequisites: not supported yet, remove them"),
    ];
    match unsupported.iter().find(|(used, _)| *used) {
        Some((_, text)) => Err(draft.spec_invalid(text)),
        None => Ok(()),
    }
}

/// A Stack that does not decode. Its status is left alone: writing it would lose what cannot be read.
pub(super) fn unreadable(bad: &Unreadable) -> Step {
    let on = Target::new(Kind::Stack, &bad.metadata);
    let event = events::stack::config_invalid(&bad.why);
    Step::Do { effects: vec![Effect::Publish { on, event }], then: Then::AwaitChange }
}
