//! Preview, up, refresh and destroy: one process of the CLI, then what is left to do when it has ended.

use std::sync::Arc;

use pko_proto::runs::Phase;
use pko_pulumi::{Call, Cannot, Ended, Identity, Kind, Operation, Running, Summary, Wiring, explain, own_words};

use super::{
    entry::{Entry, Wish},
    locks, outputs,
    record::{End, Failure, ProjectInfo, Reason},
    supervise::{Following, supervise},
};
use crate::workspace::Workspace;

/// What the service says to the CLI of an update that is no longer its own.
const ENDED_ELSEWHERE: &str = "Conflict: The Update has already completed";

/// What is known of an operation besides how it went.
#[derive(Default)]
struct Findings {
    summary: Summary,
    permalink: Option<String>,
    output_count: i32,
    standard_output: String,
    outputs_json: String,
}

/// `earlier` runs may have left the stack locked.
pub(crate) async fn operate(
    entry: &Entry,
    workspace: &Workspace,
    earlier: &[Arc<Entry>],
    operation: &Operation,
    remove: bool,
) -> End {
    entry.set_phase(Phase::Operating);
    let mut findings = Findings::default();
    let mut outcome = attempt(entry, workspace, operation, remove, &mut findings).await;
    let refused = outcome.as_ref().is_err_and(|failure| failure.reason == Reason::UpdateConflict);
    let ended = entry.last_words().filter(|_| refused && findings.summary.seen == 0);
    if let Some(ended) = ended.filter(|ended| locks::are_our_own(ended, earlier)) {
        outcome = match locks::clear(entry, workspace, &operation.stack).await {
            Ok(true) => attempt(entry, workspace, operation, remove, &mut findings).await,
            // Someone may have asked for the end of the run in the meantime.
            _ => Err(failure(entry, Call::Operate(operation).name(), &findings.summary, &ended)),
        };
    }
    end(workspace, outcome, findings)
}

/// One process of the CLI, from its start.
async fn attempt(
    entry: &Entry,
    workspace: &Workspace,
    operation: &Operation,
    remove: bool,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let call = Call::Operate(operation);
    let named = workspace.cli.start(&call, None, Wiring::Named(entry.page.directory()));
    let running = named.or_else(|cannot| match cannot {
        Cannot::Pipes { .. } => {
            tracing::warn!(%cannot, run = entry.start.run_id, "the CLI will not outlive this agent");
            workspace.cli.start(&call, None, Wiring::Pipes)
        }
        other => Err(other),
    });
    let running = running.map_err(|cannot| Failure::new(Reason::Unknown, cannot.to_string()))?;
    if let Err(error) = entry.page.note_process(running.identity()) {
        tracing::warn!(%error, run = entry.start.run_id, "the CLI's process could not be noted in the journal");
    }
    finish(entry, workspace, call.name(), running, (operation.kind, &operation.stack, remove), findings).await
}

/// Takes up a run whose CLI an agent before this one has started and which is still alive.
pub(crate) async fn adopt(entry: &Entry, workspace: &Workspace, process: Identity) -> End {
    let mut findings = Findings::default();
    let running = Running::adopt(process, entry.page.directory());
    let operation = kind(&entry.start.operation).zip(entry.start.stack.as_deref());
    let outcome = if let Some((kind, stack)) = operation {
        entry.set_phase(Phase::Operating);
        let what = format!("pulumi {}", kind.name());
        finish(entry, workspace, &what, running, (kind, stack, entry.start.remove), &mut findings).await
    } else {
        // The steps after this one were in the memory of the agent that is gone.
        let _ = supervise(entry, running, None).await;
        Err(interrupted("the agent was restarted while it made the workspace ready"))
    };
    end(workspace, outcome, findings)
}

/// The end of a run whose agent and CLI are both gone, from what the CLI has written.
pub(crate) fn conclude(entry: &Entry, workspace: &Workspace) -> End {
    let mut findings = Findings::default();
    let Some(kind) = kind(&entry.start.operation) else {
        return end(workspace, Err(interrupted("the agent was restarted while it made the workspace ready")), findings);
    };
    let summary = Summary::of(&entry.page.events()).unwrap_or_default();
    let outcome = match summary.succeeded() {
        // Behind the last event the CLI still saves the state, writes the history and gives the lock back.
        Some(true) => Err(interrupted(
            "the agent's container was restarted when the run had done its work; whether all of it was saved is not known",
        )),
        Some(false) => Err(failure(entry, &format!("pulumi {}", kind.name()), &summary, &Ended::default())),
        None => Err(interrupted(
            "the agent's container was restarted during the run, which ended the CLI; resources may have been left as \
             they were at that moment, and the stack may be locked",
        )),
    };
    findings.summary = summary;
    findings.permalink = entry.page.permalink();
    end(workspace, outcome, findings)
}

