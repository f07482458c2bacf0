//! Extracting an archive that may be hostile: our own walk over its entries. Nothing is written outside the directory,
//! more than the limit is not written, and what has no place in a program's source is refused by name.

use std::{
    cell::Cell,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, BufRead as _, BufReader, Read},
    os::unix::{
        ffi::OsStringExt,
        fs::{OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
    rc::Rc,
    time::{Duration, SystemTime},
};

use flate2::bufread::MultiGzDecoder;
use tar::EntryType;

use crate::{
    links::{self, Links},
    names,
    staging::{FileError, make_directory},
};

/// How many bytes the files of an archive may have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(Option<u64>);

impl Limit {
    /// As PKO has it: 100 MiB.
    pub const DEFAULT: Self = Self(Some(104_857_600));
    pub const NONE: Self = Self(None);

    pub const fn bytes(bytes: u64) -> Self {
        Self(Some(bytes))
    }

    /// How large the archive itself may be. Compression never adds more than this, so a longer answer is no archive
    /// that we would extract.
    pub(crate) fn of_download(self) -> Option<u64> {
        const HEADERS: u64 = 16 << 20;
        self.0.map(|bytes| bytes.saturating_add(bytes / 8).saturating_add(HEADERS))
    }
}

/// What the headers between two files may take: long names and extended attributes, which are read into memory.
const MOST_METADATA: u64 = 1 << 20;
/// Empty files cost no bytes, but each takes a place in the file system.
const MOST_ENTRIES: u64 = 1_000_000;

/// Why an archive was not extracted.
#[derive(Debug, thiserror::Error)]
pub enum UntarError {
    #[error("requires gzip-compressed body: the archive is not a gzip-compressed tar file")]
    NotGzip,
    #[error("reading the archive after {0} entries: {1}; it is damaged or not a tar file")]
    Damaged(u64, #[source] io::Error),
    #[error("entry {entry:?} is refused: {why}")]
    Refused { entry: String, why: String },
    #[error(
        "entry {entry:?}: the archive is bigger than max archive size of {limit} bytes; FLUX_MAX_UNTAR_SIZE_BYTES in the operator's environment raises it (-1: no limit)"
    )]
    TooBig { entry: String, limit: u64 },
    #[error("the archive has more than {MOST_ENTRIES} entries")]
    TooMany,
    #[error("extracting entry {entry:?}: {cause}")]
    Entry { entry: String, cause: FileError },
}

/// Extracts a gzip-compressed tar file into a directory that exists and is empty.
pub fn untar(archive: impl Read, into: &Path, limit: Limit) -> Result<(), UntarError> {
    let mut archive = BufReader::new(archive);
    let magic = archive.fill_buf().map_err(|error| UntarError::Damaged(0, error))?;
    if !magic.starts_with(&[0x1f, 0x8b]) {
        return Err(UntarError::NotGzip);
    }
    let allowance = Rc::new(Cell::new(0));
    let metered = Metered { inner: MultiGzDecoder::new(archive), allowance: Rc::clone(&allowance) };
    let mut walk = Walk { into, limit, written: 0, links: Links::new() };
    let mut tar = tar::Archive::new(metered);
    let mut entries = tar.entries().map_err(|error| UntarError::Damaged(0, error))?;
    for number in 0.. {
        allowance.set(MOST_METADATA);
        let Some(entry) = entries.next() else { break };
        let entry = entry.map_err(|error| UntarError::Damaged(number, error))?;
        if number == MOST_ENTRIES {
            return Err(UntarError::TooMany);
        }
        allowance.set(entry.size());
        walk.take(entry)?;
    }
    walk.make_links()
}

/// Reads no more than was allowed for the step at hand. The tar crate takes a header's word for how much to read into
/// memory.
struct Metered<R> {
    inner: R,
    allowance: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let left = self.allowance.get().checked_sub(read as u64).ok_or_else(|| {
            io::Error::other(format!("headers, or an entry without content, take more than {MOST_METADATA} bytes"))
        })?;
        self.allowance.set(left);
        Ok(read)
    }
}

struct Walk<'a> {
    into: &'a Path,
    limit: Limit,
    written: u64,
    /// Made after everything else, so that no file can be written through one.
    links: Links,
}

