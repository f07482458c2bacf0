//! Git over SSH: who the host is, who we are, and `git-upload-pack` at the other end.

mod key;
mod known_hosts;
mod stream;

use std::{borrow::Cow, sync::Arc, time::Duration};

use gix_transport::{Protocol, client::git};
use russh::{
    Preferred,
    client::{self, AuthResult},
    keys::{Algorithm, HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKeyOrCertificate},
};
use tokio::{net::TcpStream, runtime::Handle, time::timeout};

pub use self::known_hosts::KnownHosts;
use self::stream::{Incoming, Outgoing};
use super::{
    credentials::{Credentials, Origin},
    error::{GitError, chain},
    transport::{Patience, Trouble},
    url::SshPlace,
};

pub(super) type SshConnection = git::blocking_io::Connection<Incoming, Outgoing>;

/// Must be called, and what it returns dropped, inside a runtime: a channel's end is sent by a task of its own.
pub(super) async fn connect(
    place: &SshPlace,
    credentials: &Credentials,
    known_hosts: &KnownHosts,
    patience: &Patience,
    trouble: &Trouble,
) -> Result<SshConnection, GitError> {
    let (key, passphrase) = credentials.ssh_key()?;
    let key = Arc::new(key::read(key, passphrase)?);
    let known_hosts = known_hosts.read();
    let config = client::Config {
        preferred: Preferred {
            key: Cow::Owned(host_key_algorithms(&known_hosts.algorithms(&place.host, place.port))),
            ..Preferred::DEFAULT
        },
        nodelay: true,
        ..client::Config::default()
    };
    let address = (place.host.as_str(), place.port);
    let tcp = match timeout(patience.connect, TcpStream::connect(address)).await {
        Ok(Ok(tcp)) => tcp,
        Ok(Err(error)) => return Err(trouble.unreachable(chain(&error))),
        Err(_) => return Err(trouble.unreachable(format!("no connection within {:?}", patience.connect))),
    };
    let verifier = Verifier { known_hosts, host: place.host.clone(), port: place.port };
    let started = within(patience.silence, trouble, client::connect_stream(Arc::new(config), tcp, verifier)).await?;
    let mut session = started.map_err(|failure| failure.told(trouble))?;
    authenticate(&mut session, place, key, patience, trouble).await?;

    let ended = |error: russh::Error| Failure::from(error).told(trouble);
    let channel = within(patience.silence, trouble, session.channel_open_session()).await?.map_err(ended)?;
    // Most servers refuse to take variables, and then speak an older version of the protocol.
    channel.set_env(false, "GIT_PROTOCOL", "version=2").await.map_err(ended)?;
    let path = &place.path;
    channel.exec(true, format!("git-upload-pack {}", quoted(path))).await.map_err(ended)?;
    let (reading, writing) = channel.split();
    let runtime = Handle::current();
    let incoming = Incoming::new(reading, session, runtime.clone(), patience, trouble.clone());
    let outgoing = Outgoing::new(writing, runtime, patience.silence, trouble.clone());
    let mode = git::ConnectMode::Process;
    Ok(SshConnection::new(incoming, outgoing, Protocol::V2, path.as_str(), None::<(String, _)>, mode, false))
}

async fn within<T>(limit: Duration, trouble: &Trouble, work: impl Future<Output = T>) -> Result<T, GitError> {
    timeout(limit, work).await.map_err(|_| trouble.unreachable(format!("the server said nothing for {limit:?}")))
}

