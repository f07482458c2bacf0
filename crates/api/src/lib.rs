//! The four kinds of the operator, the vocabulary they share, and the generation of their CRDs.
//!
//! Nothing here talks to a cluster, reads a clock or does IO.
//!
//! Decoding is lenient wherever the schema accepts more than a Rust type can hold, so that one
//! object cannot hide all others of its kind: see [`Checked`], [`Embedded`] and [`Guarded`].

#[macro_use]
mod object;

pub mod annotations;
mod checked;
pub mod conditions;
pub mod crd;
mod embedded;
pub mod env;
pub mod events;
pub mod finalizers;
mod go_duration;
mod go_quote;
mod guarded;
pub mod labels;
mod lenient;
pub mod managers;
pub mod messages;
pub mod names;
pub mod outputs;
pub mod paths;
pub mod program;
mod project_info;
pub mod reasons;
pub mod stack;
pub mod template;
pub mod update;
pub mod workspace;

pub use checked::{Check, Checked, Problem};
pub use embedded::{Embedded, EmbeddedError};
pub use go_duration::{GoDuration, ParseGoDurationError};
pub use go_quote::go_quote;
pub use guarded::{Guarded, Unreadable};
pub use program::Program;
pub use project_info::ProjectInfo;
pub use stack::Stack;
pub use update::Update;
pub use workspace::Workspace;

/// API group of Stack and Program.
pub const GROUP: &str = "pulumi.com";
/// API group of Workspace and Update.
pub const AUTO_GROUP: &str = "auto.pulumi.com";
