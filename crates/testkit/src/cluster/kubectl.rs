//! The real kubectl, against the cluster that KUBECONFIG names.

use std::{
    io::Write,
    process::{Command, Stdio},
};

/// Runs kubectl in a namespace, or in none.
#[derive(Debug, Clone, Default)]
pub struct Kubectl {
    namespace: Option<String>,
}

impl Kubectl {
    pub fn new() -> Self {
        assert!(std::env::var_os("KUBECONFIG").is_some(), "KUBECONFIG is not set; run this test with cargo xtask test");
        Self::default()
    }

    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The standard output, or the standard error of a command that failed.
    pub fn try_run(&self, args: &[&str]) -> Result<String, String> {
        self.execute(args, "")
    }

    /// The standard output; panics with the standard error if the command fails.
    pub fn run(&self, args: &[&str]) -> String {
        self.try_run(args).unwrap_or_else(|error| panic!("kubectl {}: {error}", args.join(" ")))
    }

    /// As `try_run`, with a manifest on the standard input (`-f -`).
    pub fn try_send(&self, args: &[&str], manifest: &str) -> Result<String, String> {
        self.execute(args, manifest)
    }

    /// Creates or changes objects by server-side apply; panics if the server refuses.
    pub fn apply(&self, manifest: &str) {
        self.try_send(&["apply", "--server-side", "--force-conflicts", "-f", "-"], manifest)
            .unwrap_or_else(|error| panic!("applying {manifest}: {error}"));
    }

    fn execute(&self, args: &[&str], input: &str) -> Result<String, String> {
        let mut command = Command::new("kubectl");
        if let Some(namespace) = &self.namespace {
            command.args(["--namespace", namespace]);
        }
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("starting kubectl: {error}"))?;
        // A command that reads nothing closes its end; that is no failure of ours.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(|error| format!("waiting for kubectl: {error}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }
}
