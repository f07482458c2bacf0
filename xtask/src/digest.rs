//! Digests as text.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The SHA-256 of some bytes, in hexadecimal.
pub(crate) fn of(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// Enough of a digest to tell things apart in a file's name.
pub(crate) fn short(bytes: impl AsRef<[u8]>) -> String {
    of(bytes)[..8].to_owned()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