fn kind(operation: &str) -> Option<Kind> {
    [Kind::Preview, Kind::Up, Kind::Refresh, Kind::Destroy].into_iter().find(|kind| kind.name() == operation)
}

pub(crate) fn interrupted(message: &str) -> Failure {
    Failure::new(Reason::Interrupted, message)
}

/// From the running CLI to the end of the run.
async fn finish(
    entry: &Entry,
    workspace: &Workspace,
    what: &str,
    running: Running,
    (kind, stack, remove): (Kind, &str, bool),
    findings: &mut Findings,
) -> Result<(), Failure> {
    let adopted = running.is_adopted();
    let mut following = Following::of(entry);
    let ended = supervise(entry, running, Some(&mut following)).await;
    findings.summary = following.summary;
    let summary = &findings.summary;
    let ended = ended.map_err(|cannot| Failure::new(Reason::Unknown, cannot.to_string()))?;
    findings.permalink = ended.permalink.clone().or_else(|| entry.page.permalink());
    if kind == Kind::Preview {
        findings.standard_output = ended.excerpt();
    }
    entry.keep_last_words(Some(ended.clone()));
    // Nobody learns the exit status of a process that is not a child; its events tell, and of what went wrong after them
    // only its last words.
    let succeeded = if adopted {
        summary.succeeded().map(|succeeded| succeeded && own_words(&ended.stderr, summary).is_empty())
    } else {
        Some(ended.succeeded())
    };
    match succeeded {
        Some(true) => {}
        Some(false) => return Err(failure(entry, what, summary, &ended)),
        None => return Err(interrupted("the agent was restarted during the run, and the CLI did not end it properly")),
    }
    entry.set_phase(Phase::Finishing);
    if let Err(error) = workspace.log_in().await {
        // The one that the run began with may still do.
        tracing::warn!(%error, run = entry.start.run_id, "going on without a new access token");
    }
    match kind {
        Kind::Preview => findings.outputs_json = outputs::to_show(summary),
        Kind::Up => findings.output_count = outputs::settle(entry, workspace, stack, summary).await,
        Kind::Destroy if remove => {
            let call = Call::RemoveStack { stack };
            let running = workspace.cli.start(&call, None, Wiring::Pipes);
            let removed = match running {
                Ok(running) => supervise(entry, running, None).await,
                Err(cannot) => Err(cannot),
            };
            let lost = |failure: Failure| Failure {
                message: format!("everything was destroyed, but the stack stays: {}", failure.message),
                ..failure
            };
            let ended = removed.map_err(|cannot| lost(Failure::new(Reason::UpdateFailed, cannot.to_string())))?;
            if !ended.succeeded() {
                return Err(lost(failure(entry, call.name(), &Summary::default(), &ended)));
            }
        }
        _ => {}
    }
    Ok(())
}

fn failure(entry: &Entry, what: &str, summary: &Summary, ended: &Ended) -> Failure {
    let failed = explain(what, ended, summary, jiff::Timestamp::now());
    let text = &failed.message;
    match entry.wish() {
        Wish::Shutdown => Failure::new(
            Reason::Interrupted,
            format!("the workspace pod was shut down during the run, and the CLI wound down\n{text}"),
        ),
        Wish::Graceful | Wish::Forced => Failure::new(Reason::Canceled, format!("the run was canceled\n{text}")),
        Wish::None if ended.stderr.contains(ENDED_ELSEWHERE) => Failure::new(
            Reason::UpdateFailed,
            format!(
                "someone ended this update on the service, perhaps with `pulumi cancel`; what was changed since then is \
                 not in the stack's state\n{text}"
            ),
        ),
        Wish::None => failed.into(),
    }
}

fn end(workspace: &Workspace, outcome: Result<(), Failure>, findings: Findings) -> End {
    let project = workspace.project().ok().map(|p| ProjectInfo {
        name: p.name,
        runtime: p.runtime,
        backend: p.backend,
        stack_config_dir: p.stack_config_dir,
    });
    End {
        time: jiff::Timestamp::now(),
        failure: outcome.err(),
        permalink: findings.permalink,
        project,
        pulumi_version: workspace.version_if_known(),
        progress: (&findings.summary).into(),
        resource_changes: findings.summary.resource_changes,
        output_count: findings.output_count,
        standard_output: findings.standard_output,
        outputs_json: findings.outputs_json,
    }
}

/// The end of a run in which there was no operation.
pub(crate) fn end_of_init(workspace: &Workspace, outcome: Result<(), Failure>) -> End {
    end(workspace, outcome, Findings::default())
}
