//! Whom a change concerns. Generous: a decision that finds nothing to do is cheap.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{Stack, labels, names};
use pko_core::{
    references,
    seen::{Key, Kind, Object, stack_of},
};

use crate::{
    packed::Traits,
    store::{Link, Seen},
};

/// The object itself, and those that look at it. `before` and `now` are what it was and has become, if it was there and
/// is.
pub(crate) fn concerned(
    seen: &Seen,
    key: &Key,
    links: &[Link],
    before: Option<Traits>,
    now: Option<Traits>,
) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    if matches!(key.kind, Kind::Stack | Kind::Program | Kind::Workspace | Kind::Update) {
        keys.insert(key.clone());
    }
    let named = |kind: Kind, name: &str| Key { kind, namespace: key.namespace.clone(), name: name.to_owned() };
    let linked = |link: Link, which: fn(Traits) -> bool| {
        seen.linked(&key.namespace, link).filter(move |(_, traits)| which(*traits)).map(|(key, _)| key.clone())
    };
    match key.kind {
        // What it made may have to go with it.
        Kind::Stack if now.is_none() => {
            keys.extend(linked(Link::OfStack(key.name.clone()), |_| true));
            keys.extend(linked(Link::Requires(key.name.clone()), |_| true));
        }
        Kind::Stack if now.is_some_and(|now| now.asks_for_an_end) => {
            keys.extend(linked(Link::OfStack(key.name.clone()), unfinished));
        }
        Kind::Program => keys.extend(linked(Link::RunsProgram(key.name.clone()), |_| true)),
        Kind::Workspace => {
            // Also the Stack that waits for another's Workspace of its name to go.
            keys.insert(named(Kind::Stack, &key.name));
            keys.extend(linked(Link::OfWorkspace(key.name.clone()), unfinished));
        }
        Kind::Stack | Kind::Update | Kind::StatefulSet | Kind::Pod => {}
    }
    if now.is_some_and(ready) {
        keys.extend(linked(Link::Requires(key.name.clone()), |_| true));
    }
    for link in links {
        match (key.kind, link) {
            // Those of which it is the dependent may go now, and those of the same Pulumi stack may begin.
            (Kind::Stack, Link::Requires(other)) if now.is_none() => {
                keys.insert(named(Kind::Stack, other));
            }
            (Kind::Stack, Link::Deploys(_))
                if before.is_some_and(|before| before.updating) && !now.is_some_and(|now| now.updating) =>
            {
                keys.extend(linked(link.clone(), waits));
            }
            (Kind::Workspace | Kind::Update, Link::OfStack(stack)) => {
                keys.insert(named(Kind::Stack, stack));
            }
            (Kind::Update, Link::OfWorkspace(workspace)) => {
                // It renews its pod for what is about to run in it, and not for what does. Others wait for their turn.
                if !now.is_some_and(running) {
                    keys.insert(named(Kind::Workspace, workspace));
                }
                if !now.is_some_and(unfinished) {
                    keys.extend(linked(link.clone(), unfinished));
                }
            }
            (Kind::StatefulSet, Link::OfWorkspace(workspace)) => {
                keys.insert(named(Kind::Workspace, workspace));
            }
            (Kind::Pod, Link::OfWorkspace(workspace)) => {
                keys.insert(named(Kind::Workspace, workspace));
                keys.extend(linked(link.clone(), running));
            }
            _ => {}
        }
    }
    keys.retain(|other| other == key || seen.has(other));
    keys
}

fn ready(traits: Traits) -> bool {
    traits.ready
}

/// Whether a Stack may be waiting for another.
fn waits(traits: Traits) -> bool {
    !traits.ready && !traits.updating
}

fn unfinished(traits: Traits) -> bool {
    traits.unfinished
}

fn running(traits: Traits) -> bool {
    traits.running
}

/// To whom an object of ours belongs.
pub(crate) fn links(object: &Object) -> Vec<Link> {
    match object {
        Object::Stack(stack) => of_spec(stack),
        Object::Workspace(workspace) => {
            let used = references::of(&workspace.spec).into_iter().map(|used| Link::Uses(used.kind, used.name));
            of_stack(&workspace.metadata).into_iter().chain(used).collect()
        }
        Object::Update(update) => {
            let workspace = update.spec.workspace_name.clone().map(Link::OfWorkspace);
            of_stack(&update.metadata).into_iter().chain(workspace).collect()
        }
        Object::Program(_) | Object::StatefulSet(_) | Object::Pod(_) | Object::Unreadable(_) => Vec::new(),
    }
}

