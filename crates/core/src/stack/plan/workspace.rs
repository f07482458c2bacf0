//! The Workspace of a Stack.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{
    Embedded, Stack, Workspace, annotations, labels, names, paths,
    workspace::{FluxSource, PodTemplate, WorkspaceSpec, WorkspaceStack},
};
use serde_json::{Value, json};

use super::{Invalid, Source, config, environment, template};
use crate::{digest, merge::Schema, owner};

const TEMPLATE: &str = "spec.workspaceTemplate";

/// The Workspace as it is applied, with its digest in its annotations.
pub fn workspace(stack: &Stack, source: &Source) -> Result<Workspace, Invalid> {
    bare(stack, source).map(|workspace| with_references(workspace, None))
}

/// The Workspace without any digest.
pub(in crate::stack) fn bare(stack: &Stack, source: &Source) -> Result<Workspace, Invalid> {
    let spec = &stack.spec;
    if spec.stack.is_empty() {
        return Err(Invalid::new("spec.stack: is empty; give the name of the Pulumi stack"));
    }
    let config = config::of(stack)?;
    let pending = WorkspaceStack {
        name: spec.stack.clone(),
        // A destroy never creates a stack: one that is missing is to be told, not to be made and found empty.
        create: Some(!spec.use_local_stack_only && stack.metadata.deletion_timestamp.is_none()),
        secrets_provider: filled(spec.secrets_provider.as_ref()),
        config: config.items,
        environment: spec.environment.clone(),
    };
    let mut generated = Workspace {
        metadata: metadata(stack),
        spec: WorkspaceSpec {
            service_account_name: filled(spec.service_account_name.as_ref()),
            env: environment::variables(stack)?,
            pod_template: Some(pod_template(&config.volumes, &config.mounts)),
            pulumi_log_level: spec.pulumi_log_level.clone(),
            ..WorkspaceSpec::default()
        },
        status: None,
    };
    put_source(&mut generated.spec, source);

    let given = spec.workspace_template.as_ref().map(Embedded::raw);
    let mut workspace: Workspace = template::merged(generated, given, TEMPLATE, Schema::Workspace)?;
    check_source(&mut workspace.spec, source)?;
    if let Some(problem) = workspace.spec.problems().first() {
        let of_template = spec.pulumi_log_level.as_ref().is_none_or(|level| level.good().is_some());
        let field = if of_template { format!("{TEMPLATE}.") } else { String::new() };
        return Err(Invalid::new(format!("{field}{problem}")));
    }
    check_keys(&workspace.spec)?;
    workspace.spec.env_from.extend(environment::sources(stack));
    if workspace.spec.stacks.iter().any(|other| other.name == pending.name) {
        return Err(Invalid::new(format!(
            "{TEMPLATE}.spec.stacks: has the stack that spec.stack names, and which the operator adds itself; remove \
             it there, and configure it with the fields of the Stack"
        )));
    }
    workspace.spec.stacks.push(pending);

    Ok(workspace)
}

/// The same with a digest of the Secrets and ConfigMaps that it uses, so that its pod is renewed when they change, and
/// with its own.
#[must_use]
pub fn with_references(mut workspace: Workspace, hash: Option<&str>) -> Workspace {
    if let Some(hash) = hash {
        let template = workspace.spec.pod_template.get_or_insert_default();
        let annotations = &mut template.metadata.get_or_insert_default().annotations;
        annotations.insert(annotations::REFERENCES_HASH.to_owned(), hash.to_owned());
    }
    let digest = workspace_hash(&workspace);
    workspace.metadata.annotations.get_or_insert_default().insert(annotations::APPLIED_HASH.to_owned(), digest);
    workspace
}

/// The name of a Stack's Workspace, which a template may change.
pub fn workspace_name(stack: &Stack) -> String {
    let given = stack.spec.workspace_template.as_ref().and_then(|template| template.raw()["metadata"]["name"].as_str());
    let given = given.filter(|name| !name.is_empty()).map(str::to_owned);
    given.unwrap_or_else(|| names::workspace(stack.metadata.name.as_deref().unwrap_or_default()))
}

