//! Kinds that are known by name only: which version of them the server has now, and where.

use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;

use crate::cluster::{Cause, Cluster, Failure, is_segment};

/// A kind of namespaced objects, as the server has it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) plural: String,
}

impl Served {
    pub(super) fn path(&self, namespace: &str, name: &str) -> String {
        let Self { group, version, plural, .. } = self;
        format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}")
    }

    pub(super) fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(&self.group, &self.version, &self.kind);
        ApiResource::from_gvk_with_plural(&kind, &self.plural)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    #[serde(default)]
    preferred_version: Version,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Kinds {
    #[serde(default)]
    resources: Vec<KindOf>,
}

#[derive(Deserialize)]
struct KindOf {
    name: String,
    kind: String,
    namespaced: bool,
}

/// A kind in the version that was asked for, or else in one that the group has now; or why there is none, in words.
pub(super) async fn find(
    cluster: &Cluster,
    group: &str,
    version: &str,
    kind: &str,
) -> Result<Result<Served, String>, Failure> {
    // Groups of custom kinds have a dot in their names. None of Kubernetes' own kinds has an artifact.
    if !group.contains('.') || !is_segment(group) || !is_segment(version) {
        return Ok(Err(format!(
            "no kind {kind} with an artifact in group {group:?}; apiVersion is that of a source, such as \
             source.toolkit.fluxcd.io/v1"
        )));
    }
    let mut kinds = Vec::new();
    if let Some(found) = in_version(cluster, group, version, kind, &mut kinds).await? {
        return Ok(found);
    }
    let Some(served) = get::<Group>(cluster, &format!("/apis/{group}"), group).await? else {
        return Ok(Err(format!("no kind {kind} in {group}, {}", remedy(group))));
    };
    let mut versions = vec![served.preferred_version.version];
    versions.extend(served.versions.into_iter().map(|other| other.version));
    let mut tried = vec![version.to_owned(), String::new()];
    for other in versions {
        if tried.contains(&other) {
            continue;
        }
        if let Some(found) = in_version(cluster, group, &other, kind, &mut kinds).await? {
            return Ok(found);
        }
        tried.push(other);
    }
    kinds.sort();
    kinds.dedup();
    Ok(Err(match kinds.len() {
        0 => format!("no kind {kind} in {group}, {}", remedy(group)),
        _ => format!("no kind {kind} in {group}; it has {}", kinds.join(", ")),
    }))
}

fn remedy(group: &str) -> &'static str {
    if group.ends_with(".fluxcd.io") { "is Flux installed?" } else { "is what brings it installed?" }
}

/// Notes which kinds there are.
async fn in_version(
    cluster: &Cluster,
    group: &str,
    version: &str,
    kind: &str,
    kinds: &mut Vec<String>,
) -> Result<Option<Result<Served, String>>, Failure> {
    let found: Option<Kinds> = get(cluster, &format!("/apis/{group}/{version}"), group).await?;
    for other in found.into_iter().flat_map(|found| found.resources) {
        // Parts of objects are listed as well.
        if other.name.contains('/') {
            continue;
        }
        if other.kind == kind {
            return Ok(Some(if other.namespaced {
                let (group, version, kind) = (group.to_owned(), version.to_owned(), kind.to_owned());
                Ok(Served { group, version, kind, plural: other.name })
            } else {
                Err(format!("{kind} of {group} is in no namespace, and a Stack takes its source from its own"))
            }));
        }
        kinds.push(other.kind);
    }
    Ok(None)
}

async fn get<T: for<'de> Deserialize<'de>>(cluster: &Cluster, path: &str, group: &str) -> Result<Option<T>, Failure> {
    match cluster.get_at(path, &format!("the kinds of {group}")).await {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.cause == Cause::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}
