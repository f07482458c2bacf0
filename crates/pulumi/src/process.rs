//! One process of the CLI: its own process group, bounded memory for what it prints, and signals. It outlives the
//! agent if it must: an operation prints into named pipes, which a next agent may go on reading.

use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::{
    sys::{
        signal::{Signal, kill, killpg},
        stat::Mode,
    },
    unistd::{Pid, mkfifo},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    process::{Child, Command},
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{Call, tail::Kept, text::excerpt};

/// How long to read on after the CLI has ended, for descendants that hold its output open.
const LEFTOVERS: Duration = Duration::from_secs(2);
/// How often to look at a process that is not our child.
const LOOK: Duration = Duration::from_millis(100);

/// How the CLI is called: which program, where, and with which variables.
#[derive(Clone, Debug)]
pub struct Cli {
    program: OsString,
    directory: PathBuf,
    /// Names only are ever shown; values may be secret.
    env: Arc<Env>,
    /// What the agent itself got for the CLI: an access token. It is nowhere else.
    got: Arc<Mutex<Env>>,
}

struct Env(Vec<(String, String)>);

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Cannot {
    #[error("{call} could not be started: {error}; is pulumi on the PATH of the image?")]
    Start { call: &'static str, error: io::Error },
    #[error("{call}: pipes for its output could not be made in {directory}: {error}")]
    Pipes { call: &'static str, directory: PathBuf, error: io::Error },
    #[error("{call} printed more than can be held in memory")]
    TooLong { call: &'static str },
}

/// Where the CLI prints to.
#[derive(Clone, Copy, Debug)]
pub enum Wiring<'a> {
    /// Pipes that end with the agent: for calls of a moment.
    Pipes,
    /// Named pipes in this directory. The CLI holds both ends of them, so it is not killed by its next line when the
    /// agent is gone; it waits for a reader instead.
    Named(&'a Path),
}

/// Which process it is, beyond doubt: identifiers are used again, start times since boot are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    pub pid: i32,
    pub start_ticks: u64,
}

impl Identity {
    fn of(pid: i32) -> Option<Self> {
        let (state, start_ticks) = stat(pid)?;
        (state != 'Z').then_some(Self { pid, start_ticks })
    }

    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// State and start time of a process.
fn stat(pid: i32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, parentheses too.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// How a process ended and what it said.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Absent when a signal ended it, or when nobody knows.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// The whole answer of a call that gives one; else the end of what was printed.
    pub stdout: String,
    /// How what was printed begins, if the end is not all of it.
    pub stdout_beginning: Option<String>,
    pub stderr: String,
    pub permalink: Option<String>,
}

impl Ended {
    pub fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    /// What was printed, for people and for a status: without colours, and without its middle if it is long.
    pub fn excerpt(&self) -> String {
        match &self.stdout_beginning {
            Some(beginning) => excerpt(&[beginning, "\n…\n", &self.stdout].concat()),
            None => excerpt(&self.stdout),
        }
    }

    /// As in `exit status 1`.
    pub fn how(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit status {code}"),
            (_, Some(9)) => "killed by signal 9, perhaps for lack of memory".to_owned(),
            (_, Some(signal)) => format!("killed by signal {signal}"),
            _ => "exit status unknown".to_owned(),
        }
    }
}

impl Cli {
    /// `env` is for the CLI only and wins over the agent's own variables.
    pub fn new(directory: PathBuf, env: Vec<(String, String)>) -> Self {
        Self {
            program: "pulumi".into(),
            directory,
            env: Arc::new(Env(env)),
            got: Arc::new(Mutex::new(Env(Vec::new()))),
        }
    }

    /// The access token of all calls from now on.
    pub fn set_access_token(&self, token: String) {
        let got = Env(vec![("PULUMI_ACCESS_TOKEN".to_owned(), token)]);
        *self.got.lock().unwrap_or_else(PoisonError::into_inner) = got;
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A variable as the CLI sees it.
    pub fn variable(&self, name: &str) -> Option<String> {
        let own = self.env.0.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        own.or_else(|| std::env::var(name).ok())
    }

    /// Runs a call to its end.
    pub async fn run(&self, call: &Call<'_>, stdin: Option<String>) -> Result<Ended, Cannot> {
        self.start(call, stdin, Wiring::Pipes)?.wait().await
    }

    pub fn start(&self, call: &Call<'_>, stdin: Option<String>, wiring: Wiring<'_>) -> Result<Running, Cannot> {
        let name = call.name();
        let pipes = |directory: &Path| {
            let directory = directory.to_owned();
            move |error| Cannot::Pipes { call: name, directory, error }
        };
        let mut command = Command::new(&self.program);
        command
            .args(call.args())
            .current_dir(&self.directory)
            .env("PULUMI_SKIP_UPDATE_CHECK", "true")
            .env("PULUMI_DEBUG_COMMANDS", "true")
            .envs(self.env.0.iter().map(|(k, v)| (k, v)))
            .envs(self.got.lock().unwrap_or_else(PoisonError::into_inner).0.iter().map(|(k, v)| (k, v)))
            .env("PULUMI_AUTOMATION_API", "true")
            .process_group(0)
            .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        // All that can fail about pipes fails before there is a process.
        let named = match wiring {
            Wiring::Pipes => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
                None
            }
            Wiring::Named(directory) => {
                let ends = Named::make(directory).map_err(pipes(directory))?;
                command.stdout(ends.stdout).stderr(ends.stderr);
                Some(Named::read(directory).map_err(pipes(directory))?)
            }
        };
        tracing::debug!(target: "pulumi", call = name, "starting the CLI");
        let mut child = command.spawn().map_err(|error| Cannot::Start { call: name, error })?;
        // The parent's copies of the named pipes' ends must be closed for the reader to see an end.
        drop(command);
        if let (Some(text), Some(mut to)) = (stdin, child.stdin.take()) {
            tokio::spawn(async move {
                // A CLI that does not read to the end says itself what is wrong.
                let _ = to.write_all(text.as_bytes()).await;
            });
        }
        let (stdout, stderr) = named.unwrap_or_else(|| {
            (
                child.stdout.take().map(|from| Reading::start(from, Stream::Stdout, call.answers())),
                child.stderr.take().map(|from| Reading::start(from, Stream::Stderr, false)),
            )
        });
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        // A child that is not yet waited for keeps its identifier, so this is its own start time.
        let start_ticks = stat(pid).map(|(_, ticks)| ticks).unwrap_or_default();
        Ok(Running { call: name, identity: Identity { pid, start_ticks }, child: Some(child), stdout, stderr })
    }
}

/// A process of the CLI that goes on: a child, or one that an agent before this one left.
#[derive(Debug)]
pub struct Running {
    call: &'static str,
    identity: Identity,
    child: Option<Child>,
    stdout: Option<Reading>,
    stderr: Option<Reading>,
}

impl Running {
    /// A process that is alive but not ours, printing into the named pipes of a directory.
    pub fn adopt(identity: Identity, directory: &Path) -> Self {
        let (stdout, stderr) = Named::read(directory).unwrap_or_else(|error| {
            tracing::warn!(%error, directory = %directory.display(), "the output of a running CLI cannot be read");
            (None, None)
        });
        Self { call: "pulumi", identity, child: None, stdout, stderr }
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether it is nobody's child here, so that its exit status will not be known.
    pub fn is_adopted(&self) -> bool {
        self.child.is_none()
    }

    /// Where to look at it on the service, as soon as the CLI has said so.
    pub fn permalink(&self) -> Option<String> {
        let kept = self.stdout.as_ref()?.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.permalink().map(str::to_owned)
    }

    /// Asks it once to wind down. The CLI tells its plugins itself.
    pub fn interrupt(&self) {
        if self.identity.is_alive() {
            let _ = kill(Pid::from_raw(self.identity.pid), Signal::SIGINT);
        }
    }

    /// Ends it and all that it has started, plugins with process groups of their own too.
    pub fn kill(&self) {
        let Identity { pid, .. } = self.identity;
        if !self.identity.is_alive() {
            return;
        }
        let descendants = descendants(pid);
        let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        for process in descendants {
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
    }

    /// Waits for the end of the process. May be dropped and called again.
    pub async fn exit(&mut self) -> Option<ExitStatus> {
        if let Some(child) = &mut self.child {
            return child.wait().await.ok();
        }
        while self.identity.is_alive() {
            sleep(LOOK).await;
        }
        None
    }

    pub async fn wait(mut self) -> Result<Ended, Cannot> {
        let status = self.exit().await;
        let mut ended =
            Ended { code: status.and_then(|s| s.code()), signal: status.and_then(|s| s.signal()), ..Ended::default() };
        if let Some(reading) = self.stdout.take() {
            let mut kept = reading.rest().await;
            ended.permalink = kept.permalink().map(str::to_owned);
            ended.stdout_beginning = kept.beginning();
            ended.stdout = kept.take().ok_or(Cannot::TooLong { call: self.call })?;
        }
        if let Some(reading) = self.stderr.take() {
            ended.stderr = reading.rest().await.take().unwrap_or_default();
        }
        Ok(ended)
    }
}

/// All processes below one.
fn descendants(of: i32) -> Vec<i32> {
    let parent = |pid: i32| -> Option<i32> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let all: Vec<(i32, i32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect();
    let mut found = vec![of];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(all.iter().filter(|(_, p)| *p == parent).map(|(pid, _)| pid));
        next += 1;
    }
    found.remove(0);
    found
}

#[derive(Clone, Copy, Debug)]
enum Stream {
    Stdout,
    Stderr,
}

/// A task that reads a stream to its end.
#[derive(Debug)]
struct Reading {
    kept: Arc<Mutex<Kept>>,
    task: JoinHandle<()>,
}

impl Reading {
    fn start(mut from: impl AsyncRead + Unpin + Send + 'static, stream: Stream, answer: bool) -> Self {
        let kept = Arc::new(Mutex::new(if answer { Kept::whole() } else { Kept::default() }));
        let into = Arc::clone(&kept);
        let each_line = move |line: &str| match stream {
            Stream::Stdout => tracing::info!(target: "pulumi", "{line}"),
            Stream::Stderr => tracing::warn!(target: "pulumi", "{line}"),
        };
        let task = tokio::spawn(async move {
            let mut buffer = vec![0; 8 * 1024];
            loop {
                match from.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(n) => into.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..n], each_line),
                }
            }
            into.lock().unwrap_or_else(PoisonError::into_inner).finish(each_line);
        });
        Self { kept, task }
    }

    /// What has come in until the end of the stream, or shortly after the process has ended.
    async fn rest(mut self) -> Kept {
        if timeout(LEFTOVERS, &mut self.task).await.is_err() {
            self.task.abort();
        }
        std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The ends of named pipes that a process prints into.
struct Named {
    stdout: Stdio,
    stderr: Stdio,
}

const NAMES: [&str; 2] = ["stdout", "stderr"];

impl Named {
    fn make(directory: &Path) -> io::Result<Self> {
        let end = |name: &str| -> io::Result<Stdio> {
            let path = directory.join(name);
            // An earlier attempt at the same operation may have left its own, which nobody prints into any more.
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
            // Open for both, a pipe is never without a reader.
            Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
        };
        Ok(Self { stdout: end(NAMES[0])?, stderr: end(NAMES[1])? })
    }

    fn read(directory: &Path) -> io::Result<(Option<Reading>, Option<Reading>)> {
        let open = |name: &str| pipe::OpenOptions::new().open_receiver(directory.join(name));
        Ok((
            Some(Reading::start(open(NAMES[0])?, Stream::Stdout, false)),
            Some(Reading::start(open(NAMES[1])?, Stream::Stderr, false)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_too() {
        let own = Identity::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_alive());
        assert!(!Identity { start_ticks: own.start_ticks + 1, ..own }.is_alive());
    }

    #[test]
    fn values_of_variables_are_never_shown() {
        let cli = Cli::new("/".into(), vec![("TOKEN".into(), "planted".into())]);
        let shown = format!("{cli:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("planted"), "{shown}");
        cli.set_access_token("planted".to_owned());
        assert!(!format!("{cli:?}").contains("planted"));
        assert_eq!(cli.variable("TOKEN").as_deref(), Some("planted"));
    }
}
