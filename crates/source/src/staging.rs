//! A directory that is filled beside its place and moved there when it is complete, so that whoever finds the place
//! finds all of it. Both survive a container that is stopped half-way: the next one clears what was left.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// As PKO makes the directories of a source.
pub(crate) const DIRECTORY_MODE: u32 = 0o750;

/// Removed when dropped, unless it was put in place.
#[derive(Debug)]
pub(crate) struct Staging {
    target: PathBuf,
    path: PathBuf,
}

/// What could not be done to a file.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {}: {cause}", path.display())]
pub struct FileError {
    pub doing: &'static str,
    pub path: PathBuf,
    #[source]
    pub cause: io::Error,
}

impl FileError {
    pub(crate) fn new(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |cause| Self { doing, path, cause }
    }
}

/// Makes a directory and those above it.
pub(crate) fn make_directory(path: &Path) -> Result<(), FileError> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
        .map_err(FileError::new("making the directory", path))
}

impl Staging {
    /// An empty directory beside the target.
    pub(crate) fn beside(target: &Path) -> Result<Self, FileError> {
        let target = std::path::absolute(target).map_err(FileError::new("finding", target))?;
        let path = sibling(&target, "unfinished").map_err(FileError::new("finding a place beside", &target))?;
        let staging = Self { target, path };
        make_directory(staging.parent())?;
        if staging.path.symlink_metadata().is_ok() {
            fs::remove_dir_all(&staging.path).map_err(FileError::new("clearing what was left at", &staging.path))?;
        }
        make_directory(&staging.path)?;
        Ok(staging)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory in which both this one and the target are.
    pub(crate) fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Puts the directory into its place. What was there is moved aside first and then removed as far as possible:
    /// files that another user made in it may have to stay.
    pub(crate) fn put_in_place(self) -> Result<(), FileError> {
        let failed = |target: &Path| FileError::new("moving what was fetched to", target);
        let mut aside = None;
        if self.target.symlink_metadata().is_ok() {
            let free = (0..1000)
                .filter_map(|n| sibling(&self.target, &format!("replaced-{n}")).ok())
                .find(|path| path.symlink_metadata().is_err())
                .ok_or_else(|| io::Error::other("no free name is left beside it"))
                .map_err(failed(&self.target))?;
            fs::rename(&self.target, &free).map_err(FileError::new("moving aside", &self.target))?;
            aside = Some(free);
        }
        if let Err(cause) = fs::rename(&self.path, &self.target) {
            if let Some(aside) = aside {
                let _ = fs::rename(aside, &self.target);
            }
            return Err(failed(&self.target)(cause));
        }
        if let Some(aside) = aside {
            let _ = fs::remove_dir_all(&aside).or_else(|_| fs::remove_file(&aside));
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After a move there is nothing at this path; what cannot be removed is cleared by the next run.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sibling(target: &Path, purpose: &str) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| io::Error::other("it is not the name of a directory"))?;
    Ok(target.with_file_name(format!(".{}.{purpose}", name.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_target_appears_with_all_its_files_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("share/source");
        let staging = Staging::beside(&target).unwrap();
        fs::write(staging.path().join("a"), "1").unwrap();
        assert!(!target.exists());
        staging.put_in_place().unwrap();
        assert_eq!(fs::read_to_string(target.join("a")).unwrap(), "1");
        assert_eq!(names(&dir.path().join("share")), ["source"]);
    }

    #[test]
    fn a_directory_a_file_and_a_link_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("source");
        let replace = || {
            let staging = Staging::beside(&target).unwrap();
            fs::write(staging.path().join("new"), "").unwrap();
            staging.put_in_place().unwrap();
            assert_eq!(names(&target), ["new"]);
            assert_eq!(names(dir.path()), ["source"]);
        };
        fs::create_dir(&target).unwrap();
        fs::write(target.join("old"), "").unwrap();
        replace();
        fs::remove_dir_all(&target).unwrap();
        fs::write(&target, "a file").unwrap();
        replace();
        fs::remove_dir_all(&target).unwrap();
        std::os::unix::fs::symlink("nowhere", &target).unwrap();
        replace();
    }

    #[test]
    fn what_an_interrupted_run_left_is_cleared() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("source");
        let interrupted = Staging::beside(&target).unwrap();
        fs::write(interrupted.path().join("half"), "").unwrap();
        std::mem::forget(interrupted);
        let staging = Staging::beside(&target).unwrap();
        assert_eq!(names(staging.path()), Vec::<String>::new());
    }

    #[test]
    fn a_failed_run_leaves_the_old_target_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("source");
        fs::create_dir(&target).unwrap();
        fs::write(target.join("old"), "").unwrap();
        drop(Staging::beside(&target).unwrap());
        assert_eq!(names(&target), ["old"]);
        assert_eq!(names(dir.path()), ["source"]);
    }

    #[test]
    fn a_target_without_a_name_is_refused() {
        let error = Staging::beside(Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("not the name of a directory"), "{error}");
    }
}
