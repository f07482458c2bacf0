//! Runs belong to the agent: they are started by whoever asks, journalled, and go on without anyone listening.

pub(crate) mod config_values;
pub(crate) mod entry;
mod journal;
pub(crate) mod known_secrets;
mod locks;
mod operate;
pub(crate) mod outputs;
pub(crate) mod prepare;
pub(crate) mod record;
mod service;
mod settings;
mod supervise;
pub(crate) mod work;

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use entry::{Entry, Wish};
use jiff::Timestamp;
use journal::{Journal, is_usable};
use pko_pulumi::Call;
use record::{End, Reason};
pub(crate) use service::RunsService;
use settings::SourceSettings;
use work::Work;

use crate::workspace::Workspace;

/// How many runs are remembered.
const KEEP: usize = 20;

/// All runs that the agent knows of.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(crate) workspace: Arc<Workspace>,
    journal: Journal,
    settings: SourceSettings,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// Oldest first; at most one is active.
    runs: Vec<Arc<Entry>>,
    closed: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("a run identifier must have between 1 and 200 characters")]
    Identifier,
    /// Without a name the CLI would take whichever stack is selected.
    #[error("invalid stack name")]
    Stack,
    #[error("run {active} is active; only one run is active at a time")]
    Busy { active: String },
    #[error("the agent is shutting down")]
    Closed,
    #[error("the start of the run could not be written to its journal: {0}; is the shared volume full?")]
    Journal(#[from] io::Error),
}

impl Registry {
    /// Finds the runs of agents before this one. Those that are over get their end; one whose CLI is still alive goes on.
    pub(crate) fn open(workspace: Arc<Workspace>, directory: &Path) -> io::Result<Arc<Self>> {
        let journal = Journal::open(directory)?;
        let mut book = Book::default();
        let mut alive = Vec::new();
        for known in journal.load()? {
            let over = known.end.is_some();
            let entry = Arc::new(Entry::new(known.start, known.page, known.end));
            match known.process.filter(|process| !over && process.is_alive()) {
                Some(process) => alive.push((Arc::clone(&entry), process)),
                None if !over => entry.finish(operate::conclude(&entry, &workspace)),
                None => {}
            }
            book.runs.push(entry);
        }
        book.forget_old();
        for (entry, process) in alive {
            tracing::info!(run = entry.start.run_id, pid = process.pid, "the CLI of this run is still alive");
            let workspace = Arc::clone(&workspace);
            tokio::spawn(async move { entry.finish(operate::adopt(&entry, &workspace, process).await) });
        }
        if let Some(stack) = book.selected() {
            tokio::spawn(select_again(Arc::clone(&workspace), stack));
        }
        let settings = SourceSettings::beside(directory);
        Ok(Arc::new(Self { workspace, journal, settings, book: Mutex::new(book) }))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, run_id: &str) -> Option<Arc<Entry>> {
        self.book().runs.iter().find(|run| run.start.run_id == run_id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Entry>> {
        self.book().runs.clone()
    }

    /// Starts a run, unless one of that identifier was started before.
    pub(crate) fn start(self: &Arc<Self>, run_id: &str, work: Work) -> Result<Arc<Entry>, Refused> {
        if !is_usable(run_id) {
            return Err(Refused::Identifier);
        }
        if work.stack() == Some("") {
            return Err(Refused::Stack);
        }
        let mut book = self.book();
        if let Some(known) = book.runs.iter().find(|run| run.start.run_id == run_id) {
            return Ok(Arc::clone(known));
        }
        if book.closed {
            return Err(Refused::Closed);
        }
        if let Some(active) = book.active() {
            return Err(Refused::Busy { active: active.start.run_id.clone() });
        }
        let start = record::Start {
            run_id: run_id.to_owned(),
            operation: work.name().to_owned(),
            stack: work.stack().or(work.selects()).map(str::to_owned),
            remove: matches!(work, Work::Operate { remove: true, .. }),
            message: work.message().to_owned(),
            time: Timestamp::now(),
        };
        tracing::info!(run = run_id, operation = start.operation, stack = start.stack, "starting a run");
        let page = self.journal.begin(&start)?;
        let entry = Arc::new(Entry::new(start, page, None));
        // What earlier runs hold in memory only can be asked of the CLI again.
        for earlier in &book.runs {
            earlier.reveal(None);
            earlier.keep_last_words(None);
        }
        book.runs.push(Arc::clone(&entry));
        book.forget_old();
        drop(book);
        let (run, registry) = (Arc::clone(&entry), Arc::clone(self));
        tokio::spawn(async move {
            run.finish(carry_out(&run, &registry, work).await);
        });
        Ok(entry)
    }

    /// Takes no more runs, asks the active one to wind down, and waits for its end. Says whether there was one.
    pub(crate) async fn shut_down(&self) -> bool {
        let active = {
            let mut book = self.book();
            book.closed = true;
            book.active().cloned()
        };
        if let Some(active) = &active {
            active.ask(Wish::Shutdown);
            active.ended().await;
        }
        active.is_some()
    }
}

/// Which stack is selected is kept in the container, and a container that was started again does not know. Runs name their
/// stack; this is for people who look around in the pod.
async fn select_again(workspace: Arc<Workspace>, stack: String) {
    if let Err(error) = workspace.log_in().await {
        tracing::warn!(stack, %error, "the stack could not be selected again");
        return;
    }
    match workspace.cli.run(&Call::SelectStack { stack: &stack }, None).await {
        Ok(ended) if ended.succeeded() => tracing::info!(stack, "selected the stack again"),
        Ok(ended) => tracing::warn!(stack, "the stack could not be selected again: {}", ended.stderr.trim()),
        Err(error) => tracing::warn!(stack, %error, "the stack could not be selected again"),
    }
}

async fn carry_out(run: &Entry, registry: &Registry, work: Work) -> End {
    let workspace = &registry.workspace;
    let usual = if matches!(work, Work::Init(_)) { Reason::InitializationFailed } else { Reason::UpdateFailed };
    if let Err(no_token) = workspace.log_in().await {
        return operate::end_of_init(workspace, Err(no_token.failure(usual)));
    }
    let end = match work {
        Work::Init(init) => {
            let outcome = prepare::prepare(run, workspace, &registry.settings, &init).await;
            operate::end_of_init(workspace, outcome)
        }
        Work::Operate { kind, stack, options, remove } => {
            let operation = workspace.operation(kind, stack, options, run.page.events());
            operate::operate(run, workspace, &registry.all(), &operation, remove).await
        }
    };
    if end.failure.as_ref().is_some_and(|failure| failure.reason == Reason::InvalidAccessToken) {
        workspace.log_out().await;
    }
    end
}

impl Book {
    /// The stack that the latest init has selected.
    fn selected(&self) -> Option<String> {
        let init = self
            .runs
            .iter()
            .rev()
            .find(|run| run.start.operation == Work::INIT && run.end().is_some_and(|end| end.failure.is_none()))?;
        init.start.stack.clone()
    }

    fn active(&self) -> Option<&Arc<Entry>> {
        self.runs.iter().find(|run| run.is_active())
    }

    fn forget_old(&mut self) {
        while self.runs.len() > KEEP {
            let Some(oldest) = self.runs.iter().position(|run| !run.is_active()) else { return };
            self.runs.remove(oldest).page.remove();
        }
    }
}
