//! Strategic merge: a partial object over a whole one, as `kubectl patch` and Kubernetes' apimachinery do it. Maps
//! merge member by member; lists are replaced, unless the schema says by which member their items are told apart.
//!
//! Tighter than apimachinery in two things: what is new is taken without its nulls and directives at every depth, and
//! an order is kept also where its list is replaced or empty.

mod lists;
mod maps;
mod path;
mod schema;

use std::fmt;

use serde_json::Value;

use path::Path;
pub use schema::Schema;

/// Keys of a patch that say how to merge instead of what.
mod directive {
    pub(super) const PATCH: &str = "$patch";
    pub(super) const RETAIN_KEYS: &str = "$retainKeys";
    pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder";
    pub(super) const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";
}

/// The directive that fixes the order of a list.
pub fn set_element_order(list: &str) -> String {
    format!("{}/{list}", directive::SET_ELEMENT_ORDER)
}

/// A patch that cannot be merged. Quotes no value, since values may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeError {
    /// Where in the patch, for example `spec.containers[1]`; empty for the whole.
    pub path: String,
    /// What is wrong there, in words for the user.
    pub why: String,
}

impl fmt::Display for MergeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.path.is_empty() { "" } else { ": " };
        write!(formatter, "{}{colon}{}", self.path, self.why)
    }
}

impl std::error::Error for MergeError {}

/// The original with the patch merged over it.
pub fn strategic(original: Value, patch: &Value, of: Schema) -> Result<Value, MergeError> {
    let root = Path::root();
    let Value::Object(original) = original else {
        return Err(root.error("what is merged into must be a map"));
    };
    let Value::Object(patch) = patch else {
        return Err(root.error("must be a map"));
    };
    maps::merge(original, patch, of.root(), root).map(Value::Object)
}
