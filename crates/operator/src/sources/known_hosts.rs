//! The keys of hosts that all of the cluster knows: from files that are read again when they change.

use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::time::Instant;
use tracing::warn;

/// Where deploy/install mounts them.
const FILE: &str = "/etc/ssh/ssh_known_hosts";
/// Changes are looked for no more often than this.
const LOOK: Duration = Duration::from_secs(10);
/// What goes into a variable of a container. The kernel takes no more than 128 KiB.
const MOST: usize = 100 * 1024;

/// The files, and what they held when they were last looked at.
#[derive(Debug)]
pub struct KnownHosts {
    files: Vec<PathBuf>,
    seen: Mutex<Option<Seen>>,
}

#[derive(Debug)]
struct Seen {
    looked: Instant,
    stamps: Vec<Option<(SystemTime, u64)>>,
    lines: Option<String>,
}

impl KnownHosts {
    /// From the files that `SSH_KNOWN_HOSTS` names, or from the usual one.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let named = variable("SSH_KNOWN_HOSTS").filter(|files| !files.is_empty());
        let files = named.as_deref().unwrap_or(FILE).split(':').filter(|file| !file.is_empty());
        Self::in_files(files.map(PathBuf::from).collect())
    }

    pub const fn in_files(files: Vec<PathBuf>) -> Self {
        Self { files, seen: Mutex::new(None) }
    }

    /// Their lines, if there are any.
    pub fn lines(&self) -> Option<String> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *seen {
            Some(seen) if seen.looked.elapsed() < LOOK => {}
            seen => {
                let stamps = self.files.iter().map(stamp).collect();
                match seen {
                    Some(seen) if seen.stamps == stamps => seen.looked = Instant::now(),
                    seen => *seen = Some(Seen { looked: Instant::now(), stamps, lines: self.read() }),
                }
            }
        }
        seen.as_ref().and_then(|seen| seen.lines.clone())
    }

    /// What says something, and no more of it than a variable can hold.
    fn read(&self) -> Option<String> {
        let mut lines = String::new();
        for text in self.files.iter().filter_map(|file| fs::read(file).ok()) {
            for line in String::from_utf8_lossy(&text).lines().map(str::trim) {
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                if lines.len() + line.len() >= MOST {
                    warn!(files = ?self.files, "there are more known hosts than a container can be given; some are left out");
                    return Some(lines);
                }
                lines.push_str(line);
                lines.push('\n');
            }
        }
        (!lines.is_empty()).then_some(lines)
    }
}

/// What a file changes with. A mounted ConfigMap is replaced by another file.
fn stamp(file: &PathBuf) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_that_changes_is_read_again_after_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ssh_known_hosts");
        let named = format!("{}:/no/such/file", file.display());
        let hosts = KnownHosts::from_variables(|name| (name == "SSH_KNOWN_HOSTS").then(|| named.clone()));
        assert_eq!(hosts.lines(), None);
        fs::write(&file, "# of the cluster\n\n  a.test ssh-rsa AA==\n").unwrap();
        assert_eq!(hosts.lines(), None, "it was looked at a moment ago");
        tokio::time::advance(LOOK).await;
        assert_eq!(hosts.lines().unwrap(), "a.test ssh-rsa AA==\n");
        fs::write(&file, "b.test ssh-rsa AA==\nc.test ssh-rsa AA==").unwrap();
        tokio::time::advance(LOOK).await;
        assert_eq!(hosts.lines().unwrap(), "b.test ssh-rsa AA==\nc.test ssh-rsa AA==\n");
        fs::remove_file(&file).unwrap();
        tokio::time::advance(LOOK).await;
        assert_eq!(hosts.lines(), None);
    }

    #[test]
    fn a_container_is_not_given_more_than_it_can_take() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("many");
        fs::write(&file, "a.test ssh-rsa AAAA\n".repeat(10_000)).unwrap();
        let lines = KnownHosts::in_files(vec![file]).lines().unwrap();
        assert!(lines.len() <= MOST && lines.ends_with("AAAA\n"), "{}", lines.len());
    }

    #[test]
    fn the_usual_file_is_where_the_config_map_is_mounted() {
        assert_eq!(KnownHosts::from_variables(|_| None).files, [PathBuf::from(FILE)]);
    }
}
