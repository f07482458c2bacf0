//! The agent's wire protocols, and JSON in them. Nothing here decides.

mod json;

pub use json::{NotJson, from_struct, from_value, to_struct, to_value};

/// The service that PKO's operator and agent speak; wire-compatible with v2.9.
#[allow(clippy::all, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated")]
#[allow(missing_debug_implementations, unreachable_pub, reason = "generated")]
pub mod agent {
    tonic::include_proto!("agent");
}

/// All messages and services, as their compiler describes them.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
