//! A kubeconfig file, as far as an agent outside a cluster needs it: a server, its CA, and a token or a certificate.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::connection::{Connection, Token};

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Names,
}

#[derive(Deserialize)]
struct Names {
    cluster: String,
    #[serde(default)]
    user: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<PathBuf>,
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
struct User {
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<PathBuf>,
    client_certificate: Option<PathBuf>,
    client_certificate_data: Option<String>,
    client_key: Option<PathBuf>,
    client_key_data: Option<String>,
    exec: Option<serde_json::Value>,
}

/// The server of a context, the current one when none is named.
pub(super) fn read(path: &Path, context: Option<&str>) -> Result<Connection> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading the kubeconfig {}", path.display()))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    connection(&text, context, directory).with_context(|| format!("unable to load the kubeconfig {}", path.display()))
}

fn connection(text: &str, context: Option<&str>, directory: &Path) -> Result<Connection> {
    // The parser's error would quote the file, keys and all.
    let Ok(config) = serde_saphyr::from_str::<Kubeconfig>(text) else { bail!("it is not a kubeconfig in YAML") };
    let wanted = context.filter(|name| !name.is_empty()).unwrap_or(&config.current_context);
    let context = &config
        .contexts
        .iter()
        .find(|c| c.name == wanted)
        .with_context(|| format!("it has no context {wanted:?}"))?
        .context;
    let cluster = &config
        .clusters
        .iter()
        .find(|c| c.name == context.cluster)
        .with_context(|| format!("it has no cluster {:?}", context.cluster))?
        .cluster;
    let nobody = User::default();
    let user = config.users.iter().find(|u| u.name == context.user).map_or(&nobody, |u| &u.user);
    if user.exec.is_some() {
        bail!("user {:?} gets its credentials from a program, which the agent does not start", context.user);
    }
    let pem = |what: &str, data: Option<&String>, file: Option<&PathBuf>| match (data, file) {
        (Some(data), _) => {
            STANDARD.decode(data.trim()).map(Some).ok().with_context(|| format!("{what}-data is not base64"))
        }
        (None, Some(file)) => {
            let file = directory.join(file);
            std::fs::read(&file).map(Some).with_context(|| format!("reading {what} {}", file.display()))
        }
        (None, None) => Ok(None),
    };
    let certificate =
        pem("client-certificate", user.client_certificate_data.as_ref(), user.client_certificate.as_ref())?;
    let key = pem("client-key", user.client_key_data.as_ref(), user.client_key.as_ref())?;
    Ok(Connection {
        server: cluster.server.trim_end_matches('/').to_owned(),
        authority: pem(
            "certificate-authority",
            cluster.certificate_authority_data.as_ref(),
            cluster.certificate_authority.as_ref(),
        )?,
        token: match (&user.token, &user.token_file) {
            (_, Some(file)) => Some(Token::File(directory.join(file))),
            (Some(token), None) => Some(Token::Text(token.clone())),
            (None, None) => None,
        },
        identity: certificate.zip(key).map(|(certificate, key)| [certificate, b"\n".to_vec(), key].concat()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: v1
kind: Config
current-context: main
contexts:
- {name: main, context: {cluster: c, user: admin, namespace: x}}
- {name: other, context: {cluster: c, user: robot}}
- {name: lost, context: {cluster: nowhere, user: robot}}
- {name: program, context: {cluster: c, user: program}}
clusters:
- name: c
  cluster: {server: 'https://10.0.0.1:6443/', certificate-authority-data: Q0E=}
users:
- name: admin
  user: {client-certificate-data: Q0VSVA==, client-key: key.pem}
- name: robot
  user: {token: sesame}
- name: program
  user: {exec: {command: login}}
";

    #[test]
    fn the_current_context_is_taken_with_files_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("key.pem"), "KEY").unwrap();
        std::fs::write(dir.path().join("config"), FILE).unwrap();
        let found = read(&dir.path().join("config"), None).unwrap();
        assert_eq!(found.server, "https://10.0.0.1:6443");
        assert_eq!(found.authority.as_deref(), Some(&b"CA"[..]));
        assert_eq!(found.identity.as_deref(), Some(&b"CERT\nKEY"[..]));
        assert!(found.token.is_none());
    }

    #[test]
    fn another_context_can_be_named() {
        let found = connection(FILE, Some("other"), Path::new("/nowhere")).unwrap();
        assert!(matches!(found.token, Some(Token::Text(token)) if token == "sesame"));
        assert!(found.identity.is_none());
    }

    #[test]
    fn what_is_missing_is_named_and_no_secret_is() {
        for (text, context, expected) in [
            (FILE, Some("none"), "it has no context \"none\""),
            (FILE, Some("lost"), "it has no cluster \"nowhere\""),
            (FILE, Some("program"), "user \"program\" gets its credentials from a program"),
            ("users: [{name: a, user: {token: [sesame]}}]", None, "it is not a kubeconfig"),
        ] {
            let error = format!("{:#}", connection(text, context, Path::new("/nowhere")).unwrap_err());
            assert!(error.contains(expected) && !error.contains("sesame"), "{error}");
        }
    }
}
