//! The tests that docs/testing.md names as proof of what is promised. One that did not run proves nothing.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::{Level, report};
use crate::paths;

/// Tests of this level that the page names and that did not run, by what the test runner printed.
pub(crate) fn missing(level: Level, printed: &str) -> Result<Vec<String>> {
    let page = paths::root().join("docs/testing.md");
    let text = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    let ran = report::names(printed);
    Ok(named(&text).into_iter().filter(|name| level_of(name) == level && !has_run(name, &ran)).collect())
}

/// Whether a test, or the cases that it consists of, are among those that have passed. One that failed is told anyway.
fn has_run(name: &str, ran: &BTreeSet<String>) -> bool {
    let case = format!("{name}::case_");
    ran.contains(name) || ran.range(case.clone()..).next().is_some_and(|first| first.starts_with(&case))
}

/// Every `target::test` between backticks.
fn named(page: &str) -> BTreeSet<String> {
    let is_name =
        |text: &&str| text.contains("::") && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'));
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2).filter(is_name).map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// As of the files: `l3_runs::…` is L3; what lies in `src` is L0.
fn level_of(name: &str) -> Level {
    let level = |level: &Level| name.starts_with(&format!("{}_", level.name().to_lowercase()));
    Level::ALL.into_iter().find(level).unwrap_or(Level::L0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_of_several_cases_has_run_when_they_have() {
        let ran = ["l0_a::one", "l0_a::two::case_1_first", "l0_a::two::case_2", "l0_b::three"];
        let ran = ran.map(str::to_owned).into();
        assert!(has_run("l0_a::one", &ran) && has_run("l0_a::two", &ran));
        assert!(!has_run("l0_a::tw", &ran) && !has_run("l0_a::three", &ran));
    }

    #[test]
    fn names_are_what_is_between_backticks_and_has_a_path() {
        let page = "| `agent init` | `l3_git::a_tag` and `l3_git::a_branch` |\n| x | `pko_pulumi::calls::tests::up` |";
        let found: Vec<String> = named(page).into_iter().collect();
        assert_eq!(found, ["l3_git::a_branch", "l3_git::a_tag", "pko_pulumi::calls::tests::up"]);
        assert!(level_of("l3_git::a_tag") == Level::L3 && level_of("pko_pulumi::calls::tests::up") == Level::L0);
    }
}
