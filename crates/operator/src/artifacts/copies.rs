//! Copies of Programs by generation, as ControllerRevisions that go with their Program. A pod may start long after its
//! Program was changed, and every replica has to find what it was made for.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{Program, labels, managers, names};
use pko_core::effect::Target;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cluster::{At, Cause, Cluster, Failure, Written, resources};

/// Where the copies are.
#[derive(Clone, Debug)]
pub struct Copies {
    cluster: Cluster,
}

#[derive(Deserialize)]
struct Revision {
    metadata: ObjectMeta,
    #[serde(default)]
    data: Value,
    #[serde(default, rename = "revision")]
    generation: i64,
}

impl Copies {
    pub const fn new(cluster: Cluster) -> Self {
        Self { cluster }
    }

    /// Keeps a copy of a Program as it is; one that exists already is the same one.
    pub(crate) async fn keep(&self, namespace: &str, program: &Program) -> Result<(), Failure> {
        let name = program.metadata.name.as_deref().unwrap_or_default();
        let generation = program.metadata.generation.unwrap_or_default();
        let copy = names::program_copy(name, generation);
        let at = At::new(&resources::CONTROLLER_REVISIONS, namespace, &copy);
        let body = json!({
            "apiVersion": resources::CONTROLLER_REVISIONS.api_version,
            "kind": resources::CONTROLLER_REVISIONS.kind,
            "metadata": {
                "name": copy,
                "namespace": namespace,
                "labels": labels::of_program(name),
                "ownerReferences": [{
                    "apiVersion": Program::API_VERSION,
                    "kind": Program::KIND,
                    "name": name,
                    "uid": program.metadata.uid,
                    "controller": true,
                }],
            },
            "data": {"program": program.program},
            "revision": generation,
        });
        match self.cluster.create(&at, managers::OPERATOR, &body).await {
            Err(failure) if failure.cause != Cause::AlreadyExists => Err(failure),
            _ => Ok(()),
        }
    }

    /// Lets go of one.
    pub(crate) async fn drop(&self, namespace: &str, program: &Target, generation: i64) -> Result<(), Failure> {
        let copy = names::program_copy(&program.name, generation);
        let at = At::new(&resources::CONTROLLER_REVISIONS, namespace, &copy);
        let Some(found) = self.cluster.get_metadata(&at).await? else { return Ok(()) };
        if !belongs(&found.metadata, &program.uid) {
            return Ok(());
        }
        match self.cluster.delete(&at, found.metadata.uid.as_deref().unwrap_or_default()).await {
            Err(failure) if !matches!(failure.cause, Cause::NotFound | Cause::Conflict) => Err(failure),
            _ => Ok(()),
        }
    }

    /// The generations that are kept of a Program.
    pub(crate) async fn generations(&self, namespace: &str, program: &str) -> Result<BTreeSet<i64>, Failure> {
        let prefix = names::program_copy(program, 0);
        let prefix = prefix.trim_end_matches('0');
        let of_program = |found: &Written| {
            let label = found.metadata.labels.as_ref().and_then(|all| all.get(labels::PROGRAM_NAME));
            label.is_some_and(|name| name == program)
        };
        let found = self.cluster.list(&resources::CONTROLLER_REVISIONS, namespace, of_program).await?;
        let names = found.iter().filter_map(|found| found.metadata.name.as_deref()?.strip_prefix(prefix));
        Ok(names.filter_map(|generation| generation.parse().ok()).collect())
    }

    /// A Program as it was in an earlier generation; nothing if there is no copy.
    pub async fn of(&self, program: &Program, generation: i64) -> Result<Option<Program>, Failure> {
        let name = program.metadata.name.as_deref().unwrap_or_default();
        let namespace = program.metadata.namespace.as_deref().unwrap_or_default();
        let copy = names::program_copy(name, generation);
        let at = At::new(&resources::CONTROLLER_REVISIONS, namespace, &copy);
        let Some(found) = self.cluster.get::<Revision>(&at).await? else { return Ok(None) };
        let uid = program.metadata.uid.as_deref().unwrap_or_default();
        if found.generation != generation || !belongs(&found.metadata, uid) {
            return Ok(None);
        }
        let Ok(spec) = serde_json::from_value(found.data["program"].clone()) else { return Ok(None) };
        let mut earlier = program.clone();
        earlier.program = spec;
        earlier.metadata.generation = Some(generation);
        Ok(Some(earlier))
    }
}

fn belongs(metadata: &ObjectMeta, program_uid: &str) -> bool {
    metadata.owner_references.iter().flatten().any(|owner| owner.uid == program_uid)
}
