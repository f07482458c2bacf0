//! Decisions about Programs on hand-built facts.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use pko_core::{
    ask::{Answer, Generations, Packed, Question},
    effect::{Effect, Status},
    seen::{Kind, Object},
    step::Then,
};
use support::*;

fn world(generation: i64, kept: &[i64], used: &[i64]) -> World {
    let mut program = program();
    program.metadata.generation = Some(generation);
    let packed = Packed { digest: "sha256:22".to_owned(), size: 7 };
    let generations = Generations { kept: kept.iter().copied().collect(), used: used.iter().copied().collect() };
    World::new(Kind::Program, "program", Object::Program(Box::new(program)))
        .answer(Question::Artifact, Answer::Artifact(Ok(packed)))
        .answer(Question::Generations, Answer::Generations(generations))
}

#[test]
fn a_copy_is_kept_before_the_artifact_is_told_of() {
    let (effects, then) = world(2, &[], &[]).act();
    assert_eq!(names(&effects), ["keep program", "write program status"]);
    let Effect::Status { status: Status::Program(status), .. } = &effects[1] else { panic!("{effects:?}") };
    let artifact = status.artifact.as_ref().unwrap();
    assert_eq!((artifact.revision.as_str(), artifact.digest.as_deref()), ("2", Some("sha256:22")));
    assert!(artifact.url.ends_with("/programs/team/program/2"), "{}", artifact.url);
    assert_eq!(then, Then::AwaitChange);
}

#[test]
fn copies_that_nobody_uses_go_and_others_stay() {
    let (effects, _) = world(5, &[2, 3, 4, 5], &[3]).act();
    assert_eq!(names(&effects), ["write program status", "drop program", "drop program"]);
    let dropped: Vec<i64> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::DropProgram { generation, .. } => Some(*generation),
            _ => None,
        })
        .collect();
    assert_eq!(dropped, [2, 4], "a pod may still fetch the third, and the fifth is the present one");
}

#[test]
fn a_program_that_is_served_asks_for_no_copies_and_writes_nothing() {
    let (effects, _) = world(2, &[], &[]).act();
    let Effect::Status { status: Status::Program(status), .. } = &effects[1] else { panic!("{effects:?}") };
    let mut served = program();
    served.metadata.generation = Some(2);
    served.status = Some((**status).clone());
    let mut world = world(2, &[], &[]).again(Object::Program(Box::new(served)));
    assert_eq!(world.act(), (Vec::new(), Then::AwaitChange));
    assert!(!world.asked.contains(&Question::Generations));
}
