//! The one loop around every decision. Production, tests and simulation differ in the shell they give it.

use crate::{
    ask::{Answer, Question},
    decide,
    effect::Effect,
    facts::Facts,
    seen::Key,
    step::{Step, Then},
};

/// Reads and writes for decisions. Has no opinion.
#[allow(async_fn_in_trait, reason = "callers choose the executor; production spawns concrete shells only")]
pub trait Shell {
    /// What went wrong with a read or a write.
    type Error;

    /// The object as the watch last showed it, the time, and how the operator is set up.
    async fn observe(&self, key: &Key) -> Result<Facts, Self::Error>;

    /// Reads, in the namespace of the object.
    async fn answer(&self, key: &Key, question: &Question) -> Result<Answer, Self::Error>;

    /// Writes. Yields the new version of the written object, where the effect is guarded by one.
    async fn perform(&self, key: &Key, effect: &Effect) -> Result<Option<String>, Self::Error>;
}

/// Why a reconcile did not come to its end.
#[derive(Debug)]
pub enum Stopped<E> {
    /// A read or a write failed. What was done before it is done.
    Shell(E),
    /// The decision kept asking; a bug.
    Endless,
}

/// More questions than any decision has.
const MOST_QUESTIONS: usize = 64;

/// Decides about one object, asking what has to be known, and does what was decided.
pub async fn reconcile<S: Shell>(shell: &S, key: &Key) -> Result<Then, Stopped<S::Error>> {
    let mut facts = shell.observe(key).await.map_err(Stopped::Shell)?;
    let (effects, then) = decision(shell, key, &mut facts).await?;
    perform(shell, key, effects).await?;
    Ok(then)
}

/// What would be done, with the facts that it was decided from; nothing is written.
pub async fn decision<S: Shell>(
    shell: &S,
    key: &Key,
    facts: &mut Facts,
) -> Result<(Vec<Effect>, Then), Stopped<S::Error>> {
    for _ in 0..MOST_QUESTIONS {
        match decide(facts) {
            Step::Ask(question) => {
                let answer = shell.answer(key, &question).await.map_err(Stopped::Shell)?;
                facts.learn(question, answer);
            }
            Step::Do { effects, then } => return Ok((effects, then)),
        }
    }
    Err(Stopped::Endless)
}

/// Our own write moves an object's version; later writes of the same decision build on it.
async fn perform<S: Shell>(shell: &S, key: &Key, effects: Vec<Effect>) -> Result<(), Stopped<S::Error>> {
    let mut written: Vec<(String, String)> = Vec::new();
    for mut effect in effects {
        if let Some(on) = effect.guarded_by()
            && let Some((_, version)) = written.iter().rev().find(|(uid, _)| *uid == on.uid)
        {
            on.resource_version.clone_from(version);
        }
        let version = shell.perform(key, &effect).await.map_err(Stopped::Shell)?;
        if let (Some(on), Some(version)) = (effect.guarded_by(), version) {
            written.push((on.uid.clone(), version));
        }
    }
    Ok(())
}
