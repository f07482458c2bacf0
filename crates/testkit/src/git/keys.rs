//! SSH keys of every kind and form, made by the real `ssh-keygen`.

use std::{fs, path::Path, process::Command};

use ring::signature::{KeyPair as _, RsaKeyPair};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject as _};
use tempfile::TempDir;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Ed25519,
    Ecdsa,
    Rsa,
}

/// How a private key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    OpenSsh,
    /// As OpenSSL wrote it once: PKCS#1 for RSA, SEC1 for ECDSA.
    Pem,
    Pkcs8,
}

#[derive(Debug, Clone)]
pub struct SshKey {
    pub private: String,
    pub public: String,
}

impl SshKey {
    pub fn new(kind: KeyKind, form: KeyForm, passphrase: &str) -> Self {
        let dir = TempDir::new().unwrap();
        Self::in_file(&dir.path().join("key"), kind, form, passphrase)
    }

    /// The same, and left in a file.
    pub(super) fn in_file(file: &Path, kind: KeyKind, form: KeyForm, passphrase: &str) -> Self {
        let kind = match kind {
            KeyKind::Ed25519 => ["-t", "ed25519"].as_slice(),
            KeyKind::Ecdsa => &["-t", "ecdsa"],
            KeyKind::Rsa => &["-t", "rsa", "-b", "2048"],
        };
        let form = match form {
            KeyForm::OpenSsh => [].as_slice(),
            KeyForm::Pem => &["-m", "PEM"],
            KeyForm::Pkcs8 => &["-m", "PKCS8"],
        };
        run(Command::new("ssh-keygen")
            .args(["-q", "-C", "test", "-N", passphrase, "-f"])
            .arg(file)
            .args(kind)
            .args(form));
        let public = fs::read_to_string(file.with_extension("pub")).unwrap();
        Self { private: fs::read_to_string(file).unwrap(), public: public.trim().to_owned() }
    }

    /// The public half of an RSA key in PEM or PKCS#8, as DER of PKCS#1.
    pub fn rsa_public_key(&self) -> Vec<u8> {
        let pair = match PrivateKeyDer::from_pem_slice(self.private.as_bytes()).unwrap() {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            _ => panic!("it is an RSA key"),
        };
        pair.unwrap().public_key().as_ref().to_vec()
    }

    /// `SHA256:…`
    pub fn fingerprint(&self) -> String {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("key.pub");
        fs::write(&file, &self.public).unwrap();
        let printed = run(Command::new("ssh-keygen").arg("-lf").arg(file));
        printed.split(' ').nth(1).unwrap().to_owned()
    }
}

pub(super) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
