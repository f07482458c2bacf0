//! Files of host keys as OpenSSH writes them: plain and hashed names, patterns, ports, revoked keys.

use std::{fs, path::PathBuf};

use ring::hmac;
use russh::keys::{
    Algorithm, HashAlg, PublicKey,
    ssh_key::known_hosts::{Entry, HostPatterns, Marker},
};

/// Where a user puts a line about a host.
const PLACE: &str = "the key known_hosts of the Secret that holds the SSH key (GIT_SSH_KNOWN_HOSTS), or of the \
                     ConfigMap pulumi-kubernetes-operator-known-hosts in the operator's namespace \
                     (GIT_SSH_KNOWN_HOSTS_CLUSTER)";

/// Variables that hold the text of such files.
const TEXTS: [&str; 2] = ["GIT_SSH_KNOWN_HOSTS", "GIT_SSH_KNOWN_HOSTS_CLUSTER"];

/// Where host keys are looked for.
#[derive(Debug, Clone, Default)]
pub struct KnownHosts {
    /// Given as text, each with the name of where it is from.
    texts: Vec<(String, String)>,
    files: Vec<PathBuf>,
}

impl KnownHosts {
    /// Texts, each with the name of where it is from, and no files.
    pub fn from_texts(texts: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { texts: texts.into_iter().filter(|(_, text)| !text.trim().is_empty()).collect(), files: Vec::new() }
    }

    /// `GIT_SSH_KNOWN_HOSTS` and `GIT_SSH_KNOWN_HOSTS_CLUSTER` are text; `SSH_KNOWN_HOSTS` names files, in the place of
    /// those that OpenSSH reads.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let files = match given("SSH_KNOWN_HOSTS") {
            Some(files) => files.split(':').filter(|file| !file.is_empty()).map(PathBuf::from).collect(),
            None => given("HOME")
                .map(|home| PathBuf::from(home).join(".ssh/known_hosts"))
                .into_iter()
                .chain([PathBuf::from("/etc/ssh/ssh_known_hosts")])
                .collect(),
        };
        let texts = TEXTS.iter().filter_map(|name| Some(((*name).to_owned(), given(name)?)));
        Self { files, ..Self::from_texts(texts) }
    }

    pub(super) fn read(&self) -> Entries {
        let mut entries = Entries::default();
        for (source, text) in &self.texts {
            entries.add(source, text);
        }
        for file in &self.files {
            if let Ok(contents) = fs::read(file) {
                entries.add(&file.display().to_string(), &String::from_utf8_lossy(&contents));
            }
        }
        entries
    }
}

/// All that is known, each with where it is written.
#[derive(Debug, Default)]
pub(super) struct Entries {
    entries: Vec<(String, Entry)>,
    /// How many texts and files there were.
    sources: usize,
}

