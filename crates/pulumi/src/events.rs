//! The engine's events: reading the CLI's event log while it grows, and what it amounts to.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::text::{plain, shorten};

/// Longer lines are skipped: nothing that matters is as long.
const LONGEST_LINE: usize = 256 * 1024 * 1024;
/// How much is read before others get their turn.
const PORTION: usize = 4 * 1024 * 1024;
/// How many bytes of error messages are kept, the latest ones.
const ERRORS: usize = 16 * 1024;
/// Names may have any length.
const CURRENT: usize = 256;
/// How many bytes are kept of what the program printed to its standard error.
const PROGRAM: usize = 2 * 1024;

/// A file that the CLI appends to, one JSON document a line. It may not be there yet.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line whose end is not there yet.
    unfinished: Vec<u8>,
    skipping: bool,
}

impl EventLog {
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, unfinished: Vec::new(), skipping: false }
    }

    /// Hands out the complete lines that have come. True when there may be more right away.
    pub fn read(&mut self, mut each_line: impl FnMut(&[u8])) -> io::Result<bool> {
        let file = match &mut self.file {
            Some(file) => file,
            None => match File::open(&self.path) {
                Ok(file) => self.file.insert(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        let mut buffer = vec![0; 64 * 1024];
        let mut taken = 0;
        while taken < PORTION {
            let n = file.read(&mut buffer)?;
            if n == 0 {
                return Ok(false);
            }
            taken += n;
            for piece in buffer[..n].split_inclusive(|b| *b == b'\n') {
                if self.unfinished.len() + piece.len() > LONGEST_LINE {
                    self.skipping = true;
                    self.unfinished = Vec::new();
                }
                if !self.skipping {
                    self.unfinished.extend_from_slice(piece);
                }
                if piece.ends_with(b"\n") {
                    if !self.skipping {
                        each_line(&self.unfinished);
                    }
                    self.skipping = false;
                    self.unfinished.clear();
                    // One large event does not hold its memory for the rest of the run.
                    self.unfinished.shrink_to(64 * 1024);
                }
            }
        }
        Ok(true)
    }
}

/// What the events so far amount to.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many events were read, well-formed or not.
    pub seen: u64,
    /// Operations on resources that have begun and that have ended.
    pub started: u32,
    pub done: u32,
    /// What was begun last, such as `creating aws:s3:Bucket logs`.
    pub current: String,
    /// The latest warning or error, and which event it was.
    pub latest: Option<(u64, String)>,
    /// `succeeded`, `failed` or `canceled`; older CLIs do not say.
    pub result: Option<String>,
    pub resource_changes: BTreeMap<String, i32>,
    /// The end marker was seen: no event follows.
    pub complete: bool,
    /// How often a mandatory policy was violated.
    pub violations: u32,
    errors: VecDeque<Said>,
    program: VecDeque<String>,
    outputs: Option<BTreeMap<String, Box<RawValue>>>,
}

/// An error, and whether it is about one resource.
#[derive(Debug)]
struct Said {
    text: String,
    of_resource: bool,
}

/// One of many kinds; those that say nothing here are left out.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "diagnosticEvent")]
    diagnostic: Option<Diagnostic>,
    #[serde(rename = "resourcePreEvent")]
    began: Option<Step<'a>>,
    #[serde(borrow, rename = "resOutputsEvent")]
    ended: Option<Step<'a>>,
    #[serde(rename = "resOpFailedEvent")]
    failed: Option<Step<'a>>,
    #[serde(rename = "summaryEvent")]
    summary: Option<EndSummary>,
    #[serde(rename = "policyEvent")]
    policy: Option<Policy>,
    #[serde(rename = "errorEvent")]
    error: Option<EngineError>,
    #[serde(rename = "cancelEvent")]
    end: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Diagnostic {
    #[serde(default)]
    urn: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    severity: String,
    #[serde(default)]
    ephemeral: bool,
}

#[derive(Deserialize)]
struct Step<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(default)]
    op: String,
    #[serde(default)]
    urn: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(borrow, default)]
    new: Option<State<'a>>,
}

