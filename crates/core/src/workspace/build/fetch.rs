//! The init container that puts the program where the agent expects it.

use k8s_openapi::api::core::v1::SecretKeySelector;
use pko_api::{
    ProjectInfo, env,
    paths::{AGENT, FETCH_CONTAINER, SOURCE, WORKSPACE},
    workspace::{FluxSource, GitSource, LocalSource, WorkspaceSpec},
};
use serde_json::{Value, json};

use super::{
    Invalid,
    environment::{from_secret, plain},
};
use crate::settings::Settings;

/// Command and variables of the container for the Workspace's source; none when the user's own containers bring the
/// program.
pub(super) fn container(spec: &WorkspaceSpec, settings: &Settings) -> Result<Option<Value>, Invalid> {
    let given = [
        ("spec.git", spec.git.is_some()),
        ("spec.flux", spec.flux.is_some()),
        ("spec.local", spec.local.is_some()),
        ("spec.projectInfo", spec.project_info.is_some()),
    ];
    let given: Vec<&str> = given.into_iter().filter_map(|(field, given)| given.then_some(field)).collect();
    if given.len() > 1 {
        return Err(Invalid::new(format!(
            "{}: a Workspace takes its program from one place; keep one of them",
            given.join(", ")
        )));
    }
    let fetch = if let Some(source) = &spec.git {
        git(source, settings)?
    } else if let Some(source) = &spec.flux {
        flux(source, settings)?
    } else if let Some(source) = &spec.local {
        local(source)?
    } else if let Some(project) = &spec.project_info {
        project_info(project)
    } else {
        return Ok(None);
    };
    let (command, env) = fetch;
    Ok(Some(json!({"name": FETCH_CONTAINER, "command": command, "env": env})))
}

type Fetch = (Vec<String>, Vec<Value>);

fn git(source: &GitSource, settings: &Settings) -> Result<Fetch, Invalid> {
    let url = required("spec.git.url", source.url.as_ref())?;
    let mut env = vec![
        plain(env::GIT_URL, url),
        plain(env::GIT_REVISION, required("spec.git.ref", source.git_ref.as_ref())?),
        plain(env::GIT_DIR, source.dir.as_deref().unwrap_or_default()),
    ];
    if source.shallow {
        env.push(plain(env::GIT_SHALLOW, "true"));
    }
    if let Some(auth) = &source.auth {
        let mut secret = |name: &str, selector: Option<&SecretKeySelector>| {
            env.extend(selector.map(|selector| from_secret(name, selector)));
        };
        secret(env::GIT_SSH_PRIVATE_KEY, auth.ssh_private_key.as_ref());
        secret(env::GIT_USERNAME, auth.username.as_ref());
        secret(env::GIT_PASSWORD, auth.password.as_ref());
        secret(env::GIT_TOKEN, auth.token.as_ref());
        let app = auth.github_app.as_ref();
        secret(env::GIT_GITHUB_APP_ID, app.map(|app| &app.app_id));
        secret(env::GIT_GITHUB_APP_INSTALLATION_ID, app.map(|app| &app.installation_id));
        secret(env::GIT_GITHUB_APP_PRIVATE_KEY, app.map(|app| &app.private_key));
        if let Some(key) = auth.ssh_private_key.as_ref().filter(|_| !over_http(url)) {
            env.extend(known_hosts(&key.name, settings));
        }
    }
    let mut options = vec![("--git-url", env::GIT_URL), ("--git-revision", env::GIT_REVISION)];
    options.extend(directory(env::GIT_DIR, source.dir.as_ref()));
    Ok((init(SOURCE, &options, Some(WORKSPACE)), env))
}

/// By which keys hosts are known: beside the private key, as Flux has it, and those of the cluster.
fn known_hosts(secret: &str, settings: &Settings) -> impl Iterator<Item = Value> {
    let beside_the_key =
        SecretKeySelector { name: secret.to_owned(), key: env::KNOWN_HOSTS_KEY.to_owned(), optional: Some(true) };
    // The kubelet would take a dollar for the beginning of a variable.
    let of_cluster = settings.known_hosts.as_deref().map(|lines| lines.replace('$', "$$"));
    let of_cluster = of_cluster.map(|lines| plain(env::GIT_SSH_KNOWN_HOSTS_CLUSTER, &lines));
    [from_secret(env::GIT_SSH_KNOWN_HOSTS, &beside_the_key)].into_iter().chain(of_cluster)
}

/// Such addresses have no use for the keys of hosts, and their pods are not renewed when one changes.
fn over_http(url: &str) -> bool {
    let scheme = url.split("://").next().unwrap_or_default();
    ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

fn flux(source: &FluxSource, settings: &Settings) -> Result<Fetch, Invalid> {
    let mut env = vec![
        plain(env::FLUX_URL, required("spec.flux.url", source.url.as_ref())?),
        plain(env::FLUX_DIGEST, source.digest.as_deref().unwrap_or_default()),
        plain(env::FLUX_DIR, source.dir.as_deref().unwrap_or_default()),
    ];
    env.extend(settings.flux_max_untar_size_bytes.as_deref().map(|most| plain(env::FLUX_MAX_UNTAR_SIZE_BYTES, most)));
    let mut options = vec![("--flux-url", env::FLUX_URL), ("--flux-digest", env::FLUX_DIGEST)];
    options.extend(directory(env::FLUX_DIR, source.dir.as_ref()));
    Ok((init(SOURCE, &options, Some(WORKSPACE)), env))
}

fn local(source: &LocalSource) -> Result<Fetch, Invalid> {
    let env = vec![plain(env::LOCAL_DIR, required("spec.local.dir", source.dir.as_ref())?)];
    let command = [AGENT, "link", &variable(env::LOCAL_DIR), "--at", WORKSPACE].map(str::to_owned);
    Ok((command.into(), env))
}

fn project_info(project: &ProjectInfo) -> Fetch {
    let mut env = vec![plain(env::PROJECT_NAME, &project.name), plain(env::PROJECT_RUNTIME, &project.runtime)];
    let mut options = vec![("--project-name", env::PROJECT_NAME), ("--project-runtime", env::PROJECT_RUNTIME)];
    for (option, variable, value) in [
        ("--project-backend", env::PROJECT_BACKEND, &project.backend),
        ("--project-stack-config-dir", env::PROJECT_STACK_CONFIG_DIR, &project.stack_config_dir),
    ] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            env.push(plain(variable, value));
            options.push((option, variable));
        }
    }
    (init(WORKSPACE, &options, None), env)
}

/// The root of the source is not named: the agent takes no empty name.
fn directory(variable: &'static str, dir: Option<&String>) -> Option<(&'static str, &'static str)> {
    dir.filter(|dir| !dir.is_empty()).map(|_| ("--dir", variable))
}

/// The agent's `init`, with options whose values are variables: what a user wrote does not become part of a command.
fn init(target: &str, options: &[(&str, &str)], at: Option<&str>) -> Vec<String> {
    let mut command = [AGENT, "init", "--target-dir", target].map(str::to_owned).to_vec();
    for (option, name) in options {
        command.extend([(*option).to_owned(), variable(name)]);
    }
    command.extend(at.into_iter().flat_map(|at| ["--at", at]).map(str::to_owned));
    command
}

/// A reference that the kubelet resolves.
fn variable(name: &str) -> String {
    format!("$({name})")
}

fn required<'a>(field: &str, value: Option<&'a String>) -> Result<&'a str, Invalid> {
    match value.map(String::as_str).unwrap_or_default() {
        "" => Err(Invalid::new(format!("{field}: is missing, and without it the program cannot be fetched"))),
        value => Ok(value),
    }
}
