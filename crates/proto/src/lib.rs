//! The agent's wire protocols, and JSON in them. Nothing here decides.

mod details;
mod json;

pub use details::{error_details, error_info};
pub use json::{NotJson, from_struct, from_value, to_struct, to_value};

/// The service that PKO's operator and agent speak; wire-compatible with v2.9.
#[allow(clippy::all, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated")]
#[allow(missing_debug_implementations, unreachable_pub, reason = "generated")]
pub mod agent {
    tonic::include_proto!("agent");
}

/// Generated code names other packages by their path from the root, so this one lies as deep as its package says.
#[allow(clippy::all, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated")]
#[allow(missing_debug_implementations, unreachable_pub, reason = "generated")]
mod pko {
    pub(crate) mod runs {
        pub mod v1 {
            tonic::include_proto!("pko.runs.v1");
        }
    }
}
/// Runs: operations that belong to the agent and outlive whoever started them.
pub use pko::runs::v1 as runs;

#[allow(clippy::all, clippy::pedantic, clippy::allow_attributes_without_reason, reason = "generated")]
#[allow(missing_debug_implementations, unreachable_pub, reason = "generated")]
mod grpc {
    pub(crate) mod health {
        pub mod v1 {
            tonic::include_proto!("grpc.health.v1");
        }
    }
}
/// The health service that probes know.
pub use grpc::health::v1 as health;

/// All messages and services, as their compiler describes them.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
