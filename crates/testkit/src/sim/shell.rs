//! The shell that the driver gets here: it reads from the model and writes to it, a pause before each, so that anything
//! may happen between any two of them.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

use pko_api::names;
use pko_core::{
    ask::{Answer, GitTrouble, Question, SourceSeen},
    driver::Shell,
    effect::Effect,
    facts::Facts,
    references::{ReferenceKind, ReferenceSeen},
    seen::{Key, Kind, ended},
    stack,
    workspace::{build::Memo, plan},
};

use super::{
    api::Refused,
    counts::Group,
    effects, faults,
    invariants::held,
    mutants,
    things::Thing,
    users,
    world::{BUCKET, World, packed},
};

/// One reconcile's access to the model.
#[derive(Debug)]
pub(super) struct SimShell {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) operator: usize,
    pub(super) progress: Rc<Progress>,
}

/// How far a reconcile is, for whoever wants to crash it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) effects: Cell<usize>,
    pub(super) last: Cell<Option<&'static str>>,
}

/// Gives way once.
struct Pause(bool);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Shell for SimShell {
    type Error = Refused;

    async fn observe(&self, key: &Key) -> Result<Facts, Refused> {
        let mut world = self.world.borrow_mut();
        let object = world.operators[self.operator].caches.get(key.kind, &key.name).cloned();
        let seen = object.as_ref().map(|thing| thing.seen());
        let mut facts = Facts::new(key.clone(), world.now, world.settings.clone(), seen);
        if object.is_none() {
            facts.gone = world.operators[self.operator].caches.gone(key).map(|thing| thing.seen());
        }
        // What follows from a generation of a Workspace costs the most of all, and is the same every time.
        if let Some(workspace) = object.as_ref().and_then(|thing| thing.workspace()) {
            let of =
                (workspace.metadata.uid.clone(), workspace.metadata.generation, world.settings.agent_image.clone());
            let settings = world.settings.clone();
            let planned = world.plans.entry(of).or_insert_with(|| Arc::new(plan(workspace, &settings)));
            facts.planned = Memo::known(Arc::clone(planned));
        }
        // What comes from caches is read beforehand in most reconciles: every question costs a decision anew.
        if let Some(object) = object
            && world.chance.percent(85)
        {
            for question in foreseen(&object) {
                let answer = world.answer(self.operator, key, &question)?;
                facts.learn(question, answer);
            }
        }
        Ok(facts)
    }

    async fn answer(&self, key: &Key, question: &Question) -> Result<Answer, Refused> {
        Pause(false).await;
        let mut world = self.world.borrow_mut();
        let answer = world.answer(self.operator, key, question)?;
        world.trace(|| format!("  operator {} {key}: asked {question:?}, heard {}", self.operator, short(&answer)));
        Ok(answer)
    }

    async fn perform(&self, key: &Key, effect: &Effect) -> Result<Option<String>, Refused> {
        Pause(false).await;
        let mut world = self.world.borrow_mut();
        let done = world.perform(effect);
        world.trace(|| format!("  operator {} {key}: {} -> {done:?}", self.operator, effects::told(effect)));
        if done.is_ok() {
            self.progress.effects.set(self.progress.effects.get() + 1);
            self.progress.last.set(Some(effect.name()));
        }
        done
    }
}