#[derive(Deserialize)]
struct State<'a> {
    #[serde(borrow, default)]
    outputs: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndSummary {
    #[serde(default)]
    resource_changes: Option<BTreeMap<String, i32>>,
    #[serde(default)]
    result: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Policy {
    resource_urn: String,
    message: String,
    #[serde(rename = "policyName")]
    name: String,
    #[serde(rename = "policyPackName")]
    pack: String,
    #[serde(rename = "policyPackVersion")]
    version: String,
    enforcement_level: String,
}

#[derive(Deserialize)]
struct EngineError {
    #[serde(default)]
    error: String,
}

const STACK: &str = "pulumi:pulumi:Stack";
/// Parts of a replacement, which counts once.
const PARTS: [&str; 6] = [
    "create-replacement",
    "delete-replaced",
    "read-replacement",
    "import-replacement",
    "discard-replaced",
    "remove-pending-replace",
];

impl Metadata<'_> {
    fn counts(&self) -> bool {
        self.is_of_user() && self.op != "same" && !PARTS.contains(&self.op.as_str())
    }

    /// As opposed to the stack itself and the providers that the engine adds.
    fn is_of_user(&self) -> bool {
        self.kind != STACK && !self.kind.starts_with("pulumi:providers:")
    }

    /// What is begun, for people. Nothing, if that is nothing.
    fn words(&self) -> Option<String> {
        let doing = match self.op.as_str() {
            "create" | "create-replacement" => "creating",
            "update" => "updating",
            "delete" | "delete-replaced" => "deleting",
            "replace" => "replacing",
            "read" | "read-replacement" => "reading",
            "refresh" => "refreshing",
            "import" | "import-replacement" => "importing",
            "discard" | "discard-replaced" => "forgetting",
            _ => return None,
        };
        let name = self.urn.rsplit("::").next().unwrap_or_default();
        let text = format!("{doing} {} {name}", self.kind);
        self.is_of_user().then(|| text[..text.floor_char_boundary(CURRENT)].to_owned())
    }
}

impl Summary {
    /// All that a log holds now.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut summary = Self::default();
        let mut log = EventLog::new(path);
        while log.read(|line| summary.take(line))? {}
        Ok(summary)
    }

    /// Takes one line. What is not an event, or one of a kind to come, counts and changes nothing.
    pub fn take(&mut self, line: &[u8]) {
        self.seen += 1;
        let Ok(event) = serde_json::from_slice::<Event>(line) else { return };
        if let Some(diagnostic) = event.diagnostic {
            self.diagnostic(diagnostic);
        }
        if let Some(EngineError { error }) = event.error {
            self.error(&plain(&error), false);
        }
        if let Some(policy) = event.policy {
            self.policy(&policy);
        }
        if let Some(Step { metadata }) = event.began {
            self.started += u32::from(metadata.counts());
            if let Some(words) = metadata.words() {
                self.current = words;
            }
        }
        if event.failed.is_some_and(|step| step.metadata.counts()) {
            self.done += 1;
        }
        if let Some(Step { metadata }) = event.ended {
            self.done += u32::from(metadata.counts());
            if metadata.kind == STACK {
                let outputs = metadata.new.and_then(|state| state.outputs);
                self.outputs = outputs.and_then(|json| serde_json::from_str(json.get()).ok());
            }
        }
        if let Some(end) = event.summary {
            self.resource_changes = end.resource_changes.unwrap_or_default();
            self.result = end.result;
        }
        self.complete |= event.end.is_some();
    }

    fn diagnostic(&mut self, Diagnostic { urn, message, severity, ephemeral }: Diagnostic) {
        let message = plain(&message);
        if ephemeral || message.is_empty() {
            return;
        }
        let resource = named(&urn);
        let of_resource = resource.is_some();
        let text = resource.map_or(message.clone(), |resource| format!("{resource}: {message}"));
        match severity.as_str() {
            "error" => self.error(&text, of_resource),
            "warning" => {}
            "info#err" if !of_resource => {
                self.program.push_back(shorten(&message));
                forget(&mut self.program, PROGRAM, String::len);
                return;
            }
            _ => return,
        }
        self.latest = Some((self.seen, shorten(&text)));
    }

    fn policy(&mut self, policy: &Policy) {
        if policy.enforcement_level != "mandatory" {
            return;
        }
        self.violations += 1;
        let pack = format!("{} {}", policy.pack, policy.version);
        let text = format!("policy {} of {}: {}", policy.name, pack.trim(), plain(&policy.message));
        let resource = named(&policy.resource_urn);
        let of_resource = resource.is_some();
        self.error(&resource.map_or(text.clone(), |resource| format!("{resource}: {text}")), of_resource);
    }

    fn error(&mut self, text: &str, of_resource: bool) {
        self.errors.push_back(Said { text: shorten(text), of_resource });
        forget(&mut self.errors, ERRORS, |said| said.text.len());
    }

    pub fn errors(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().map(|said| said.text.as_str())
    }

    /// Errors of the engine and of the program, as opposed to those of resources.
    pub fn own_errors(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().filter(|said| !said.of_resource).map(|said| said.text.as_str())
    }

    pub fn resource_errors(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().filter(|said| said.of_resource).map(|said| said.text.as_str())
    }

    pub fn blames_resources(&self) -> bool {
        self.resource_errors().next().is_some()
    }

    /// The last that the program printed to its standard error.
    pub fn program_words(&self) -> String {
        self.program.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// JSON text of each output, secret ones masked. Absent when the stack said nothing about outputs.
    pub fn outputs(&self) -> Option<&BTreeMap<String, Box<RawValue>>> {
        self.outputs.as_ref()
    }

    /// How the operation went, if its events tell. A CLI that does not say so succeeded unless there were errors.
    pub fn succeeded(&self) -> Option<bool> {
        self.complete.then(|| match &self.result {
            Some(result) => result == "succeeded",
            None => self.errors.is_empty(),
        })
    }
}

