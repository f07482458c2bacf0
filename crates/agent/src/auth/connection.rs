//! Where the API server is and what we show it: the pod's service account, or a kubeconfig file.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use super::kubeconfig;

/// Where Kubernetes puts what a pod's service account has.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

pub(super) struct Connection {
    /// Without a slash at its end.
    pub(super) server: String,
    /// Certificates, as PEM, that the server's must come from; those of the system when absent.
    pub(super) authority: Option<Vec<u8>>,
    pub(super) token: Option<Token>,
    /// Certificate and key, as PEM.
    pub(super) identity: Option<Vec<u8>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

pub(super) enum Token {
    Text(String),
    /// Read for each request: the kubelet replaces the content before it ends.
    File(PathBuf),
}

impl Connection {
    /// The given kubeconfig, else the pod's own account, else the kubeconfig in the environment, which in a pod is for
    /// the program and may lead to another cluster, else the user's.
    pub(super) fn find(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let from_environment = || {
            let paths = variable("KUBECONFIG")?;
            std::env::split_paths(&paths).find(|path| path.exists())
        };
        if let Some(path) = kubeconfig {
            return kubeconfig::read(path, context);
        }
        if let (Some(host), Some(port)) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT")) {
            return Self::in_cluster(&host, &port, Path::new(SERVICE_ACCOUNT));
        }
        if let Some(path) = from_environment() {
            return kubeconfig::read(&path, context);
        }
        match std::env::home_dir().map(|home| home.join(".kube/config")).filter(|path| path.exists()) {
            Some(path) => kubeconfig::read(&path, context),
            None => bail!(
                "unable to load the kubeconfig: this is not a pod with a service account, and neither --kubeconfig nor KUBECONFIG names a file"
            ),
        }
    }

    fn in_cluster(host: &str, port: &str, account: &Path) -> Result<Self> {
        let authority = account.join("ca.crt");
        let token = account.join("token");
        if !token.exists() {
            bail!(
                "{} is missing; the pod needs its service account's token to ask who its callers are (automountServiceAccountToken)",
                token.display()
            );
        }
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        Ok(Self {
            server: format!("https://{host}:{port}"),
            authority: Some(std::fs::read(&authority).with_context(|| format!("reading {}", authority.display()))?),
            token: Some(Token::File(token)),
            identity: None,
        })
    }
}

impl Token {
    pub(super) fn read(&self) -> Result<String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
                Ok(text.trim().to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_its_server_and_account_from_kubernetes() {
        let dir = tempfile::tempdir().unwrap();
        let missing = format!("{:#}", Connection::in_cluster("10.0.0.1", "443", dir.path()).unwrap_err());
        assert!(missing.contains("automountServiceAccountToken"), "{missing}");
        std::fs::write(dir.path().join("ca.crt"), "CA").unwrap();
        std::fs::write(dir.path().join("token"), "first\n").unwrap();
        let found = Connection::in_cluster("10.0.0.1", "443", dir.path()).unwrap();
        assert_eq!(found.server, "https://10.0.0.1:443");
        assert_eq!(Connection::in_cluster("fd00::1", "443", dir.path()).unwrap().server, "https://[fd00::1]:443");
        let token = found.token.unwrap();
        assert_eq!(token.read().unwrap(), "first");
        std::fs::write(dir.path().join("token"), "second").unwrap();
        assert_eq!(token.read().unwrap(), "second", "a token that was replaced is read again");
    }

    #[test]
    fn a_connection_is_shown_without_its_secrets() {
        let connection = Connection {
            server: "https://host".to_owned(),
            authority: None,
            token: Some(Token::Text("sesame".to_owned())),
            identity: Some(b"sesame".to_vec()),
        };
        assert_eq!(format!("{connection:?}"), "Connection { server: \"https://host\", .. }");
    }
}
