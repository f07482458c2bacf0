//! Planted mistakes, which the histories have to find: what they would not find here, they would not find at all.

use pko_testkit::sim::{self, Mutant};

/// Few enough that a mistake of this kind has no chance in the ten thousand histories.
const WITHIN: u64 = 1_000;

#[test]
fn every_planted_mistake_is_found() {
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        let found = (0..WITHIN).find_map(|seed| Some((seed, sim::run(seed, Some(mutant)).violation?)));
        match found {
            Some((seed, violation)) => println!("{mutant:?}: found by history {}: {violation}", seed + 1),
            None => missed.push(mutant),
        }
    }
    assert!(missed.is_empty(), "not found within {WITHIN} histories: {missed:?}");
}
