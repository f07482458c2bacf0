//! What a waiting developer sees: one line that changes in a terminal, plain lines elsewhere.

use std::{
    fs::File,
    io::{IsTerminal, Read, Seek, SeekFrom, Write},
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

/// One named piece of work with its duration.
pub(crate) struct Step {
    name: String,
    began: Instant,
    terminal: bool,
    ended: bool,
}

impl Step {
    pub(crate) fn begin(name: impl Into<String>) -> Self {
        let step =
            Self { name: name.into(), began: Instant::now(), terminal: std::io::stderr().is_terminal(), ended: false };
        if step.terminal {
            step.show("");
        } else {
            eprintln!("  {} ...", step.name);
        }
        step
    }

    /// Shows what the step is doing now; silent where lines cannot change.
    pub(crate) fn show(&self, detail: &str) {
        if self.terminal {
            let line = format!("  {} {} {detail}", self.name, seconds(self.began.elapsed()));
            let line: String = line.chars().take(width().saturating_sub(1)).collect();
            eprint!("\r\x1b[2K{line}");
            std::io::stderr().flush().ok();
        }
    }

    pub(crate) fn done(mut self, outcome: &str) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: &str) {
        if !std::mem::replace(&mut self.ended, true) {
            let clear = if self.terminal { "\r\x1b[2K" } else { "" };
            eprintln!("{clear}  {} {outcome} ({})", self.name, seconds(self.began.elapsed()));
        }
    }
}

impl Drop for Step {
    /// A step that is left by an error ends its line, so that the error stands on one of its own.
    fn drop(&mut self) {
        self.end("not finished");
    }
}

/// Columns of the terminal.
fn width() -> usize {
    static WIDTH: OnceLock<usize> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        let asked = Command::new("stty").arg("size").stdin(Stdio::inherit()).stderr(Stdio::null()).output();
        let answer = asked.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
        answer.split_whitespace().nth(1).and_then(|columns| columns.parse().ok()).unwrap_or(80)
    })
}

pub(crate) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole >= 60 { format!("{}m{:02}s", whole / 60, whole % 60) } else { format!("{:.1}s", duration.as_secs_f64()) }
}

/// Runs a command with its output in a log file, showing the last line of it meanwhile.
/// On failure the error carries the end of that output.
pub(crate) fn run_logged(step: &Step, command: &mut Command, log: &Path) -> Result<()> {
    let file =
        File::options().create(true).append(true).open(log).with_context(|| format!("opening {}", log.display()))?;
    let from = file.metadata()?.len();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().display()))?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        step.show(&tail(log, from, 1));
        std::thread::sleep(Duration::from_millis(200));
    };
    if !status.success() {
        bail!(
            "{} ended with {status}; the end of {}:\n{}",
            command.get_program().display(),
            log.display(),
            tail(log, from, 30)
        );
    }
    Ok(())
}

/// The last lines of a file, looking no further back than `from`.
pub(crate) fn tail(path: &Path, from: u64, lines: usize) -> String {
    const WINDOW: u64 = 16 * 1024;
    let Ok(mut file) = File::open(path) else { return String::new() };
    let length = file.metadata().map_or(0, |m| m.len());
    let mut text = Vec::new();
    if file.seek(SeekFrom::Start(from.max(length.saturating_sub(WINDOW)))).is_err()
        || file.read_to_end(&mut text).is_err()
    {
        return String::new();
    }
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_to_read() {
        assert_eq!(seconds(Duration::from_millis(1234)), "1.2s");
        assert_eq!(seconds(Duration::from_secs(125)), "2m05s");
    }

    #[test]
    fn the_error_of_a_failed_command_carries_its_output() {
        let log = std::env::temp_dir().join(format!("pko-progress-{}.log", std::process::id()));
        let step = Step::begin("failing");
        let error =
            run_logged(&step, Command::new("sh").args(["-c", "echo first; echo what went wrong >&2; exit 3"]), &log)
                .unwrap_err();
        std::fs::remove_file(&log).unwrap();
        assert!(error.to_string().contains("what went wrong"), "{error}");
        assert!(error.to_string().contains("exit status: 3"), "{error}");
    }
}
