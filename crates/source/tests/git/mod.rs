//! What the tests of git sources share: variables as an init container has them, and looking at what was fetched.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{fs, path::Path, process::Command, time::Duration};

use pko_source::git::{self, Access, Depth, GitError, GitUrl};
use pko_testkit::git::Repositories;

/// The repository of most tests, with a branch that has a slash in its name and tags of both kinds.
pub(crate) struct Shop {
    pub(crate) repositories: Repositories,
    /// The commits of `main`, oldest first.
    pub(crate) main: [String; 3],
    pub(crate) feature: String,
}

impl Shop {
    pub(crate) fn new() -> Self {
        let repositories = Repositories::new();
        repositories.create("shop.git");
        let commit = |branch: &str, text: &str| {
            let files = [("Pulumi.yaml", "name: shop\nruntime: yaml\n"), ("infra/version", text)];
            repositories.commit("shop.git", branch, &files)
        };
        let main = [commit("main", "1"), commit("main", "2"), commit("main", "3")];
        let feature = commit("feature/new", "feature");
        repositories.git("shop.git", &["tag", "light", &main[1]]);
        repositories.git("shop.git", &["tag", "-a", "v1", "-m", "one", &main[0]]);
        repositories.git("shop.git", &["update-ref", "refs/pull/7/head", &feature]);
        Self { repositories, main, feature }
    }
}

/// From variables; the product's number of tries, without its waits.
pub(crate) fn access(variables: &[(&str, &str)]) -> Result<Access, GitError> {
    let mut access = Access::from_variables(|name| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    })?;
    access.patience.waits = vec![Duration::ZERO; 3];
    Ok(access)
}

pub(crate) async fn fetch(url: &str, access: &Access, revision: &str, target: &Path) -> Result<String, GitError> {
    git::fetch(&GitUrl::parse(url).unwrap(), access, revision, Depth::Full, target).await
}

pub(crate) async fn resolve(url: &str, access: &Access, reference: &str) -> Result<String, GitError> {
    git::resolve(&GitUrl::parse(url).unwrap(), access, reference).await
}

/// What the real git thinks of a directory.
pub(crate) fn git(directory: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .current_dir(directory)
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The directory is a sound repository with this commit checked out, and every file of it is there unchanged.
pub(crate) fn assert_checked_out(directory: &Path, commit: &str, version: &str) {
    assert_eq!(fs::read_to_string(directory.join("infra/version")).unwrap(), version);
    assert_eq!(git(directory, &["rev-parse", "HEAD"]), commit);
    assert_eq!(git(directory, &["status", "--porcelain"]), "");
    git(directory, &["fsck", "--full", "--strict"]);
}

/// The names in a directory, hidden ones too: what a fetch leaves behind.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
