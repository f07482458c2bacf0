//! Objects with a Flux artifact on a real API server, read and watched with the permissions of deploy/install and those
//! that a user adds.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod support;

use std::time::Duration;

use pko_core::{
    ask::{Answer, Question, SourceRef, SourceSeen},
    seen::{Kind, Object},
};
use pko_operator::{queue::Ended, store::Link};
use pko_testkit::cluster::{ACCOUNT, Kubectl, OPERATOR_NAMESPACE, wait_for};
use serde_json::{Value, json};
use support::Scene;

const DEADLINE: Duration = Duration::from_mins(1);

/// A group of kinds that goes with the test's namespace.
struct Group<'a> {
    scene: &'a Scene,
    name: String,
}

impl<'a> Group<'a> {
    fn new(scene: &'a Scene) -> Self {
        Self { scene, name: format!("{}.sources.test", scene.namespace.name()) }
    }

    /// A kind in one version or several, of which the last is stored.
    fn kind(&self, kind: &str, scope: &str, versions: &[&str]) -> &Self {
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let versions: Vec<Value> = versions
            .iter()
            .map(|version| {
                let stored = Some(version) == versions.last();
                json!({"name": version, "served": true, "storage": stored, "schema": schema})
            })
            .collect();
        Kubectl::new().apply(
            &json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": format!("{plural}.{}", self.name),
                    "ownerReferences": [self.scene.namespace.as_owner()],
                },
                "spec": {
                    "group": self.name, "scope": scope, "versions": versions,
                    "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
                },
            })
            .to_string(),
        );
        let crd = format!("crd/{plural}.{}", self.name);
        Kubectl::new().run(&["wait", "--for=condition=Established", &crd, "--timeout=60s"]);
        self
    }

    /// Lets the operator read a kind, as a user would who has such sources.
    fn permit(&self, plural: &str) -> &Self {
        let name = format!("{}-{plural}", self.scene.namespace.name());
        let metadata = json!({"name": name, "ownerReferences": [self.scene.namespace.as_owner()]});
        let rbac = "rbac.authorization.k8s.io";
        let all = json!({"apiGroups": [self.name], "resources": [plural], "verbs": ["get", "list", "watch"]});
        let role = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": metadata, "rules": [all],
        });
        let binding = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": OPERATOR_NAMESPACE}],
        });
        Kubectl::new().apply(&json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string());
        self
    }

    fn source(&self, version: &str, kind: &str, name: &str) -> SourceRef {
        let (api_version, kind, name) = (format!("{}/{version}", self.name), kind.to_owned(), name.to_owned());
        SourceRef { api_version, kind, name }
    }

    fn put(&self, version: &str, name: &str, status: &Value) {
        let api_version = format!("{}/{version}", self.name);
        let object = json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": name}, "status": status});
        // What was just established is not known to every part of the server yet.
        wait_for("the object to be taken", DEADLINE, || {
            let kubectl = self.scene.namespace.kubectl();
            kubectl.try_send(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &object.to_string())
        });
    }

    /// A Stack as the store has it, that takes its program from a Thing.
    fn stack(&self, name: &str, source: &str) {
        let stack = json!({"metadata": {"name": name}, "spec": {"stack": "dev"}});
        let link = Link::From { group: self.name.clone(), kind: "Thing".to_owned(), name: source.to_owned() };
        let object = Object::Stack(serde_json::from_value(stack).unwrap());
        self.scene.store.put(self.scene.key(Kind::Stack, name), object, vec![link]);
    }
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

async fn ask(scene: &Scene, source: SourceRef) -> SourceSeen {
    match scene.ask(Question::Source(source)).await.unwrap() {
        Answer::Source(seen) => seen,
        other => panic!("{other:?}"),
    }
}

/// The next Stack that is woken.
async fn woken(scene: &Scene) -> String {
    let next = tokio::time::timeout(DEADLINE, scene.queue.next()).await.expect("somebody is woken");
    scene.queue.done(&next, Ended::Settled);
    next.name
}

#[tokio::test]
async fn a_source_has_an_artifact_or_says_why_not() {
    let scene = Scene::new("source").await;
    let group = Group::new(&scene);
    group.kind("Thing", "Namespaced", &["v1"]).permit("things");
    let thing = || group.source("v1", "Thing", "a");
    let SourceSeen::Missing(why) = ask(&scene, thing()).await else { panic!("there is none") };
    assert_eq!(why, format!("things.{} \"a\" not found", group.name));
    group.put("v1", "a", &json!({"conditions": [{"type": "Ready", "status": "False", "message": "no credentials"}]}));
    assert_eq!(ask(&scene, thing()).await, SourceSeen::Empty { why: "no credentials".to_owned() });
    group.put("v1", "a", &artifact("main@sha1:1"));
    assert_eq!(ask(&scene, thing()).await, seen("main@sha1:1"));
}

