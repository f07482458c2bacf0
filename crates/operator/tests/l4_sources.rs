//! Objects with a Flux artifact on a real API server, of kinds that are known by name only.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod support;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use pko_core::{
    ask::{Answer, GitTrouble, Listing, Question, SourceRef, SourceSeen},
    seen::{Key, Kind, Object},
};
use pko_operator::{
    queue::{Ended, Queue},
    sources::Flux,
    store::{Link, Store},
};
use pko_testkit::cluster::{Kubectl, Namespace, wait_for};
use serde_json::{Value, json};
use support::{Scene, connect, kubeconfig_of_the_test};

const DEADLINE: Duration = Duration::from_mins(2);
/// The group of most tests.
const GROUP: &str = "sources.test";

/// Sources as they are read by an account that may read Things of all groups.
struct World {
    namespace: Namespace,
    flux: Flux,
    store: Arc<Store>,
    queue: Arc<Queue>,
}

impl World {
    async fn new(subject: &str) -> Self {
        let namespace = Namespace::new(subject);
        let name = namespace.name();
        namespace.kubectl().run(&["create", "serviceaccount", "reader"]);
        let metadata = json!({"name": name, "ownerReferences": [namespace.as_owner()]});
        let rbac = "rbac.authorization.k8s.io";
        let all = json!({"apiGroups": ["*"], "resources": ["things"], "verbs": ["get", "list", "watch"]});
        let role = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": [all],
        });
        let binding = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": name}],
        });
        apply(&Kubectl::new(), &json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}));
        let account = format!("--as=system:serviceaccount:{name}:reader");
        wait_for("the permission to count", DEADLINE, || {
            let can = ["auth", "can-i", "watch", "things.sources.test", "--all-namespaces", &account];
            let can = Kubectl::new().try_run(&can)?;
            if can.trim() == "yes" { Ok(()) } else { Err(can) }
        });
        let mut config = kubeconfig_of_the_test();
        let token = namespace.kubectl().run(&["create", "token", "reader", "--duration=1h"]);
        config["users"][0]["user"] = json!({"token": token.trim()});
        let (store, queue) = (Arc::<Store>::default(), Arc::<Queue>::default());
        let flux = Flux::watching(connect(config).await, Arc::clone(&store), Arc::clone(&queue));
        Self { namespace, flux, store, queue }
    }

    /// A group of its own, for what happens to a kind.
    fn group(&self) -> String {
        format!("{}.{GROUP}", self.namespace.name())
    }

    async fn ask(&self, api_version: &str, kind: &str, name: &str) -> SourceSeen {
        let (api_version, kind, name) = (api_version.to_owned(), kind.to_owned(), name.to_owned());
        self.flux.read(self.namespace.name(), &SourceRef { api_version, kind, name }).await.unwrap()
    }

    async fn thing(&self, name: &str) -> SourceSeen {
        self.ask(&format!("{GROUP}/v1"), "Thing", name).await
    }

    async fn unreadable(&self, api_version: &str, kind: &str) -> String {
        match self.ask(api_version, kind, "a").await {
            SourceSeen::Unreadable(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a Thing.
    fn put(&self, group: &str, name: &str, status: &Value) {
        let api_version = format!("{group}/v1");
        let object = json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": name}, "status": status});
        let apply = ["apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-"];
        // What was just made is not known to every part of the server yet.
        wait_for("the object to be taken", DEADLINE, || self.namespace.kubectl().try_send(&apply, &object.to_string()));
    }

    /// A Stack as the store has it, that takes its program from a Thing.
    fn stack(&self, name: &str, group: &str, source: &str) {
        let stack = json!({"metadata": {"name": name}, "spec": {"stack": "dev"}});
        let link = Link::From { group: group.to_owned(), kind: "Thing".to_owned(), name: source.to_owned() };
        let object = Object::Stack(serde_json::from_value(stack).unwrap());
        let key = Key { kind: Kind::Stack, namespace: self.namespace.name().to_owned(), name: name.to_owned() };
        self.store.put(key, object, vec![link]);
    }

    /// The next Stack that is woken.
    async fn woken(&self) -> String {
        let next = tokio::time::timeout(DEADLINE, self.queue.next()).await.expect("somebody is woken");
        self.queue.done(&next, Ended::Settled);
        next.name
    }
}

/// Without the schemas of all kinds, which take the server long to put together when there is a new one. What was just made
/// is not known to every part of the server yet.
fn apply(kubectl: &Kubectl, manifest: &Value) {
    let flags = ["apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-"];
    wait_for("the objects to be taken", DEADLINE, || kubectl.try_send(&flags, &manifest.to_string()));
}

/// Makes a kind, in versions of which the last is stored, and waits until it is served.
fn install(group: &str, kind: &str, scope: &str, versions: &[&str], owner: Option<&Namespace>) {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let stored = *versions.last().unwrap();
    let version = |name: &&str| json!({"name": name, "served": true, "storage": *name == stored, "schema": schema});
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": scope, "versions": versions.iter().map(version).collect::<Vec<_>>(),
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
        },
    });
    if let Some(owner) = owner {
        crd["metadata"]["ownerReferences"] = json!([owner.as_owner()]);
    }
    apply(&Kubectl::new(), &crd);
    let path = format!("/apis/{group}/{stored}");
    wait_for("the kind to be served", DEADLINE, || {
        let kinds = Kubectl::new().try_run(&["get", "--raw", &path])?;
        if kinds.contains(&format!("\"{plural}\"")) { Ok(()) } else { Err(kinds) }
    });
}

