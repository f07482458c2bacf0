//! The Workspace and the Updates that a Stack leads to. Pure and total: what a Stack's spec may hold leads to objects
//! or to an [`Invalid`], whose text never quotes a configuration value.

mod config;
mod environment;
mod reference;
mod template;
mod update;
mod workspace;

use pko_api::{ProjectInfo, workspace::GitSource};

pub use crate::invalid::Invalid;
pub use update::update;
pub(super) use workspace::bare;
pub use workspace::{with_references, workspace, workspace_hash, workspace_name};

/// Where the Workspace takes the program from, after all look-ups.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one exists at a time, and not for long")]
pub enum Source {
    /// An artifact, of a Flux source or of a Program.
    Flux {
        /// Its address.
        url: String,
        /// The digest that it must have.
        digest: String,
        /// Directory of the program within it; empty for its root.
        dir: String,
    },
    /// A commit of a repository.
    Git(GitSource),
    /// Nowhere: enough of a project to destroy its stack from state.
    ProjectInfo(ProjectInfo),
    /// Whatever the Stack's workspace template brings.
    None,
}