impl Entries {
    /// Lines that mean nothing to us, such as keys of a kind that we do not know, are passed over.
    fn add(&mut self, source: &str, contents: &str) {
        self.sources += 1;
        for (number, line) in contents.lines().enumerate() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            if line.starts_with('#') {
                continue;
            }
            if let Ok(entry) = line.parse() {
                self.entries.push((format!("{source}, line {}", number + 1), entry));
            }
        }
    }

    fn of<'a>(&'a self, host: &str, port: u16) -> impl Iterator<Item = &'a (String, Entry)> {
        let name = name(host, port);
        self.entries.iter().filter(move |(_, entry)| is_named(entry.host_patterns(), &name))
    }

    /// The kinds of keys that a host is known by.
    pub(super) fn algorithms(&self, host: &str, port: u16) -> Vec<Algorithm> {
        let plain = self.of(host, port).filter(|(_, entry)| entry.marker().is_none());
        plain.map(|(_, entry)| entry.public_key().algorithm()).collect()
    }

    /// Fails, in words, unless a host is known to have this key.
    pub(super) fn check(&self, host: &str, port: u16, key: &PublicKey) -> Result<(), String> {
        let shown = key.fingerprint(HashAlg::Sha256);
        let kind = key.algorithm();
        let same = |entry: &Entry| entry.public_key().key_data() == key.key_data();
        let with =
            |marker: Option<Marker>| self.of(host, port).filter(move |(_, entry)| entry.marker().copied() == marker);
        if let Some((place, _)) = with(Some(Marker::Revoked)).find(|(_, entry)| same(entry)) {
            return Err(format!("the host {host} shows a key that is revoked ({place}): {kind} {shown}"));
        }
        if with(None).any(|(_, entry)| same(entry)) {
            return Ok(());
        }
        if let Some((place, entry)) = with(None).next() {
            let known = entry.public_key();
            return Err(format!(
                "the host key of {host} has changed: it shows {kind} {shown}, and known is {} {} ({place}); if the \
                 host really has a new key, replace the known one, and otherwise somebody is in between; the new line \
                 would be: {}",
                known.algorithm(),
                known.fingerprint(HashAlg::Sha256),
                line(host, port, key),
            ));
        }
        let certificates = match with(Some(Marker::CertAuthority)).next() {
            Some((place, _)) => {
                format!(" (an authority for it is, at {place}, but host certificates are not supported)")
            }
            None => String::new(),
        };
        let nowhere = match self.sources {
            0 => "unable to find any valid known_hosts file, set SSH_KNOWN_HOSTS env variable: ",
            _ => "",
        };
        let at = if port == 22 { String::new() } else { format!(" at port {port}") };
        Err(format!(
            "{nowhere}the host {host}{at} is not known{certificates}: it shows the key {kind} {shown}; if that is right, \
             add this line to {PLACE}: {}",
            line(host, port, key)
        ))
    }
}

/// A host as such files name it.
fn name(host: &str, port: u16) -> String {
    if port == 22 { host.to_owned() } else { format!("[{host}]:{port}") }
}

/// With this line a host would be known to have a key.
fn line(host: &str, port: u16, key: &PublicKey) -> String {
    let words = key.to_openssh().unwrap_or_default();
    let words: Vec<&str> = words.split(' ').take(2).collect();
    format!("{} {}", name(host, port), words.join(" "))
}

fn is_named(patterns: &HostPatterns, name: &str) -> bool {
    match patterns {
        HostPatterns::HashedName { salt, hash } => {
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
            hmac::verify(&key, name.as_bytes(), hash).is_ok()
        }
        HostPatterns::Patterns(patterns) => {
            let is_like = |pattern: &str| fits(pattern.to_lowercase().as_bytes(), name.as_bytes());
            let (against, for_it): (Vec<&str>, Vec<&str>) =
                patterns.iter().map(String::as_str).partition(|pattern| pattern.starts_with('!'));
            for_it.into_iter().any(is_like) && !against.into_iter().any(|pattern| is_like(&pattern[1..]))
        }
    }
}

