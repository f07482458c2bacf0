//! The journal of runs on the shared volume, a directory each. It outlives the agent and its container.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use pko_pulumi::Identity;
use serde::{Serialize, de::DeserializeOwned};

use super::record::{End, Start};

const START: &str = "start.json";
const PROCESS: &str = "process.json";
const EVENTS: &str = "events";
const PERMALINK: &str = "permalink.json";
const END: &str = "end.json";
/// The longest name of a file on common file systems is 255 bytes.
const LONGEST_NAME: usize = 200;

#[derive(Clone, Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
}

/// The part of the journal that is about one run.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    directory: PathBuf,
}

/// What the journal knows of a run.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) page: Page,
    pub(crate) start: Start,
    pub(crate) process: Option<Identity>,
    pub(crate) end: Option<End>,
}

impl Journal {
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        // Messages and names of resources are nobody else's business.
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Ok(Self { directory: directory.to_owned() })
    }

    /// All runs, oldest first. What was not begun properly is removed: its CLI was never started.
    pub(crate) fn load(&self) -> io::Result<Vec<Known>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let page = Page { directory: entry?.path() };
            if let Some(known) = page.load() {
                found.push(known);
            } else {
                tracing::warn!(directory = %page.directory.display(), "removing a run that was never started");
                page.remove();
            }
        }
        found.sort_by_key(|known| known.start.time);
        Ok(found)
    }

    /// Writes down that a run begins, so that it is known even if the machine fails right after.
    pub(crate) fn begin(&self, start: &Start) -> io::Result<Page> {
        let page = Page { directory: self.directory.join(file_name(&start.run_id)) };
        DirBuilder::new().mode(0o700).create(&page.directory)?;
        if let Err(error) = page.write(START, start).and_then(|()| sync(&self.directory)) {
            // What was not begun can be begun again, when there is room.
            page.remove();
            return Err(error);
        }
        Ok(page)
    }
}

/// A run identifier as the name of a file; nothing if it is too long or empty.
pub(crate) fn is_usable(run_id: &str) -> bool {
    !run_id.is_empty() && file_name(run_id).len() <= LONGEST_NAME
}

fn file_name(run_id: &str) -> String {
    let mut name = String::new();
    for (at, byte) in run_id.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => name.push_str("%2e"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(byte.into()),
            other => name.extend(["%".to_owned(), format!("{other:02x}")]),
        }
    }
    name
}

impl Page {
    fn load(&self) -> Option<Known> {
        let start: Start = self.read(START)?;
        Some(Known { page: self.clone(), start, process: self.process(), end: self.read(END) })
    }

    /// The last process of the CLI that was started for the run.
    pub(crate) fn process(&self) -> Option<Identity> {
        self.read(PROCESS)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the CLI writes its events.
    pub(crate) fn events(&self) -> PathBuf {
        self.directory.join(EVENTS)
    }

    pub(crate) fn note_process(&self, process: Identity) -> io::Result<()> {
        self.write(PROCESS, &process)
    }

    pub(crate) fn note_permalink(&self, permalink: &str) -> io::Result<()> {
        self.write(PERMALINK, &permalink)
    }

    pub(crate) fn permalink(&self) -> Option<String> {
        self.directory.join(PERMALINK).exists().then(|| self.read(PERMALINK))?
    }

    pub(crate) fn end(&self, end: &End) -> io::Result<()> {
        self.write(END, end)
    }

    pub(crate) fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!(%error, directory = %self.directory.display(), "an old run's journal could not be removed");
        }
    }

    fn write(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        write_whole(&self.directory.join(name), &serde_json::to_vec(content)?, None)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let path = self.directory.join(name);
        let text = fs::read(&path).ok()?;
        serde_json::from_slice(&text)
            .map_err(|error| tracing::warn!(%error, file = %path.display(), "a part of the journal is not readable"))
            .ok()
    }
}

