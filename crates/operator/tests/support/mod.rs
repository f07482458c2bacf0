//! The operator's shell in a namespace of a real cluster, with the permissions of deploy/install and nothing more.
#![allow(dead_code, reason = "each test program uses a part of this")]
#![allow(unreachable_pub, reason = "shared by test programs")]

pub mod agent;
pub mod pko_agent;

use std::{sync::Arc, time::Duration};

use kube::config::{KubeConfigOptions, Kubeconfig};
use pko_core::{
    ask::{Answer, Question},
    driver::Shell as _,
    effect::{Effect, Target},
    seen::{Key, Kind},
    settings::Settings,
};
use pko_operator::{
    agents::{Account, Agents, Followers},
    cluster::{Cluster, Failure},
    queue::Queue,
    reconcile::Places,
    shell::Live,
    sources::Sources,
    store::Store,
};
use pko_testkit::cluster::{ACCOUNT, Kubectl, Namespace, OPERATOR_NAMESPACE, install_permissions, read};
use serde_json::{Value, json};

/// A shell and the namespace that it works in.
pub struct Scene {
    pub namespace: Namespace,
    pub cluster: Cluster,
    pub shell: Live,
    pub sources: Arc<Sources>,
    pub store: Arc<Store>,
    pub queue: Arc<Queue>,
}

/// A kubeconfig with a token of the operator's account.
pub fn kubeconfig_of_the_operator() -> Value {
    install_permissions();
    let kubectl = Kubectl::new().in_namespace(OPERATOR_NAMESPACE);
    let token = kubectl.run(&["create", "token", ACCOUNT, "--duration=1h"]);
    let mut config = kubeconfig_of_the_test();
    config["users"][0]["user"] = json!({"token": token.trim()});
    config
}

pub fn kubeconfig_of_the_test() -> Value {
    let view = Kubectl::new().run(&["config", "view", "--raw", "--minify", "--flatten", "-o", "json"]);
    serde_json::from_str(&view).unwrap()
}

pub async fn connect(kubeconfig: Value) -> Cluster {
    // Another test of this program may have been faster.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    Cluster::new(kube::Client::try_from(config).unwrap(), Duration::from_secs(30))
}

impl Scene {
    pub async fn new(subject: &str) -> Self {
        Self::with_agent(subject, None).await
    }

    /// With all agents at one address.
    pub async fn with_agent(subject: &str, address: Option<String>) -> Self {
        let cluster = connect(kubeconfig_of_the_operator()).await;
        let account = Account { namespace: OPERATOR_NAMESPACE.to_owned(), name: ACCOUNT.to_owned() };
        let agents = Arc::new(Agents::new(cluster.clone(), account, address));
        let (store, queue) = (Arc::<Store>::default(), Arc::<Queue>::default());
        let followers = Arc::new(Followers::new(Arc::clone(&agents), Arc::clone(&queue)));
        let settings = Settings {
            agent_image: "agent".to_owned(),
            agent_image_pull_policy: "IfNotPresent".to_owned(),
            flux_max_untar_size_bytes: None,
            artifact_address: "localhost:9090".to_owned(),
            known_hosts: None,
        };
        let sources = Arc::new(Sources::new(&cluster, &store, &queue, |_| None));
        let places = Places::new(1);
        let shell = Live::new(&cluster, Arc::clone(&store), agents, followers, settings, places, Arc::clone(&sources));
        Self { namespace: Namespace::new(subject), cluster, shell, sources, store, queue }
    }

    pub fn key(&self, kind: Kind, name: &str) -> Key {
        Key { kind, namespace: self.namespace.name().to_owned(), name: name.to_owned() }
    }

    pub fn apply(&self, manifest: &Value) {
        self.namespace.kubectl().apply(&manifest.to_string());
    }

    pub fn read(&self, kind: &str, name: &str) -> Value {
        read(self.namespace.kubectl(), kind, name).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn exists(&self, kind: &str, name: &str) -> bool {
        !self.namespace.kubectl().run(&["get", kind, name, "--ignore-not-found", "-o", "name"]).is_empty()
    }

    pub fn delete(&self, kind: &str, name: &str) {
        self.namespace.kubectl().run(&["delete", kind, name]);
    }

    /// An object as a decision would have read it.
    pub fn target(&self, kind: Kind, name: &str) -> Target {
        let plural = format!("{}s", kind.as_str().to_lowercase());
        let metadata = self.read(&plural, name)["metadata"].take();
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        Target { kind, name: name.to_owned(), uid: text("uid"), resource_version: text("resourceVersion") }
    }

    /// Performs an effect of a decision about a Stack.
    pub async fn perform(&self, effect: Effect) -> Result<Option<String>, Failure> {
        self.shell.perform(&self.key(Kind::Stack, "web"), &effect).await
    }

    pub async fn ask(&self, question: Question) -> Result<Answer, Failure> {
        self.shell.answer(&self.key(Kind::Update, "web-1"), &question).await
    }
}