/// The kinds of most tests; once per test program.
fn install_kinds() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        for (kind, scope) in [("Thing", "Namespaced"), ("Locked", "Namespaced"), ("Wide", "Cluster")] {
            install(GROUP, kind, scope, &["v1"], None);
        }
    });
}

fn artifact(revision: &str) -> Value {
    json!({"artifact": {"url": "http://flux.test/a.tar.gz", "revision": revision, "digest": "sha256:1"}})
}

fn seen(revision: &str) -> SourceSeen {
    SourceSeen::Artifact {
        url: "http://flux.test/a.tar.gz".to_owned(),
        revision: revision.to_owned(),
        digest: "sha256:1".to_owned(),
    }
}

#[tokio::test]
async fn a_source_has_an_artifact_or_says_why_not() {
    install_kinds();
    let world = World::new("source").await;
    let SourceSeen::Missing(why) = world.thing("a").await else { panic!("there is none") };
    assert_eq!(why, "things.sources.test \"a\" not found");
    let conditions = json!([{"type": "Ready", "status": "False", "message": "no credentials"}]);
    world.put(GROUP, "a", &json!({"conditions": conditions}));
    assert_eq!(world.thing("a").await, SourceSeen::Empty { why: "no credentials".to_owned() });
    world.put(GROUP, "a", &artifact("main@sha1:1"));
    assert_eq!(world.thing("a").await, seen("main@sha1:1"));
    assert!(matches!(world.thing("../../other/things/a").await, SourceSeen::Missing(_)), "no way out of the namespace");
}

#[tokio::test]
async fn what_the_cluster_does_not_have_or_not_allow_is_told_with_a_remedy() {
    install_kinds();
    let world = World::new("unreadable").await;
    let own = "sources.test/v1";
    assert_eq!(world.unreadable(own, "Thin").await, "no kind Thin in sources.test; it has Locked, Thing, Wide");
    let wide = world.unreadable(own, "Wide").await;
    assert!(wide.starts_with("Wide of sources.test is in no namespace"), "{wide}");
    let absent = world.unreadable("absent.sources.test/v1", "Thing").await;
    assert_eq!(absent, "no kind Thing in absent.sources.test, is what brings it installed?");
    let flux = world.unreadable("absent.fluxcd.io/v1", "GitRepository").await;
    assert_eq!(flux, "no kind GitRepository in absent.fluxcd.io, is Flux installed?");
    let core = world.unreadable("v1", "Secret").await;
    assert!(core.starts_with("no kind Secret with an artifact"), "{core}");
    let locked = world.unreadable(own, "Locked").await;
    assert!(locked.contains("cannot get resource \"lockeds\""), "{locked}");
    let all = "apiGroups [sources.test], resources [lockeds] and verbs [get, list, watch]";
    assert!(locked.ends_with(all), "{locked}");
}

