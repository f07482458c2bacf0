//! Putting files where the workspace container expects them. Each step may run again on a volume that a container
//! before it has filled, wholly or in part.

use std::{
    ffi::OsString,
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

/// The program that gets a project's files; it lies beside the agent.
const INIT: &str = "agent-init";

/// Copies the agent's programs into a directory, and leaves there the name under which the agent is a container's first
/// process.
pub fn copy_agent(to: &Path) -> Result<()> {
    let own = own_file()?;
    copy_program(&own, &to.join("agent"))?;
    copy_program(&own.with_file_name(INIT), &to.join(INIT))?;
    link(Path::new("agent"), &to.join("tini"))
}

/// Turns this process into the one that gets the project's files.
pub fn become_init(verbose: bool, options: &[OsString]) -> Result<()> {
    let program = own_file()?.with_file_name(INIT);
    let error = Command::new(&program).args(verbose.then_some("--verbose")).args(options).exec();
    Err(error).with_context(|| format!("starting {}", program.display()))
}

fn own_file() -> Result<PathBuf> {
    std::env::current_exe().context("finding this program's own file")
}

fn copy_program(from: &Path, to: &Path) -> Result<()> {
    // A new file and a rename: whoever finds the name finds a whole program, and one that runs is not written over.
    let unfinished = to.with_extension("unfinished");
    fs::copy(from, &unfinished).with_context(|| format!("copying {} to {}", from.display(), unfinished.display()))?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("making {} executable", unfinished.display()))?;
    fs::rename(&unfinished, to).with_context(|| format!("moving the program to {}", to.display()))
}

/// Makes `at` a symbolic link to `directory`, replacing a link that is already there.
pub fn link(directory: &Path, at: &Path) -> Result<()> {
    match fs::symlink_metadata(at) {
        Ok(found) if found.is_symlink() => {
            fs::remove_file(at).with_context(|| format!("replacing the link {}", at.display()))?;
        }
        Ok(_) => bail!("{} exists and is not a link; it is left as it is", at.display()),
        Err(_) => {}
    }
    symlink(directory, at).with_context(|| format!("linking {} to {}", at.display(), directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("pko-agent-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_link_is_replaced_when_the_project_moves() {
        let dir = scratch("link");
        let at = dir.join("workspace");
        link(Path::new("/share/source/a"), &at).unwrap();
        link(Path::new("/share/source/b"), &at).unwrap();
        assert_eq!(fs::read_link(&at).unwrap(), Path::new("/share/source/b"));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_directory_with_files_is_never_replaced_by_a_link() {
        let dir = scratch("directory");
        let at = dir.join("workspace");
        fs::create_dir(&at).unwrap();
        let error = link(Path::new("/share/source"), &at).unwrap_err().to_string();
        assert!(error.contains("is not a link"), "{error}");
        assert!(at.is_dir());
        fs::remove_dir_all(dir).unwrap();
    }
}
