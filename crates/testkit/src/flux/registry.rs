//! A real OCI registry, and artifacts in it as Flux's own client pushes them.

use std::{fs, net::SocketAddr, path::Path};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::{archive::packed, request::send};
use crate::{
    cluster::{host_address, variable},
    process::{Process, free_address},
};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.cncf.flux.config.v1+json";
const CONTENT: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";

/// Gone when dropped, with what was pushed to it.
#[derive(Debug)]
pub struct Registry {
    address: SocketAddr,
    _process: Process,
}

impl Registry {
    pub fn start() -> Self {
        let address = free_address(host_address());
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("config.yaml");
        let config = json!({
            "version": "0.1",
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": dir.path().join("storage")}},
            "http": {"addr": address},
        });
        fs::write(&file, config.to_string()).unwrap();
        let program = variable("PKO_TEST_REGISTRY");
        // Otherwise it looks for a collector of traces on this machine.
        let environment = [("OTEL_TRACES_EXPORTER", "none")];
        let arguments = [Path::new("serve"), &file];
        Self { address, _process: Process::start(dir, Path::new(&program), arguments, &environment, address) }
    }

    /// What an OCIRepository has as its address.
    pub fn url(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address)
    }

    /// Pushes files as an artifact and returns the digest of its manifest.
    pub fn push(&self, name: &str, tag: &str, files: &[(&str, &str)]) -> String {
        let config = self.push_blob(name, CONFIG, b"{}");
        let layer = self.push_blob(name, CONTENT, &packed(files));
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}).to_string();
        send(self.address, "PUT", &format!("/v2/{name}/manifests/{tag}"), MANIFEST, manifest.as_bytes(), 201);
        digest(manifest.as_bytes())
    }

    fn push_blob(&self, name: &str, media_type: &str, content: &[u8]) -> Value {
        let digest = digest(content);
        let begun = send(self.address, "POST", &format!("/v2/{name}/blobs/uploads/"), "", b"", 202);
        let place = begun.header("location").expect("an upload has a place");
        let place = place.strip_prefix(&format!("http://{}", self.address)).unwrap_or(place);
        let separator = if place.contains('?') { '&' } else { '?' };
        let path = format!("{place}{separator}digest={digest}");
        send(self.address, "PUT", &path, "application/octet-stream", content, 201);
        json!({"mediaType": media_type, "digest": digest, "size": content.len()})
    }
}

fn digest(content: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(content))
}
