//! Tests on a real cluster with real Pulumi; they live in `tests/`, one file a feature. Here is what they share.

#[cfg(feature = "own-cluster")]
pub mod repositories;
#[cfg(feature = "cluster")]
pub mod scene;
#[cfg(feature = "cluster")]
pub mod soak;
