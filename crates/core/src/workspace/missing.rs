//! Secrets and ConfigMaps that a Workspace refers to: whether they are there, and whether they have changed.

use pko_api::workspace::WorkspaceSpec;

use crate::{facts::Facts, references, seen::PodSeen, step::Decision};

/// What keeps a pod from starting, in words, if it is a reference to nothing.
pub(super) fn reference(facts: &Facts, spec: &WorkspaceSpec) -> Decision<Option<String>> {
    for reference in references::of(spec).iter().filter(|reference| reference.required) {
        if let Some(missing) = reference.missing(facts.reference(reference.kind, &reference.name)?) {
            return Ok(Some(missing));
        }
    }
    Ok(None)
}

/// Whether something that the pod was started with was written since. Times have whole seconds: what was written in the
/// second of its start is taken for newer.
pub(super) fn outlived(facts: &Facts, spec: &WorkspaceSpec, pod: &PodSeen) -> Decision<bool> {
    let Some(created) = pod.created else { return Ok(false) };
    for reference in references::of(spec) {
        let found = facts.reference(reference.kind, &reference.name)?;
        if found.and_then(|found| found.changed).is_some_and(|changed| changed >= created) {
            return Ok(true);
        }
    }
    Ok(false)
}
