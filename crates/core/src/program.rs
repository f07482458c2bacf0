//! Decisions about Programs: keep the artifact in the status as the Program says.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    names,
    program::{Artifact, ProgramStatus},
};

use crate::{
    effect::{Effect, Status, Target},
    facts::Facts,
    step::{Decision, Step, Then},
    time::whole_second,
};

/// A Program that cannot be packed has to be changed; this is in case the packing is at fault.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// What comes next for a Program.
pub fn decide(facts: &Facts) -> Decision<Step> {
    let Some(program) = facts.object.as_ref().and_then(|object| object.program()) else { return Ok(Step::done()) };
    if program.metadata.deletion_timestamp.is_some() {
        return Ok(Step::done());
    }
    let Ok(packed) = facts.artifact()? else {
        return Ok(Step::look_again(LOOK_AGAIN));
    };
    let generation = program.metadata.generation.unwrap_or_default();
    let (namespace, name) = (&facts.key.namespace, &facts.key.name);
    let before = program.status.clone().unwrap_or_default();
    let mut artifact = Artifact {
        path: names::artifact_path(namespace, name, generation),
        url: names::artifact_url(&facts.settings.artifact_address, namespace, name, generation),
        revision: generation.to_string(),
        digest: Some(packed.digest.clone()),
        size: packed.size,
        last_update_time: before.artifact.as_ref().and_then(|artifact| artifact.last_update_time.clone()),
        metadata: before.artifact.as_ref().map(|artifact| artifact.metadata.clone()).unwrap_or_default(),
    };
    if before.artifact.as_ref() != Some(&artifact) {
        artifact.last_update_time = Some(Time(whole_second(facts.now)));
    }
    let status = ProgramStatus { observed_generation: generation, artifact: Some(artifact) };
    if program.status.as_ref() == Some(&status) {
        return Ok(Step::done());
    }
    // A pod may start long after its Workspace was made for a generation: a copy of each stays while it is in use.
    let generations = facts.generations()?;
    let on = Target::program(program);
    let mut effects = Vec::new();
    if !generations.kept.contains(&generation) {
        let mut copy = program.clone();
        copy.status = None;
        effects.push(Effect::KeepProgram(Box::new(copy)));
    }
    effects.push(Effect::Status { on: on.clone(), status: Status::Program(Box::new(status)) });
    let useless = generations.kept.difference(&generations.used).filter(|kept| **kept < generation);
    effects.extend(useless.map(|kept| Effect::DropProgram { on: on.clone(), generation: *kept }));
    Ok(Step::Do { effects, then: Then::AwaitChange })
}
