//! The pod template of a Workspace: what the operator generates, with the user's template merged over it.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use pko_api::{
    Workspace, annotations, labels, names,
    paths::{
        AGENT, BOOTSTRAP_CONTAINER, ENV_FILE, FETCH_CONTAINER, IMAGE_AGENT, PULUMI_CONTAINER, SHARE, SHARE_VOLUME,
        TERMINATION_GRACE_SECONDS, TINI, WORKSPACE,
    },
    workspace::WorkspaceSpec,
};
use serde_json::{Map, Value, json};

use super::{Invalid, embedded, environment, fetch, profile::Profile, resources};
use crate::{
    merge::{self, Schema},
    settings::Settings,
};

/// Metadata and spec, without the annotation that is computed from them.
pub(super) fn template(workspace: &Workspace, settings: &Settings) -> Result<Value, Invalid> {
    let generated = generated(workspace, settings)?;
    let mut template = match patch(&workspace.spec, &generated)? {
        None => generated,
        Some(patch) => merge::strategic(generated, &patch, Schema::Pod)
            .map_err(|error| Invalid::new(format!("spec.podTemplate.{error}; correct the template")))?,
    };
    // The StatefulSet selects its pods by these; a template without them would be refused.
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    for (label, value) in labels::of_workspace(name) {
        template["metadata"]["labels"][label] = json!(value);
    }
    if let Some(annotations) = template["metadata"]["annotations"].as_object_mut() {
        use annotations::{INITIALIZED, REVISION_HASH, SPEC_HASH, STACKS_HASH};
        for ours in [REVISION_HASH, SPEC_HASH, STACKS_HASH, INITIALIZED] {
            annotations.remove(ours);
        }
    }
    let has_pulumi = names_of(&template["spec"]["containers"]).any(|name| name == PULUMI_CONTAINER);
    if !has_pulumi {
        return Err(Invalid::new(format!(
            "spec.podTemplate.spec.containers: leaves the pod without its container `{PULUMI_CONTAINER}`; keep that one"
        )));
    }
    let profile = Profile::of(&workspace.spec)?;
    for kind in ["initContainers", "containers"] {
        let containers = template["spec"].get_mut(kind).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            environment::add_env_file(container);
            if container["securityContext"].is_null() {
                profile.confine(container);
            }
            if kind == "initContainers" {
                mount_share(container);
            }
            if kind == "initContainers" || container["name"] == PULUMI_CONTAINER {
                explain_failures(container);
            }
        }
    }
    Ok(template)
}

/// An init container is there to bring something into the workspace.
fn mount_share(container: &mut Value) {
    let mounts = container["volumeMounts"].as_array();
    if !mounts.into_iter().flatten().any(|mount| mount["mountPath"] == SHARE) {
        let share = json!({"name": SHARE_VOLUME, "mountPath": SHARE});
        match &mut container["volumeMounts"] {
            Value::Array(mounts) => mounts.push(share),
            none => *none = json!([share]),
        }
    }
}

