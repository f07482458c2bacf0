//! Getting a program's files: git, Flux artifacts, safe extraction, and a project file for programs whose source is gone.
//! What a Stack or a Workspace is, nobody here knows.

pub mod artifact;
pub mod digest;
mod download;
pub mod git;
pub mod http;
mod links;
mod names;
pub mod project;
mod staging;
pub mod untar;

#[cfg(test)]
#[path = "../tests/archives/mod.rs"]
mod archives;
