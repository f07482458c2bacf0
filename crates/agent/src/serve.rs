//! `agent serve`: from flags to a listening server, and from a signal to its end.

use std::{
    fs, io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::builder::FalseyValueParser;
use pko_proto::{
    agent::automation_service_server::AutomationServiceServer, health::health_server::HealthServer,
    runs::runs_server::RunsServer,
};
use pko_pulumi::{Call, Class, classify, describe};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
    task::JoinHandle,
    time::timeout,
};
use tonic::transport::{Server, server::TcpIncoming};

use crate::{
    auth::{self, ApiServer, Authorizer},
    automation::AutomationService,
    door::{Door, Served},
    health::HealthService,
    runs::{Registry, RunsService},
    workspace::Workspace,
};

/// How long clients may take to fetch the end of a run from an agent that is going away.
const FAREWELL: Duration = Duration::from_secs(5);
/// As PKO's agent; requests are small.
const LARGEST_REQUEST: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug, clap::Args)]
// The flags about callers are a group of the same name.
#[group(id = "serve")]
pub struct Args {
    /// The project's directory
    #[arg(short, long, value_name = "DIR")]
    workspace: PathBuf,
    /// Do not install the program's dependencies at start-up
    #[arg(long)]
    skip_install: bool,
    /// Stack to select at start-up, and to create if need be
    #[arg(short, long, default_value = "", hide_default_value = true)]
    stack: String,
    /// Secrets provider of a stack that is created at start-up
    #[arg(long, default_value = "", hide_default_value = true)]
    secrets_provider: String,
    /// File with variables for the CLI; it need not exist
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, default_value = "0.0.0.0")]
    host: IpAddr,
    /// Port to listen on
    #[arg(long, default_value_t = 50051)]
    port: u16,
    /// Beyond zero, the CLI logs its inner workings
    #[arg(long, default_value_t = 0, value_name = "LEVEL")]
    pulumi_log_level: u32,
    /// Where the journal of runs is kept [default: .runs beside the workspace]
    #[arg(long, value_name = "DIR")]
    runs_dir: Option<PathBuf>,
    /// For development: serve only what PKO's agent serves, and not Runs
    #[arg(long, env = "PULUMI_AGENT_NO_RUNS", value_parser = FalseyValueParser::new())]
    no_runs: bool,
    #[command(flatten)]
    auth: auth::Args,
}

pub async fn run(args: Args, api_server: &ApiServer) -> Result<()> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the agent starts");
    let mut signals = Signals::new().context("preparing for signals")?;
    let authorizer = Authorizer::new(&args.auth, api_server)?;
    let directory = args.workspace.canonicalize().context("unable to resolve the workspace directory")?;
    let env = read_env_file(args.env_file.as_deref())?;
    let workspace = Arc::new(Workspace::new(directory, env, args.pulumi_log_level));
    let runs_dir = args.runs_dir.clone().unwrap_or_else(|| journal_beside(&args.workspace));
    let registry = Registry::open(Arc::clone(&workspace), &runs_dir)
        .with_context(|| format!("opening the journal of runs in {}", runs_dir.display()))?;
    tokio::select! {
        prepared = prepare(&args, &workspace) => prepared?,
        () = signals.next() => bail!("stopped by a signal during start-up"),
    }
    // Asking the CLI for its version takes a fifth of a second, in which calls are served already.
    let asked = Arc::clone(&workspace);
    tokio::spawn(async move {
        if let Err(error) = asked.version().await {
            tracing::warn!(%error, "the version of the Pulumi CLI is not known");
        }
    });
    let address = SocketAddr::new(args.host, args.port);
    let incoming = TcpIncoming::bind(address)
        .map_err(anyhow::Error::from)
        .with_context(|| format!("listening on {address}"))?
        .with_nodelay(Some(true));
    let address = incoming.local_addr().context("finding the address that the server listens on")?;
    tracing::info!(%address, "server listening");
    serve(registry, authorizer, incoming, signals, !args.no_runs).await
}

