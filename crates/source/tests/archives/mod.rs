//! Archives for tests, entry by entry and byte by byte: the tar crate's own builder refuses to write hostile ones.
#![allow(dead_code, reason = "each test file uses some of these")]

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use tar::{EntryType, Header};

/// A tar file that is being written.
#[derive(Debug, Default)]
pub(crate) struct Archive(Vec<u8>);

impl Archive {
    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        self.entry(EntryType::Regular, name.as_bytes(), b"", 0o644, content.as_bytes())
    }

    pub(crate) fn link(self, name: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, name.as_bytes(), target.as_bytes(), 0o777, b"")
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.entry(EntryType::Directory, name.as_bytes(), b"", 0o755, b"")
    }

    pub(crate) fn entry(mut self, kind: EntryType, name: &[u8], target: &[u8], mode: u32, content: &[u8]) -> Self {
        if name.len() > 100 {
            self = self.entry(EntryType::GNULongName, b"././@LongLink", b"", 0o644, name);
        }
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        let old = header.as_old_mut();
        let (name, target) = (&name[..name.len().min(100)], &target[..target.len().min(100)]);
        old.name[..name.len()].copy_from_slice(name);
        old.linkname[..target.len()].copy_from_slice(target);
        header.set_cksum();
        self.0.extend(header.as_bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// The tar file as it is, with its end marker.
    pub(crate) fn tar(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }

    pub(crate) fn gzip(self) -> Vec<u8> {
        compress(&self.tar())
    }
}

pub(crate) fn compress(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
