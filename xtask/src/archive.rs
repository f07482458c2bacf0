//! An image archive: an OCI layout that is also what `docker save` writes. The same entries give the same bytes.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs::{self, File},
    io::{Read, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::digest;

/// One entry of an image's layer.
pub(crate) enum Entry {
    Directory { path: String, mode: u32, owner: u64 },
    File { path: String, from: PathBuf, mode: u32, owner: u64 },
    Text { path: String, text: String },
    Link { path: String, to: String },
}

/// One image of an archive: how the archive's only layer is run, and under which name.
pub(crate) struct Image {
    pub(crate) name: &'static str,
    pub(crate) entrypoint: &'static [&'static str],
    /// Empty for root.
    pub(crate) user: &'static str,
    pub(crate) env: &'static [&'static str],
}

/// Writes an archive unless one of the same content is there.
pub(crate) fn write_if_new(images: &[Image], entries: &[Entry], archive: &Path) -> Result<()> {
    let mark = archive.with_extension("key");
    let configs: Vec<serde_json::Value> = images.iter().map(|i| json!([i.name, i.config("")])).collect();
    let key = digest::of(format!("{configs:?} {}", describe(entries)?));
    if archive.exists() && fs::read_to_string(&mark).is_ok_and(|seen| seen == key) {
        return Ok(());
    }
    write(images, entries, archive)?;
    Ok(fs::write(mark, key)?)
}

/// Writes an archive, and its content's digest into a file beside it.
pub(crate) fn write(images: &[Image], entries: &[Entry], archive: &Path) -> Result<()> {
    let layer = archive.with_extension("layer");
    write_layer(entries, &layer)?;
    let layer_digest = digest_file(&layer)?;
    let layer_size = fs::metadata(&layer)?.len();

    let unfinished = archive.with_extension("unfinished");
    let mut tar = tar::Builder::new(File::create(&unfinished)?);
    let (mut oci, mut docker) = (Vec::new(), Vec::new());
    for image in images {
        let config = serde_json::to_vec(&image.config(&layer_digest))?;
        let config_digest = digest::of(&config);
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": format!("sha256:{config_digest}"),
                "size": config.len(),
            },
            "layers": [{
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": format!("sha256:{layer_digest}"),
                "size": layer_size,
            }],
        }))?;
        let manifest_digest = digest::of(&manifest);
        append(&mut tar, &format!("blobs/sha256/{config_digest}"), &config)?;
        append(&mut tar, &format!("blobs/sha256/{manifest_digest}"), &manifest)?;
        oci.push(json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{manifest_digest}"),
            "size": manifest.len(),
            "annotations": {"io.containerd.image.name": image.name, "org.opencontainers.image.ref.name": image.name},
        }));
        docker.push(json!({
            "Config": format!("blobs/sha256/{config_digest}"),
            "RepoTags": [image.name],
            "Layers": [format!("blobs/sha256/{layer_digest}")],
        }));
    }
    let index = serde_json::to_vec(&json!({"schemaVersion": 2, "manifests": oci}))?;
    append(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    append(&mut tar, "index.json", &index)?;
    append(&mut tar, "manifest.json", &serde_json::to_vec(&docker)?)?;
    let mut header = header(tar::EntryType::Regular, 0o644, 0);
    header.set_size(layer_size);
    tar.append_data(&mut header, format!("blobs/sha256/{layer_digest}"), File::open(&layer)?)?;
    tar.into_inner()?.flush()?;
    fs::remove_file(&layer)?;
    fs::rename(&unfinished, archive).with_context(|| format!("writing {}", archive.display()))?;
    Ok(fs::write(archive.with_extension("digest"), digest::of(&index))?)
}

impl Image {
    fn config(&self, layer: &str) -> serde_json::Value {
        json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {"Entrypoint": self.entrypoint, "User": self.user, "Env": self.env},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        })
    }
}

