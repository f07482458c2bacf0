//! A run's outputs. Plain ones are in the journal's events; secret ones are masked there and asked of the CLI.

use std::{collections::BTreeMap, time::Duration};

use pko_pulumi::{Call, Ended, MASK, Output, Summary, Wiring, compact, describe, is_secret, masked, outputs_of_cli};
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::entry::Entry;
use crate::workspace::Workspace;

/// A status holds no more.
const MOST_SHOWN: usize = 16 * 1024;
/// How long the CLI may take for outputs; it decrypts them, which may take a service's help.
const PATIENCE: Duration = Duration::from_mins(2);

fn count(summary: &Summary) -> i32 {
    summary.outputs().map_or(0, |outputs| i32::try_from(outputs.len()).unwrap_or(i32::MAX))
}

/// The outputs that a preview has found, as JSON text without anything secret; nothing, if that is too long for a status.
pub(crate) fn to_show(summary: &Summary) -> String {
    summary.outputs().and_then(masked).filter(|json| json.len() <= MOST_SHOWN).unwrap_or_default()
}

/// After a successful up: how many outputs there are. Those that only the CLI knows are read now, while the stack is as
/// this run has left it. If that fails the run has succeeded all the same, and whoever wants them has it tried again.
pub(crate) async fn settle(entry: &Entry, workspace: &Workspace, stack: &str, summary: &Summary) -> i32 {
    if needs_cli(summary) {
        match ask(workspace, stack, summary).await {
            Ok(outputs) => {
                let count = i32::try_from(outputs.len()).unwrap_or(i32::MAX);
                entry.reveal(Some(outputs));
                return count;
            }
            Err(error) => tracing::warn!(error, run = entry.start.run_id, "outputs could not be read"),
        }
    }
    count(summary)
}

/// All outputs of a run that has succeeded, or why they cannot be had.
pub(crate) async fn all(entry: &Entry, workspace: &Workspace) -> Result<BTreeMap<String, Output>, String> {
    if let Some(known) = entry.revealed() {
        return Ok(known);
    }
    let summary = Summary::of(&entry.page.events())
        .map_err(|error| format!("reading the run's events for its outputs: {error}"))?;
    if needs_cli(&summary) {
        let stack = entry.start.stack.as_deref().unwrap_or_default();
        workspace.log_in().await.map_err(|error| error.to_string())?;
        return ask(workspace, stack, &summary).await;
    }
    let plain = |value: &RawValue| Output { value: compact(value.get()), secret: false };
    Ok(summary.outputs().into_iter().flatten().map(|(name, value)| (name.clone(), plain(value))).collect())
}

/// Whether events do not tell all: some outputs are secret, or the events are not complete.
fn needs_cli(summary: &Summary) -> bool {
    match summary.outputs() {
        Some(outputs) if summary.complete => outputs.values().any(|value| is_secret(value.get())),
        // A stack without a word about outputs has none.
        None if summary.complete => false,
        _ => true,
    }
}

async fn ask(workspace: &Workspace, stack: &str, summary: &Summary) -> Result<BTreeMap<String, Output>, String> {
    let print = async |show_secrets: bool| {
        let call = Call::Outputs { stack, show_secrets };
        let mut running = workspace.cli.start(&call, None, Wiring::Pipes).map_err(|e| e.to_string())?;
        if timeout(PATIENCE, running.exit()).await.is_err() {
            tracing::warn!("killing the CLI, which does not come to an end with the outputs");
            running.kill();
        }
        let ended = running.wait().await.map_err(|e| e.to_string())?;
        // Of a failed call only the errors are told; what it printed may be secret.
        let told = Ended { stdout: String::new(), ..ended.clone() };
        if ended.succeeded() { Ok(ended.stdout) } else { Err(describe(call.name(), std::iter::empty(), &told)) }
    };
    let unreadable = |error: serde_json::Error| format!("pulumi stack output printed no JSON object: {error}");
    let revealed = print(true).await?;
    if let (true, Some(masked)) = (summary.complete, summary.outputs()) {
        // What is not in the events appeared after this run; it is kept from view like a secret.
        let secret = |name: &str| masked.get(name).is_none_or(|value| is_secret(value.get()));
        return outputs_of_cli(&revealed, secret).map_err(unreadable);
    }
    let masked = outputs_of_cli(&print(false).await?, |_| false).map_err(unreadable)?;
    let secret = |name: &str| masked.get(name).is_none_or(|output| output.value.contains(MASK));
    outputs_of_cli(&revealed, secret).map_err(unreadable)
}
