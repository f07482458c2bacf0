//! A stack's settings file over several inits: each begins with the file as the source has it, so that what an earlier one
//! has set and this one does not is gone again. The source's version is kept on the shared volume before the first change.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use pko_pulumi::{Carried, ConfigStep, Settings, compose, stack_file};
use serde::{Deserialize, Serialize};

use super::{journal::write_whole, known_secrets::KnownSecrets};

/// Where the versions of the source are kept.
#[derive(Debug)]
pub(crate) struct SourceSettings {
    directory: PathBuf,
}

/// The source's version of a file. It holds no secret in clear that the source does not hold itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    file: PathBuf,
    source: Source,
    /// Absent when the source has no such file.
    text: Option<String>,
    /// What the CLI has written about the secrets provider, lest a broken file take it along.
    provider: BTreeMap<String, String>,
}

/// Which directory the source is: another one takes its place when it is fetched again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    inode: u64,
    created: Option<u64>,
}

impl Source {
    fn of(directory: &Path) -> io::Result<Self> {
        let found = fs::metadata(directory)?;
        // Not every file system knows it.
        let created = found.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Self { inode: found.ino(), created: created.and_then(|time| u64::try_from(time.as_nanos()).ok()) })
    }
}

/// What an init will set.
pub(crate) struct Wanted<'a> {
    pub(crate) stack: &'a str,
    pub(crate) config: &'a [ConfigStep],
    pub(crate) environments: &'a [String],
}

impl SourceSettings {
    /// Beside the journal, where they outlive the container.
    pub(crate) fn beside(journal: &Path) -> Self {
        Self { directory: journal.with_file_name(".settings") }
    }

    /// Gives a stack's file back what the source says. Encrypted values that would be set to what they are stay, as do
    /// environments, so that neither costs a call of the CLI.
    pub(crate) fn restore(&self, project: &Path, wanted: &Wanted<'_>, secrets: &KnownSecrets) -> io::Result<()> {
        let Some(file) = stack_file(project, wanted.stack) else { return Ok(()) };
        let text = read(&file)?;
        let now = Settings::parse(text.as_deref().unwrap_or_default()).unwrap_or_default();
        let kept = self.keep(project, &file, text.as_deref(), now.provider())?;
        let own = kept.text.as_deref().unwrap_or_default();
        let carried = Carried {
            provider: kept.provider.clone(),
            secrets: unchanged(&now, wanted, |step| secrets.is_set(project, wanted.stack, step)),
            environments: imported(&Settings::parse(own).unwrap_or_default(), &now, wanted.environments),
        };
        let restored = compose(own, &carried);
        if kept.text.is_none() && restored.is_empty() {
            return if text.is_some() { fs::remove_file(&file) } else { Ok(()) };
        }
        if text.as_ref() == Some(&restored) {
            return Ok(());
        }
        // The CLI writes through a link.
        let file = file.canonicalize().unwrap_or(file);
        let mode = fs::metadata(&file).map_or(0o644, |found| found.permissions().mode());
        write_whole(&file, restored.as_bytes(), Some(mode))
    }

    /// What the source says: what was kept, or else the file as it is.
    fn keep(
        &self,
        project: &Path,
        file: &Path,
        text: Option<&str>,
        provider: BTreeMap<String, String>,
    ) -> io::Result<Kept> {
        let source = Source::of(project)?;
        let name = file.file_name().unwrap_or_default();
        let place = self.directory.join(name).with_added_extension("json");
        let found: Option<Kept> = read(&place)?.and_then(|text| serde_json::from_str(&text).ok());
        let known = found.clone().filter(|kept| kept.file == file && kept.source == source);
        let kept = match known {
            Some(kept) if provider.is_empty() || kept.provider == provider => kept,
            // The values that the source has encrypted are under another key now, and were encrypted again.
            Some(kept) if kept.is_under_another_key(&provider) => {
                tracing::warn!(file = %file.display(), "the secrets provider was changed; the file is taken as it is");
                Kept { text: text.map(str::to_owned), provider, ..kept }
            }
            Some(kept) => Kept { provider, ..kept },
            None => Kept { file: file.to_owned(), source, text: text.map(str::to_owned), provider },
        };
        if found.as_ref() != Some(&kept) {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            write_whole(&place, &serde_json::to_vec(&kept)?, None)?;
        }
        Ok(kept)
    }
}

