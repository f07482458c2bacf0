//! Bare repositories made by the real git, below one temporary directory.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

#[derive(Debug)]
pub struct Repositories {
    root: TempDir,
}

impl Default for Repositories {
    fn default() -> Self {
        Self::new()
    }
}

impl Repositories {
    pub fn new() -> Self {
        Self { root: TempDir::new().unwrap() }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// An empty repository whose default branch is `main`.
    pub fn create(&self, name: &str) {
        self.git(".", &["init", "--quiet", "--bare", "--initial-branch=main", name]);
        self.git(".", &["clone", "--quiet", name, &work(name)]);
    }

    /// A new commit on a branch, which begins at the default branch if it is new. Files with other names stay.
    pub fn commit(&self, name: &str, branch: &str, files: &[(&str, &str)]) -> String {
        let work = work(name);
        let known = self.has(name, &format!("refs/heads/{branch}"));
        if known {
            self.git(&work, &["checkout", "--quiet", "-B", branch, &format!("origin/{branch}")]);
        } else {
            self.git(&work, &["checkout", "--quiet", "-B", branch]);
        }
        for (path, contents) in files {
            let file = self.path(&work).join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, contents).unwrap();
        }
        self.git(&work, &["add", "--all"]);
        self.git(&work, &["commit", "--quiet", "--allow-empty", "--message", "a commit"]);
        self.git(&work, &["push", "--quiet", "origin", branch]);
        self.git(&work, &["rev-parse", "HEAD"])
    }

    pub fn has(&self, name: &str, reference: &str) -> bool {
        !self.git(name, &["for-each-ref", reference]).is_empty()
    }

    /// Runs git in a repository, or in one of their work trees, and returns what it prints.
    pub fn git(&self, directory: &str, args: &[&str]) -> String {
        let output = git().current_dir(self.path(directory)).args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

fn work(name: &str) -> String {
    format!("work-{}", name.replace('/', "-"))
}

/// git without anybody's configuration, and with an author.
pub(super) fn git() -> Command {
    let mut git = Command::new("git");
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null").env_remove("GIT_DIR");
    for who in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{who}_NAME"), "A Test").env(format!("GIT_{who}_EMAIL"), "test@example.com");
    }
    git
}
