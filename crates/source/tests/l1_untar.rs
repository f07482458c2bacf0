//! Whatever the entries of an archive are called and wherever its links lead: nothing outside the directory changes.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod archives;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use archives::Archive;
use pko_source::untar::{Limit, untar};
use proptest::{prelude::*, strategy::ValueTree as _};
use tar::EntryType;

/// Parts from which ways out can be made, and few enough names that entries meet.
fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => prop::sample::select(vec!["a", "b", "c", "d"]),
        3 => Just(".."),
        1 => prop::sample::select(vec![".", "", "\\", "..\\", "secret", "neighbour", "target", "\u{e9}"]),
    ];
    let odd = prop_oneof![8 => Just(""), 1 => Just("/"), 1 => Just("./")];
    (odd, prop::collection::vec(part, 1..5)).prop_map(|(start, parts)| format!("{start}{}", parts.join("/")))
}

/// Names without `..`, so that most archives get far.
fn tame_path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 1..4).prop_map(|parts| parts.join("/"))
}

#[derive(Debug, Clone)]
struct Entry {
    kind: u8,
    name: String,
    target: String,
}

fn entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        4 => Just(b'0'), 3 => Just(b'5'), 6 => Just(b'2'), 1 => prop::sample::select(b"1346gLx".to_vec()),
    ];
    (kind, prop_oneof![1 => path(), 5 => tame_path()], path()).prop_map(|(kind, name, target)| Entry {
        kind,
        name,
        target,
    })
}

/// Everything below a directory except one part of it: names, kinds and contents.
fn snapshot(dir: &Path, except: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    for found in fs::read_dir(dir).unwrap() {
        let path = found.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if path == except {
            continue;
        }
        if kind.is_dir() {
            seen.insert(path.clone(), "directory".to_owned());
            snapshot(&path, except, seen);
        } else {
            seen.insert(path.clone(), fs::read_to_string(&path).unwrap());
        }
    }
}

fn links_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            found.push(path);
        } else if path.is_dir() {
            links_below(&path, found);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn extraction_changes_nothing_outside_its_directory(entries in prop::collection::vec(entry(), 1..8)) {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("above/target");
        fs::create_dir_all(&target).unwrap();
        fs::create_dir(dir.path().join("above/neighbour")).unwrap();
        for name in ["secret", "above/secret", "above/a", "above/neighbour/a"] {
            fs::write(dir.path().join(name), "untouched").unwrap();
        }
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        snapshot(dir.path(), &target, &mut before);

        let archive = entries.iter().fold(Archive::default(), |archive, e| {
            archive.entry(EntryType::new(e.kind), e.name.as_bytes(), e.target.as_bytes(), 0o644, b"")
        });
        let outcome = untar(archive.gzip().as_slice(), &target, Limit::DEFAULT);

        snapshot(dir.path(), &target, &mut after);
        prop_assert_eq!(before, after);
        let root = target.canonicalize().unwrap();
        let mut links = Vec::new();
        links_below(&target, &mut links);
        if outcome.is_ok() {
            for link in links {
                if let Ok(real) = link.canonicalize() {
                    prop_assert!(real.starts_with(&root), "{:?} leads to {:?}", link, real);
                }
            }
        }
    }
}

/// The property above would hold if nothing were ever extracted.
#[test]
fn the_property_is_tried_on_archives_that_are_extracted() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut extracted, mut with_links) = (0, 0);
    for _ in 0..300 {
        let entries = prop::collection::vec(entry(), 1..8).new_tree(&mut runner).unwrap().current();
        let dir = tempfile::tempdir().unwrap();
        let archive = entries.iter().fold(Archive::default(), |archive, e| {
            archive.entry(EntryType::new(e.kind), e.name.as_bytes(), e.target.as_bytes(), 0o644, b"")
        });
        if untar(archive.gzip().as_slice(), dir.path(), Limit::DEFAULT).is_ok() {
            extracted += 1;
            let mut links = Vec::new();
            links_below(dir.path(), &mut links);
            with_links += usize::from(!links.is_empty());
        }
    }
    assert!(extracted > 30 && with_links > 10, "{extracted} extracted, {with_links} with links");
}

/// The walk of the test itself sees a way out when there is one.
#[test]
fn the_search_for_links_sees_one_that_leaves() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    symlink("/", dir.path().join("d/out")).unwrap();
    let mut links = Vec::new();
    links_below(dir.path(), &mut links);
    assert_eq!(links.len(), 1);
    assert!(!links[0].canonicalize().unwrap().starts_with(dir.path()));
}
