//! One file over HTTP: tried again when that may help, counted and added up while it arrives.

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    path::Path,
    time::Duration,
};

use reqwest::{Client, StatusCode, Url};

use crate::{
    digest::{Digest, Hasher},
    http,
    staging::FileError,
};

/// Why a file was not downloaded.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    #[error("file not found: {url} answers 404; its source may have replaced it meanwhile")]
    NotFound { url: String },
    #[error("failed to download archive from {url} (status: {status})")]
    Status { url: String, status: StatusCode },
    #[error("failed to download archive from {url}: {reason}")]
    Transport { url: String, reason: String },
    #[error("failed to download archive from {url}: it has more than {most} bytes")]
    TooBig { url: String, most: u64 },
    #[error("{error}; tried {attempts} times")]
    GaveUp { attempts: usize, error: Box<DownloadError> },
    #[error(transparent)]
    File(#[from] FileError),
}

impl DownloadError {
    fn is_transient(&self) -> bool {
        match self {
            Self::Status { status, .. } => http::is_transient(*status),
            Self::Transport { .. } => true,
            _ => false,
        }
    }
}

/// What to get, and how much of it.
pub(crate) struct Download<'a> {
    pub(crate) client: &'a Client,
    pub(crate) url: &'a Url,
    pub(crate) most: Option<u64>,
    /// What is waited before each further try.
    pub(crate) waits: &'a [Duration],
}

impl Download<'_> {
    /// The file, at its beginning and without a name, and what its bytes add up to in the way of the given digest. The
    /// directory holds it until it is dropped.
    pub(crate) async fn run(&self, like: &Digest, directory: &Path) -> Result<(File, Digest), DownloadError> {
        let mut file = tempfile::tempfile_in(directory).map_err(FileError::new("making a file in", directory))?;
        let mut waits = self.waits.iter();
        let mut attempts = 1;
        loop {
            let error = match self.attempt(like.hasher(), &mut file, directory).await {
                Ok(digest) => return Ok((file, digest)),
                Err(error) => error,
            };
            let Some(wait) = waits.next().filter(|_| error.is_transient()) else {
                return Err(match attempts {
                    1 => error,
                    _ => DownloadError::GaveUp { attempts, error: Box::new(error) },
                });
            };
            tokio::time::sleep(*wait).await;
            attempts += 1;
        }
    }

    async fn attempt(&self, mut hasher: Hasher, file: &mut File, directory: &Path) -> Result<Digest, DownloadError> {
        let url = || http::shown(self.url);
        let transport = |error| DownloadError::Transport { url: url(), reason: http::reason(error) };
        let written = |result: io::Result<()>| {
            result.map_err(FileError::new("keeping the download in", directory)).map_err(DownloadError::from)
        };
        written(file.set_len(0).and_then(|()| file.rewind()))?;

        let mut response = self.client.get(self.url.clone()).send().await.map_err(transport)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(DownloadError::NotFound { url: url() }),
            status => return Err(DownloadError::Status { url: url(), status }),
        }
        let most = self.most.unwrap_or(u64::MAX);
        let too_big = || DownloadError::TooBig { url: url(), most };
        if response.content_length().is_some_and(|length| length > most) {
            return Err(too_big());
        }
        let mut received = 0_u64;
        while let Some(chunk) = response.chunk().await.map_err(transport)? {
            received += chunk.len() as u64;
            if received > most {
                return Err(too_big());
            }
            hasher.update(&chunk);
            // A chunk goes to the page cache; handing it to another thread would cost more.
            written(file.write_all(&chunk))?;
        }
        written(file.rewind())?;
        Ok(hasher.finish())
    }
}
