//! A Program as an archive: the same bytes for the same Program, always.

use std::{
    collections::HashMap,
    io,
    sync::{Mutex, PoisonError},
};

use flate2::Crc;
use pko_api::Program;
use pko_core::ask::Packed;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::yaml;

const FILE: &str = "Pulumi.yaml";
const MODE: u32 = 0o775;

/// The archive.
pub fn pack(program: &Program) -> io::Result<Vec<u8>> {
    let text = yaml::document(&project(program)?);
    let mut header = tar::Header::new_ustar();
    header.set_path(FILE)?;
    header.set_size(text.len() as u64);
    header.set_mode(MODE);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_cksum();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append(&header, text.as_bytes())?;
    Ok(gzip(&archive.into_inner()?))
}

/// Gzip without compression, as RFC 1952 and 1951 have it: the bytes depend on no library's taste. Programs are small.
fn gzip(content: &[u8]) -> Vec<u8> {
    const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    const LARGEST_BLOCK: usize = 0xffff;
    let mut bytes = HEADER.to_vec();
    let mut blocks = content.chunks(LARGEST_BLOCK).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        bytes.push(u8::from(blocks.peek().is_none()));
        bytes.extend(length.to_le_bytes());
        bytes.extend((!length).to_le_bytes());
        bytes.extend(block);
    }
    let mut sum = Crc::new();
    sum.update(content);
    bytes.extend(sum.sum().to_le_bytes());
    bytes.extend(sum.amount().to_le_bytes());
    bytes
}

/// The project that a Program stands for.
fn project(program: &Program) -> io::Result<Value> {
    let mut project = serde_json::to_value(&program.program)?;
    project["name"] = json!(program.metadata.name);
    project["runtime"] = json!("yaml");
    Ok(project)
}

/// Digests of archives, by the Program's UID and generation. The archives themselves are not kept.
#[derive(Debug, Default)]
pub struct Packs {
    known: Mutex<HashMap<String, (i64, Packed)>>,
}

/// More than any cluster has; beyond it, digests are made anew.
const MOST_KNOWN: usize = 10_000;

impl Packs {
    /// The digest of a Program's archive, or in words why there is none.
    pub fn of(&self, program: &Program) -> Result<Packed, String> {
        let uid = program.metadata.uid.clone().unwrap_or_default();
        let generation = program.metadata.generation.unwrap_or_default();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
        if let Some((_, packed)) = known.filter(|(of, _)| *of == generation) {
            return Ok(packed);
        }
        let packed = described(&pack(program).map_err(|error| error.to_string())?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(uid, (generation, packed.clone()));
        Ok(packed)
    }
}

fn described(bytes: &[u8]) -> Packed {
    let digest = format!("sha256:{:x}", Sha256::digest(bytes));
    Packed { digest, size: i64::try_from(bytes.len()).unwrap_or(i64::MAX) }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn program() -> Program {
        serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "u", "generation": 3},
            "program": {
                "resources": {"thing": {"type": "test:Thing", "properties": {"size": 1}}},
                "outputs": {"id": "${thing.id}"},
                "packages": {"test": "1.0.0"},
            },
        }))
        .unwrap()
    }

    #[test]
    fn an_archive_holds_the_project_and_nothing_that_changes() {
        let bytes = pack(&program()).unwrap();
        assert_eq!(bytes, pack(&program()).unwrap());
        assert_eq!(bytes[4..8], [0; 4], "no time in the header of gzip");
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut entries = archive.entries().unwrap();
        let mut file = entries.next().unwrap().unwrap();
        let header = file.header().clone();
        assert_eq!(file.path().unwrap().display().to_string(), "Pulumi.yaml");
        assert_eq!((header.mode().unwrap(), header.uid().unwrap(), header.mtime().unwrap()), (0o775, 0, 0));
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let expected = "name: \"web\"\noutputs:\n  id: \"${thing.id}\"\npackages:\n  test: \"1.0.0\"\nresources:\n  thing:\n    properties:\n      size: 1\n    type: \"test:Thing\"\nruntime: \"yaml\"\n";
        assert_eq!(text, expected);
        drop(file);
        assert!(entries.next().is_none());
    }

    /// A digest that changes renews every pod that runs a Program.
    #[test]
    fn the_digest_is_the_same_in_every_version() {
        let packed = Packs::default().of(&program()).unwrap();
        let expected = "sha256:e2702898345ec7d48079a85733d7893df6aca5de5dcd554b8a983933477d4c2f";
        assert_eq!(packed.digest, expected);
    }
}
