//! Environment variables of the containers of a workspace pod.

/// State backend, for the Pulumi CLI.
pub const PULUMI_BACKEND_URL: &str = "PULUMI_BACKEND_URL";
/// Access token, for the Pulumi CLI.
pub const PULUMI_ACCESS_TOKEN: &str = "PULUMI_ACCESS_TOKEN";
/// Key of an access token in the Secret that a Stack's `accessTokenSecret` names.
pub const ACCESS_TOKEN_KEY: &str = "accessToken";
/// In every container: path of the file to which environment variables may be written.
pub const PULUMI_ENV: &str = "PULUMI_ENV";
/// Namespace of the pod.
pub const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// Service account of the pod.
pub const POD_SA_NAME: &str = "POD_SA_NAME";
/// Memory that the agent should stay under.
pub const AGENT_MEMLIMIT: &str = "AGENT_MEMLIMIT";

/// Repository to fetch.
pub const GIT_URL: &str = "GIT_URL";
/// Commit to check out.
pub const GIT_REVISION: &str = "GIT_REVISION";
/// Directory of the program within the repository.
pub const GIT_DIR: &str = "GIT_DIR";
/// `true` to leave the history out.
pub const GIT_SHALLOW: &str = "GIT_SHALLOW";
/// Private key.
pub const GIT_SSH_PRIVATE_KEY: &str = "GIT_SSH_PRIVATE_KEY";
/// Keys of hosts, as lines of known_hosts: those of the Secret that holds the private key.
pub const GIT_SSH_KNOWN_HOSTS: &str = "GIT_SSH_KNOWN_HOSTS";
/// Key of these lines in that Secret, and in the ConfigMap of the cluster.
pub const KNOWN_HOSTS_KEY: &str = "known_hosts";
/// Keys of hosts that all of the cluster knows.
pub const GIT_SSH_KNOWN_HOSTS_CLUSTER: &str = "GIT_SSH_KNOWN_HOSTS_CLUSTER";
/// User name.
pub const GIT_USERNAME: &str = "GIT_USERNAME";
/// Password, or passphrase of the private key.
pub const GIT_PASSWORD: &str = "GIT_PASSWORD";
/// Access token.
pub const GIT_TOKEN: &str = "GIT_TOKEN";
/// Identifier of a GitHub App.
pub const GIT_GITHUB_APP_ID: &str = "GIT_GITHUB_APP_ID";
/// Identifier of its installation.
pub const GIT_GITHUB_APP_INSTALLATION_ID: &str = "GIT_GITHUB_APP_INSTALLATION_ID";
/// Its private key.
pub const GIT_GITHUB_APP_PRIVATE_KEY: &str = "GIT_GITHUB_APP_PRIVATE_KEY";

/// Artifact to fetch.
pub const FLUX_URL: &str = "FLUX_URL";
/// Digest that it must have.
pub const FLUX_DIGEST: &str = "FLUX_DIGEST";
/// Directory of the program within the artifact.
pub const FLUX_DIR: &str = "FLUX_DIR";
/// Most bytes that an artifact may unpack to.
pub const FLUX_MAX_UNTAR_SIZE_BYTES: &str = "FLUX_MAX_UNTAR_SIZE_BYTES";

/// Directory of the program within the image.
pub const LOCAL_DIR: &str = "LOCAL_DIR";

/// Name of the project to make.
pub const PROJECT_NAME: &str = "PROJECT_NAME";
/// Runtime of the project to make.
pub const PROJECT_RUNTIME: &str = "PROJECT_RUNTIME";
/// Backend that the project names.
pub const PROJECT_BACKEND: &str = "PROJECT_BACKEND";
/// Directory of stack files that the project names.
pub const PROJECT_STACK_CONFIG_DIR: &str = "PROJECT_STACK_CONFIG_DIR";
