//! Asking things of this machine: who we are, which programs it has, running one and reading its answer.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs a command and returns its standard output; on failure the error carries the standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("starting {shown}"))?;
    if !out.status.success() {
        bail!("{shown} ended with {}: {}", out.status, String::from_utf8_lossy(&out.stderr).trim());
    }
    String::from_utf8(out.stdout).with_context(|| format!("{shown} printed something other than text"))
}

/// Whether a command succeeds; what it prints is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().display().to_string()];
    words.extend(command.get_args().map(|a| a.display().to_string()));
    words.join(" ")
}