#[tokio::test]
async fn a_version_that_is_served_no_longer_gives_way_to_the_one_that_is() {
    let world = World::new("versions").await;
    let group = world.group();
    install(&group, "Thing", "Namespaced", &["v1beta1", "v1"], Some(&world.namespace));
    world.put(&group, "a", &artifact("1"));
    let ask = async |version: &str| world.ask(&format!("{group}/{version}"), "Thing", "a").await;
    assert_eq!(ask("v1alpha1").await, seen("1"), "it never was");
    assert_eq!(ask("v1beta1").await, seen("1"));
    install(&group, "Thing", "Namespaced", &["v1"], Some(&world.namespace));
    let old = format!("/apis/{group}/v1beta1");
    wait_for("the old version to go", DEADLINE, || match Kubectl::new().try_run(&["get", "--raw", &old]) {
        Ok(_) => Err("it is still served".to_owned()),
        Err(_) => Ok(()),
    });
    assert_eq!(ask("v1beta1").await, seen("1"));
}

#[tokio::test]
async fn from_its_first_use_a_source_wakes_its_stacks_when_it_changes() {
    install_kinds();
    let world = World::new("watched").await;
    world.stack("web", GROUP, "a");
    world.stack("second", GROUP, "b");
    for name in ["a", "b"] {
        assert!(matches!(world.thing(name).await, SourceSeen::Missing(_)));
    }
    world.put(GROUP, "a", &artifact("1"));
    assert_eq!(world.woken().await, "web");
    world.put(GROUP, "unused", &artifact("1"));
    // What no Stack can see of it wakes nobody, so the next to be woken is the other.
    world.namespace.kubectl().run(&["label", "things.sources.test", "a", "x=y"]);
    world.put(GROUP, "b", &artifact("1"));
    assert_eq!(world.woken().await, "second");
    world.put(GROUP, "a", &artifact("2"));
    assert_eq!(world.woken().await, "web");
    assert_eq!(world.thing("a").await, seen("2"));
    world.namespace.kubectl().run(&["delete", "things.sources.test", "a"]);
    assert_eq!(world.woken().await, "web");
}

#[tokio::test]
async fn a_kind_that_comes_later_is_watched_then() {
    let world = World::new("later").await;
    let group = world.group();
    let version = format!("{group}/v1");
    world.stack("web", &group, "a");
    world.unreadable(&version, "Thing").await;
    install(&group, "Thing", "Namespaced", &["v1"], Some(&world.namespace));
    world.put(&group, "a", &artifact("1"));
    assert_eq!(world.woken().await, "web");
    assert_eq!(world.ask(&version, "Thing", "a").await, seen("1"));
    world.flux.tidy();
    world.put(&group, "a", &artifact("2"));
    assert_eq!(world.woken().await, "web", "a kind that is used stays watched");
}

#[tokio::test]
async fn decisions_get_their_answers_with_the_permissions_of_the_operator() {
    let scene = Scene::new("answers").await;
    let source = SourceRef {
        api_version: "absent.fluxcd.io/v1".to_owned(),
        kind: "GitRepository".to_owned(),
        name: "a".to_owned(),
    };
    let Answer::Source(SourceSeen::Unreadable(_)) = scene.ask(Question::Source(source)).await.unwrap() else {
        panic!("there is no such kind")
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git"}, "stringData": {"accessToken": "t"},
    });
    scene.apply(&secret);
    let selector = |name: &str| json!({"token": {"name": name, "key": "accessToken"}});
    let digits = "0123456789012345678901234567890123456789";
    let listing = |name: &str| {
        Question::Revision(Box::new(Listing {
            url: "https://git.invalid/shop.git".to_owned(),
            reference: digits.to_owned(),
            auth: Some(serde_json::from_value(selector(name)).unwrap()),
            max_age: Duration::from_secs(5),
        }))
    };
    assert_eq!(scene.ask(listing("git")).await.unwrap(), Answer::Revision(Ok(digits.to_owned())));
    let Answer::Revision(Err(GitTrouble::Credentials(why))) = scene.ask(listing("absent")).await.unwrap() else {
        panic!("there is no such Secret")
    };
    assert!(why.starts_with("resolving gitAuth personal access token: unable to get secret"), "{why}");
    assert_eq!(scene.ask(Question::NamespaceTerminating).await.unwrap(), Answer::Terminating(false));
}
