//! Programs as workspaces fetch them: packed on request, and served over HTTP by every replica.

mod copies;
mod pack;
mod server;
mod yaml;

pub use copies::Copies;
pub use pack::{Packs, pack};
pub use server::serve;
