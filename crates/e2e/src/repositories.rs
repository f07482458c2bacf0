//! Git repositories with programs, and servers of this machine from which operator and pods get them.

use std::sync::OnceLock;

use pko_testkit::{
    cluster::{Trust, Volume, host_address},
    git::{App, Authority, HttpServer, KeyForm, KeyKind, Repositories, SshKey, SshOptions, SshServer},
};
use serde_json::{Value, json};

use crate::scene::Scene;

/// The app that the closed server knows, and its installation.
pub const APP: &str = "4711";
pub const INSTALLATION: &str = "42";
/// What the installation is given.
pub const APP_TOKEN: &str = "planted-installation-token";

/// All servers have the same repositories.
#[derive(Debug)]
pub struct GitHost {
    repositories: Repositories,
    /// Without TLS and without logins.
    pub open: HttpServer,
    /// With TLS, and with an app that may read what it has the token for.
    pub closed: HttpServer,
    pub ssh: SshServer,
    /// Whoever has it is let in by ssh.
    pub ssh_key: SshKey,
    /// The private key of the app.
    pub app_key: SshKey,
}

impl GitHost {
    pub fn start() -> Self {
        let host = host_address();
        let repositories = Repositories::new();
        let ssh_key = SshKey::new(KeyKind::Ed25519, KeyForm::OpenSsh, "");
        let app_key = SshKey::new(KeyKind::Rsa, KeyForm::Pem, "");
        let app = App {
            id: APP.to_owned(),
            installation: INSTALLATION.to_owned(),
            public_key: app_key.rsa_public_key(),
            token: APP_TOKEN.to_owned(),
        };
        Self {
            open: HttpServer::plain_at(host, &repositories),
            closed: HttpServer::with_tls_at(host, authority(), &repositories, app),
            ssh: SshServer::start(&repositories, &[&ssh_key], &SshOptions { host, ..SshOptions::default() }),
            ssh_key,
            app_key,
            repositories,
        }
    }

    /// A new repository with a greeting on its default branch; returns the commit.
    pub fn create(&self, name: &str, greeting: &str) -> String {
        self.repositories.create(name);
        self.commit(name, &[("Pulumi.yaml", &greets(name.trim_end_matches(".git"), greeting))])
    }

    /// A new commit on the default branch.
    pub fn commit(&self, name: &str, files: &[(&str, &str)]) -> String {
        self.repositories.commit(name, "main", files)
    }

    /// An annotated tag at the head of the default branch.
    pub fn tag(&self, name: &str, tag: &str) {
        self.repositories.git(name, &["tag", "--annotate", "--message", "a tag", tag, "main"]);
    }

    /// The repository is gone.
    pub fn delete(&self, name: &str) {
        let path = self.repositories.path(name);
        std::fs::remove_dir_all(&path).unwrap_or_else(|error| panic!("removing {}: {error}", path.display()));
    }
}

/// The authority of the closed server's certificate: the same for all servers of a test program, since the operator is
/// told once to trust it.
pub fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(Authority::new)
}

/// A project whose program makes nothing and has one output.
pub fn greets(project: &str, greeting: &str) -> String {
    json!({"name": project, "runtime": "yaml", "outputs": {"greeting": greeting}}).to_string()
}

/// A project whose program makes one thing.
pub fn makes_a_thing(project: &str) -> String {
    let thing = json!({"type": "pkotest:Thing", "properties": {"value": "made"}, "options": {"version": "0.1.0"}});
    json!({
        "name": project,
        "runtime": "yaml",
        "resources": {"thing": thing},
        "outputs": {"greeting": "${thing.value}"},
    })
    .to_string()
}

/// The template of Workspaces that fetch from servers of our authority, which a ConfigMap of their namespace holds.
pub fn trusting_template() -> Value {
    let Trust { volume, mount, env } = Trust::default();
    let state = json!({"name": "state", "persistentVolumeClaim": {"claimName": Volume::CLAIM}});
    let pod = json!({
        "initContainers": [{"name": "fetch", "env": [env], "volumeMounts": [mount]}],
        "volumes": [state, volume],
    });
    Scene::workspace_template(&json!({}), &pod)
}
