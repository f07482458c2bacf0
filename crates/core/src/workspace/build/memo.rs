//! The planned StatefulSet of the Workspace that is decided about, built once. It follows from the facts, so it is no
//! fact of its own: facts with and without it are the same.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use super::StatefulSetPlan;

/// The plan, or in words why there is none.
pub type Planned = Arc<Result<StatefulSetPlan, String>>;

/// Empty until somebody asks.
#[derive(Clone, Default)]
pub struct Memo(OnceLock<Planned>);

impl Memo {
    /// One that is known from an earlier decision about the same generation of the same Workspace.
    pub fn known(planned: Planned) -> Self {
        Self(OnceLock::from(planned))
    }

    /// What is known by now.
    pub fn get(&self) -> Option<&Planned> {
        self.0.get()
    }

    pub(crate) fn or_build(
        &self,
        build: impl FnOnce() -> Result<StatefulSetPlan, String>,
    ) -> Result<&StatefulSetPlan, &str> {
        match &**self.0.get_or_init(|| Arc::new(build())) {
            Ok(plan) => Ok(plan),
            Err(why) => Err(why),
        }
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Memo")
    }
}