fn write_layer(entries: &[Entry], path: &Path) -> Result<()> {
    let mut tar = tar::Builder::new(File::create(path).with_context(|| format!("creating {}", path.display()))?);
    let mut made = BTreeSet::new();
    for entry in entries {
        let name = match entry {
            Entry::Directory { path, .. }
            | Entry::File { path, .. }
            | Entry::Text { path, .. }
            | Entry::Link { path, .. } => path.trim_start_matches('/'),
        };
        let parents: Vec<&Path> = Path::new(name).ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
        for parent in parents.into_iter().rev() {
            if made.insert(parent.to_owned()) {
                tar.append_data(&mut header(tar::EntryType::Directory, 0o755, 0), parent, std::io::empty())?;
            }
        }
        match entry {
            Entry::Directory { mode, owner, .. } => {
                made.insert(name.into());
                tar.append_data(&mut header(tar::EntryType::Directory, *mode, *owner), name, std::io::empty())?;
            }
            Entry::File { from, mode, owner, .. } => {
                let file = File::open(from).with_context(|| format!("reading {}", from.display()))?;
                let mut header = header(tar::EntryType::Regular, *mode, *owner);
                header.set_size(file.metadata()?.len());
                tar.append_data(&mut header, name, file)?;
            }
            Entry::Text { text, .. } => append(&mut tar, name, text.as_bytes())?,
            Entry::Link { to, .. } => tar.append_link(&mut header(tar::EntryType::Symlink, 0o777, 0), name, to)?,
        }
    }
    Ok(tar.into_inner()?.flush()?)
}

fn append(tar: &mut tar::Builder<File>, name: &str, bytes: &[u8]) -> Result<()> {
    let mut header = header(tar::EntryType::Regular, 0o644, 0);
    header.set_size(bytes.len() as u64);
    Ok(tar.append_data(&mut header, name, bytes)?)
}

/// A header without a time, so that the same content has the same digest.
fn header(kind: tar::EntryType, mode: u32, owner: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(owner);
    header.set_mtime(0);
    header.set_size(0);
    header
}

/// What goes into a layer, without reading it: files by size and time.
fn describe(entries: &[Entry]) -> Result<String> {
    let mut text = String::new();
    for entry in entries {
        match entry {
            Entry::Directory { path, mode, owner } => writeln!(text, "d {path} {mode} {owner}")?,
            Entry::Text { path, text: content } => writeln!(text, "t {path} {content}")?,
            Entry::Link { path, to } => writeln!(text, "l {path} {to}")?,
            Entry::File { path, from, mode, owner } => {
                let found = fs::metadata(from).with_context(|| format!("reading {}", from.display()))?;
                let (size, time) = (found.len(), found.modified()?);
                writeln!(text, "f {path} {} {size} {time:?} {mode} {owner}", from.display())?;
            }
        }
    }
    Ok(text)
}

fn digest_file(path: &Path) -> Result<String> {
    let mut sum = Sha256::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(digest::hex(&sum.finalize())),
            n => sum.update(&buffer[..n]),
        }
    }
}

/// Whether an ELF program asks for no interpreter, that is, needs no dynamic linker.
pub(crate) fn is_static(path: &Path) -> Result<bool> {
    const INTERPRETER: u32 = 3;
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let at = |from: u64, length: usize| -> Result<u64> {
        let from = usize::try_from(from)?;
        let slice = bytes.get(from..from + length).with_context(|| format!("{} is cut short", path.display()))?;
        Ok(slice.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    };
    anyhow::ensure!(
        bytes.starts_with(b"\x7fELF\x02\x01"),
        "{} is not a 64-bit little-endian ELF program",
        path.display()
    );
    let (table, size, count) = (at(32, 8)?, at(54, 2)?, at(56, 2)?);
    for index in 0..count {
        if at(table + index * size, 4)? == u64::from(INTERPRETER) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(dir: &str) -> (String, Vec<String>) {
        let dir = std::env::temp_dir().join(format!("pko-archive-{}-{dir}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let archive = dir.join("a.tar");
        let entries = [
            Entry::Text { path: "/etc/motd".into(), text: "hello".into() },
            Entry::Link { path: "/bin/sh".into(), to: "busybox".into() },
        ];
        let image = Image { name: "localhost/a:1", entrypoint: &["/bin/sh"], user: "1:1", env: &[] };
        write(&[image], &entries, &archive).unwrap();
        let digest = fs::read_to_string(archive.with_extension("digest")).unwrap();
        let names = tar::Archive::new(File::open(&archive).unwrap())
            .entries()
            .unwrap()
            .map(|e| e.unwrap().path().unwrap().display().to_string())
            .collect();
        fs::remove_dir_all(&dir).unwrap();
        (digest, names)
    }

    #[test]
    fn the_same_content_gives_the_same_digest() {
        assert_eq!(written("x").0, written("y").0);
    }

    #[test]
    fn an_archive_holds_both_forms_of_index() {
        let names = written("z").1;
        for name in ["oci-layout", "index.json", "manifest.json"] {
            assert!(names.iter().any(|n| n == name), "{name} is missing in {names:?}");
        }
    }

    #[test]
    fn this_dynamically_linked_program_is_not_taken_for_static() {
        assert!(!is_static(&std::env::current_exe().unwrap()).unwrap());
        assert!(is_static(Path::new("/etc/passwd")).is_err());
    }
}