/// What a Stack looks at.
fn of_spec(stack: &Stack) -> Vec<Link> {
    let spec = &stack.spec;
    let program = spec.program_ref.iter().map(|program| Link::RunsProgram(program.name.clone()));
    let source = spec.flux_source.iter().map(|source| {
        let reference = &source.source_ref;
        let group = reference.api_version.split_once('/').map_or("", |(group, _)| group);
        Link::From { group: group.to_owned(), kind: reference.kind.clone(), name: reference.name.clone() }
    });
    let required = spec.prerequisites.iter().map(|other| Link::Requires(other.name.clone()));
    let used = pko_core::stack::references(stack).into_iter().map(|used| Link::Uses(used.kind, used.name));
    let mut links: Vec<Link> = program.chain(source).chain(required).chain(used).collect();
    links.push(Link::Deploys(pko_core::stack::deploys(stack)));
    links
}

/// The Stack that an object was made for.
pub(crate) fn of_stack(metadata: &ObjectMeta) -> Option<Link> {
    stack_of(metadata).map(|stack| Link::OfStack(stack.to_owned()))
}

/// To which Workspace a StatefulSet or a pod belongs.
pub(crate) fn links_by_label(metadata: &ObjectMeta) -> Vec<Link> {
    let workspace = metadata.labels.as_ref().and_then(|labels| labels.get(labels::WORKSPACE_NAME));
    workspace.cloned().map(Link::OfWorkspace).into_iter().collect()
}

/// The Workspace of a pod, by the pod's name.
pub(crate) fn workspace_of_pod(pod: &str) -> &str {
    pod.strip_suffix(&names::pod("")).unwrap_or(pod)
}

