//! A Program of the Stack's namespace.

use std::time::Duration;

use pko_api::{messages::stack as message, reasons::stack as reason};

use super::{Draft, Resolved, Source, unavailable};
use crate::{facts::Facts, step::Decision};

/// How long a Program that was just changed is given to be packed, unless that is seen.
const BEING_PACKED: Duration = Duration::from_secs(5);

pub(super) fn resolve(facts: &Facts, draft: &mut Draft, name: &str) -> Decision<Resolved> {
    let Some(program) = facts.cached_program(name)? else {
        return Err(unavailable(draft, message::PROGRAM_UNAVAILABLE));
    };
    let artifact = program.status.as_ref().and_then(|status| status.artifact.as_ref());
    let Some(artifact) = artifact else { return Err(unavailable(draft, message::PROGRAM_WITHOUT_ARTIFACT)) };
    if artifact.revision != program.metadata.generation.unwrap_or_default().to_string() {
        // It is being packed, which takes a moment.
        return Err(draft.reconciling(reason::STACK_PROCESSING, message::BEING_PROCESSED, Vec::new(), BEING_PACKED));
    }
    let from = Source::Flux {
        url: artifact.url.clone(),
        digest: artifact.digest.clone().unwrap_or_default(),
        dir: String::new(),
    };
    Ok(Resolved { from, commit: artifact.revision.clone() })
}