/// `*` is any text, `?` any character. Takes time in proportion to both lengths, whatever the pattern.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (p, n) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB9dG4kjRhQTtWTVzd2t27+t0DEHBPW7iOD23TUiYLio";
    const OTHER: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAsEy9s6Z3fYhG3wTPWhmGDQLvyYqQmcBrMDnCXKGOqL";

    fn entries(contents: &str) -> Entries {
        let mut entries = Entries::default();
        entries.add("file", contents);
        entries
    }

    fn check(contents: &str, host: &str, port: u16) -> Result<(), String> {
        entries(contents).check(host, port, &ONE.parse().unwrap())
    }

    #[test]
    fn a_host_is_known_by_names_patterns_and_ports() {
        for (names, host, port) in [
            ("example.com", "example.com", 22),
            ("a,example.com,b", "example.com", 22),
            ("Example.COM", "example.com", 22),
            ("*.example.com", "git.example.com", 22),
            ("git?.example.*", "git1.example.com", 22),
            ("[example.com]:2222", "example.com", 2222),
            ("[*]:2222", "example.com", 2222),
        ] {
            assert_eq!(check(&format!("# a comment\n\n {names}\t{ONE} me@here\n"), host, port), Ok(()), "{names}");
        }
        for (names, host, port) in [
            ("example.com", "example.org", 22),
            ("example.com", "example.com", 2222),
            ("[example.com]:2222", "example.com", 22),
            ("*,!example.com", "example.com", 22),
            ("*.example.com", "example.com", 22),
        ] {
            let error = check(&format!("{names} {ONE}\n"), host, port).unwrap_err();
            assert!(error.contains("is not known"), "{names}: {error}");
            assert!(error.contains("ssh-ed25519 SHA256:") && error.contains("GIT_SSH_KNOWN_HOSTS"), "{error}");
        }
    }

    #[test]
    fn another_key_is_refused_with_where_the_known_one_is_written() {
        let error = check(&format!("# x\nexample.com {OTHER}\n"), "example.com", 22).unwrap_err();
        assert!(error.contains("has changed") && error.contains("(file, line 2)"), "{error}");
        assert_eq!(check(&format!("example.com {OTHER}\nexample.com {ONE}\n"), "example.com", 22), Ok(()));
    }

    #[test]
    fn revoked_keys_and_authorities_are_no_known_keys() {
        let error = check(&format!("@revoked * {ONE}\nexample.com {ONE}\n"), "example.com", 22).unwrap_err();
        assert!(error.contains("is revoked (file, line 1)"), "{error}");
        let error = check(&format!("@cert-authority * {ONE}\n"), "example.com", 22).unwrap_err();
        assert!(error.contains("host certificates are not supported"), "{error}");
    }

    #[test]
    fn without_any_file_pkos_words_are_said() {
        let hosts = KnownHosts::from_variables(|name| (name == "SSH_KNOWN_HOSTS").then(|| "/no/such:/file".to_owned()));
        let error = hosts.read().check("example.com", 22, &ONE.parse().unwrap()).unwrap_err();
        let expected = "unable to find any valid known_hosts file, set SSH_KNOWN_HOSTS env variable";
        assert!(error.starts_with(expected) && error.contains("GIT_SSH_KNOWN_HOSTS"), "{error}");
        assert!(error.ends_with(&format!(": example.com {ONE}")), "{error}");
    }

    #[test]
    fn a_host_that_is_refused_comes_with_the_line_that_would_let_it_in() {
        let line = format!("[example.com]:2222 {ONE}");
        for known in [format!("example.com {ONE}\n"), format!("[example.com]:2222 {OTHER}\n")] {
            let error = check(&known, "example.com", 2222).unwrap_err();
            assert!(error.ends_with(&format!(": {line}")), "{error}");
        }
        assert_eq!(check(&line, "example.com", 2222), Ok(()));
    }

    #[test]
    fn hosts_are_known_by_the_text_of_a_secret_or_by_that_of_the_cluster() {
        for name in TEXTS {
            let hosts = KnownHosts::from_variables(|asked| match asked {
                "SSH_KNOWN_HOSTS" => Some("/no/such".to_owned()),
                _ => (asked == name).then(|| format!("example.com {ONE}")),
            });
            assert_eq!(hosts.read().check("example.com", 22, &ONE.parse().unwrap()), Ok(()), "{name}");
            let error = hosts.read().check("example.com", 22, &OTHER.parse().unwrap()).unwrap_err();
            assert!(error.contains(&format!("({name}, line 1)")), "{error}");
        }
    }

    #[test]
    fn patterns_with_many_stars_take_no_time() {
        let name = "a".repeat(2000);
        assert!(!fits(format!("{}b", "*a".repeat(500)).as_bytes(), name.as_bytes()));
    }
}