#[cfg(test)]
mod tests {
    use pko_api::finalizers;
    use pko_core::{
        references::ReferenceKind,
        seen::{PodSeen, StatefulSetSeen},
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::store::Store;

    fn key(kind: Kind, name: &str) -> Key {
        Key { kind, namespace: "team".to_owned(), name: name.to_owned() }
    }

    fn put(store: &Store, kind: Kind, name: &str, mut object: Value) -> Vec<String> {
        object["metadata"]["name"] = json!(name);
        object["metadata"]["namespace"] = json!("team");
        let object = match kind {
            Kind::Stack => Object::Stack(serde_json::from_value(object).unwrap()),
            Kind::Program => Object::Program(serde_json::from_value(object).unwrap()),
            Kind::Workspace => Object::Workspace(serde_json::from_value(object).unwrap()),
            Kind::Update => Object::Update(serde_json::from_value(object).unwrap()),
            Kind::StatefulSet | Kind::Pod => panic!("these have no JSON form here"),
        };
        let links = links(&object);
        words(&store.put(key(kind, name), object, links))
    }

    fn put_pod(store: &Store, name: &str, uid: &str) -> Vec<String> {
        let pod = PodSeen { uid: uid.to_owned(), ..PodSeen::default() };
        words(&store.put(key(Kind::Pod, name), Object::Pod(pod), vec![Link::OfWorkspace("web".to_owned())]))
    }

    fn words(keys: &BTreeSet<Key>) -> Vec<String> {
        keys.iter().map(|key| format!("{} {}", key.kind.as_str(), key.name)).collect()
    }

    fn owned_by_stack() -> Value {
        json!({"ownerReferences": [{"apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "web", "uid": "s"}]})
    }

    fn update(status: &Value) -> Value {
        json!({"metadata": owned_by_stack(), "spec": {"workspaceName": "web"}, "status": status})
    }

    fn complete() -> Value {
        let time = "2024-01-01T00:00:00Z";
        json!({"conditions": [
            {"type": "Complete", "status": "True", "reason": "Updated", "message": "", "lastTransitionTime": time},
        ]})
    }

    /// A Stack with its Program, its Workspace and three Updates: waiting, running, ended.
    fn store() -> Store {
        let store = Store::default();
        put(&store, Kind::Stack, "web", json!({"spec": {"stack": "dev", "programRef": {"name": "p"}}}));
        put(&store, Kind::Stack, "other", json!({"spec": {"stack": "dev"}}));
        put(&store, Kind::Program, "p", json!({}));
        put(&store, Kind::Workspace, "web", json!({"metadata": owned_by_stack()}));
        put(&store, Kind::Update, "ended", update(&complete()));
        put(&store, Kind::Update, "running", update(&json!({"run": {"podUID": "u"}})));
        put(&store, Kind::Update, "waiting", update(&json!({})));
        store
    }

    #[test]
    fn a_stack_concerns_itself_and_when_it_goes_what_it_made() {
        let store = store();
        assert_eq!(put(&store, Kind::Stack, "web", json!({"spec": {"stack": "prod"}})), ["Stack web"]);
        let gone = words(&store.remove(&key(Kind::Stack, "web")));
        assert_eq!(gone, ["Stack web", "Workspace web", "Update ended", "Update running", "Update waiting"]);
    }

    fn with_status(spec: &Value, status: &Value) -> Value {
        json!({"spec": spec, "status": status})
    }

    fn ready() -> Value {
        let time = "2024-01-01T00:00:00Z";
        json!({"conditions": [
            {"type": "Ready", "status": "True", "reason": "A", "message": "", "lastTransitionTime": time},
        ]})
    }

    #[test]
    fn a_stack_that_becomes_ready_or_goes_concerns_those_that_wait_for_it() {
        let store = Store::default();
        let (base, web) = (json!({"stack": "base"}), json!({"stack": "web", "prerequisites": [{"name": "base"}]}));
        put(&store, Kind::Stack, "web", with_status(&web, &json!({})));
        assert_eq!(put(&store, Kind::Stack, "base", with_status(&base, &json!({}))), ["Stack base"]);
        assert_eq!(put(&store, Kind::Stack, "base", with_status(&base, &ready())), ["Stack base", "Stack web"]);
        let requirements = store.requirements("team", "web");
        assert_eq!((&requirements["web"][..], requirements["base"].len()), (&["base".to_owned()][..], 0));
        assert_eq!(store.dependents("team", "base").len(), 1);
        assert_eq!(
            words(&store.remove(&key(Kind::Stack, "web"))),
            ["Stack base", "Stack web"],
            "it may be destroyed now"
        );
        put(&store, Kind::Stack, "web", with_status(&web, &json!({})));
        assert_eq!(words(&store.remove(&key(Kind::Stack, "base"))), ["Stack base", "Stack web"]);
    }

    #[test]
    fn the_end_of_an_update_concerns_other_stacks_of_the_same_pulumi_stack() {
        let store = Store::default();
        let spec = |preview: bool| json!({"stack": "org/web/dev", "preview": preview});
        let updating = json!({"currentUpdate": {"name": "u"}});
        put(&store, Kind::Stack, "other", with_status(&json!({"stack": "org/other/dev"}), &json!({})));
        put(&store, Kind::Stack, "twin", with_status(&spec(true), &json!({})));
        assert_eq!(put(&store, Kind::Stack, "web", with_status(&spec(false), &updating)), ["Stack web"]);
        assert_eq!(put(&store, Kind::Stack, "web", with_status(&spec(false), &json!({}))), ["Stack twin", "Stack web"]);
        assert_eq!(put(&store, Kind::Stack, "web", with_status(&spec(false), &ready())), ["Stack web"]);
        let stack = |name: &str| store.get(&key(Kind::Stack, name)).unwrap().stack().cloned().unwrap();
        let deploys = pko_core::stack::deploys(&stack("web"));
        let twins = store.namesakes("team", &deploys, "web");
        assert_eq!(twins.iter().filter_map(|it| it.metadata.name.as_deref()).collect::<Vec<_>>(), ["twin"]);
    }

    #[test]
    fn a_secret_or_a_source_concerns_the_stacks_that_need_it() {
        let store = Store::default();
        let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "Bucket", "name": "b"});
        let token = json!({"A": {"type": "Secret", "secret": {"name": "creds", "key": "a"}}});
        let spec = json!({"stack": "dev", "fluxSource": {"sourceRef": source}, "envRefs": token});
        put(&store, Kind::Stack, "web", json!({"spec": spec}));
        let web = [key(Kind::Stack, "web")];
        assert_eq!(store.users_of("team", ReferenceKind::Secret, "creds"), web);
        assert_eq!(store.users_of_source("source.toolkit.fluxcd.io", "Bucket", "team", "b"), web);
        assert!(store.users_of_source("source.toolkit.fluxcd.io", "Bucket", "elsewhere", "b").is_empty());
    }

    #[test]
    fn a_program_concerns_the_stacks_that_run_it() {
        let store = store();
        let changed = put(&store, Kind::Program, "p", json!({"program": {"outputs": {"a": 1}}}));
        assert_eq!(changed, ["Stack web", "Program p"]);
        assert_eq!(words(&store.remove(&key(Kind::Program, "p"))), ["Stack web", "Program p"]);
    }

    #[test]
    fn a_workspace_concerns_its_stack_and_what_waits_or_runs_in_it() {
        let expected = ["Stack web", "Workspace web", "Update running", "Update waiting"];
        let store = store();
        let changed =
            put(&store, Kind::Workspace, "web", json!({"metadata": owned_by_stack(), "spec": {"image": "a"}}));
        assert_eq!(changed, expected);
        assert_eq!(words(&store.remove(&key(Kind::Workspace, "web"))), expected);
    }

    #[test]
    fn an_update_concerns_its_stack_and_when_it_ends_its_workspace() {
        let store = store();
        let begun = put(&store, Kind::Update, "waiting", update(&json!({"run": {"podUID": "u"}})));
        assert_eq!(begun, ["Stack web", "Update waiting"]);
        let ended = put(&store, Kind::Update, "waiting", update(&complete()));
        assert_eq!(ended, ["Stack web", "Workspace web", "Update running", "Update waiting"]);
    }

    #[test]
    fn an_update_that_waits_concerns_its_workspace_which_may_have_to_be_renewed() {
        let store = store();
        let waits = put(&store, Kind::Update, "new", update(&json!({})));
        assert_eq!(waits, ["Stack web", "Workspace web", "Update new"]);
    }

    #[test]
    fn a_stack_that_asks_for_an_end_concerns_its_updates() {
        let store = store();
        let asking = json!({"metadata": {"annotations": {"pulumi.com/cancel-request": "running"}}, "spec": {}});
        assert_eq!(put(&store, Kind::Stack, "web", asking), ["Stack web", "Update running", "Update waiting"]);
    }

    #[test]
    fn a_secret_concerns_the_workspaces_that_need_it() {
        let store = store();
        let from = json!({"secretKeyRef": {"name": "creds", "key": "a"}});
        put(&store, Kind::Workspace, "web", json!({"spec": {"env": [{"name": "A", "valueFrom": from}]}}));
        assert_eq!(store.users_of("team", ReferenceKind::Secret, "creds"), [key(Kind::Workspace, "web")]);
        assert!(store.users_of("team", ReferenceKind::ConfigMap, "creds").is_empty());
        assert!(store.users_of("other", ReferenceKind::Secret, "creds").is_empty());
    }

    #[test]
    fn an_update_that_goes_while_it_runs_is_remembered() {
        let store = store();
        for (name, remembered) in [("running", true), ("waiting", false), ("ended", false)] {
            store.remove(&key(Kind::Update, name));
            assert_eq!(store.gone(&key(Kind::Update, name)).is_some(), remembered, "{name}");
        }
    }

    #[test]
    fn a_pod_concerns_its_workspace_and_what_runs_in_it() {
        let store = store();
        assert_eq!(put_pod(&store, "web-workspace-0", "u"), ["Workspace web", "Update running"]);
        assert_eq!(put_pod(&store, "web-workspace-0", "u"), Vec::<String>::new(), "nothing of interest has changed");
        let gone = words(&store.remove(&key(Kind::Pod, "web-workspace-0")));
        assert_eq!(gone, ["Workspace web", "Update running"]);
    }

    #[test]
    fn a_stateful_set_concerns_its_workspace() {
        let links = vec![Link::OfWorkspace("web".to_owned())];
        let set = Object::StatefulSet(StatefulSetSeen::default());
        assert_eq!(words(&store().put(key(Kind::StatefulSet, "web-workspace"), set, links)), ["Workspace web"]);
    }

    #[test]
    fn what_moved_to_another_concerns_both() {
        let store = store();
        put(&store, Kind::Workspace, "other", json!({}));
        let moved = json!({"spec": {"workspaceName": "other"}, "status": complete()});
        let concerned = put(&store, Kind::Update, "running", moved);
        assert_eq!(concerned, ["Stack web", "Workspace other", "Workspace web", "Update running", "Update waiting"]);
    }

    #[test]
    fn a_list_tells_what_has_gone() {
        let store = store();
        let present = [key(Kind::Update, "running"), key(Kind::Update, "waiting")].into();
        assert_eq!(
            words(&store.listed(Kind::Update, &present)),
            ["Stack web", "Workspace web", "Update ended", "Update running", "Update waiting"]
        );
        assert!(!store.complete(), "only one kind was listed");
    }

    #[test]
    fn the_held_updates_of_a_stack_are_found_by_owner_or_label() {
        let store = store();
        let mut owned = update(&json!({}));
        owned["metadata"]["finalizers"] = json!([finalizers::STACK]);
        put(&store, Kind::Update, "owned", owned);
        let labelled = json!({"labels": {"pulumi.com/stack-name": "web"}, "finalizers": [finalizers::STACK]});
        put(&store, Kind::Update, "labelled", json!({"metadata": labelled}));
        let names: Vec<_> = store.updates_of("team", "web").into_iter().filter_map(|u| u.metadata.name).collect();
        assert_eq!(names, ["labelled", "owned"], "nobody has to let go of the three others");
        assert!(store.updates_of("elsewhere", "web").is_empty());
    }

    #[test]
    fn a_pod_tells_its_workspace_by_its_name() {
        assert_eq!(workspace_of_pod("web-workspace-0"), "web");
    }
}
