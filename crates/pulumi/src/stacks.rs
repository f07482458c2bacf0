//! The list of stacks as the CLI prints it.

use jiff::Timestamp;
use serde::Deserialize;

/// What the CLI tells of one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StackListed {
    pub name: String,
    /// Whether it is the selected one.
    pub current: bool,
    #[serde(deserialize_with = "time")]
    pub last_update: Option<Timestamp>,
    pub update_in_progress: bool,
    pub resource_count: Option<i32>,
    pub url: String,
}

/// The stack that is selected, from `stack ls --json`.
pub fn selected_of_list(printed: &str) -> Option<StackListed> {
    let all: Vec<StackListed> = serde_json::from_str(printed).ok()?;
    all.into_iter().find(|stack| stack.current)
}

/// A time that cannot be read is none.
fn time<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_stack_is_found_with_what_its_backend_knows_of_it() {
        let list = r#"[{"name":"prod","current":false,"updateInProgress":true,"resourceCount":3},
            {"name":"dev","current":true,"lastUpdate":"2026-08-01T10:00:00.000Z","updateInProgress":false,
             "resourceCount":7,"url":"https://app/o/p/dev"}]"#;
        let dev = selected_of_list(list).unwrap();
        assert_eq!((dev.name.as_str(), dev.resource_count, dev.update_in_progress), ("dev", Some(7), false));
        assert_eq!(dev.last_update, Some("2026-08-01T10:00:00Z".parse().unwrap()));
        assert_eq!(dev.url, "https://app/o/p/dev");
    }

    #[test]
    fn a_stack_that_was_never_updated_has_a_name_only() {
        let dev = selected_of_list(r#"[{"name":"dev","current":true,"lastUpdate":"never"}]"#).unwrap();
        assert_eq!(dev, StackListed { name: "dev".to_owned(), current: true, ..StackListed::default() });
    }

    #[test]
    fn without_a_selected_stack_there_is_none() {
        assert_eq!(selected_of_list(r#"[{"name":"dev","current":false}]"#), None);
        assert_eq!(selected_of_list("no stacks"), None);
    }
}
