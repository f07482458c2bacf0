//! A real cluster as a test sees it: `kubectl`, a namespace that goes away, an operator, the state that Pulumi keeps,
//! and waiting with a deadline.

mod backend;
mod crds;
mod environment;
mod kubectl;
mod local_operator;
mod namespace;
mod objects;
mod operator;
mod volume;

use std::time::{Duration, Instant};

pub use backend::Backend;
pub use crds::install_crds;
pub use environment::variable;
pub use kubectl::Kubectl;
pub use local_operator::LocalOperator;
pub use namespace::Namespace;
pub use objects::{condition, list, read};
pub use operator::{ACCOUNT, OPERATOR_NAMESPACE, install_operator, install_permissions, operator_log};
pub use volume::{LedgerLine, Volume};

/// Asks until `look` finds what is awaited. Panics at the deadline with what was seen last.
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < deadline, "waited {limit:?} for {what}; last seen: {seen}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