/// Drops the oldest until the rest is small enough; the latest stays in any case.
fn forget<T>(kept: &mut VecDeque<T>, limit: usize, size: impl Fn(&T) -> usize) {
    while kept.len() > 1 && kept.iter().map(&size).sum::<usize>() > limit {
        kept.pop_front();
    }
}

/// `type (name)` of a resource; the stack itself goes without saying.
fn named(urn: &str) -> Option<String> {
    let mut parts = urn.rsplit("::");
    let (name, kind) = (parts.next()?, parts.next()?);
    let kind = kind.rsplit('$').next().unwrap_or(kind);
    (kind != STACK).then(|| format!("{kind} ({name})"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn step(kind: &str, op: &str, of: &str, outputs: &str) -> String {
        format!(
            "{{\"sequence\":1,\"{kind}\":{{\"metadata\":{{\"op\":\"{op}\",\"urn\":\"u\",\"type\":\"{of}\",\"old\":null,\
             \"new\":{{\"inputs\":{{}},\"outputs\":{outputs}}},\"detailedDiff\":null}}}}}}"
        )
    }

    fn diagnostic(severity: &str, urn: &str, message: &str) -> String {
        serde_json::json!({"diagnosticEvent": {"severity": severity, "urn": urn, "message": message, "color": "never"}})
            .to_string()
    }

    fn summary(lines: &[String]) -> Summary {
        let mut summary = Summary::default();
        for line in lines {
            summary.take(line.as_bytes());
        }
        summary
    }

    #[test]
    fn operations_on_resources_are_counted_once_each() {
        let thing = "pkotest:index:Thing";
        let found = summary(&[
            step("resourcePreEvent", "create", STACK, "{}"),
            step("resourcePreEvent", "create", "pulumi:providers:pkotest", "{}"),
            step("resourcePreEvent", "create", thing, "{}"),
            step("resourcePreEvent", "same", thing, "{}"),
            step("resourcePreEvent", "create-replacement", thing, "{}"),
            step("resourcePreEvent", "replace", thing, "{}"),
            step("resOutputsEvent", "create", thing, "{}"),
            step("resOpFailedEvent", "replace", thing, "{}"),
        ]);
        assert_eq!((found.started, found.done, found.seen), (2, 2, 8));
    }

    #[test]
    fn what_was_begun_last_is_told_in_words() {
        let urn = |name: &str| format!("urn:pulumi:dev::shop::pulumi:pulumi:Stack$pkotest:index:Thing::{name}");
        let mut found = Summary::default();
        let mut begin = |op: &str, name: &str, of: &str| {
            let event = serde_json::json!({"resourcePreEvent": {"metadata": {"op": op, "urn": urn(name), "type": of}}});
            found.take(event.to_string().as_bytes());
            found.current.clone()
        };
        let thing = "pkotest:index:Thing";
        assert_eq!(begin("create", "shop-dev", STACK), "");
        for (op, words) in [
            ("create", "creating"),
            ("update", "updating"),
            ("create-replacement", "creating"),
            ("replace", "replacing"),
            ("delete-replaced", "deleting"),
            ("delete", "deleting"),
            ("refresh", "refreshing"),
            ("read", "reading"),
            ("import", "importing"),
            ("discard", "forgetting"),
        ] {
            assert_eq!(begin(op, "slow", thing), format!("{words} {thing} slow"));
        }
        for (op, of) in [("same", thing), ("create", "pulumi:providers:pkotest"), ("of-a-version-to-come", thing)] {
            assert_eq!(begin(op, "other", of), format!("forgetting {thing} slow"), "{op}");
        }
        let long = begin("create", &"é".repeat(1000), thing);
        assert!(long.len() <= CURRENT && long.ends_with('é'));
    }

    #[test]
    fn outputs_are_those_that_the_stack_said_last() {
        let found = summary(&[
            step("resOutputsEvent", "create", STACK, "{}"),
            step("resOutputsEvent", "create", "a:b:C", "{\"not\":1}"),
            step("resOutputsEvent", "create", STACK, "{\"n\":12345678901234567890,\"o\":{\"a\":[]}}"),
        ]);
        let outputs = found.outputs().unwrap();
        assert_eq!(outputs["n"].get(), "12345678901234567890");
        assert_eq!(outputs["o"].get(), "{\"a\":[]}");
    }

    #[test]
    fn diagnostics_name_their_resource_and_debug_is_left_out() {
        let thing = "urn:pulumi:dev::shop::pulumi:pulumi:Stack$pkotest:index:Thing::a";
        let found = summary(&[
            diagnostic("debug", "", "noise"),
            diagnostic("error", thing, "<{%fg 1%}>no such \u{1b}[33mzone\u{1b}[0m<{%reset%}>\n"),
            diagnostic("warning", "", "old plugin\n"),
            diagnostic("info", "", "hello"),
        ]);
        assert_eq!(found.errors().collect::<Vec<_>>(), ["pkotest:index:Thing (a): no such zone"]);
        assert_eq!(found.latest, Some((3, "old plugin".to_owned())));
    }

    #[test]
    fn errors_without_end_are_forgotten_from_the_beginning() {
        let mut found = Summary::default();
        for i in 0..10_000 {
            found.take(diagnostic("error", "", &format!("error {i}")).as_bytes());
        }
        assert!(found.errors().map(str::len).sum::<usize>() <= ERRORS);
        assert_eq!(found.errors().last(), Some("error 9999"));
    }

    #[test]
    fn the_end_marker_and_the_summary_tell_how_it_went() {
        let end = "{\"cancelEvent\":{}}".to_owned();
        let of = |result: &str| {
            format!(
                "{{\"summaryEvent\":{{\"resourceChanges\":{{\"create\":2,\"same\":1}},\"PolicyPacks\":{{}}{result}}}}}"
            )
        };
        let found = summary(&[of(",\"result\":\"succeeded\"")]);
        assert_eq!((found.succeeded(), found.complete), (None, false), "without the end it is not known");
        let found = summary(&[of(",\"result\":\"succeeded\""), end.clone()]);
        assert_eq!(found.succeeded(), Some(true));
        assert_eq!(found.resource_changes, BTreeMap::from([("create".into(), 2), ("same".into(), 1)]));
        assert_eq!(summary(&[of(",\"result\":\"failed\""), end.clone()]).succeeded(), Some(false));
        assert_eq!(summary(&[of(""), end.clone()]).succeeded(), Some(true), "an older CLI");
        assert_eq!(summary(&[diagnostic("error", "", "x"), of(""), end]).succeeded(), Some(false));
    }

    #[test]
    fn what_is_no_event_is_passed_over() {
        let found = summary(&["{".into(), "[]".into(), "{\"newKindOfEvent\":{\"a\":1}}".into()]);
        assert_eq!((found.seen, found.complete), (3, false));
    }

    #[test]
    fn a_log_is_read_as_it_grows_and_only_in_whole_lines() {
        let path = std::env::temp_dir().join(format!("pko-pulumi-{}-events", std::process::id()));
        let mut log = EventLog::new(&path);
        let mut lines = Vec::new();
        let mut read = |log: &mut EventLog| {
            log.read(|line| lines.push(String::from_utf8(line.to_vec()).unwrap())).unwrap();
            lines.len()
        };
        assert_eq!(read(&mut log), 0, "no file yet");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntw").unwrap();
        assert_eq!(read(&mut log), 1);
        file.write_all(b"o\nthree\n").unwrap();
        assert_eq!(read(&mut log), 3);
        assert_eq!(lines, ["one\n", "two\n", "three\n"]);
        std::fs::remove_file(path).unwrap();
    }
}
