//! The shell that the core is driven in: reads what it asks, writes what it decides, has no opinion.

mod events;
mod outputs;
mod reads;
mod writes;

use std::sync::Arc;

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
}

impl Live {
    pub fn new(
        cluster: &Cluster,
        store: Arc<Store>,
        agents: Arc<Agents>,
        followers: Arc<Followers>,
        settings: Settings,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            reads: Reads { cluster: cluster.clone(), agents: Arc::clone(&agents), packs: Packs::default() },
            store,
            agents,
            followers,
            settings,
            events: Events::new(cluster.clone()),
        }
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
        Ok(Facts::new(key.clone(), Timestamp::now(), self.settings.clone(), self.cached(key)))
    }

    async fn answer(&self, key: &Key, question: &Question) -> Result<Answer, Failure> {
        let answer = match question {
            Question::Cached(kind, name) => {
                Answer::Object(self.cached(&Key { kind: *kind, namespace: key.namespace.clone(), name: name.clone() }))
            }
            Question::UpdatesOf { stack } => Answer::Updates(self.store.updates_of(&key.namespace, stack)),
            Question::Artifact => self.reads.artifact(self.cached(key).as_ref()),
            Question::Live(..)
            | Question::RunsIn { .. }
            | Question::Outputs { .. }
            | Question::Run { .. }
            | Question::LatestRun { .. } => self.reads.answer(key, question).await?,
        };
        if let (Question::Run { pod, .. } | Question::LatestRun { pod, .. }, Answer::Run(run)) = (question, &answer) {
            self.follow(key, pod, run);
        }
        Ok(answer)
    }

    async fn perform(&self, key: &Key, effect: &Effect) -> Result<Option<String>, Failure> {
        let version = self.write(key, effect).await?;
        if matches!(effect, Effect::Publish { .. }) {
            debug!(object = %key, "{}", effect.name());
        } else {
            info!(object = %key, "{}", effect.name());
        }
        Ok(version)
    }
}
