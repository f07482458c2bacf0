//! What the operator was started with, as far as decisions depend on it.

/// Read from flags and environment by the shell; the hosts are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Image that holds the agent.
    pub agent_image: String,
    /// When that image is pulled: `Always`, `Never` or `IfNotPresent`.
    pub agent_image_pull_policy: String,
    /// Most bytes that an artifact may unpack to, as the agent takes it; its own limit when absent.
    pub flux_max_untar_size_bytes: Option<String>,
    /// Where the artifacts of Programs are served: `host:port`, with or without scheme.
    pub artifact_address: String,
    /// The keys of hosts that all of the cluster knows, as lines of known_hosts.
    pub known_hosts: Option<String>,
}