#[tokio::test]
async fn what_the_cluster_does_not_have_or_not_allow_is_told_with_a_remedy() {
    let scene = Scene::new("unreadable").await;
    let group = Group::new(&scene);
    group.kind("Thing", "Namespaced", &["v1"]).permit("things").kind("Wide", "Cluster", &["v1"]);
    let told = async |source: SourceRef| match ask(&scene, source).await {
        SourceSeen::Unreadable(why) => why,
        other => panic!("{other:?}"),
    };
    let name = &group.name;
    assert_eq!(told(group.source("v1", "Thin", "a")).await, format!("no kind Thin in {name}; it has Thing, Wide"));
    let wide = told(group.source("v1", "Wide", "a")).await;
    assert!(wide.starts_with(&format!("Wide of {name} is in no namespace")), "{wide}");
    let of = |api_version: &str, kind: &str| SourceRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: "a".to_owned(),
    };
    let absent = told(of("absent.sources.test/v1", "Thing")).await;
    assert_eq!(absent, "no kind Thing in absent.sources.test, is what brings it installed?");
    let flux = told(of("absent.fluxcd.io/v1", "GitRepository")).await;
    assert_eq!(flux, "no kind GitRepository in absent.fluxcd.io, is Flux installed?");
    let own = told(of("v1", "Secret")).await;
    assert!(own.starts_with("no kind Secret with an artifact"), "{own}");

    group.kind("Locked", "Namespaced", &["v1"]);
    let locked = told(group.source("v1", "Locked", "a")).await;
    assert!(locked.contains("cannot get resource \"lockeds\""), "{locked}");
    let rule = format!("apiGroups [{name}], resources [lockeds] and verbs [get, list, watch]");
    assert!(locked.ends_with(&rule), "{locked}");
    let elsewhere = SourceRef { name: "../../other/things/a".to_owned(), ..group.source("v1", "Thing", "") };
    assert!(matches!(ask(&scene, elsewhere).await, SourceSeen::Missing(_)));
}

#[tokio::test]
async fn a_version_that_is_served_no_longer_gives_way_to_the_one_that_is() {
    let scene = Scene::new("versions").await;
    let group = Group::new(&scene);
    group.kind("Thing", "Namespaced", &["v1beta1", "v1"]).permit("things");
    group.put("v1", "a", &artifact("1"));
    assert_eq!(ask(&scene, group.source("v1alpha1", "Thing", "a")).await, seen("1"), "it never was");
    assert_eq!(ask(&scene, group.source("v1beta1", "Thing", "a")).await, seen("1"));
    group.kind("Thing", "Namespaced", &["v1"]);
    let old = format!("/apis/{}/v1beta1", group.name);
    wait_for("the old version to go", DEADLINE, || match Kubectl::new().try_run(&["get", "--raw", &old]) {
        Ok(_) => Err("it is still served".to_owned()),
        Err(_) => Ok(()),
    });
    assert_eq!(ask(&scene, group.source("v1beta1", "Thing", "a")).await, seen("1"));
}

#[tokio::test]
async fn from_its_first_use_a_source_wakes_its_stacks_when_it_changes() {
    let scene = Scene::new("watched").await;
    let group = Group::new(&scene);
    group.kind("Thing", "Namespaced", &["v1"]).permit("things");
    group.stack("web", "a");
    group.stack("second", "b");
    for name in ["a", "b"] {
        assert!(matches!(ask(&scene, group.source("v1", "Thing", name)).await, SourceSeen::Missing(_)));
    }
    group.put("v1", "a", &artifact("1"));
    assert_eq!(woken(&scene).await, "web");
    group.put("v1", "unused", &artifact("1"));
    // What no Stack can see of it wakes nobody, so the next to be woken is the other.
    scene.namespace.kubectl().run(&["label", &format!("things.{}", group.name), "a", "x=y"]);
    group.put("v1", "b", &artifact("1"));
    assert_eq!(woken(&scene).await, "second");
    group.put("v1", "a", &artifact("2"));
    assert_eq!(woken(&scene).await, "web");
    assert_eq!(ask(&scene, group.source("v1", "Thing", "a")).await, seen("2"));
    scene.delete(&format!("things.{}", group.name), "a");
    assert_eq!(woken(&scene).await, "web");
}

#[tokio::test]
async fn a_kind_that_comes_later_is_watched_then() {
    let scene = Scene::new("later").await;
    let group = Group::new(&scene);
    group.stack("web", "a");
    assert!(matches!(ask(&scene, group.source("v1", "Thing", "a")).await, SourceSeen::Unreadable(_)));
    group.kind("Thing", "Namespaced", &["v1"]).permit("things");
    group.put("v1", "a", &artifact("1"));
    assert_eq!(woken(&scene).await, "web");
    assert_eq!(ask(&scene, group.source("v1", "Thing", "a")).await, seen("1"));
    scene.sources.tidy();
    group.put("v1", "a", &artifact("2"));
    assert_eq!(woken(&scene).await, "web", "a kind that is used stays watched");
}
