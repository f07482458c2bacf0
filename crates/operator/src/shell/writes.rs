//! Effects as requests. Each can be repeated; what its object's absence or change means is decided per effect, here.

use pko_api::{Update, annotations, finalizers, managers, names};
use pko_core::{
    effect::{Effect, Status, Target},
    seen::{Key, Kind},
};
use serde_json::{Value, json};
use tracing::warn;

use super::{Live, outputs};
use crate::{
    agents::LARGEST,
    cluster::{At, Cause, Failure, Resource, Written, resources},
};

impl Live {
    /// Yields the new version of an object whose version guarded the write.
    pub(super) async fn write(&self, key: &Key, effect: &Effect) -> Result<Option<String>, Failure> {
        let namespace = key.namespace.as_str();
        match effect {
            Effect::Status { on, status } => return self.status(namespace, on, status).await,
            Effect::HoldStack { on, finalizers } => return self.finalizers(namespace, on, finalizers).await,
            Effect::ReleaseStack { on, finalizers } => {
                return match self.finalizers(namespace, on, finalizers).await {
                    Err(failure) if failure.cause == Cause::NotFound => Ok(None),
                    other => other,
                };
            }
            Effect::RequestUpdate { on, request } => {
                let at = At::new(&resources::STACKS, namespace, &on.name);
                let mut body = identified(&at, on);
                body["metadata"]["annotations"] = json!({annotations::PREREQUISITE_REQUEST: request});
                let asked = self.cluster.apply(&at, managers::PREREQUISITE_REQUEST, &body).await;
                self.unless_gone(&at, &on.uid, asked).await?;
            }
            Effect::ApplyWorkspace { workspace, uid } => {
                let mut body = encoded(workspace.as_ref())?;
                if let Some(uid) = uid {
                    body["metadata"]["uid"] = json!(uid);
                }
                self.apply(namespace, &resources::WORKSPACES, body).await?;
            }
            Effect::CreateUpdate(update) => self.create_update(namespace, update).await?,
            Effect::HoldUpdate { on } => {
                let held = self.update_finalizers(namespace, on, &[finalizers::STACK]).await?;
                drop(held);
            }
            Effect::ReleaseUpdate { on } => self.release_update(namespace, on).await?,
            Effect::DeleteUpdate { on } | Effect::DeleteWorkspace { on } => {
                let at = At::new(Resource::of(on.kind), namespace, &on.name);
                self.unless_gone(&at, &on.uid, self.cluster.delete(&at, &on.uid).await).await?;
            }
            Effect::KeepProgram(program) => self.reads.copies.keep(namespace, program).await?,
            Effect::DropProgram { on, generation } => self.reads.copies.drop(namespace, on, *generation).await?,
            Effect::ApplyService { service } => self.apply(namespace, &resources::SERVICES, service.clone()).await?,
            Effect::ApplyStatefulSet { stateful_set } => {
                self.apply(namespace, &resources::STATEFUL_SETS, stateful_set.clone()).await?;
            }
            Effect::DeletePod { pod } => {
                let at = At::new(&resources::PODS, namespace, &pod.name);
                self.unless_gone(&at, &pod.uid, self.cluster.delete(&at, &pod.uid).await).await?;
            }
            Effect::MarkInitialized { pod, stacks_hash } => {
                let at = At::new(&resources::PODS, namespace, &pod.name);
                let marks = json!({annotations::INITIALIZED: annotations::TRUE, annotations::STACKS_HASH: stacks_hash});
                let body = json!({"metadata": {"uid": pod.uid, "annotations": marks}});
                self.cluster.merge(&at, managers::OPERATOR, &body).await?;
            }
            Effect::StartInit { pod, run_id, init } => {
                let run = self.agents.start_init(namespace, pod, run_id, init).await?;
                self.follow(key, pod, &run);
            }
            Effect::StartUpdate { pod, run_id, operation } => {
                let run = self.agents.start_update(namespace, pod, run_id, operation).await?;
                self.follow(key, pod, &run);
            }
            Effect::CancelRun { pod, run_id } => self.agents.cancel(namespace, pod, run_id).await?,
            Effect::StoreOutputs { pod, run_id, update } => {
                let mut collected = self.agents.outputs(namespace, pod, run_id).await?;
                collected.fit(LARGEST);
                if !collected.left_out.is_empty() {
                    let names = collected.left_out.join(", ");
                    warn!(object = %key, "outputs that do not fit into a Secret were left out: {names}");
                }
                self.store_outputs(namespace, update, &outputs::secret(namespace, update, &collected.outputs)).await?;
            }
            Effect::Publish { on, event } => self.events.publish(key, on, event).await,
        }
        Ok(None)
    }

    /// What follows a status depends on its being written, so an object that is gone ends it all.
    async fn status(&self, namespace: &str, on: &Target, status: &Status) -> Result<Option<String>, Failure> {
        let (manager, status) = match status {
            Status::Stack(status) => (managers::STACK_STATUS, encoded(status)?),
            Status::Program(status) => (managers::PROGRAM_STATUS, encoded(status)?),
            Status::Workspace(status) => (managers::WORKSPACE_STATUS, encoded(status)?),
            Status::Update(status) => (managers::UPDATE_STATUS, encoded(status)?),
        };
        let at = At::new(Resource::of(on.kind), namespace, &on.name);
        let mut body = identified(&at, on);
        body["metadata"]["resourceVersion"] = json!(on.resource_version);
        body["status"] = status;
        Ok(self.cluster.apply(&at.status(), manager, &body).await?.metadata.resource_version)
    }