/// A digest of what is applied for a Workspace; of what is only observed, nothing counts.
pub fn workspace_hash(workspace: &Workspace) -> String {
    let metadata = &workspace.metadata;
    let annotations: BTreeMap<&String, &String> =
        metadata.annotations.iter().flatten().filter(|(key, _)| *key != annotations::APPLIED_HASH).collect();
    digest::of(&json!({
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": metadata.labels,
            "annotations": annotations,
            "ownerReferences": metadata.owner_references,
            "finalizers": metadata.finalizers,
        },
        "spec": workspace.spec,
    }))
}

fn metadata(stack: &Stack) -> ObjectMeta {
    let name = stack.metadata.name.as_deref().unwrap_or_default();
    ObjectMeta {
        name: Some(names::workspace(name)),
        namespace: stack.metadata.namespace.clone(),
        labels: Some(labels::of_stack(name)),
        annotations: (!owned(stack)).then(|| [(annotations::DESTROYS.to_owned(), uid(stack))].into()),
        owner_references: owned(stack).then(|| vec![owner::controller(owner::stack(stack))]),
        ..ObjectMeta::default()
    }
}

/// Of a Stack that is deleted, what its destroy needs belongs to nobody: deleted in the foreground, the garbage
/// collector would take it away as often as it is made.
pub(super) const fn owned(stack: &Stack) -> bool {
    stack.metadata.deletion_timestamp.is_none()
}

fn uid(stack: &Stack) -> String {
    stack.metadata.uid.clone().unwrap_or_default()
}

/// The Pulumi container is named even if nothing is mounted: the schema wants a pod's spec to have containers.
fn pod_template(volumes: &[Value], mounts: &[Value]) -> PodTemplate {
    let mut pod = json!({"containers": [{"name": paths::PULUMI_CONTAINER}]});
    if !volumes.is_empty() {
        pod["containers"][0]["volumeMounts"] = json!(mounts);
        pod["volumes"] = json!(volumes);
    }
    PodTemplate { metadata: None, spec: Some(Embedded::<PodSpec>::new(pod)) }
}

fn put_source(spec: &mut WorkspaceSpec, source: &Source) {
    match source {
        Source::Flux { url, digest, dir } => {
            let filled = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
            spec.flux = Some(FluxSource { url: filled(url), digest: filled(digest), dir: filled(dir) });
        }
        Source::Git(git) => spec.git = Some(git.clone()),
        Source::ProjectInfo(project) => spec.project_info = Some(project.clone()),
        Source::None => {}
    }
}

/// A template may complete the source, or bring one where the Stack has none. A destroy without sources ignores what
/// the template brings, which was for the program's sake.
fn check_source(spec: &mut WorkspaceSpec, source: &Source) -> Result<(), Invalid> {
    if matches!(source, Source::ProjectInfo(_)) {
        (spec.git, spec.flux, spec.local) = (None, None, None);
        return Ok(());
    }
    let given = [
        ("git", spec.git.is_some()),
        ("flux", spec.flux.is_some()),
        ("local", spec.local.is_some()),
        ("projectInfo", spec.project_info.is_some()),
    ];
    let given: Vec<&str> = given.into_iter().filter_map(|(field, given)| given.then_some(field)).collect();
    if given.len() > 1 {
        return Err(Invalid::new(format!(
            "{TEMPLATE}.spec: together with the source in the Stack's spec, the Workspace would have {}; a program \
             comes from one place, keep one of them",
            given.join(" and ")
        )));
    }
    Ok(())
}

/// Lists whose items the API server tells apart by a key. Merging makes keys unique only where there was something to
/// merge with.
fn check_keys(spec: &WorkspaceSpec) -> Result<(), Invalid> {
    let variables = spec.env.iter().map(|variable| variable.raw()["name"].as_str().unwrap_or_default()).collect();
    let stacks = spec.stacks.iter().map(|stack| stack.name.as_str()).collect();
    for (list, keys) in [("env", variables), ("stacks", stacks)] {
        let keys: Vec<&str> = keys;
        for (index, key) in keys.iter().enumerate() {
            let place = format!("{TEMPLATE}.spec.{list}[{index}]");
            if key.is_empty() {
                return Err(Invalid::new(format!("{place}: has no name; give it one")));
            }
            if keys[..index].contains(key) {
                return Err(Invalid::new(format!("{place}: {key} is there twice; keep one of the two")));
            }
        }
    }
    Ok(())
}

fn filled(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}