/// The end of its log goes into the pod's status when it fails, where the operator finds it without reading logs.
fn explain_failures(container: &mut Value) {
    if container["terminationMessagePolicy"].is_null() {
        container["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
    }
}

/// The pod as it is without a template.
fn generated(workspace: &Workspace, settings: &Settings) -> Result<Value, Invalid> {
    let spec = &workspace.spec;
    let profile = Profile::of(spec)?;
    let share = json!([{"name": SHARE_VOLUME, "mountPath": SHARE}]);
    let bootstrap = json!({"name": BOOTSTRAP_CONTAINER, "command": [IMAGE_AGENT, "bootstrap", SHARE]});
    let mut init: Vec<Value> = [bootstrap].into_iter().chain(fetch::container(spec, settings)?).collect();
    for container in &mut init {
        container["image"] = json!(settings.agent_image);
        container["imagePullPolicy"] = json!(settings.agent_image_pull_policy);
        container["volumeMounts"] = share.clone();
        profile.confine(container);
    }
    let mut pulumi = pulumi(workspace, profile)?;
    pulumi["volumeMounts"] = share;
    profile.confine(&mut pulumi);
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    Ok(json!({
        "metadata": {"labels": labels::of_workspace_pod(name), "annotations": {}},
        "spec": {
            "serviceAccountName": filled(spec.service_account_name.as_ref()).unwrap_or("default"),
            "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
            "securityContext": profile.pod(),
            "initContainers": init,
            "containers": [pulumi],
            "volumes": [{"name": SHARE_VOLUME, "emptyDir": {}}],
        },
    }))
}

/// The container that runs the agent.
fn pulumi(workspace: &Workspace, profile: Profile) -> Result<Value, Invalid> {
    let spec = &workspace.spec;
    let mut container = json!({
        "name": PULUMI_CONTAINER,
        "image": filled(spec.image.as_ref()).unwrap_or(profile.image()),
        "workingDir": WORKSPACE,
        "command": command(workspace),
        "env": environment::of_pulumi(spec)?,
        "ports": [{"name": names::AGENT_PORT_NAME, "containerPort": names::AGENT_PORT}],
        "resources": resources::with_defaults(spec.resources.as_ref())?,
    });
    if let Some(policy) = filled(spec.image_pull_policy.as_ref()) {
        container["imagePullPolicy"] = json!(policy);
    }
    let sources = environment::sources(spec)?;
    if !sources.is_empty() {
        container["envFrom"] = json!(sources);
    }
    Ok(container)
}

fn command(workspace: &Workspace) -> Vec<String> {
    let name = workspace.metadata.name.as_deref().unwrap_or_default();
    let namespace = workspace.metadata.namespace.as_deref().unwrap_or_default();
    let audience = names::token_audience(name, namespace);
    let mut command = vec![TINI, AGENT, "--", "serve"];
    command.extend(["--workspace", WORKSPACE, "--skip-install", "--env-file", ENV_FILE, "--auth-mode", "kube"]);
    command.extend(["--kube-audience", &audience]);
    command.extend(["--kube-workspace-namespace", namespace, "--kube-workspace-name", name]);
    let mut command: Vec<String> = command.into_iter().map(str::to_owned).collect();
    let level = workspace.spec.pulumi_log_level.as_ref().and_then(|level| level.good());
    if let Some(level) = level.filter(|level| **level > 0) {
        command.extend(["--pulumi-log-level".to_owned(), level.to_string()]);
    }
    command
}

/// What of the Workspace is merged over the generated pod.
fn patch(spec: &WorkspaceSpec, generated: &Value) -> Result<Option<Value>, Invalid> {
    let mut patch = json!({"metadata": {}, "spec": {}});
    if let Some(template) = &spec.pod_template {
        match (&template.spec, &template.metadata) {
            (Some(pod), _) => {
                embedded::check::<PodSpec>("spec.podTemplate.spec", pod.raw())?;
                patch["spec"] = pod.raw().clone();
            }
            (None, Some(_)) => {
                return Err(Invalid::new(
                    "spec.podTemplate.spec: is missing; write `spec: {containers: []}` to customise only the metadata",
                ));
            }
            (None, None) => {}
        }
        patch["metadata"] = json!(template.metadata.clone().unwrap_or_default());
    } else if spec.init_containers.is_empty() {
        return Ok(None);
    }
    let init = init_containers(spec, &patch["spec"]["initContainers"])?;
    if let Value::Object(pod) = &mut patch["spec"] {
        // The program and the agent are there when the user's init containers start.
        let order = names_of(&generated["spec"]["initContainers"]).chain(names_of(&init));
        let order: Vec<Value> = order.map(|name| json!({"name": name})).collect();
        pod.remove("initContainers");
        if init.as_array().is_some_and(|init| !init.is_empty()) {
            pod.insert(merge::set_element_order("initContainers"), json!(order));
            pod.insert("initContainers".to_owned(), init);
        }
    }
    Ok(Some(patch))
}

/// The user's init containers: the pod template's, then those of the Workspace itself.
fn init_containers(spec: &WorkspaceSpec, of_template: &Value) -> Result<Value, Invalid> {
    let mut all = of_template.as_array().cloned().unwrap_or_default();
    for (index, container) in spec.init_containers.iter().enumerate() {
        let field = format!("spec.initContainers[{index}]");
        embedded::check::<Container>(&field, container.raw())?;
        let name = container.raw()["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            return Err(Invalid::new(format!("{field}: has no name; give the container a name")));
        }
        if matches!(name, BOOTSTRAP_CONTAINER | FETCH_CONTAINER) {
            return Err(Invalid::new(format!(
                "{field}: `{name}` is the operator's own container; choose another name"
            )));
        }
        if all.iter().any(|other| other["name"] == name) {
            return Err(Invalid::new(format!(
                "{field}: spec.podTemplate.spec.initContainers or spec.initContainers already has `{name}`; keep one"
            )));
        }
        all.push(container.raw().clone());
    }
    Ok(Value::Array(all))
}

fn names_of(containers: &Value) -> impl Iterator<Item = &Value> {
    containers.as_array().into_iter().flatten().filter_map(Value::as_object).filter_map(|c: &Map<_, _>| c.get("name"))
}

fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}
