//! Histories that taught us something. A seed means another history once the model changes; then the lesson is looked
//! for again by undoing what it led to, and the first seed that fails takes the place of the old one.

use pko_testkit::sim;

fn keeps_every_promise(seed: u64) {
    let outcome = sim::run_traced(seed, None);
    assert_eq!(outcome.violation, None, "{}", outcome.last_lines(75).join("\n"));
}

/// The API server counts a deletion as a generation, which nobody observes on an Update that has ended.
#[test]
fn an_update_that_is_deleted_after_its_end_is_taken_over() {
    keeps_every_promise(3);
}

/// The Program has moved on, so the pod that the Update waits for cannot fetch it any more; and as long as the Update
/// waits, its Stack does not make the Workspace anew.
#[test]
fn an_update_does_not_wait_for_ever_for_a_workspace_that_cannot_become_ready() {
    keeps_every_promise(235);
}

/// The garbage collector had taken the Stack off the Update's owners.
#[test]
fn an_update_is_let_go_when_its_stack_was_forced_away() {
    keeps_every_promise(3327);
}

/// The garbage collector deletes what is owned by a Stack that waits for its dependents, as often as it is made.
#[test]
fn a_stack_that_is_deleted_in_the_foreground_is_destroyed() {
    keeps_every_promise(8);
}

/// Nobody owns the Workspace of a destroy.
#[test]
fn the_workspace_of_a_destroy_goes_when_its_stack_was_forced_away() {
    keeps_every_promise(1234);
}
