//! Reads of things as they are.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{Guarded, Program, Stack, Update, Workspace};
use pko_core::{
    ask::{Answer, Generations, Question},
    references::{ReferenceKind, ReferenceSeen},
    seen::{Key, Kind, Object, PodSeen, StatefulSetSeen, ended, held, running},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::outputs;
use crate::{
    agents::Agents,
    artifacts::{Copies, Packs},
    cluster::{At, Cause, Cluster, Failure, Resource, resources},
    sources::Sources,
    store::{Link, Store},
    wake, watch,
};

/// What it takes to read.
#[derive(Debug)]
pub(crate) struct Reads {
    pub(crate) cluster: Cluster,
    pub(crate) agents: Arc<Agents>,
    pub(crate) packs: Packs,
    pub(crate) copies: Copies,
    pub(crate) sources: Arc<Sources>,
}

impl Reads {
    /// Answers from the server, from agents and from repositories, never from what the watches have shown.
    pub(crate) async fn answer(&self, key: &Key, question: &Question) -> Result<Answer, Failure> {
        let namespace = key.namespace.as_str();
        Ok(match question {
            Question::Cached(kind, name) | Question::Live(kind, name) => {
                Answer::Object(self.object(*kind, namespace, name).await?)
            }
            Question::UpdatesOf { stack } => {
                let of_stack = Some(Link::OfStack(stack.clone()));
                let keep = |update: &Update| held(&update.metadata) && wake::of_stack(&update.metadata) == of_stack;
                Answer::Updates(self.updates(namespace, keep).await?)
            }
            Question::RunsIn { workspace } => {
                let keep = |update: &Update| running(update) && update.spec.workspace_name.as_ref() == Some(workspace);
                Answer::Updates(self.updates(namespace, keep).await?)
            }
            Question::UpdatesIn { workspace } => {
                let keep = |update: &Update| !ended(update) && update.spec.workspace_name.as_ref() == Some(workspace);
                Answer::Updates(self.updates(namespace, keep).await?)
            }
            Question::Reference(kind, name) => Answer::Reference(self.reference(*kind, namespace, name).await?),
            Question::Admission { stateful_set } => Answer::Admission(self.admission(namespace, stateful_set).await?),
            Question::Revision(listing) => Answer::Revision(self.sources.revision(key, listing).await?),
            Question::Source(source) => Answer::Source(self.sources.artifact(namespace, source).await?),
            Question::Requirements | Question::Dependents | Question::Namesakes { .. } => {
                self.among_stacks(key, question).await?
            }
            Question::NamespaceTerminating => Answer::Terminating(self.terminating(namespace).await?),
            Question::Generations => Answer::Generations(Generations {
                kept: self.copies.generations(namespace, &key.name).await?,
                used: self.generations_used(namespace, &key.name).await?,
            }),
            Question::Outputs { secret } => {
                let at = At::new(&resources::SECRETS, namespace, secret);
                Answer::Outputs(self.cluster.get(&at).await?.as_ref().map(outputs::masked))
            }
            Question::Artifact => self.artifact(self.object(key.kind, namespace, &key.name).await?.as_ref()),
            Question::Run { pod, run_id } => Answer::Run(self.agents.run(namespace, pod, run_id).await?),
            Question::LatestRun { pod, prefix } => Answer::Run(self.agents.latest_run(namespace, pod, prefix).await?),
        })
    }

    pub(super) fn artifact(&self, object: Option<&Object>) -> Answer {
        let program = object.and_then(Object::program);
        Answer::Artifact(program.map_or_else(|| Err("it is gone".to_owned()), |program| self.packs.of(program)))
    }

    /// An object as it is.
    pub(crate) async fn object(&self, kind: Kind, namespace: &str, name: &str) -> Result<Option<Object>, Failure> {
        let at = At::new(Resource::of(kind), namespace, name);
        Ok(match kind {
            Kind::Stack => self.ours::<Stack>(&at, Object::Stack).await?,
            Kind::Program => self.ours::<Program>(&at, Object::Program).await?,
            Kind::Workspace => self.ours::<Workspace>(&at, Object::Workspace).await?,
            Kind::Update => self.ours::<Update>(&at, Object::Update).await?,
            Kind::StatefulSet => {
                self.cluster.get(&at).await?.map(|set: StatefulSet| Object::StatefulSet(StatefulSetSeen::from(&set)))
            }
            Kind::Pod => self.cluster.get(&at).await?.map(|pod: Pod| Object::Pod(PodSeen::from(&pod))),
        })
    }

    /// Which keys a Secret or a ConfigMap has, and when it was last written. Values stay here.
    async fn reference(
        &self,
        kind: ReferenceKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ReferenceSeen>, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Keyed {
            metadata: ObjectMeta,
            #[serde(default)]
            data: Option<serde_json::Map<String, Value>>,
            #[serde(default)]
            binary_data: Option<serde_json::Map<String, Value>>,
        }
        let resource = match kind {
            ReferenceKind::Secret => &resources::SECRETS,
            ReferenceKind::ConfigMap => &resources::CONFIG_MAPS,
        };
        let found: Option<Keyed> = self.cluster.get(&At::new(resource, namespace, name)).await?;
        Ok(found.map(|found| {
            let written = found.metadata.managed_fields.iter().flatten().filter_map(|entry| entry.time.clone());
            let written = written.chain(found.metadata.creation_timestamp).map(|time| time.0).max();
            // Known only to those who may read the object itself: so a short value cannot be found by trying.
            let uid = found.metadata.uid.unwrap_or_default();
            let digest = |value: &Value| {
                let inner = Sha256::digest([uid.as_bytes(), &[0], value.to_string().as_bytes()].concat());
                format!("{:x}", Sha256::digest([uid.as_bytes(), &[1], inner.as_slice()].concat()))
            };
            let keys = found.data.into_iter().chain(found.binary_data).flatten();
            ReferenceSeen { keys: keys.map(|(key, value)| (key, digest(&value))).collect(), changed: written }
        }))
    }

    /// What the store answers where there is one.
    async fn generations_used(&self, namespace: &str, program: &str) -> Result<BTreeSet<i64>, Failure> {
        let found: Vec<Guarded<Workspace>> = self.cluster.list(&resources::WORKSPACES, namespace, |_| true).await?;
        let used = found.iter().filter_map(|workspace| wake::fetches(&workspace.readable()?.spec));
        Ok(used.filter(|(name, _)| name == program).map(|(_, generation)| generation).collect())
    }

    async fn terminating(&self, namespace: &str) -> Result<bool, Failure> {
        let found: Option<Value> = self.cluster.get(&At::cluster_wide(&resources::NAMESPACES, namespace)).await?;
        Ok(found.is_none_or(|found| !found["metadata"]["deletionTimestamp"].is_null()))
    }

    /// What the store answers where there is one.
    async fn among_stacks(&self, key: &Key, question: &Question) -> Result<Answer, Failure> {
        let store = Store::default();
        let found: Vec<Guarded<Stack>> = self.cluster.list(&resources::STACKS, &key.namespace, |_| true).await?;
        for stack in found {
            let object = watch::seen(stack, Object::Stack);
            let Some(name) = object.stack().and_then(|stack| stack.metadata.name.clone()) else { continue };
            let links = wake::links(&object);
            store.put(Key { kind: Kind::Stack, namespace: key.namespace.clone(), name }, &object, links);
        }
        Ok(match question {
            Question::Requirements => Answer::Requirements(store.requirements(&key.namespace, &key.name)),
            Question::Namesakes { deploys } => Answer::Stacks(store.namesakes(&key.namespace, deploys, &key.name)),
            _ => Answer::Stacks(store.dependents(&key.namespace, &key.name)),
        })
    }

    /// Asks for the pod without having it made. What keeps us from asking is no answer.
    async fn admission(&self, namespace: &str, stateful_set: &str) -> Result<Option<String>, Failure> {
        let set: Option<Value> = self.cluster.get(&At::new(&resources::STATEFUL_SETS, namespace, stateful_set)).await?;
        let Some(set) = set else { return Ok(None) };
        let name = format!("{stateful_set}-0");
        let mut pod = set["spec"]["template"].clone();
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["namespace"] = json!(namespace);
        pod["apiVersion"] = json!(resources::PODS.api_version);
        pod["kind"] = json!(resources::PODS.kind);
        let at = At::new(&resources::PODS, namespace, &name);
        let path = format!("{}?dryRun=All", at.collection());
        Ok(match self.cluster.post::<IgnoredAny>(&at, &path, &pod).await {
            Err(failure) if failure.cause == Cause::Invalid => Some(failure.why().to_owned()),
            _ => None,
        })
    }

    async fn ours<K: DeserializeOwned + kube::Resource>(
        &self,
        at: &At<'_>,
        readable: fn(Box<K>) -> Object,
    ) -> Result<Option<Object>, Failure> {
        let found: Option<Guarded<K>> = self.cluster.get(at).await?;
        Ok(found.map(|mut object| {
            kube::Resource::meta_mut(&mut object).managed_fields = None;
            watch::seen(object, readable)
        }))
    }

    async fn updates(&self, namespace: &str, keep: impl Fn(&Update) -> bool) -> Result<Vec<Update>, Failure> {
        let kept = |update: &Guarded<Update>| update.readable().is_some_and(&keep);
        let found = self.cluster.list(&resources::UPDATES, namespace, kept).await?;
        Ok(found.into_iter().filter_map(|update| update.0.ok()).collect())
    }
}
