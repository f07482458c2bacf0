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
mod trust;
mod volume;

pub use backend::Backend;
pub use crds::install_crds;
pub use environment::{host_address, variable};
pub use kubectl::Kubectl;
pub use local_operator::LocalOperator;
pub use namespace::Namespace;
pub use objects::{condition, list, read};
pub use operator::{
    ACCOUNT, OPERATOR_NAMESPACE, install_operator, install_operator_trusting, install_permissions, operator_log,
};
pub use trust::{Trust, authorities};
pub use volume::{LedgerLine, Volume};

pub use crate::wait::wait_for;
