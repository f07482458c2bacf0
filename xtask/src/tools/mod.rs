//! The real parts: built or installed once into the shared cache, by name and pinned version.

mod crates;
mod debian;
mod go;
mod parts;
mod pins;
mod sources;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
pub(crate) use pins::{CLUSTER_PACKAGES, IMAGE_PACKAGES, SOURCE_PACKAGES};
use pins::{PACKAGES, PARTS};

use crate::{paths::Lock, progress};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Parts or package groups to get; without any, those that `cargo xtask test` needs
    names: Vec<String>,
    /// Show what there is, and what is already in the cache
    #[arg(long)]
    list: bool,
}

/// What the checks of L0 need.
pub(crate) const CHECKS: &[&str] = &["cargo-deny"];
/// The parts of the cluster and of the workspace image.
pub(crate) const CLUSTER: &[&str] = &["kubernetes", "etcd", "coredns"];
pub(crate) const WORKSPACE_IMAGE: &[&str] = &["pulumi", "pulumi-yaml", "provider"];
/// What the tests of sources on a cluster run besides it.
pub(crate) const SOURCES: &[&str] = &["source-controller", "registry", "gofakes3"];

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        return list();
    }
    let began = std::time::Instant::now();
    let mut names = Vec::new();
    for name in &args.names {
        match PACKAGES.iter().find(|p| p.name == name) {
            Some(group) => debian::ensure(group)?,
            None => names.push(name.as_str()),
        }
    }
    if args.names.is_empty() {
        debian::ensure(&CLUSTER_PACKAGES)?;
        debian::ensure(&IMAGE_PACKAGES)?;
        debian::ensure(&SOURCE_PACKAGES)?;
        names = [CHECKS, CLUSTER, WORKSPACE_IMAGE, SOURCES].concat();
    }
    ensure(&names)?;
    eprintln!("all there after {}", progress::seconds(began.elapsed()));
    Ok(())
}

/// Installs a group of Debian packages.
pub(crate) fn packages(group: &pins::Packages) -> Result<()> {
    debian::ensure(group)
}

/// Builds the named parts that the cache lacks and returns the directories of their binaries.
pub(crate) fn ensure(names: &[&str]) -> Result<Vec<PathBuf>> {
    let mut dirs = Vec::new();
    let mut missing = Vec::new();
    for name in names {
        let part = find(name)?;
        let dir = parts::installed_dir(part)?;
        if !dir.exists() {
            missing.push(part);
        }
        dirs.push(dir);
    }
    if !missing.is_empty() {
        let _lock = Lock::take("tools")?;
        for (index, part) in missing.iter().enumerate() {
            parts::build(part, &format!("[{}/{}]", index + 1, missing.len()))?;
        }
    }
    Ok(dirs)
}

/// The directory of a part's binaries.
pub(crate) fn dir(part: &str) -> Result<PathBuf> {
    Ok(ensure(&[part])?.remove(0))
}

/// The path of one binary of a part.
pub(crate) fn binary(part: &str, binary: &str) -> Result<PathBuf> {
    let path = dir(part)?.join(binary);
    if !path.exists() {
        bail!("{} is not among the binaries of {part}", path.display());
    }
    Ok(path)
}

/// The same as long as the named parts are made from the same things.
pub(crate) fn fingerprint(names: &[&str]) -> Result<String> {
    let dirs: Result<Vec<String>> =
        names.iter().map(|n| Ok(parts::installed_dir(find(n)?)?.display().to_string())).collect();
    Ok(dirs?.join(":"))
}

fn find(name: &str) -> Result<&'static pins::Part> {
    PARTS.iter().find(|p| p.name == name).with_context(|| {
        let known: Vec<&str> = PARTS.iter().map(|p| p.name).chain(PACKAGES.iter().map(|p| p.name)).collect();
        format!("no part is named {name}; there are: {}", known.join(", "))
    })
}

fn list() -> Result<()> {
    for part in PARTS {
        let state = if parts::installed_dir(part)?.exists() { "in the cache" } else { "not built" };
        println!("{:<18} {:<12} {:<14} {}", part.name, part.version, state, part.purpose);
    }
    for group in PACKAGES {
        let missing = debian::missing(group);
        let state = if missing.is_empty() { "installed".to_owned() } else { format!("missing: {}", missing.join(" ")) };
        println!("{:<18} {:<12} {state}", group.name, "Debian");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_part_is_refused_with_the_names_of_those_there_are() {
        let error = ensure(&["kubernets"]).unwrap_err().to_string();
        assert!(error.contains("no part is named kubernets") && error.contains("kubernetes"), "{error}");
    }

    #[test]
    fn every_part_has_a_name_of_its_own() {
        let mut names: Vec<&str> = PARTS.iter().map(|p| p.name).chain(PACKAGES.iter().map(|p| p.name)).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
