//! Whose child an object is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use pko_api::{Stack, Workspace};

/// The object was made for the Stack, which waits for it when deleted in the foreground.
pub(crate) fn stack(stack: &Stack) -> OwnerReference {
    of(Stack::API_VERSION, Stack::KIND, &stack.metadata)
}

/// The object was made for the Workspace, which waits for it when deleted in the foreground.
pub(crate) fn workspace(workspace: &Workspace) -> OwnerReference {
    of(Workspace::API_VERSION, Workspace::KIND, &workspace.metadata)
}

/// The one owner that keeps the object as it should be.
pub(crate) fn controller(owner: OwnerReference) -> OwnerReference {
    OwnerReference { controller: Some(true), ..owner }
}

fn of(api_version: &str, kind: &str, metadata: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}