impl Walk<'_> {
    fn take(&mut self, mut entry: tar::Entry<'_, impl Read>) -> Result<(), UntarError> {
        let kind = entry.header().entry_type();
        // Metadata for all that follows, such as the commit in what `git archive` writes.
        if kind.is_pax_global_extensions() {
            return Ok(());
        }
        let raw = entry.path_bytes().into_owned();
        let name = String::from_utf8_lossy(&raw).into_owned();
        let refuse = |why: &str| UntarError::Refused { entry: name.clone(), why: why.to_owned() };
        let path = names::inside(&raw).map_err(refuse)?;
        let mode = entry.header().mode().map_err(|error| refuse(&error.to_string()))?;
        // Archives older than the directory flag mark a directory by its name's end.
        let directory = kind.is_dir() || (kind.is_file() && raw.ends_with(b"/"));
        let done = if directory {
            self.directory(&path, mode)
        } else if kind.is_file() {
            if path.as_os_str().is_empty() {
                return Err(refuse("it is a file, and its name is that of the whole archive"));
            }
            self.count(entry.size(), &name)?;
            self.links.remove(&path);
            self.file(&path, mode, &mut entry)
        } else if kind.is_symlink() {
            let target =
                entry.link_name_bytes().filter(|t| !t.is_empty()).ok_or_else(|| refuse("it links to nothing"))?;
            if path.as_os_str().is_empty() {
                return Err(refuse("it is a link in place of the whole archive"));
            }
            self.links.insert(path, PathBuf::from(std::ffi::OsString::from_vec(target.into_owned())));
            Ok(())
        } else {
            return Err(refuse(&format!("it is {}; only files, directories and symbolic links are taken", what(kind))));
        };
        done.map_err(|cause| UntarError::Entry { entry: name, cause })
    }

    fn count(&mut self, size: u64, entry: &str) -> Result<(), UntarError> {
        self.written = self.written.saturating_add(size);
        match self.limit {
            Limit(Some(limit)) if self.written > limit => Err(UntarError::TooBig { entry: entry.to_owned(), limit }),
            _ => Ok(()),
        }
    }

    fn directory(&self, path: &Path, mode: u32) -> Result<(), FileError> {
        let full = self.into.join(path);
        make_directory(&full)?;
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        // Its owner can always write: files of it may follow, and it is to be replaced one day.
        set_mode(&full, mode | 0o700)
    }

    fn file(&self, path: &Path, mode: u32, entry: &mut tar::Entry<'_, impl Read>) -> Result<(), FileError> {
        let full = self.into.join(path);
        make_directory(full.parent().unwrap_or(self.into))?;
        let mut file = create(&full)?;
        let size = entry.size();
        let written = io::copy(entry, &mut file).map_err(FileError::new("writing", &full))?;
        if written != size {
            let short = io::Error::other(format!("the archive ends after {written} of its {size} bytes"));
            return Err(FileError::new("writing", &full)(short));
        }
        set_mode(&full, mode)?;
        // A moment in the future would confuse whoever compares times of files.
        let changed =
            SystemTime::UNIX_EPOCH + Duration::from_secs(entry.header().mtime().unwrap_or(0).min(MOST_SECONDS));
        file.set_modified(changed.min(SystemTime::now())).map_err(FileError::new("setting the time of", &full))
    }

    fn make_links(&self) -> Result<(), UntarError> {
        for (path, target) in &self.links {
            let entry = || path.to_string_lossy().into_owned();
            if let Some(why) = links::objection(&self.links, path) {
                let why = format!("it is a symbolic link to {}, and {why}", target.display());
                return Err(UntarError::Refused { entry: entry(), why });
            }
            self.link(path, target).map_err(|cause| UntarError::Entry { entry: entry(), cause })?;
        }
        Ok(())
    }

    fn link(&self, path: &Path, target: &Path) -> Result<(), FileError> {
        let full = self.into.join(path);
        make_directory(full.parent().unwrap_or(self.into))?;
        match fs::symlink_metadata(&full) {
            Ok(found) if !found.is_dir() => fs::remove_file(&full).map_err(FileError::new("replacing", &full))?,
            _ => {}
        }
        symlink(target, &full).map_err(FileError::new("linking", &full))
    }
}

/// A new file, in place of one of the same name: the last entry of a name counts.
fn create(full: &Path) -> Result<File, FileError> {
    let open = || OpenOptions::new().write(true).create_new(true).mode(0o600).open(full);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(full).map_err(FileError::new("replacing", full))?;
            open()
        }
        other => other,
    }
    .map_err(FileError::new("creating", full))
}

/// Far in the future, and still a moment that the system's clock can hold.
const MOST_SECONDS: u64 = 1 << 40;

fn set_mode(path: &Path, mode: u32) -> Result<(), FileError> {
    // No archive makes a program that runs as another user.
    let mode = Permissions::from_mode(mode & 0o777);
    fs::set_permissions(path, mode).map_err(FileError::new("setting the mode of", path))
}

fn what(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a pipe",
        EntryType::GNUSparse => "a sparse file",
        _ => "of an unknown kind",
    }
}

#[cfg(test)]
mod tests;
