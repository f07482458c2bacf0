//! The CLI operation that an Update asks for.

use pko_api::{
    messages::update as message,
    update::{UpdateSpec, update_type},
};

use crate::effect::{Operation, OperationKind};

/// The operation, or in words why there is none.
pub(super) fn operation(spec: &UpdateSpec) -> Result<Operation, String> {
    if let Some(problem) = spec.problems().first() {
        return Err(problem.to_string());
    }
    let kind = match spec.update_type.as_deref() {
        Some(update_type::PREVIEW) => OperationKind::Preview,
        Some(update_type::UP) => OperationKind::Up,
        Some(update_type::REFRESH) => OperationKind::Refresh,
        Some(update_type::DESTROY) => OperationKind::Destroy,
        other => return Err(message::unsupported_type(other.unwrap_or_default())),
    };
    Ok(Operation {
        kind,
        stack: spec.stack_name.clone().unwrap_or_default(),
        message: spec.message.clone(),
        parallel: spec.parallel.as_ref().and_then(|parallel| parallel.good().copied()),
        expect_no_changes: spec.expect_no_changes,
        replace: spec.replace.clone(),
        target: spec.target.clone(),
        target_dependents: spec.target_dependents,
        refresh: spec.refresh,
        continue_on_error: spec.continue_on_error,
        remove: spec.remove,
        run_program: spec.run_program,
    })
}
