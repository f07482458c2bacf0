//! A Flux-style artifact: a gzip-compressed tar file at an address, with a digest. Also how inline programs arrive.

use std::{path::Path, time::Duration};

use reqwest::{Client, Url};

use crate::{
    digest::{Digest, DigestError},
    download::Download,
    http,
    staging::Staging,
    untar::{self, Limit},
};
pub use crate::{download::DownloadError, staging::FileError, untar::UntarError};

/// Where an archive is, and what its bytes must add up to.
#[derive(Debug, Clone)]
pub struct Artifact {
    url: Url,
    digest: Digest,
}

/// How far fetching may go.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// What the extracted files may have together.
    pub extracted: Limit,
    /// What is waited before each further try of the download.
    pub waits: Vec<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { extracted: Limit::DEFAULT, waits: http::WAITS.to_vec() }
    }
}

/// Why an artifact was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    #[error("the address of the artifact is not usable: {0}")]
    Address(String),
    #[error(transparent)]
    Digest(#[from] DigestError),
    #[error(
        "the HTTP client cannot start: {0}; for https the image needs CA certificates, or SSL_CERT_FILE must name them"
    )]
    Client(String),
    #[error(transparent)]
    Download(#[from] DownloadError),
    #[error("failed to verify archive: computed digest doesn't match provided {provided}: {url} has {computed}")]
    Mismatch { url: String, provided: Digest, computed: Digest },
    #[error("failed to untar archive: {0}")]
    Untar(#[from] UntarError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("extracting was stopped half-way")]
    Stopped,
}

impl Artifact {
    pub fn new(url: &str, digest: &str) -> Result<Self, ArtifactError> {
        // The text itself may hold a password, so it is not repeated.
        let url = Url::parse(url).map_err(|error| ArtifactError::Address(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ArtifactError::Address(format!("{}: is neither http nor https", url.scheme())));
        }
        Ok(Self { url, digest: digest.parse()? })
    }

    /// The same file at another host, given as `host` or `host:port`. For an operator that runs outside its cluster.
    pub fn at_host(mut self, host: &str) -> Result<Self, ArtifactError> {
        let unusable = || ArtifactError::Address(format!("{host:?} is not a host or host:port"));
        let other = Url::parse(&format!("{}://{host}/", self.url.scheme())).map_err(|_| unusable())?;
        self.url.set_host(other.host_str()).map_err(|_| unusable())?;
        self.url.set_port(other.port()).map_err(|()| unusable())?;
        Ok(self)
    }

    /// The address without what may be secret in it.
    pub fn address(&self) -> String {
        http::shown(&self.url)
    }

    /// Puts the files of the artifact at `target`, replacing what is there. Until all of them are there and verified,
    /// `target` stays as it was.
    pub async fn fetch(&self, target: &Path, bounds: &Bounds) -> Result<(), ArtifactError> {
        let client = self.client()?;
        let staging = Staging::beside(target)?;
        let limit = bounds.extracted;
        let download = Download { client: &client, url: &self.url, most: limit.of_download(), waits: &bounds.waits };
        let (archive, computed) = download.run(&self.digest, staging.parent()).await?;
        if computed != self.digest {
            return Err(ArtifactError::Mismatch { url: self.address(), provided: self.digest.clone(), computed });
        }
        let extracting = tokio::task::spawn_blocking(move || {
            untar::untar(archive, staging.path(), limit)?;
            staging.put_in_place().map_err(ArtifactError::from)
        });
        extracting.await.map_err(|_| ArtifactError::Stopped)?
    }

    fn client(&self) -> Result<Client, ArtifactError> {
        let client = http::build(http::builder, &self.url);
        client.map_err(|error| ArtifactError::Client(http::reason(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn an_address_that_is_not_http_is_refused_without_repeating_it() {
        for url in ["", "me:hunter2@host/x", "ftp://me:hunter2@host/x", "file:///etc/passwd", "http://me:hunter2@:/"] {
            let error = Artifact::new(url, DIGEST).unwrap_err();
            assert!(matches!(error, ArtifactError::Address(_)), "{url}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_digest_is_mandatory() {
        let error = Artifact::new("http://host/x", "").unwrap_err();
        assert!(matches!(error, ArtifactError::Digest(DigestError::Missing)), "{error}");
    }

    #[test]
    fn another_host_replaces_host_and_port() {
        let artifact = Artifact::new("http://source-controller.flux-system.svc:81/a/b.tar.gz", DIGEST).unwrap();
        assert_eq!(artifact.clone().at_host("localhost:8080").unwrap().address(), "http://localhost:8080/a/b.tar.gz");
        assert_eq!(artifact.clone().at_host("localhost").unwrap().address(), "http://localhost/a/b.tar.gz");
        assert_eq!(artifact.clone().at_host("[::1]:80").unwrap().address(), "http://[::1]/a/b.tar.gz");
        assert!(artifact.at_host("not a host").is_err());
    }

    #[test]
    fn the_download_may_be_somewhat_larger_than_its_content() {
        assert_eq!(Limit::NONE.of_download(), None);
        assert!(Limit::bytes(0).of_download() > Some(0));
        assert!(Limit::DEFAULT.of_download() < Some(2 * 104_857_600));
        assert_eq!(Limit::bytes(u64::MAX).of_download(), Some(u64::MAX));
    }
}
