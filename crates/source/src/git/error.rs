//! Why a repository could not be read, in words that reach the user.

use super::url::UrlError;
use crate::staging::FileError;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error(transparent)]
    Address(#[from] UrlError),
    /// What is given as credentials cannot be used as it is.
    #[error("{0}")]
    Credentials(String),
    /// The server takes neither these credentials nor, with other words, this client.
    #[error("{repository} cannot be read: {reason}")]
    Refused { repository: String, reason: String },
    /// The host is not the one that it should be, or nobody says who it is.
    #[error("{0}")]
    HostKey(String),
    /// It may help to try again.
    #[error("{repository} cannot be reached: {reason}")]
    Unreachable { repository: String, reason: String },
    #[error("{repository} cannot be read: {reason}")]
    Failed { repository: String, reason: String },
    #[error("{error}; tried {attempts} times")]
    GaveUp { attempts: usize, error: Box<GitError> },
    #[error("{repository} has no {revision}; {hint}")]
    NoRevision { repository: String, revision: String, hint: String },
    #[error("the files of {commit} cannot be written: {reason}")]
    Checkout { commit: String, reason: String },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("reading the repository was stopped half-way")]
    Stopped,
}

impl GitError {
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// An error down to its cause, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    one_line(&text)
}

/// Text of others, such as a server's answer, as a part of a sentence.
pub(super) fn one_line(text: &str) -> String {
    const MOST: usize = 1000;
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