async fn authenticate(
    session: &mut client::Handle<Verifier>,
    place: &SshPlace,
    key: Arc<PrivateKey>,
    patience: &Patience,
    trouble: &Trouble,
) -> Result<(), GitError> {
    let ended = |error: russh::Error| Failure::from(error).told(trouble);
    let fingerprint = key.public_key().fingerprint(HashAlg::Sha256);
    let refused = |why: &str| {
        let (origin, user) = (Origin::SshKey, &place.user);
        trouble.refused(format!("the server refuses {origin}, whose fingerprint is {fingerprint}, for {user:?}{why}"))
    };
    // Signatures with SHA-1 are not made, not even for a server that takes no others.
    let hashes: &[Option<HashAlg>] = if is_rsa(&key.algorithm()) {
        match session.best_supported_rsa_hash().await.map_err(ended)? {
            Some(Some(HashAlg::Sha512)) => &[Some(HashAlg::Sha512)],
            Some(Some(_)) => &[Some(HashAlg::Sha256)],
            Some(None) => return Err(refused(": it takes RSA keys with SHA-1 only, which is not safe")),
            None => &[Some(HashAlg::Sha512), Some(HashAlg::Sha256)],
        }
    } else {
        &[None]
    };
    let mut more = "";
    for hash in hashes {
        let key = PrivateKeyWithHashAlg::new(Arc::clone(&key), *hash);
        let asked = within(patience.silence, trouble, session.authenticate_publickey(&place.user, key)).await?;
        match asked.map_err(ended)? {
            AuthResult::Success => return Ok(()),
            AuthResult::Failure { partial_success: true, .. } => more = ": it wants more than a key",
            AuthResult::Failure { .. } => {}
        }
    }
    Err(refused(more))
}

/// The kinds of which a key is known come first, so that a host with several is asked for the right one.
fn host_key_algorithms(known: &[Algorithm]) -> Vec<Algorithm> {
    let is_known = |algorithm: &Algorithm| known.iter().any(|k| k == algorithm || is_rsa(k) && is_rsa(algorithm));
    let mut algorithms: Vec<Algorithm> =
        Preferred::DEFAULT.key.iter().filter(|a| **a != Algorithm::Rsa { hash: None }).cloned().collect();
    algorithms.sort_by_key(|algorithm| !is_known(algorithm));
    algorithms
}

fn is_rsa(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::Rsa { .. })
}

/// For the shell at the other end.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''").replace('!', r"'\!'"))
}

/// Says whether a host is the one that it should be.
struct Verifier {
    known_hosts: known_hosts::Entries,
    host: String,
    port: u16,
}

/// How a session fails.
#[derive(Debug)]
enum Failure {
    HostKey(String),
    Session(russh::Error),
}

impl From<russh::Error> for Failure {
    fn from(error: russh::Error) -> Self {
        Self::Session(error)
    }
}

impl Failure {
    fn told(self, trouble: &Trouble) -> GitError {
        match self {
            Self::HostKey(words) => GitError::HostKey(words),
            Self::Session(error @ (russh::Error::NoCommonAlgo { .. } | russh::Error::WrongServerSig)) => {
                trouble.failed(chain(&error))
            }
            Self::Session(error) => trouble.unreachable(chain(&error)),
        }
    }
}

impl client::Handler for Verifier {
    type Error = Failure;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Failure> {
        match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => {
                self.known_hosts.check(&self.host, self.port, key).map(|()| true).map_err(Failure::HostKey)
            }
            PublicKeyOrCertificate::Certificate(_) => Err(Failure::HostKey(format!(
                "the host {} shows a certificate, and certificates of hosts are not supported; put its key into \
                 known_hosts",
                self.host
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use russh::keys::EcdsaCurve;

    use super::*;

    #[test]
    fn a_path_is_one_word_to_the_remote_shell() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's; rm -rf /"), r"'it'\''s; rm -rf /'");
        assert_eq!(quoted("a!b"), r"'a'\!'b'");
    }

    #[test]
    fn known_kinds_of_host_keys_are_asked_for_first_and_sha1_never() {
        let ecdsa = Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 };
        assert_eq!(host_key_algorithms(std::slice::from_ref(&ecdsa))[0], ecdsa);
        let rsa = host_key_algorithms(&[Algorithm::Rsa { hash: None }]);
        assert!(rsa[..2].iter().all(is_rsa), "{rsa:?}");
        assert!(!rsa.contains(&Algorithm::Rsa { hash: None }), "{rsa:?}");
        assert_eq!(host_key_algorithms(&[]).len(), rsa.len());
    }
}
