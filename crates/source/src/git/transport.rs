//! A connection to a repository, of whatever scheme, as gix wants it: blocking, and to be used and dropped on a thread
//! that the runtime lends for blocking work.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use gix_transport::client::blocking_io;
use reqwest::ClientBuilder;
use tokio::runtime::Handle;

use super::{
    credentials::{Credentials, Login},
    error::{GitError, chain},
    http::HttpConnection,
    ssh::{self, KnownHosts},
    url::{GitUrl, Place},
};
use crate::http;

pub(super) type Transport = Box<dyn blocking_io::Transport>;

/// How long is waited for what.
#[derive(Debug, Clone)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// Between two pieces of what a server sends.
    pub silence: Duration,
    /// For all that a server sends in one answer, if there is a limit.
    pub whole: Option<Duration>,
    /// How many bytes of that are listened to, if there is a limit.
    pub most: Option<u64>,
    /// Before each further try.
    pub waits: Vec<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            silence: Duration::from_mins(2),
            whole: None,
            most: None,
            waits: http::WAITS.to_vec(),
        }
    }
}

impl Patience {
    /// For a look at a repository that can be had again soon: one try, which ends in time and takes little memory.
    pub fn for_a_look() -> Self {
        Self {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(20),
            whole: Some(Duration::from_secs(30)),
            most: Some(32 << 20),
            waits: Vec::new(),
        }
    }

    /// A client that waits no longer.
    pub(super) fn applied(&self, client: ClientBuilder) -> ClientBuilder {
        let client = client.connect_timeout(self.connect).read_timeout(self.silence);
        match self.whole {
            Some(whole) => client.timeout(whole),
            None => client,
        }
    }

    /// Adds to what was heard so far, unless it becomes too much.
    pub(super) fn enough(&self, heard: u64, more: usize) -> Result<u64, String> {
        let heard = heard.saturating_add(more as u64);
        match self.most {
            Some(most) if heard > most => Err(format!("its answer is longer than {most} bytes")),
            _ => Ok(heard),
        }
    }
}

/// All that is needed to connect once more.
#[derive(Debug, Clone)]
pub(super) struct Dialer {
    pub(super) url: GitUrl,
    pub(super) credentials: Credentials,
    pub(super) login: Login,
    pub(super) known_hosts: KnownHosts,
    pub(super) patience: Patience,
}

impl Dialer {
    pub(super) fn connect(&self) -> Result<(Transport, Trouble), GitError> {
        let trouble = Trouble::new(&self.url);
        let transport: Transport = match &self.url.place {
            Place::Http(place) => Box::new(HttpConnection::open(place, &self.login, &self.patience, &trouble)?),
            Place::Ssh(place) => {
                let connecting = ssh::connect(place, &self.credentials, &self.known_hosts, &self.patience, &trouble);
                Box::new(Handle::current().block_on(connecting)?)
            }
        };
        Ok((transport, trouble))
    }
}

/// Remembers why a connection failed. gix passes failures on as text in which kind and cause are lost.
#[derive(Clone)]
pub(super) struct Trouble {
    repository: String,
    noted: Arc<Mutex<Option<GitError>>>,
}

impl Trouble {
    fn new(url: &GitUrl) -> Self {
        Self { repository: url.to_string(), noted: Arc::default() }
    }

    pub(super) fn unreachable(&self, reason: impl Into<String>) -> GitError {
        GitError::Unreachable { repository: self.repository.clone(), reason: reason.into() }
    }

    pub(super) fn refused(&self, reason: impl Into<String>) -> GitError {
        GitError::Refused { repository: self.repository.clone(), reason: reason.into() }
    }

    pub(super) fn failed(&self, reason: impl Into<String>) -> GitError {
        GitError::Failed { repository: self.repository.clone(), reason: reason.into() }
    }

    /// The first one counts: others follow from it.
    pub(super) fn note(&self, error: GitError) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    pub(super) fn take(&self) -> Option<GitError> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What is behind an error of gix.
    pub(super) fn behind(&self, error: &gix::Error) -> GitError {
        self.take().unwrap_or_else(|| self.failed(chain(error)))
    }
}

impl fmt::Debug for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trouble").field("repository", &self.repository).finish_non_exhaustive()
    }
}
