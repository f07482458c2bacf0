//! Secrets and ConfigMaps that a Stack uses: they must be there before a pod waits for them, and a change of what its
//! program sees of them is a reason to update.

use std::{collections::BTreeMap, time::Duration};

use pko_api::{Stack, Workspace};
use serde_json::{Value, json};

use super::{
    draft::Draft,
    plan::{self, Source},
    source,
};
use crate::{
    digest,
    facts::Facts,
    references::{self as found, Reference},
    step::Decision,
};

/// What appears wakes its Stack; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// All that a Stack refers to, for whoever watches them. A spec that cannot be carried out refers to little.
pub fn references(stack: &Stack) -> Vec<Reference> {
    let planned = plan::bare(stack, &Source::None);
    let mut all = planned.map(|planned| found::of(&planned.spec)).unwrap_or_default();
    all.extend(source::git_auth(stack).iter().flat_map(found::of_git));
    all
}

/// A digest of all that the program sees of them; nothing if there is nothing, or something is missing.
pub(super) fn hash(facts: &Facts, planned: &Workspace) -> Decision<Option<String>> {
    let mut seen: BTreeMap<String, Value> = BTreeMap::new();
    for reference in found::of_program(&planned.spec) {
        let there = facts.reference(reference.kind, &reference.name)?;
        if reference.missing(there).is_some() {
            return Ok(None);
        }
        let used: BTreeMap<_, _> = there.iter().flat_map(|there| reference.digests(there)).collect();
        seen.insert(format!("{} {}", reference.kind.as_str(), reference.name), json!(used));
    }
    Ok((!seen.is_empty()).then(|| digest::of(&json!(seen))))
}

/// Goes on only if everything is there that the pod would wait for.
pub(super) fn all_there(facts: &Facts, draft: &mut Draft, planned: &Workspace) -> Decision<()> {
    for reference in found::of(&planned.spec) {
        let there = if reference.required { facts.reference(reference.kind, &reference.name)? } else { None };
        if let Some(missing) = reference.missing(there) {
            return Err(draft.spec_invalid_for_now(&missing, LOOK_AGAIN));
        }
    }
    Ok(())
}