    /// Replaces all finalizers of a Stack that is of the given version.
    async fn finalizers(&self, namespace: &str, on: &Target, all: &[String]) -> Result<Option<String>, Failure> {
        let at = At::new(&resources::STACKS, namespace, &on.name);
        let body = guarded(on, &on.resource_version, all);
        Ok(self.cluster.merge(&at, managers::OPERATOR, &body).await?.metadata.resource_version)
    }

    /// The name is the body's own.
    async fn apply(&self, namespace: &str, resource: &'static Resource, mut body: Value) -> Result<(), Failure> {
        body["metadata"]["namespace"] = json!(namespace);
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.cluster.apply(&At::new(resource, namespace, &name), managers::OPERATOR, &body).await?;
        Ok(())
    }

    async fn create_update(&self, namespace: &str, update: &Update) -> Result<(), Failure> {
        let name = update.metadata.name.as_deref().unwrap_or_default();
        let mut body = encoded(update)?;
        body["metadata"]["namespace"] = json!(namespace);
        match self.cluster.create(&At::new(&resources::UPDATES, namespace, name), managers::OPERATOR, &body).await {
            Err(failure) if failure.cause != Cause::AlreadyExists => Err(failure),
            _ => Ok(()),
        }
    }

    async fn update_finalizers(&self, namespace: &str, on: &Target, ours: &[&str]) -> Result<Written, Failure> {
        let at = At::new(&resources::UPDATES, namespace, &on.name);
        let mut body = identified(&at, on);
        if !ours.is_empty() {
            body["metadata"]["finalizers"] = json!(ours);
        }
        self.cluster.apply(&at, managers::STACK_FINALIZER, &body).await
    }

    /// An operator before us may have set the finalizer under another name; then letting go of ours leaves it there.
    async fn release_update(&self, namespace: &str, on: &Target) -> Result<(), Failure> {
        let at = At::new(&resources::UPDATES, namespace, &on.name);
        let released = self.update_finalizers(namespace, on, &[]).await;
        let Some(left) = self.unless_gone(&at, &on.uid, released).await? else { return Ok(()) };
        let mut remaining = left.metadata.finalizers.unwrap_or_default();
        let version = left.metadata.resource_version.unwrap_or_default();
        if !remaining.iter().any(|name| name == finalizers::STACK) {
            return Ok(());
        }
        remaining.retain(|name| name != finalizers::STACK);
        let body = guarded(on, &version, &remaining);
        let removed = self.cluster.merge(&at, managers::STACK_FINALIZER, &body).await;
        self.unless_gone(&at, &on.uid, removed).await?;
        Ok(())
    }

    async fn store_outputs(&self, namespace: &str, update: &Target, secret: &Value) -> Result<(), Failure> {
        let name = names::outputs_secret(&update.name);
        let at = At::new(&resources::SECRETS, namespace, &name);
        let failure = match self.cluster.create(&at, managers::OPERATOR, secret).await {
            Err(failure) if failure.cause == Cause::AlreadyExists => failure,
            other => return other.map(drop),
        };
        let found = self.cluster.get_metadata(&at).await?.unwrap_or_default();
        let owners = found.metadata.owner_references.unwrap_or_default();
        if owners.iter().any(|owner| owner.uid == update.uid) {
            return Ok(());
        }
        let why = format!("there is one that does not belong to Update {}; delete it. {failure}", update.name);
        Err(Failure::new(Cause::Other, "creating", &at, why))
    }

    /// A write to an object that is gone, or that is another of the same name by now, has nothing left to do.
    async fn unless_gone<T>(&self, at: &At<'_>, uid: &str, written: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match written {
            Ok(written) => Ok(Some(written)),
            Err(failure) if failure.cause == Cause::NotFound => Ok(None),
            Err(failure) if failure.cause == Cause::Conflict && self.cluster.is_gone(at, uid).await? => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// The body of an apply to an object, that very one.
fn identified(at: &At<'_>, on: &Target) -> Value {
    json!({
        "apiVersion": at.resource.api_version,
        "kind": at.resource.kind,
        "metadata": {"name": on.name, "namespace": at.namespace, "uid": on.uid},
    })
}

/// A merge patch of finalizers, on that very object in that very version.
fn guarded(on: &Target, version: &str, finalizers: &[String]) -> Value {
    json!({"metadata": {"uid": on.uid, "resourceVersion": version, "finalizers": finalizers}})
}

fn encoded(object: &impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(object).map_err(|error| Failure::new(Cause::Other, "encoding", "an object", error.to_string()))
}

/// The kinds that a decision may be about.
pub(super) const fn recorder(kind: Kind) -> &'static str {
    use pko_api::events::recorder;
    match kind {
        Kind::Stack => recorder::STACK,
        Kind::Program => recorder::PROGRAM,
        Kind::Update => recorder::UPDATE,
        Kind::Workspace | Kind::StatefulSet | Kind::Pod => recorder::WORKSPACE,
    }
}
