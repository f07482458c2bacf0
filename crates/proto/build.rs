//! Rust from the .proto files, compiled in process: no protoc is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message as _;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(["proto/agent.proto", "proto/runs.proto", "proto/health.proto"], ["proto"])?;
    // For the test that compares every field with the contract.
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure().build_transport(false).compile_fds(files)?;
    Ok(())
}
