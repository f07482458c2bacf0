//! What is to be run, as agents take it.

use std::collections::HashMap;

use pko_api::workspace::{ConfigItem, WorkspaceStack};
use pko_core::effect::{Init, Operation, OperationKind};
use pko_proto::{
    agent::{self, config_item::V, config_value_from::F},
    runs::{self, start_request::Operation as Wanted},
};
use serde_json::Value;

pub(super) fn init(init: &Init) -> Wanted {
    Wanted::Init(runs::Init { stacks: init.stacks.iter().map(stack).collect(), skip_install: init.skip_install })
}

fn stack(stack: &WorkspaceStack) -> runs::Stack {
    runs::Stack {
        name: stack.name.clone(),
        create: stack.create.unwrap_or_default(),
        secrets_provider: stack.secrets_provider.clone().unwrap_or_default(),
        config: stack.config.iter().map(config_item).collect(),
        environment: stack.environment.clone(),
        exact: exact(&stack.config),
    }
}

/// Literals with numbers that a double does not hold, as text: every other number on this wire is a double.
fn exact(config: &[ConfigItem]) -> HashMap<u32, String> {
    let literal =
        |item: &ConfigItem| item.value.clone().filter(|value| item.value_from.is_none() && loses_digits(value));
    (0_u32..).zip(config).filter_map(|(at, item)| Some((at, literal(item)?.to_string()))).collect()
}

fn loses_digits(value: &Value) -> bool {
    const EXACT: u64 = 1 << 53;
    match value {
        Value::Number(number) => {
            number.as_u64().is_some_and(|n| n > EXACT) || number.as_i64().is_some_and(|n| n.unsigned_abs() > EXACT)
        }
        Value::Array(items) => items.iter().any(loses_digits),
        Value::Object(fields) => fields.values().any(loses_digits),
        _ => false,
    }
}

/// Where a value comes from wins over a value. An item that has neither is the agent's to refuse.
fn config_item(item: &ConfigItem) -> agent::ConfigItem {
    let from = item.value_from.as_ref().map(|from| {
        let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let f = text(&from.env).map(F::Env).or_else(|| text(&from.path).map(F::Path));
        V::ValueFrom(agent::ConfigValueFrom { f, json: from.json.then_some(true) })
    });
    agent::ConfigItem {
        key: item.key.clone(),
        path: item.path,
        v: from.or_else(|| item.value.as_ref().map(|value| V::Value(pko_proto::to_value(value)))),
        secret: item.secret,
    }
}

pub(super) fn operation(operation: &Operation) -> Wanted {
    let Operation {
        kind,
        stack,
        message,
        parallel,
        expect_no_changes,
        replace,
        target,
        target_dependents,
        refresh,
        continue_on_error,
        remove,
        run_program,
    } = operation.clone();
    match kind {
        OperationKind::Preview => Wanted::Preview(runs::Preview {
            stack_name: stack,
            options: Some(agent::PreviewRequest {
                parallel,
                message,
                expect_no_changes,
                replace,
                target,
                target_dependents,
                refresh,
                ..agent::PreviewRequest::default()
            }),
        }),
        OperationKind::Up => Wanted::Up(runs::Up {
            stack_name: stack,
            options: Some(agent::UpRequest {
                parallel,
                message,
                expect_no_changes,
                replace,
                target,
                target_dependents,
                refresh,
                continue_on_error,
                ..agent::UpRequest::default()
            }),
        }),
        OperationKind::Refresh => Wanted::Refresh(runs::Refresh {
            stack_name: stack,
            options: Some(agent::RefreshRequest { parallel, message, expect_no_changes, target, run_program }),
        }),
        OperationKind::Destroy => Wanted::Destroy(runs::Destroy {
            stack_name: stack,
            options: Some(agent::DestroyRequest {
                parallel,
                message,
                target,
                target_dependents,
                refresh,
                continue_on_error,
                remove,
                run_program,
            }),
        }),
    }
}

#[cfg(test)]
mod tests {
    use pko_api::workspace::ConfigValueFrom;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_wins_over_a_value_and_an_environment_variable_over_a_file() {
        let from = ConfigValueFrom { env: Some("A".to_owned()), path: Some("/b".to_owned()), json: true };
        let item = ConfigItem { value: Some(json!("c")), value_from: Some(from), ..ConfigItem::default() };
        let expected = agent::ConfigValueFrom { f: Some(F::Env("A".to_owned())), json: Some(true) };
        assert_eq!(config_item(&item).v, Some(V::ValueFrom(expected)));
    }

    #[test]
    fn numbers_that_a_double_does_not_hold_travel_as_text_too() {
        let item = |value| ConfigItem { value: Some(value), ..ConfigItem::default() };
        let config = [item(json!(1_u64 << 53)), item(json!({"n": [9_007_199_254_740_993_u64]})), item(json!("text"))];
        assert_eq!(exact(&config), HashMap::from([(1, "{\"n\":[9007199254740993]}".to_owned())]));
        assert!(loses_digits(&json!(i64::MIN)) && !loses_digits(&json!(1.5e300)));
    }

    #[test]
    fn options_that_are_absent_stay_absent() {
        let wanted = operation(&Operation { stack: "dev".to_owned(), ..Operation::default() });
        let expected = runs::Up { stack_name: "dev".to_owned(), options: Some(agent::UpRequest::default()) };
        assert_eq!(wanted, Wanted::Up(expected));
    }
}