impl World {
    fn answer(&mut self, operator: usize, key: &Key, question: &Question) -> Result<Answer, Refused> {
        let live = matches!(question, Question::Live(..) | Question::RunsIn { .. } | Question::Outputs { .. });
        if live && self.faults && self.chance.percent(1) {
            self.fault(faults::READ_FAILS);
            return Err(Refused::Failed("the read failed"));
        }
        let cached = |kind: Kind, name: &str| self.operators[operator].caches.get(kind, name).map(|it| it.seen());
        Ok(match question {
            Question::Live(kind, name) if mutants::believes_stale_cache(self.mutant) => {
                Answer::Object(cached(*kind, name))
            }
            Question::Cached(kind, name) => Answer::Object(cached(*kind, name)),
            Question::Live(kind, name) => Answer::Object(self.api.get(*kind, name).map(|thing| thing.seen())),
            Question::UpdatesOf { stack } => {
                let all = self.operators[operator].caches.all(Kind::Update);
                let all = all.filter(|thing| thing.stack_name() == Some(stack) && held(thing));
                Answer::Updates(all.filter_map(|thing| thing.update().cloned()).collect())
            }
            Question::UpdatesIn { workspace } => {
                let all = self.operators[operator].caches.all(Kind::Update).filter_map(|thing| thing.update());
                let there =
                    all.filter(|update| update.spec.workspace_name.as_ref() == Some(workspace) && !ended(update));
                Answer::Updates(there.cloned().collect())
            }
            Question::Reference(..) => Answer::Reference(Some(ReferenceSeen {
                keys: [(users::KEY.to_owned(), self.secret_written.to_string())].into(),
                changed: Some(self.secret_written),
            })),
            Question::Admission { .. } => Answer::Admission(None),
            Question::Revision(_) => {
                if self.faults && self.chance.percent(5) {
                    self.fault(faults::REPOSITORY_AWAY);
                    return Ok(Answer::Revision(Err(GitTrouble::Unavailable("no route".to_owned()))));
                }
                Answer::Revision(Ok(self.commit()))
            }
            Question::Source(_) => Answer::Source(SourceSeen::Artifact {
                url: format!("{BUCKET}{}", self.artifacts),
                revision: self.artifacts.to_string(),
                digest: self.bucket_digest(),
            }),
            Question::Requirements => Answer::Requirements(self.operators[operator].caches.requirements(&key.name)),
            Question::Dependents => Answer::Stacks(
                self.operators[operator]
                    .caches
                    .stacks(|stack| stack.spec.prerequisites.iter().any(|required| required.name == key.name)),
            ),
            Question::Namesakes { deploys } => Answer::Stacks(self.operators[operator].caches.stacks(|stack| {
                stack::deploys(stack) == *deploys && stack.metadata.name.as_deref() != Some(&key.name)
            })),
            Question::NamespaceTerminating => Answer::Terminating(false),
            Question::RunsIn { workspace } => {
                let all = self.api.all(Kind::Update).filter_map(|thing| thing.update());
                let there = all.filter(|update| {
                    update.spec.workspace_name.as_ref() == Some(workspace)
                        && !ended(update)
                        && update.status.as_ref().is_some_and(|status| status.run.is_some())
                });
                Answer::Updates(there.cloned().collect())
            }
            Question::Outputs { secret } => Answer::Outputs(self.api.secrets.get(secret).map(|found| {
                let shown = |(name, value): (&String, &serde_json::Value)| {
                    let masked = serde_json::Value::from(pko_api::outputs::SECRET_PLACEHOLDER);
                    (name.clone(), if found.secret.contains(name) { masked } else { value.clone() })
                };
                found.outputs.iter().map(shown).collect()
            })),
            Question::Artifact => {
                let program = self.operators[operator].caches.get(key.kind, &key.name).cloned();
                let program = program.as_ref().and_then(|thing| thing.program()).map(packed);
                Answer::Artifact(program.ok_or_else(|| "there is no such Program".to_owned()))
            }
            Question::Run { pod, run_id } => Answer::Run(self.agents.run(&pod.uid, run_id, self.now)),
            Question::LatestRun { pod, prefix } => Answer::Run(self.agents.latest(&pod.uid, prefix, self.now)),
        })
    }

    /// Carries an effect out, or fails to, or does and fails to say so.
    fn perform(&mut self, effect: &Effect) -> Result<Option<String>, Refused> {
        if self.faults && self.chance.percent(2) {
            self.fault(faults::WRITE_FAILS);
            return Err(Refused::Failed("the write failed"));
        }
        let effect = mutants::altered(self, effect);
        let done = effects::carry_out(self, &effect);
        if done.is_ok() {
            self.writes += 1;
            self.counts.hit(Group::Effect, effect.name());
            effects::count_reasons(&mut self.counts, &effect);
            users::react(self, &effect);
            if self.faults && self.chance.percent(2) {
                self.fault(faults::WRITE_UNKNOWN);
                return Err(Refused::Failed("nobody knows whether it was written"));
            }
        }
        done
    }
}

/// Questions about caches that the object is likely to raise.
fn foreseen(object: &Thing) -> Vec<Question> {
    match object {
        Thing::Stack(stack) => {
            let name = object.name().to_owned();
            let current = stack.status.as_ref().and_then(|status| status.current_update.as_ref());
            let mut questions: Vec<Question> =
                current.map(|current| Question::Cached(Kind::Update, current.name.clone())).into_iter().collect();
            questions.push(Question::UpdatesOf { stack: name.clone() });
            questions.extend(stack.spec.program_ref.iter().map(|it| Question::Cached(Kind::Program, it.name.clone())));
            questions.push(Question::Cached(Kind::Workspace, name));
            let used = stack.spec.env_refs.values().filter_map(|it| it.secret.as_ref());
            questions.extend(used.map(|it| Question::Reference(ReferenceKind::Secret, it.name.clone())));
            if stack.metadata.deletion_timestamp.is_some() {
                questions.push(Question::Dependents);
            } else {
                questions.push(Question::Namesakes { deploys: stack::deploys(stack) });
                questions.extend((!stack.spec.prerequisites.is_empty()).then_some(Question::Requirements));
            }
            questions
        }
        Thing::Workspace(_) => vec![
            Question::Cached(Kind::StatefulSet, names::stateful_set(object.name())),
            Question::Cached(Kind::Pod, names::pod(object.name())),
            Question::UpdatesIn { workspace: object.name().to_owned() },
        ],
        Thing::Update(update) => {
            let stack = object.stack_name().map(|name| Question::Cached(Kind::Stack, name.to_owned()));
            let workspace = update.spec.workspace_name.clone();
            stack.into_iter().chain(workspace.map(|workspace| Question::UpdatesIn { workspace })).collect()
        }
        _ => Vec::new(),
    }
}

fn short(answer: &Answer) -> String {
    match answer {
        Answer::Object(Some(object)) => effects::shown(object),
        Answer::Updates(updates) => {
            let names: Vec<&str> = updates.iter().filter_map(|update| update.metadata.name.as_deref()).collect();
            format!("{names:?}")
        }
        other => format!("{other:?}"),
    }
}
