//! What tests share. A dev-dependency only: nothing here ships.
#![allow(clippy::print_stderr, reason = "what a failing test saw goes to its output")]

pub mod chance;
#[cfg(feature = "cloud")]
pub mod cloud;
#[cfg(feature = "cluster")]
pub mod cluster;
#[cfg(feature = "flux")]
pub mod flux;
#[cfg(feature = "git")]
pub mod git;
#[cfg(any(feature = "flux", feature = "git"))]
mod process;
pub mod shared;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(any(feature = "cluster", feature = "flux", feature = "git"))]
mod wait;
