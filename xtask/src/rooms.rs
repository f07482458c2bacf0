//! The rooms and the doors between them: a crate depends only on crates above it in this list, and on no room that it
//! is not meant to know.

use std::{collections::BTreeMap, process::Command};

use crate::{
    host,
    packages::{self, Dependency, Package},
    paths,
};

/// Each crate with those it must not know even though they stand above it.
const ROOMS: &[(&str, &[&str])] = &[
    ("pko-api", &[]),
    ("pko-core", &[]),
    ("pko-proto", &["pko-core"]),
    ("pko-source", &["pko-api", "pko-core"]),
    ("pko-pulumi", &["pko-api", "pko-core", "pko-proto"]),
    ("pko-agent", &["pko-core"]),
    ("pko-operator", &["pko-pulumi", "pko-agent"]),
    ("pko-testkit", &[]),
    ("pko-e2e", &[]),
    ("xtask", &[]),
];

/// Outside crates that a room does not know: the core knows no runtime and no client, sources know no Kubernetes.
const STRANGERS: &[(&str, &[&str])] = &[
    ("pko-api", &["tokio", "kube-client", "kube-runtime", "reqwest", "hyper"]),
    ("pko-core", &["tokio", "kube-client", "kube-runtime", "reqwest", "hyper", "rand", "getrandom"]),
    ("pko-source", &["kube", "kube-core", "k8s-openapi"]),
    ("pko-pulumi", &["tonic", "kube", "kube-core", "k8s-openapi"]),
];

/// Every way in which the given dependencies break the rules, in words.
fn violations(packages: &[Package]) -> Vec<String> {
    let place: BTreeMap<&str, usize> = ROOMS.iter().enumerate().map(|(i, (name, _))| (*name, i)).collect();
    let mut found = Vec::new();
    for package in packages {
        let Some(own) = place.get(package.name.as_str()) else {
            found.push(format!("{} has no place among the rooms", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let development = dependency.kind.as_deref() == Some("dev");
            let (from, to) = (package.name.as_str(), dependency.name.as_str());
            if to == "pko-testkit" {
                if !development && from != "pko-e2e" {
                    found.push(format!("{from} may use {to} in its tests only"));
                }
            } else if let Some(other) = place.get(to) {
                if other >= own {
                    found.push(format!("{from} depends on {to}, which stands below it"));
                } else if ROOMS[*own].1.contains(&to) && !development {
                    found.push(format!("{from} must not know {to}"));
                }
            }
        }
    }
    found
}

#[test]
fn every_crate_depends_only_on_rooms_above_it() {
    let packages = packages::all().unwrap();
    assert_eq!(violations(&packages), Vec::<String>::new());
    assert_eq!(packages.len(), ROOMS.len(), "every room of the list exists");
}

#[test]
fn the_check_sees_a_door_that_should_not_be_there() {
    let package = |name: &str, to: &str, kind: Option<&str>| Package {
        name: name.to_owned(),
        targets: Vec::new(),
        dependencies: vec![Dependency { name: to.to_owned(), kind: kind.map(str::to_owned) }],
    };
    assert_eq!(
        violations(&[package("pko-api", "pko-core", None)]),
        ["pko-api depends on pko-core, which stands below it"]
    );
    assert_eq!(violations(&[package("pko-agent", "pko-core", None)]), ["pko-agent must not know pko-core"]);
    assert_eq!(
        violations(&[package("pko-operator", "pko-testkit", None)]),
        ["pko-operator may use pko-testkit in its tests only"]
    );
    assert_eq!(violations(&[package("pko-operator", "pko-testkit", Some("dev"))]), Vec::<String>::new());
    assert_eq!(violations(&[package("somewhere", "serde", None)]), ["somewhere has no place among the rooms"]);
}

#[test]
fn no_room_knows_a_stranger() {
    for (room, strangers) in STRANGERS {
        let tree = host::output(Command::new(env!("CARGO")).current_dir(paths::root()).args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            room,
            "--edges=normal",
            "--prefix=none",
            "--format={p}",
        ]))
        .unwrap();
        for stranger in *strangers {
            let known = tree.lines().any(|line| line.split(' ').next() == Some(stranger));
            assert!(!known, "{room} has come to know {stranger}; see cargo tree --package {room} --invert {stranger}");
        }
    }
}
