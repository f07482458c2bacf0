//! The shell that the core is driven in: reads what it asks, writes what it decides, has no opinion.

mod events;
mod outputs;
mod reads;
mod writes;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;
use pko_core::{
    ask::{Answer, Question, RunAnswer, RunState},
    driver::Shell,
    effect::Effect,
    facts::Facts,
    seen::{Key, Object, PodRef},
    settings::Settings,
};
use tracing::{debug, info};

use crate::{
    agents::{Agents, Followers},
    artifacts::Packs,
    cluster::{Cluster, Failure},
    reconcile::Places,
    sources::Sources,
    store::Store,
};
use events::Events;
pub(crate) use reads::Reads;

/// The shell of a running operator.
#[derive(Debug)]
pub struct Live {
    cluster: Cluster,
    reads: Reads,
    store: Arc<Store>,
    agents: Arc<Agents>,
    followers: Arc<Followers>,
    settings: Settings,
    events: Events,
    places: Places,
    /// What was refused when an object was last decided about.
    refused: Mutex<HashMap<Key, String>>,
}

impl Live {
    pub fn new(
        cluster: &Cluster,
        store: Arc<Store>,
        agents: Arc<Agents>,
        followers: Arc<Followers>,
        settings: Settings,
        places: Places,
        sources: Arc<Sources>,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            reads: Reads { cluster: cluster.clone(), agents: Arc::clone(&agents), packs: Packs::default(), sources },
            store,
            agents,
            followers,
            settings,
            events: Events::new(cluster.clone()),
            places,
            refused: Mutex::default(),
        }
    }

    /// Keeps what was refused, if anything was, until the next decision; says whether something was before.
    pub(crate) fn note_refusal(&self, key: &Key, refusal: Option<String>) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        match refusal {
            Some(refusal) => refused.insert(key.clone(), refusal),
            None => refused.remove(key),
        }
        .is_some()
    }

    fn cached(&self, key: &Key) -> Option<Object> {
        self.store.get(key)
    }

    /// A run that goes on is followed by whoever heard of it.
    fn follow(&self, key: &Key, pod: &PodRef, answer: &RunAnswer) {
        if let RunAnswer::Known(run) = answer
            && matches!(run.state, RunState::Running(_))
        {
            self.followers.follow(key, pod, &run.run_id);
        }
    }
}

impl Shell for Live {
    type Error = Failure;

    async fn observe(&self, key: &Key) -> Result<Facts, Failure> {
        let settings = Settings { known_hosts: self.reads.sources.known_hosts(), ..self.settings.clone() };
        let mut facts = Facts::new(key.clone(), Timestamp::now(), settings, self.cached(key));
        if facts.object.is_none() {
            facts.gone = self.store.gone(key);
        }
        facts.refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        Ok(facts)
    }

    async fn answer(&self, key: &Key, question: &Question) -> Result<Answer, Failure> {
        let answer = match question {
            Question::Cached(kind, name) => {
                Answer::Object(self.cached(&Key { kind: *kind, namespace: key.namespace.clone(), name: name.clone() }))
            }
            Question::UpdatesOf { stack } => Answer::Updates(self.store.updates_of(&key.namespace, stack)),
            Question::UpdatesIn { workspace } => Answer::Updates(self.store.updates_in(&key.namespace, workspace)),
            Question::Requirements => Answer::Requirements(self.store.requirements(&key.namespace, &key.name)),
            Question::Dependents => Answer::Stacks(self.store.dependents(&key.namespace, &key.name)),
            Question::Namesakes { deploys } => Answer::Stacks(self.store.namesakes(&key.namespace, deploys, &key.name)),
            Question::Artifact => self.reads.artifact(self.cached(key).as_ref()),
            Question::Live(..)
            | Question::RunsIn { .. }
            | Question::Outputs { .. }
            | Question::Reference(..)
            | Question::NamespaceTerminating
            | Question::Source(_)
            | Question::Admission { .. } => self.reads.answer(key, question).await?,
            // Agents and repositories may take their time.
            Question::Revision(_) | Question::Run { .. } | Question::LatestRun { .. } => {
                self.places.lend(self.reads.answer(key, question)).await?
            }
        };
        if let (Question::Run { pod, .. } | Question::LatestRun { pod, .. }, Answer::Run(run)) = (question, &answer) {
            self.follow(key, pod, run);
        }
        Ok(answer)
    }

    async fn perform(&self, key: &Key, effect: &Effect) -> Result<Option<String>, Failure> {
        let version = match effect {
            Effect::StartInit { .. }
            | Effect::StartUpdate { .. }
            | Effect::CancelRun { .. }
            | Effect::StoreOutputs { .. } => self.places.lend(self.write(key, effect)).await?,
            _ => self.write(key, effect).await?,
        };
        if matches!(effect, Effect::Publish { .. }) {
            debug!(object = %key, "{}", effect.name());
        } else {
            info!(object = %key, "{}", effect.name());
        }
        Ok(version)
    }
}