async fn serve(
    registry: Arc<Registry>,
    authorizer: Authorizer,
    incoming: TcpIncoming,
    mut signals: Signals,
    with_runs: bool,
) -> Result<()> {
    let runs = RunsServer::new(RunsService(Arc::clone(&registry))).max_decoding_message_size(LARGEST_REQUEST);
    let automation = AutomationServiceServer::new(AutomationService::new(Arc::clone(&registry)))
        .max_decoding_message_size(LARGEST_REQUEST);
    let (serving, health) = watch::channel(true);
    let health = HealthServer::new(HealthService(health));
    let (stop, stopped) = oneshot::channel::<()>();
    let mut server = if with_runs {
        listen(Door::new(authorizer, (runs, automation), health), incoming, stopped)
    } else {
        // The door has two services; the same one twice is one.
        listen(Door::new(authorizer, (automation.clone(), automation), health), incoming, stopped)
    };
    tokio::select! {
        ended = &mut server => {
            ended.context("the server's task")?.context("serving")?;
            bail!("the server ended by itself");
        }
        () = signals.next() => {}
    }
    tracing::info!("stopping: no new runs; an active one is asked to wind down");
    serving.send_replace(false);
    // Clients are served on, since what became of the run is of interest to them.
    tokio::select! {
        wound_down = registry.shut_down() => if wound_down {
            tokio::select! {
                () = tokio::time::sleep(FAREWELL) => {}
                () = signals.next() => bail!("a second signal: stopping without waiting"),
            }
        },
        () = signals.next() => bail!("a second signal: stopping without waiting"),
    }
    let _ = stop.send(());
    tokio::select! {
        ended = timeout(FAREWELL, &mut server) => if ended.is_err() {
            tracing::warn!("leaving clients that are still attached");
        },
        () = signals.next() => bail!("a second signal: stopping without waiting"),
    }
    tracing::info!("server stopped");
    Ok(())
}

fn listen<A: Served, B: Served, O: Served + Sync>(
    door: Door<A, B, O>,
    incoming: TcpIncoming,
    stopped: oneshot::Receiver<()>,
) -> JoinHandle<Result<(), tonic::transport::Error>> {
    tokio::spawn(
        Server::builder()
            // A client whose node died without a word is noticed, and its streaming call is over.
            .http2_keepalive_interval(Some(Duration::from_mins(1)))
            .http2_keepalive_timeout(Some(Duration::from_secs(20)))
            .serve_with_incoming_shutdown(door, incoming, async {
                let _ = stopped.await;
            }),
    )
}

/// What is to be done before the server listens, for those who run the agent by hand.
async fn prepare(args: &Args, workspace: &Workspace) -> Result<()> {
    let call = async |call: Call<'_>| {
        let ended = workspace.cli.run(&call, None).await?;
        anyhow::Ok((ended.succeeded(), classify(&ended.stderr), describe(call.name(), std::iter::empty(), &ended)))
    };
    if !args.skip_install {
        let (done, _, text) = call(Call::Install).await?;
        anyhow::ensure!(done, "unable to install the program's dependencies: {text}");
    }
    if !args.stack.is_empty() {
        workspace.log_in().await?;
        let (stack, secrets_provider) = (args.stack.as_str(), args.secrets_provider.as_str());
        let (mut done, class, mut text) = call(Call::SelectStack { stack }).await?;
        if !done && class == Class::StackNotFound {
            (done, _, text) = call(Call::CreateStack { stack, secrets_provider }).await?;
        }
        anyhow::ensure!(done, "unable to select the stack {stack}: {text}");
    }
    Ok(())
}

fn read_env_file(file: Option<&Path>) -> Result<Vec<(String, String)>> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let problem = || format!("unable to read the environment file {}", file.display());
    match fs::read_to_string(file) {
        Ok(text) => pko_pulumi::parse_env_file(&text).with_context(problem),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(problem),
    }
}

/// Beside the workspace, on the volume that outlives the container; not in it, where it would be among the sources.
fn journal_beside(workspace: &Path) -> PathBuf {
    let absolute = std::path::absolute(workspace).unwrap_or_else(|_| workspace.to_owned());
    absolute.parent().unwrap_or(Path::new("/")).join(".runs")
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_lies_beside_the_link_to_the_workspace_and_not_beside_its_target() {
        assert_eq!(journal_beside(Path::new("/share/workspace")), Path::new("/share/.runs"));
        assert_eq!(journal_beside(Path::new("/share/workspace/")), Path::new("/share/.runs"));
    }

    #[test]
    fn a_missing_environment_file_is_an_empty_one_and_a_bad_one_is_named() {
        assert!(read_env_file(None).unwrap().is_empty());
        assert!(read_env_file(Some(Path::new("/no/such/file"))).unwrap().is_empty());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "A='x").unwrap();
        let error = format!("{:#}", read_env_file(Some(file.path())).unwrap_err());
        assert!(error.contains("unable to read the environment file") && error.contains("line 1"), "{error}");
    }
}
