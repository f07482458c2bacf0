//! Containers, volumes and paths of a workspace pod, on which users' templates rely.

/// The container that runs the agent, and through it Pulumi.
pub const PULUMI_CONTAINER: &str = "pulumi";
/// The init container that brings the agent into the pod.
pub const BOOTSTRAP_CONTAINER: &str = "bootstrap";
/// The init container that fetches the program.
pub const FETCH_CONTAINER: &str = "fetch";

/// The volume that all containers of the pod may share.
pub const SHARE_VOLUME: &str = "share";
/// Where that volume is mounted.
pub const SHARE: &str = "/share";
/// Where the source is fetched to.
pub const SOURCE: &str = "/share/source";
/// The program's directory: a link into the source, and the working directory.
pub const WORKSPACE: &str = "/share/workspace";
/// A file of environment variables that users' init containers may write.
pub const ENV_FILE: &str = "/share/.env";
/// The agent, in the pod.
pub const AGENT: &str = "/share/agent";
/// The init process, in the pod.
pub const TINI: &str = "/share/tini";
/// The agent, in the operator's image.
pub const IMAGE_AGENT: &str = "/agent";

/// Seconds that a workspace pod gets to end a running operation.
pub const TERMINATION_GRACE_SECONDS: i64 = 600;

/// The volume of a Secret that holds configuration values.
pub fn secret_volume(secret: &str) -> String {
    volume("secret", secret)
}

/// Where that volume is mounted.
pub fn secret_mount(secret: &str) -> String {
    format!("/var/run/secrets/stacks.pulumi.com/secrets/{secret}")
}

/// The volume of a ConfigMap that holds configuration values.
pub fn config_map_volume(config_map: &str) -> String {
    volume("configmap", config_map)
}

/// Where that volume is mounted.
pub fn config_map_mount(config_map: &str) -> String {
    format!("/var/run/configmaps/stacks.pulumi.com/configmaps/{config_map}")
}

/// `<kind>-<name>` where that is a valid volume name. Names of Secrets and ConfigMaps may have dots
/// and up to 253 characters: those are made fit, and kept apart by a hash.
fn volume(kind: &str, name: &str) -> String {
    const LONGEST: usize = 63;
    let plain = format!("{kind}-{name}");
    if plain.len() <= LONGEST && !plain.contains('.') {
        return plain;
    }
    let hash = format!("{:016x}", fnv1a(name.as_bytes()));
    let fit: String = plain.chars().map(|c| if c == '.' { '-' } else { c }).take(LONGEST - hash.len() - 1).collect();
    format!("{}-{hash}", fit.trim_end_matches('-'))
}

/// 64-bit FNV-1a: enough to tell a Stack's Secrets apart, and stable for ever.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
