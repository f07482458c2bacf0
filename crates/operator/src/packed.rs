//! Objects as they are kept: as text, which takes a small part of the memory that an object takes with all its maps, and
//! is read again about as fast as the object could be copied. What is looked at in passing is kept beside it.

use pko_api::{
    annotations,
    conditions::{ConditionType, is_true},
};
use pko_core::seen::{self, Object};

/// An object.
#[derive(Debug, PartialEq)]
pub(crate) enum Packed {
    Stack(Box<[u8]>),
    Program(Box<[u8]>),
    Workspace(Box<[u8]>),
    Update(Box<[u8]>),
    /// What is small, or has no such form.
    AsItIs(Object),
}

impl Packed {
    pub(crate) fn of(object: &Object) -> Self {
        let text = match object {
            Object::Stack(stack) => serde_json::to_vec(stack).ok().map(|text| Self::Stack(text.into())),
            Object::Program(program) => serde_json::to_vec(program).ok().map(|text| Self::Program(text.into())),
            Object::Workspace(of) => serde_json::to_vec(of).ok().map(|text| Self::Workspace(text.into())),
            Object::Update(update) => serde_json::to_vec(update).ok().map(|text| Self::Update(text.into())),
            Object::StatefulSet(_) | Object::Pod(_) | Object::Unreadable(_) => None,
        };
        text.unwrap_or_else(|| Self::AsItIs(object.clone()))
    }

    /// The object again. What was written by us can be read by us.
    pub(crate) fn unpacked(&self) -> Option<Object> {
        Some(match self {
            Self::Stack(text) => Object::Stack(serde_json::from_slice(text).ok()?),
            Self::Program(text) => Object::Program(serde_json::from_slice(text).ok()?),
            Self::Workspace(text) => Object::Workspace(serde_json::from_slice(text).ok()?),
            Self::Update(text) => Object::Update(serde_json::from_slice(text).ok()?),
            Self::AsItIs(object) => object.clone(),
        })
    }
}

/// What others want to know of an object before they look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question that has an answer")]
pub(crate) struct Traits {
    /// A Stack that is ready.
    pub(crate) ready: bool,
    /// A Stack that has an update planned or running.
    pub(crate) updating: bool,
    /// A Stack that wants one of its Updates to be cancelled.
    pub(crate) asks_for_an_end: bool,
    /// An Update that has not ended.
    pub(crate) unfinished: bool,
    /// An Update that was given to a pod and has not ended.
    pub(crate) running: bool,
    /// Our finalizer is on it.
    pub(crate) held: bool,
}

impl Traits {
    pub(crate) fn of(object: &Object) -> Self {
        match object {
            Object::Stack(stack) => {
                let status = stack.status.as_ref();
                Self {
                    ready: status.is_some_and(|status| is_true(&status.conditions, ConditionType::READY)),
                    updating: status.is_some_and(|status| status.current_update.is_some()),
                    asks_for_an_end: seen::annotation(&stack.metadata, annotations::CANCEL_REQUEST).is_some(),
                    held: seen::held(&stack.metadata),
                    ..Self::default()
                }
            }
            Object::Update(update) => Self {
                unfinished: !seen::ended(update),
                running: seen::running(update),
                held: seen::held(&update.metadata),
                ..Self::default()
            },
            _ => Self::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stack(spec: &Value) -> Object {
        let object = json!({"metadata": {"name": "a", "namespace": "b", "resourceVersion": "1"}, "spec": spec});
        Object::Stack(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn what_is_kept_is_what_was_seen() {
        let template = json!({"spec": {"podTemplate": {"spec": {"containers": [{"name": "pulumi", "ports": [1.5]}]}}}});
        for spec in [
            json!({"stack": "dev"}),
            json!({"stack": "", "config": 5, "resyncFrequencySeconds": "soon", "pulumiLogLevel": -1}),
            json!({"stack": "dev", "config": {"a": [1, null, {"b": 1e300}]}, "workspaceTemplate": template, "branch": ""}),
            json!({"stack": "dev", "prerequisites": [{"name": "x", "requirement": {"succeededWithinDuration": "no"}}]}),
        ] {
            let object = stack(&spec);
            assert_eq!(Packed::of(&object).unpacked(), Some(object), "{spec}");
        }
        let update =
            json!({"metadata": {}, "spec": {"ttlAfterCompleted": "24h", "parallel": 4.5}, "status": {"message": "x"}});
        let workspace =
            json!({"metadata": {}, "spec": {"env": [{"name": "A", "value": "b"}, 7], "stacks": [{"name": "x"}]}});
        let objects = [
            Object::Update(serde_json::from_value(update).unwrap()),
            Object::Workspace(serde_json::from_value(workspace).unwrap()),
            Object::Program(
                serde_json::from_value(json!({"metadata": {}, "program": {"outputs": {"a": [1]}}})).unwrap(),
            ),
            Object::Pod(seen::PodSeen { uid: "u".to_owned(), ..seen::PodSeen::default() }),
        ];
        for object in objects {
            assert_eq!(Packed::of(&object).unpacked(), Some(object.clone()), "{object:?}");
        }
    }
}
