//! What tests share. A dev-dependency only: nothing here ships.
#![allow(clippy::print_stderr, reason = "what a failing test saw goes to its output")]

pub mod chance;
#[cfg(feature = "cloud")]
pub mod cloud;
#[cfg(feature = "cluster")]
pub mod cluster;
#[cfg(feature = "git")]
pub mod git;
#[cfg(feature = "sim")]
pub mod sim;
