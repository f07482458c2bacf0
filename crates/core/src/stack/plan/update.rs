//! An Update of a Stack.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{
    Checked, Embedded, GoDuration, Stack, Update, Workspace, labels,
    update::{UpdateSpec, update_type},
};

use super::{Invalid, template, workspace::owned};
use crate::{merge::Schema, owner};

const TEMPLATE: &str = "spec.updateTemplate";

/// How long an Update of a Stack is kept after its end.
const KEPT: GoDuration = GoDuration::from_secs(24 * 60 * 60);

/// The Update as it is created in that Workspace, which exists and so has a uid. Without the finalizer, which is set by
/// a manager of its own.
pub fn update(
    stack: &Stack,
    workspace: &Workspace,
    name: &str,
    update_type: &str,
    message: &str,
) -> Result<Update, Invalid> {
    let generated = Update {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: stack.metadata.namespace.clone(),
            labels: Some(labels::of_stack(stack.metadata.name.as_deref().unwrap_or_default())),
            ..ObjectMeta::default()
        },
        spec: spec(stack, workspace, update_type, message),
        status: None,
    };
    let given = stack.spec.update_template.as_ref().map(Embedded::raw);
    let mut update: Update = template::merged(generated, given, TEMPLATE, Schema::Update)?;
    if let Some(problem) = update.spec.problems().first() {
        return Err(Invalid::new(format!("{TEMPLATE}.{problem}")));
    }
    // The Stack knows its Update by this name, saved before the Update was made.
    update.metadata.name = Some(name.to_owned());
    let mut owners = vec![owner::controller(owner::workspace(workspace))];
    owners.extend(owned(stack).then(|| owner::stack(stack)));
    let own = |uid: &str| owners.iter().any(|owner| owner.uid == uid);
    let others = update.metadata.owner_references.take().unwrap_or_default().into_iter().filter(|o| !own(&o.uid));
    update.metadata.owner_references = Some(others.chain(owners.clone()).collect());
    Ok(update)
}

fn spec(stack: &Stack, workspace: &Workspace, update_type: &str, message: &str) -> UpdateSpec {
    let common = UpdateSpec {
        workspace_name: workspace.metadata.name.clone(),
        stack_name: Some(stack.spec.stack.clone()),
        update_type: Some(update_type.to_owned()),
        ttl_after_completed: Some(Checked::Good(KEPT)),
        message: Some(message.to_owned()),
        ..UpdateSpec::default()
    };
    match update_type {
        update_type::UP | update_type::PREVIEW => UpdateSpec {
            target: stack.spec.targets.clone(),
            target_dependents: Some(stack.spec.target_dependents),
            refresh: Some(stack.spec.refresh),
            ..common
        },
        update_type::REFRESH => {
            UpdateSpec { target: stack.spec.targets.clone(), expect_no_changes: Some(true), ..common }
        }
        update_type::DESTROY => UpdateSpec { run_program: Some(stack.spec.run_program), ..common },
        _ => common,
    }
}
