//! kubectl as the demo uses it: what changes something or answers a question of the user's is shown before it runs.

use std::{
    ffi::OsString,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{cluster::Target, host, paths};

pub(crate) struct Kubectl {
    kubeconfig: PathBuf,
    path: OsString,
}

impl Kubectl {
    pub(crate) fn new(target: &Target) -> Result<Self> {
        Ok(Self { kubeconfig: target.kubeconfig(), path: target.path()? })
    }

    /// What makes the shown commands work in the user's shell.
    pub(crate) fn tell_environment(&self) {
        println!("\nkubectl is used with:\n  export KUBECONFIG={}", self.kubeconfig.display());
        let own = std::env::var_os("PATH").unwrap_or_default();
        if let Some(first) = std::env::split_paths(&self.path).next().filter(|_| self.path != own) {
            println!("  export PATH={}:$PATH", first.display());
        }
    }

    /// Shows a command and runs it; its output is the user's.
    pub(crate) fn run(&self, args: &[&str]) -> Result<()> {
        let shown = shown(args);
        println!("$ {shown}");
        let status = self.command(args).stdin(Stdio::null()).status().context("starting kubectl")?;
        if !status.success() {
            bail!("{shown} ended with {status}");
        }
        Ok(())
    }

    /// As `run`, with a manifest on the standard input.
    pub(crate) fn send(&self, args: &[&str], manifest: &Value, what: &str) -> Result<()> {
        let shown = shown(args);
        println!("$ {shown}   # {what}");
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().context("starting kubectl")?;
        let mut stdin = child.stdin.take().context("the pipe to kubectl")?;
        let written = stdin.write_all(manifest.to_string().as_bytes());
        drop(stdin);
        let status = child.wait().context("waiting for kubectl")?;
        if !status.success() {
            bail!("{shown} ended with {status} ({what})");
        }
        written.with_context(|| format!("giving {shown} {what}"))
    }

    /// Asks without showing the command.
    pub(crate) fn read(&self, args: &[&str]) -> Result<String> {
        host::output(&mut self.command(args))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        // The shown paths are those of the clone.
        command.current_dir(paths::root()).env("KUBECONFIG", &self.kubeconfig).env("PATH", &self.path).args(args);
        command
    }
}

/// A command line as it can be typed.
fn shown(args: &[&str]) -> String {
    let plain = |arg: &str| arg.chars().all(|c| c.is_ascii_alphanumeric() || "-_=./,:@%+".contains(c));
    let quoted = args.iter().map(|arg| {
        if plain(arg) && !arg.is_empty() { (*arg).to_owned() } else { format!("'{}'", arg.replace('\'', r"'\''")) }
    });
    std::iter::once("kubectl".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_command_can_be_typed() {
        assert_eq!(shown(&["get", "stack,update", "-o=name"]), "kubectl get stack,update -o=name");
        assert_eq!(shown(&["-o", "jsonpath={.a}", "it's"]), r"kubectl -o 'jsonpath={.a}' 'it'\''s'");
    }
}