impl Kept {
    fn is_under_another_key(&self, provider: &BTreeMap<String, String>) -> bool {
        let own = Settings::parse(self.text.as_deref().unwrap_or_default()).unwrap_or_default().provider();
        own.iter().any(|(name, value)| provider.get(name) != Some(value))
    }
}

/// Encrypted values that are wanted as they are.
fn unchanged(now: &Settings, wanted: &Wanted<'_>, is_set: impl Fn(&ConfigStep) -> bool) -> BTreeMap<String, String> {
    let secret = |step: &ConfigStep| match step {
        ConfigStep::Alone { key, .. } if is_set(step) => Some((key.clone(), now.secret(key)?.to_owned())),
        _ => None,
    };
    wanted.config.iter().filter_map(secret).collect()
}

/// Environments that are wanted and there. The CLI adds at the end, so only those before the first new one can stay.
fn imported(own: &Settings, now: &Settings, wanted: &[String]) -> Vec<String> {
    let (own, now) = (own.environments(), now.environments());
    let mut stay: Vec<String> = Vec::new();
    for name in wanted.iter().filter(|name| !own.contains(&name.as_str())) {
        if !now.contains(&name.as_str()) {
            break;
        }
        if !stay.contains(name) {
            stay.push(name.clone());
        }
    }
    stay
}

