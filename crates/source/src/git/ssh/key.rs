//! Reading a private key, of whatever form, without ever repeating it.

use russh::keys::{self, PrivateKey};

use crate::git::{error::GitError, secret::Secret};

const NAME: &str = "GIT_SSH_PRIVATE_KEY (sshPrivateKey)";

pub(super) fn read(key: &Secret, passphrase: Option<&Secret>) -> Result<PrivateKey, GitError> {
    // What passes through YAML often gets indented.
    let text: String = key.reveal().trim().lines().flat_map(|line| [line.trim(), "\n"]).collect();
    let unusable = |why: String| Err(GitError::Credentials(format!("{NAME} is not usable: {why}")));
    if !text.starts_with("-----BEGIN ") {
        return unusable("it does not begin as a private key does, with -----BEGIN".to_owned());
    }
    let outcome = keys::decode_secret_key(&text, None);
    let encrypted = text.contains("ENCRYPTED") || matches!(outcome, Err(keys::Error::KeyIsEncrypted));
    match (outcome, passphrase) {
        (Ok(key), _) => Ok(key),
        (Err(_), None) if encrypted => unusable("it has a passphrase; give it as GIT_PASSWORD (password)".to_owned()),
        (Err(_), Some(passphrase)) if encrypted => match keys::decode_secret_key(&text, Some(passphrase.reveal())) {
            Ok(key) => Ok(key),
            Err(_) => unusable(
                "GIT_PASSWORD (password) is not its passphrase, or it is encrypted in an old way; `ssh-keygen -p` \
                 writes it in the present one"
                    .to_owned(),
            ),
        },
        (Err(error), _) => unusable(format!("{error}; ed25519, ecdsa and rsa keys are, in OpenSSH's form or as PEM")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_key_is_refused_without_repeating_it() {
        for text in ["hunter2", "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END", "-----BEGIN hunter2"] {
            let error = read(&Secret::new(text), None).unwrap_err().to_string();
            assert!(error.starts_with("GIT_SSH_PRIVATE_KEY (sshPrivateKey) is not usable"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