/// Whoever finds the name finds the whole text, also after the machine has failed.
pub(crate) fn write_whole(path: &Path, text: &[u8], mode: Option<u32>) -> io::Result<()> {
    let unfinished = path.with_added_extension("unfinished");
    let mut file = File::create(&unfinished)?;
    if let Some(mode) = mode {
        file.set_permissions(fs::Permissions::from_mode(mode))?;
    }
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), sync)
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::record::{Failure, Progress, Reason};

    fn start(run_id: &str, second: i64) -> Start {
        Start {
            run_id: run_id.to_owned(),
            operation: "up".to_owned(),
            stack: Some("dev".to_owned()),
            remove: false,
            message: String::new(),
            time: jiff::Timestamp::from_second(second).unwrap(),
        }
    }

    #[test]
    fn runs_are_found_again_in_the_order_of_their_start() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(&dir.path().join("runs")).unwrap();
        journal.begin(&start("later", 20)).unwrap();
        let page = journal.begin(&start("../earlier", 10)).unwrap();
        page.note_process(Identity { pid: 7, start_ticks: 8 }).unwrap();
        assert_eq!(page.permalink(), None);
        page.note_permalink("https://console/1").unwrap();
        assert_eq!(page.permalink().as_deref(), Some("https://console/1"));
        let end = End {
            time: jiff::Timestamp::from_second(30).unwrap(),
            failure: Some(Failure::new(Reason::Canceled, "asked for")),
            permalink: None,
            project: None,
            pulumi_version: None,
            resource_changes: [("create".to_owned(), 1)].into(),
            output_count: 0,
            progress: Progress { started: 2, done: 1, current: "creating a:b:C d".to_owned() },
            standard_output: "Previewing".to_owned(),
            outputs_json: "{}".to_owned(),
        };
        page.end(&end).unwrap();
        let known = journal.load().unwrap();
        assert_eq!(known.iter().map(|k| k.start.run_id.as_str()).collect::<Vec<_>>(), ["../earlier", "later"]);
        assert_eq!(known[0].process, Some(Identity { pid: 7, start_ticks: 8 }));
        assert_eq!(known[0].end.as_ref().unwrap().failure.as_ref().unwrap().reason, Reason::Canceled);
        assert_eq!(known[0].end.as_ref().unwrap().progress, end.progress);
        assert_eq!(known[0].end.as_ref().unwrap().standard_output, "Previewing");
        assert!(known[1].end.is_none());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no identifier leads out of the journal");
    }

    #[test]
    fn a_run_is_begun_once() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        journal.begin(&start("a", 1)).unwrap();
        assert_eq!(journal.begin(&start("a", 2)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_was_not_begun_properly_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join("half")).unwrap();
        fs::write(dir.path().join("half/start.json.unfinished"), "{").unwrap();
        assert!(journal.load().unwrap().is_empty());
        assert!(!dir.path().join("half").exists());
    }

    #[test]
    fn identifiers_become_safe_and_different_names() {
        assert_eq!(file_name("0b7c-12_A.z"), "0b7c-12_A.z");
        assert_eq!(file_name("../x"), "%2e.%2fx");
        assert_eq!(file_name("a/b:1"), "a%2fb%3a1");
        assert_eq!(file_name("a%2fb"), "a%252fb");
        assert!(!is_usable("") && !is_usable(&"/".repeat(100)) && is_usable(&"a".repeat(200)));
    }

    #[test]
    fn the_end_that_an_earlier_version_wrote_is_understood() {
        let end: End = serde_json::from_str("{\"endTime\":\"2026-11-01T00:00:00Z\"}").unwrap();
        assert_eq!((end.progress, end.outputs_json.as_str()), (Progress::default(), ""));
    }

    #[test]
    fn a_reason_of_a_version_to_come_is_unknown() {
        let failure: Failure = serde_json::from_str("{\"reason\":\"Tired\",\"message\":\"m\"}").unwrap();
        assert_eq!(failure.reason, Reason::Unknown);
    }
}
