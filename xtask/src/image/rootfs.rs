//! What is in each image: entries of a file system, from files of this machine and from the parts in the cache.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use crate::{archive::Entry, host};

const BUSYBOX: &str = "/bin/busybox";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The user of the `-nonroot` images.
const PULUMI_USER: u64 = 1000;

/// Our programs in the operator's image.
pub(crate) const PROGRAMS: [&str; 3] = ["manager", "agent", "agent-init"];

pub(crate) fn operator(binaries: &Path) -> Result<Vec<Entry>> {
    let programs = PROGRAMS.map(|name| file(&format!("/{name}"), &binaries.join(name)));
    Ok(programs
        .into_iter()
        .chain([
            plain("/etc/ssl/certs/ca-certificates.crt", &existing(CERTIFICATES)?),
            Entry::Text {
                path: "/etc/passwd".into(),
                text: "root:x:0:0:root:/:/none\nnonroot:x:65532:65532::/:/none\n".into(),
            },
            Entry::Directory { path: "/tmp".into(), mode: 0o1777, owner: 0 },
        ])
        .collect())
}

pub(crate) fn workspace(parts: &[PathBuf]) -> Result<Vec<Entry>> {
    let [pulumi, yaml, provider] = parts else { anyhow::bail!("the workspace image is made of three parts") };
    let busybox = existing(BUSYBOX)?;
    let mut entries = vec![
        file("/bin/busybox", &busybox),
        Entry::Link { path: "/usr/bin/env".into(), to: "/bin/busybox".into() },
        file("/pulumi/bin/pulumi", &pulumi.join("pulumi")),
        file("/pulumi/bin/pulumi-language-yaml", &yaml.join("pulumi-language-yaml")),
        plain("/etc/ssl/certs/ca-certificates.crt", &existing(CERTIFICATES)?),
        Entry::Text {
            path: "/etc/passwd".into(),
            text: "root:x:0:0:root:/root:/bin/sh\npulumi:x:1000:1000::/home/pulumi:/bin/sh\n".into(),
        },
        Entry::Text { path: "/etc/group".into(), text: "root:x:0:\npulumi:x:1000:\n".into() },
        Entry::Directory { path: "/tmp".into(), mode: 0o1777, owner: 0 },
        Entry::Directory { path: "/root".into(), mode: 0o700, owner: 0 },
        Entry::Link { path: "/root/.pulumi".into(), to: "/home/pulumi/.pulumi".into() },
    ];
    // The CLI looks for plugins in the user's home only; found there, nothing is downloaded.
    for dir in [
        "/home/pulumi",
        "/home/pulumi/.pulumi",
        "/home/pulumi/.pulumi/plugins",
        "/home/pulumi/.pulumi/plugins/resource-pkotest-v0.1.0",
    ] {
        entries.push(Entry::Directory { path: dir.into(), mode: 0o755, owner: PULUMI_USER });
    }
    entries.push(Entry::File {
        path: "/home/pulumi/.pulumi/plugins/resource-pkotest-v0.1.0/pulumi-resource-pkotest".into(),
        from: provider.join("pulumi-resource-pkotest"),
        mode: 0o755,
        owner: PULUMI_USER,
    });
    let applets = host::output(Command::new(&busybox).arg("--list"))?;
    entries.extend(
        applets
            .lines()
            .filter(|a| *a != "busybox")
            .map(|a| Entry::Link { path: format!("/bin/{a}"), to: "busybox".into() }),
    );
    Ok(entries)
}

fn file(path: &str, from: &Path) -> Entry {
    Entry::File { path: path.into(), from: from.to_owned(), mode: 0o755, owner: 0 }
}

fn plain(path: &str, from: &Path) -> Entry {
    Entry::File { path: path.into(), from: from.to_owned(), mode: 0o644, owner: 0 }
}

fn existing(path: &str) -> Result<PathBuf> {
    Path::new(path).canonicalize().with_context(|| format!("{path} is needed for an image"))
}
