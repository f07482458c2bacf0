//! What tests share. A dev-dependency only: nothing here ships.

#[cfg(feature = "cluster")]
pub mod cluster;
