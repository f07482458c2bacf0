//! Which secrets of a stack's configuration are set already, so that not each of them costs a call on every init. Nothing
//! of this leaves the agent's memory: an agent that is started anew sets them all once more.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Mutex, PoisonError},
};

use pko_pulumi::{ConfigStep, Settings, stack_file};
use ring::{hmac, rand::SystemRandom};

/// Names what a secret was set to, by a digest that means nothing without this agent's own key.
pub(crate) struct KnownSecrets {
    key: Option<hmac::Key>,
    known: Mutex<HashMap<(String, String), Known>>,
}

#[derive(PartialEq, Eq)]
struct Known {
    digest: Vec<u8>,
    sealed: Sealed,
}

/// How the stack's file holds a secret. If someone has put another file there, this is not the same.
#[derive(PartialEq, Eq)]
struct Sealed {
    ciphertext: String,
    provider: BTreeMap<String, String>,
}

impl std::fmt::Debug for KnownSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownSecrets").finish_non_exhaustive()
    }
}

impl Default for KnownSecrets {
    fn default() -> Self {
        Self { key: hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok(), known: Mutex::default() }
    }
}

impl KnownSecrets {
    /// Whether the stack's file holds what this step would set.
    pub(crate) fn is_set(&self, directory: &Path, stack: &str, step: &ConfigStep) -> bool {
        let Some((name, now)) = self.look(directory, stack, step) else { return false };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&name) == Some(&now)
    }

    /// The step was just carried out.
    pub(crate) fn note(&self, directory: &Path, stack: &str, step: &ConfigStep) {
        if let Some((name, now)) = self.look(directory, stack, step) {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(name, now);
        }
    }

    /// Nothing, if the step sets no secret, or if its place in the file is not known.
    fn look(&self, directory: &Path, stack: &str, step: &ConfigStep) -> Option<((String, String), Known)> {
        let ConfigStep::Alone { secret: true, path: false, key, value } = step else { return None };
        let digest = hmac::sign(self.key.as_ref()?, value.as_bytes()).as_ref().to_vec();
        let settings = settings(directory, stack);
        let sealed = Sealed { ciphertext: settings.secret(key)?.to_owned(), provider: settings.provider() };
        Some(((stack.to_owned(), key.clone()), Known { digest, sealed }))
    }
}

/// What the stack's file says; nothing, if it is not there.
pub(crate) fn settings(directory: &Path, stack: &str) -> Settings {
    let file = stack_file(directory, stack);
    let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    Settings::parse(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(value: &str) -> ConfigStep {
        ConfigStep::Alone { secret: true, path: false, key: "shop:token".to_owned(), value: value.to_owned() }
    }

    fn write(directory: &Path, salt: &str, ciphertext: &str) {
        let text = format!("encryptionsalt: {salt}\nconfig:\n  shop:token:\n    secure: {ciphertext}\n");
        std::fs::write(directory.join("Pulumi.dev.yaml"), text).unwrap();
    }

    #[test]
    fn a_secret_is_set_again_unless_both_it_and_its_place_in_the_file_are_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("Pulumi.yaml"), "name: shop\nruntime: yaml\n").unwrap();
        let known = KnownSecrets::default();
        let is_set = |value: &str| known.is_set(dir.path(), "org/shop/dev", &step(value));
        assert!(!is_set("a"), "there is no file");
        write(dir.path(), "s", "c");
        assert!(!is_set("a"), "nobody knows what is behind it");
        known.note(dir.path(), "org/shop/dev", &step("a"));
        assert!(is_set("a"));
        assert!(!is_set("b"), "another value");
        write(dir.path(), "s", "other");
        assert!(!is_set("a"), "the file is another one");
        write(dir.path(), "other", "c");
        assert!(!is_set("a"), "its key is another one");
        write(dir.path(), "s", "c");
        assert!(is_set("a"));
        assert!(!KnownSecrets::default().is_set(dir.path(), "org/shop/dev", &step("a")), "a next agent knows nothing");
        assert!(!format!("{known:?}").contains("token"));
    }

    #[test]
    fn plain_values_and_paths_are_always_set() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "s", "c");
        let known = KnownSecrets::default();
        let path = ConfigStep::Alone { secret: true, path: true, key: "shop:token".into(), value: "a".into() };
        known.note(dir.path(), "dev", &path);
        assert!(!known.is_set(dir.path(), "dev", &path));
    }
}