/// Nothing, if there is no such file.
fn read(file: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        dir: tempfile::TempDir,
        secrets: KnownSecrets,
    }

    impl Scene {
        fn new() -> Self {
            let scene = Self { dir: tempfile::tempdir().unwrap(), secrets: KnownSecrets::default() };
            scene.fetch();
            scene
        }

        fn project(&self) -> PathBuf {
            self.dir.path().join("source")
        }

        /// Another directory takes the place of the source.
        fn fetch(&self) {
            let aside = self.dir.path().join("aside");
            let _ = fs::rename(self.project(), &aside);
            fs::create_dir(self.project()).unwrap();
            let _ = fs::remove_dir_all(aside);
            fs::write(self.project().join("Pulumi.yaml"), "name: shop\nruntime: yaml\n").unwrap();
        }

        fn file(&self) -> PathBuf {
            self.project().join("Pulumi.dev.yaml")
        }

        fn text(&self) -> Option<String> {
            read(&self.file()).unwrap()
        }

        fn write(&self, text: &str) {
            fs::write(self.file(), text).unwrap();
        }

        fn restore(&self, config: &[ConfigStep], environments: &[&str]) -> Option<String> {
            let environments: Vec<String> = environments.iter().map(|name| (*name).to_owned()).collect();
            let wanted = Wanted { stack: "org/shop/dev", config, environments: &environments };
            SourceSettings::beside(&self.dir.path().join(".runs"))
                .restore(&self.project(), &wanted, &self.secrets)
                .unwrap();
            self.text()
        }
    }

    const OWN: &str = "# mine\nconfig:\n  shop:own: 1.10\n";

    #[test]
    fn the_first_init_changes_nothing_and_later_ones_begin_where_it_began() {
        let scene = Scene::new();
        assert_eq!(scene.restore(&[], &[]), None);
        scene.write("config:\n  shop:set: x\n");
        assert_eq!(scene.restore(&[], &[]), None, "the source has no such file");
        scene.fetch();
        scene.write(OWN);
        assert_eq!(scene.restore(&[], &[]).unwrap(), OWN, "another source");
        scene.write("config:\n  shop:own: changed\n  shop:set: x\n");
        assert_eq!(scene.restore(&[], &[]).unwrap(), OWN);
    }

    #[test]
    fn the_secrets_provider_stays_though_the_file_is_broken_or_gone() {
        let scene = Scene::new();
        scene.write(OWN);
        scene.restore(&[], &[]);
        scene.write("encryptionsalt: v1:a\nconfig:\n  shop:set: x\n");
        let expected = format!("{OWN}encryptionsalt: \"v1:a\"\n");
        assert_eq!(scene.restore(&[], &[]).unwrap(), expected);
        for broken in ["config: {", ""] {
            scene.write(broken);
            assert_eq!(scene.restore(&[], &[]).unwrap(), expected);
        }
        fs::remove_file(scene.file()).unwrap();
        assert_eq!(scene.restore(&[], &[]).unwrap(), expected);
        scene.write("secretsprovider: awskms://k\nencryptedkey: b\nconfig: {}\n");
        assert_eq!(
            scene.restore(&[], &[]).unwrap(),
            format!("{OWN}encryptedkey: \"b\"\nsecretsprovider: \"awskms://k\"\n"),
            "the source has encrypted nothing, so another provider does no harm"
        );
    }

    #[test]
    fn a_file_whose_own_secrets_provider_was_changed_is_taken_as_it_is() {
        let scene = Scene::new();
        scene.write("encryptionsalt: v1:a\nconfig:\n  shop:own:\n    secure: v1:old\n");
        scene.restore(&[], &[]);
        let again = "encryptionsalt: v1:b\nconfig:\n  shop:own:\n    secure: v1:new\n";
        scene.write(again);
        assert_eq!(scene.restore(&[], &[]).unwrap(), again);
        scene.write(&format!("{again}  shop:set: x\n"));
        assert_eq!(scene.restore(&[], &[]).unwrap(), again);
    }

    #[test]
    fn secrets_stay_if_they_are_wanted_and_as_they_were() {
        let scene = Scene::new();
        let step = |key: &str, value: &str| {
            let (key, value) = (format!("shop:{key}"), value.to_owned());
            ConfigStep::Alone { secret: true, path: false, key, value }
        };
        scene.restore(&[], &[]);
        scene.write("config:\n  shop:a:\n    secure: A\n  shop:b:\n    secure: B\n  shop:c:\n    secure: C\n");
        for known in [step("a", "1"), step("b", "2"), step("c", "3")] {
            scene.secrets.note(&scene.project(), "org/shop/dev", &known);
        }
        let wanted = [step("a", "1"), step("b", "other")];
        let restored = scene.restore(&wanted, &[]).unwrap();
        assert_eq!(restored, "config:\n  \"shop:a\":\n    secure: \"A\"\n");
        assert!(scene.secrets.is_set(&scene.project(), "org/shop/dev", &wanted[0]), "it need not be set");
    }

    #[test]
    fn environments_stay_in_the_order_in_which_they_are_wanted() {
        let scene = Scene::new();
        scene.write("environment:\n  - own\n");
        scene.restore(&[], &[]);
        let all = "environment:\n  - own\n  - a\n  - b\n";
        for (wanted, left) in [
            (vec![], vec!["own"]),
            (vec!["a", "b"], vec!["own", "a", "b"]),
            (vec!["b", "own", "a", "b"], vec!["own", "b", "a"]),
            (vec!["b"], vec!["own", "b"]),
            (vec!["a", "new", "b"], vec!["own", "a"]),
        ] {
            scene.write(all);
            let found = Settings::parse(&scene.restore(&[], &wanted).unwrap()).unwrap();
            assert_eq!(found.environments(), left, "{wanted:?}");
        }
    }

    #[test]
    fn a_directory_of_settings_may_lie_anywhere_and_come_later() {
        let scene = Scene::new();
        let project = "name: shop\nruntime: yaml\nstackConfigDir: ../elsewhere\n";
        fs::write(scene.project().join("Pulumi.yaml"), project).unwrap();
        scene.restore(&[], &[]);
        let file = scene.dir.path().join("elsewhere/Pulumi.dev.yaml");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "config:\n  shop:set: x\n").unwrap();
        scene.restore(&[], &[]);
        assert!(!file.exists(), "the source has none");
    }

    #[test]
    fn a_file_keeps_its_mode_and_a_link_stays_one() {
        let scene = Scene::new();
        let real = scene.project().join("settings.yaml");
        fs::write(&real, OWN).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("settings.yaml", scene.file()).unwrap();
        scene.restore(&[], &[]);
        scene.write("config: {}\n");
        assert_eq!(scene.restore(&[], &[]).unwrap(), OWN);
        assert!(scene.file().symlink_metadata().unwrap().is_symlink());
        assert_eq!(fs::metadata(real).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
