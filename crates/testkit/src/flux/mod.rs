//! The real Flux source-controller beside a cluster, and what it takes artifacts from: a real OCI registry and a bucket.
//! Each is a process of this machine, at the address at which pods reach it.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod archive;
mod bucket;
mod controller;
mod registry;
mod request;
mod source;

pub use bucket::Bucket;
pub use controller::FluxController;
pub use registry::Registry;
pub use source::FluxSource;
