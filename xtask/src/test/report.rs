//! Counting what cargo's test runner printed, and the summary at the end.

use std::{collections::BTreeSet, ops::AddAssign, time::Duration};

use super::Level;
use crate::progress::seconds;

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

pub(crate) struct Row {
    pub(crate) level: Level,
    pub(crate) tally: Tally,
    pub(crate) note: String,
    pub(crate) took: Duration,
}

/// Adds up the `test result:` lines of a run.
pub(crate) fn count(output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines().filter_map(|l| l.strip_prefix("test result: ")) {
        let number = |word: &str| {
            let before = line.split(word).next().unwrap_or_default().trim_end();
            before.rsplit(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        tally += Tally { passed: number("passed"), failed: number("failed;"), skipped: number("ignored") };
    }
    tally
}

/// The tests that ran and passed, each with its target: `l3_runs::a_test`, `pko_core::lease::tests::a_test`.
pub(crate) fn names(output: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut target = String::new();
    for line in output.lines() {
        if line.trim_start().starts_with("Running ") {
            // … (target/debug/deps/l3_runs-0123456789abcdef)
            let file = line.rsplit('/').next().unwrap_or_default();
            file.rsplit_once('-').map_or("", |(name, _)| name).clone_into(&mut target);
        } else if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... ok")) {
            names.insert(format!("{target}::{name}"));
        }
    }
    names
}

/// The table of what the simulated histories met.
pub(crate) fn histories(output: &str) -> String {
    let table = output.lines().skip_while(|line| !line.contains(" histories, ")).take_while(|line| !line.is_empty());
    table.map(|line| format!("  {line}\n")).collect::<Vec<_>>().concat()
}

pub(crate) fn print(rows: &[Row], took: Duration) {
    let mut sum = Tally::default();
    println!("\nlevel   passed  failed  skipped     time");
    for row in rows {
        let Tally { passed, failed, skipped } = row.tally;
        println!("{:<6} {passed:>7} {failed:>7} {skipped:>8} {:>8}  {}", row.level.name(), seconds(row.took), row.note);
        sum += row.tally;
    }
    println!("in all {}", seconds(took));
    println!("{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_named_with_its_target() {
        let output = "     Running tests/l3_runs.rs (target/debug/deps/l3_runs-0a1b)\ntest up ... ok\n\
                      test down ... FAILED\n     Running unittests src/lib.rs (/t/debug/deps/pko_core-0a1b)\n\
                      test lease::tests::held ... ok\ntest late ... ignored\n";
        let found: Vec<String> = names(output).into_iter().collect();
        assert_eq!(found, ["l3_runs::up", "pko_core::lease::tests::held"]);
    }

    #[test]
    fn the_table_of_histories_ends_with_an_empty_line() {
        let output = "ok\n---- a stdout ----\n10 histories, 5 steps in the median\nhold  7\n\nmore\n";
        assert_eq!(histories(output), "  10 histories, 5 steps in the median\n  hold  7\n");
    }

    #[test]
    fn results_of_several_targets_are_added_up() {
        let output = "running 2 tests\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                      noise\ntest result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n";
        assert_eq!(count(output), Tally { passed: 15, failed: 4, skipped: 1 });
    }
}
