//! Programs as workspaces fetch them: packed on request, served over HTTP, stored nowhere.

mod pack;
mod server;
mod yaml;

pub use pack::{Packs, pack};
pub use server::serve;
