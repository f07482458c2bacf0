//! Prerequisites: Stacks of the same namespace that must have succeeded first.

use std::{collections::BTreeMap, time::Duration};

use pko_api::{
    Checked, Stack, annotations,
    messages::prerequisite as message,
    reasons::stack as reason,
    stack::{PrerequisiteRef, update_state},
};

use super::{
    draft::{Draft, request},
    synced::since,
};
use crate::{
    effect::{Effect, Target},
    facts::Facts,
    seen::annotation,
    step::Decision,
};

/// A prerequisite that becomes ready wakes those that require it; this is for a watch that missed it, and for time that
/// passes.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Goes on only if all prerequisites are met. Asks those that are out of date to run again. A Stack that is deleted
/// waits for none.
pub(super) fn met(facts: &Facts, draft: &mut Draft) -> Decision<()> {
    let stack = draft.stack;
    if draft.deleting() || stack.spec.prerequisites.is_empty() {
        return Ok(());
    }
    if let Some(circle) = way(draft.name(), draft.name(), facts.requirements()?) {
        let text = format!(
            "spec.prerequisites: {} require each other, so none of them can begin; remove one of the prerequisites",
            circle.join(" -> ")
        );
        // Another of them may be the one that is changed.
        return Err(draft.spec_invalid_for_now(&text, LOOK_AGAIN));
    }
    let mut unmet: Vec<(&str, String)> = Vec::new();
    let mut requests = Vec::new();
    for wanted in &stack.spec.prerequisites {
        let other = facts.cached_stack(&wanted.name)?;
        match fault(wanted, other, draft) {
            None => {}
            Some(why) => {
                requests.extend(other.filter(|_| why == message::OUT_OF_DATE).and_then(asked_to_run));
                unmet.push((&wanted.name, told(&wanted.name, why)));
            }
        }
    }
    let text = match &unmet[..] {
        [] => return Ok(()),
        [(_, text)] => text.clone(),
        several => message::several(&several.iter().map(|(name, _)| *name).collect::<Vec<_>>()),
    };
    Err(draft.reconciling(reason::PREREQUISITE_NOT_SATISFIED, text, requests, LOOK_AGAIN))
}

const NOT_FOUND: &str = "it does not exist";

fn told(name: &str, why: &str) -> String {
    if why == NOT_FOUND {
        return message::not_found(name, format!("Stack {name} does not exist in this namespace; create it"));
    }
    message::not_satisfied(name, why)
}

/// Why a prerequisite is not met, if it is not.
fn fault(wanted: &PrerequisiteRef, other: Option<&Stack>, draft: &Draft) -> Option<&'static str> {
    let Some(other) = other else { return Some(NOT_FOUND) };
    let last = other.status.as_ref().and_then(|status| status.last_update.as_ref());
    let Some(last) = last.filter(|last| {
        last.generation == other.metadata.generation.unwrap_or_default() && last.reconcile_request == request(other)
    }) else {
        return Some(message::NOT_COMPLETED);
    };
    if last.state != update_state::SUCCEEDED {
        return Some(message::FAILED);
    }
    let within = wanted.requirement.as_ref().and_then(|it| it.succeeded_within_duration.as_ref());
    let within = within.and_then(Checked::good).map(|within| within.to_std())?;
    (since(last, draft.now) > within).then_some(message::OUT_OF_DATE)
}

/// The request to a Stack whose last update is too old, unless it stands already.
fn asked_to_run(other: &Stack) -> Option<Effect> {
    let last = other.status.as_ref()?.last_update.as_ref()?;
    let request = annotations::prerequisite_request(&last.name);
    let asked = annotation(&other.metadata, annotations::PREREQUISITE_REQUEST);
    (asked.as_ref() != Some(&request)).then(|| Effect::RequestUpdate { on: Target::stack(other), request })
}

/// A way from a Stack to one that it requires, directly or not; to itself, a circle.
fn way(from: &str, to: &str, requirements: &BTreeMap<String, Vec<String>>) -> Option<Vec<String>> {
    let mut ways: Vec<Vec<String>> = vec![vec![from.to_owned()]];
    let mut seen: Vec<String> = Vec::new();
    while let Some(way) = ways.pop() {
        for next in requirements.get(way.last()?).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push(next.clone());
            if next == to {
                return Some(longer);
            }
            if !seen.contains(next) {
                seen.push(next.clone());
                ways.push(longer);
            }
        }
    }
    None
}

/// Whether a Stack requires another, directly or not.
pub(super) fn requires(name: &str, other: &str, requirements: &BTreeMap<String, Vec<String>>) -> bool {
    way(name, other, requirements).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirements(all: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        all.iter().map(|(name, required)| ((*name).to_owned(), owned(required))).collect()
    }

    #[test]
    fn a_circle_is_found_and_named_and_a_fork_is_none() {
        let fork = requirements(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])]);
        let circle = |requirements: &BTreeMap<_, _>| way("a", "a", requirements);
        assert_eq!(circle(&fork), None);
        let ring = requirements(&[("a", &["b"]), ("b", &["x", "c"]), ("c", &["a"]), ("x", &["x"])]);
        assert_eq!(circle(&ring).unwrap(), ["a", "b", "c", "a"]);
        assert_eq!(circle(&requirements(&[("a", &["a"])])).unwrap(), ["a", "a"]);
        let elsewhere = requirements(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
        assert_eq!(circle(&elsewhere), None, "it waits for a circle and is not in it");
    }

    #[test]
    fn what_is_required_is_found_at_any_distance() {
        let chain = requirements(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]);
        assert!(requires("a", "c", &chain) && requires("b", "b", &chain));
        assert!(!requires("b", "a", &chain));
    }
}
