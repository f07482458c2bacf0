//! Makes a workspace ready, call by call in PKO's order.

use pko_api::{
    messages::workspace as message,
    reasons::workspace::{INCOMPATIBLE_CONFIGURATION, INITIALIZATION_FAILED, INSTALLATION_FAILED},
};
use pko_core::ask::{Failure, Phase};
use pko_proto::{
    agent::{ConfigItem, SelectStackRequest, config_item::V},
    runs::{Init, Stack},
};
use prost_types::value::Kind;
use tonic::Status;

use super::{Calls, Entry, errors};

pub(super) async fn run(entry: &Entry, calls: &Calls, init: Init) -> Result<(), Failure> {
    if init.stacks.iter().flat_map(|stack| &stack.config).any(is_structured) {
        check_version(&entry.seen().pulumi_version)?;
    }
    if !init.skip_install {
        calls.install().await.map_err(|status| errors::of_init(&status, INSTALLATION_FAILED.as_str()))?;
    }
    entry.set_phase(Phase::Initializing);
    for stack in init.stacks {
        let name = stack.name.clone();
        make_ready(calls, stack).await.map_err(|failure| Failure { stack: name, ..failure })?;
    }
    Ok(())
}

async fn make_ready(calls: &Calls, stack: Stack) -> Result<(), Failure> {
    let failed = |status: Status| errors::of_init(&status, INITIALIZATION_FAILED.as_str());
    if let Some(item) = stack.config.iter().find(|item| contradicts_itself(item)) {
        let text = message::path_with_structured_value(&item.key);
        return Err(errors::failure(INITIALIZATION_FAILED.as_str(), &text));
    }
    let select = SelectStackRequest {
        stack_name: stack.name,
        create: stack.create.then_some(true),
        secrets_provider: Some(stack.secrets_provider).filter(|provider| !provider.is_empty()),
    };
    calls.select_stack(select).await.map_err(failed)?;
    if !stack.config.is_empty() {
        calls.set_config(stack.config).await.map_err(failed)?;
    }
    if !stack.environment.is_empty() {
        calls.add_environments(stack.environment).await.map_err(failed)?;
    }
    Ok(())
}

/// Whether the CLI is new enough for values that are not text.
fn check_version(version: &str) -> Result<(), Failure> {
    let incompatible = |text: &str| Err(errors::final_failure(INCOMPATIBLE_CONFIGURATION.as_str(), text));
    match (parsed(version), parsed(message::FIRST_JSON_VERSION)) {
        (None, _) => incompatible(&message::version_unparsable(version)),
        (Some(version_is), Some(first)) if version_is < first => incompatible(&message::version_too_low(version)),
        _ => Ok(()),
    }
}

/// A version in the order of versions: one before a release is lower than the release.
fn parsed(version: &str) -> Option<([u64; 3], bool)> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let version = version.split_once('+').map_or(version, |(version, _)| version);
    let (numbers, released) = version.split_once('-').map_or((version, true), |(numbers, _)| (numbers, false));
    let numbers = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    match numbers[..] {
        [major, minor] => Some(([major, minor, 0], released)),
        [major, minor, patch] => Some(([major, minor, patch], released)),
        _ => None,
    }
}

/// Everything but text, and null too, as PKO has it.
fn is_structured(item: &ConfigItem) -> bool {
    match &item.v {
        Some(V::Value(value)) => !matches!(value.kind, Some(Kind::StringValue(_))),
        Some(V::ValueFrom(from)) => from.json(),
        None => false,
    }
}

fn contradicts_itself(item: &ConfigItem) -> bool {
    let Some(V::Value(value)) = &item.v else { return false };
    item.path() && !matches!(value.kind, Some(Kind::StringValue(_) | Kind::NullValue(_)) | None)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn item(value: &Value, path: bool) -> ConfigItem {
        let v = Some(V::Value(pko_proto::to_value(value)));
        ConfigItem { key: "k".to_owned(), v, path: Some(path), ..ConfigItem::default() }
    }

    #[rstest]
    #[case::text(json!("5"), false, false)]
    #[case::nothing(json!(null), true, false)]
    #[case::a_number(json!(5), true, true)]
    #[case::a_truth(json!(false), true, true)]
    #[case::a_list(json!(["a"]), true, true)]
    #[case::an_object(json!({"a": 1}), true, true)]
    fn a_value_is_structured_and_cannot_have_a_path(#[case] value: Value, #[case] yes: bool, #[case] no_path: bool) {
        assert_eq!(is_structured(&item(&value, false)), yes);
        assert_eq!(contradicts_itself(&item(&value, true)), no_path);
        assert!(!contradicts_itself(&item(&value, false)));
    }

    #[rstest]
    #[case::the_first_one("3.202.0", None)]
    #[case::with_a_letter("v3.259.1", None)]
    #[case::with_a_build("3.202.0+dirty", None)]
    #[case::of_two_numbers("4.0", None)]
    #[case::before_it("3.202.0-alpha.1", Some("does not support JSON configuration, require >= v3.202.0"))]
    #[case::old("3.99.0", Some("Pulumi CLI version 3.99.0 does not support"))]
    #[case::nonsense("three", Some("Failed to parse Pulumi version \"three\""))]
    #[case::too_many_numbers("3.202.0.1", Some("Failed to parse Pulumi version"))]
    #[case::none("", Some("Failed to parse Pulumi version \"\""))]
    fn a_version_for_structured_values(#[case] version: &str, #[case] problem: Option<&str>) {
        let checked = check_version(version);
        let Some(problem) = problem else { return assert_eq!(checked, Ok(())) };
        let failure = checked.unwrap_err();
        assert_eq!((failure.reason.as_str(), failure.retryable), ("IncompatibleConfiguration", false));
        assert!(failure.message.contains(problem), "{}", failure.message);
    }
}
