//! The whole of a running operator: what is started in which order, and how it ends.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use pko_api::names;
use pko_core::{lease::Timing, settings::Settings};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::{
    agents::{Account, Agents, Followers},
    artifacts,
    cluster::Cluster,
    flags::{Flags, hostname, variable},
    health, http,
    leader::{Candidate, Lost},
    queue::Queue,
    reconcile::{Places, Reconciles},
    shell::Live,
    sources::Sources,
    store::Store,
    watch,
};

/// Reconciles at a time, unless told otherwise.
const MOST_RECONCILES: u32 = 25;
/// How often what is unused is dropped.
const TIDY: Duration = Duration::from_mins(1);
/// How often it is looked whether everything was listed.
const LOOK: Duration = Duration::from_millis(50);

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Told,
    /// It may no longer lead; nothing more may be written.
    Lost,
}

/// Runs until told to end, or until leadership is lost.
pub async fn run(flags: Flags) -> Result<End> {
    info!(version = env!("CARGO_PKG_VERSION"), "Pulumi Kubernetes Operator Manager");
    if flags.metrics_bind_address != "0" {
        info!("metrics are not served yet; --metrics-bind-address has no effect");
    }
    let mut told = Told::new()?;
    let cluster = connect(&flags).await?;
    let (store, queue) = (Arc::<Store>::default(), Arc::<Queue>::default());
    let mut services = watch::start(&cluster, &store, &queue);
    if flags.health_probe_bind_address != "0" {
        let listener = http::listen(&flags.health_probe_bind_address).await?;
        services.spawn(health::serve(listener, Arc::clone(&store)));
    }
    let listener = http::listen(flags.artifact_bind_address()).await?;
    services.spawn(artifacts::serve(listener, Arc::clone(&store)));
    let agents = Arc::new(agents(&cluster));
    let sources = Arc::new(Sources::new(&cluster, &store, &queue, variable));
    services.spawn(tidy(Arc::clone(&agents), Arc::clone(&sources)));

    let followers = Arc::new(Followers::new(Arc::clone(&agents), Arc::clone(&queue)));
    let places = Places::new(most_reconciles(variable("MAX_CONCURRENT_RECONCILES").as_deref()));
    let settings = settings(&flags);
    let shell = Live::new(&cluster, Arc::clone(&store), agents, followers, settings, places.clone(), sources);
    let shell = Arc::new(shell);
    let reconciles = Reconciles::new(places);
    let work = async {
        while !store.complete() {
            tokio::time::sleep(LOOK).await;
        }
        info!("everything was listed; reconciling");
        reconciles.run(shell, queue).await;
    };
    let mut candidate = flags.leader_elect.then(|| candidate(&cluster, &flags));
    tokio::select! {
        () = told.wait() => {}
        Lost = lead(candidate.as_mut(), work) => {
            error!("leadership is lost; ending at once");
            return Ok(End::Lost);
        }
    }
    info!("told to end");
    reconciles.finish().await;
    if let Some(candidate) = &mut candidate
        && let Err(failure) = candidate.release().await
    {
        warn!("the lease was not given up: {failure}");
    }
    Ok(End::Told)
}

/// Works for as long as the lease is ours; without a lease, for ever.
async fn lead(candidate: Option<&mut Candidate>, work: impl Future<Output = ()>) -> Lost {
    let Some(candidate) = candidate else {
        work.await;
        return Lost;
    };
    candidate.lead().await;
    tokio::select! {
        lost = candidate.keep() => lost,
        () = work => Lost,
    }
}

/// The cluster of the flags.
pub async fn connect(flags: &Flags) -> Result<Cluster> {
    let config = match &flags.kubeconfig {
        Some(file) => {
            let read = Kubeconfig::read_from(file).with_context(|| format!("reading {}", file.display()))?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await.context("finding out how the cluster is reached; try --kubeconfig")?,
    };
    let url = config.cluster_url.clone();
    let client = Client::try_from(config).with_context(|| format!("preparing connections to {url}"))?;
    Ok(Cluster::new(client, flags.kube_api_timeout))
}

/// Agents that are spoken to as the operator of the environment.
pub(crate) fn agents(cluster: &Cluster) -> Agents {
    let account = Account {
        namespace: own_namespace(),
        name: variable("POD_SA_NAME").unwrap_or_else(|| names::OPERATOR_SERVICE_ACCOUNT.to_owned()),
    };
    Agents::new(cluster.clone(), account, variable("WORKSPACE_LOCALHOST"))
}

/// What decisions depend on.
pub(crate) fn settings(flags: &Flags) -> Settings {
    let default_image = || format!("pulumi/pulumi-kubernetes-operator:{}", env!("CARGO_PKG_VERSION"));
    Settings {
        agent_image: variable("AGENT_IMAGE").unwrap_or_else(default_image),
        agent_image_pull_policy: pull_policy(variable("AGENT_IMAGE_PULL_POLICY").as_deref()).to_owned(),
        flux_max_untar_size_bytes: variable("FLUX_MAX_UNTAR_SIZE_BYTES"),
        artifact_address: flags.artifact_address(hostname),
        // Of the moment, and therefore not known here.
        known_hosts: None,
    }
}

fn candidate(cluster: &Cluster, flags: &Flags) -> Candidate {
    let timing = Timing {
        lease: flags.leader_election_lease_duration,
        renew_deadline: flags.leader_election_renew_deadline,
        retry: flags.leader_election_retry_period,
    };
    let identity = variable("POD_UID").unwrap_or_else(|| format!("{}_{}", hostname(), std::process::id()));
    Candidate::new(cluster.clone(), own_namespace(), identity, timing)
}

fn own_namespace() -> String {
    variable("POD_NAMESPACE").unwrap_or_else(|| names::OPERATOR_NAMESPACE.to_owned())
}

fn pull_policy(given: Option<&str>) -> &'static str {
    const DEFAULT: &str = "IfNotPresent";
    let known = ["Always", "Never", DEFAULT];
    let given = given.unwrap_or_default();
    known.into_iter().find(|policy| policy.eq_ignore_ascii_case(given)).unwrap_or(DEFAULT)
}

fn most_reconciles(given: Option<&str>) -> u32 {
    given.and_then(|text| text.parse().ok()).filter(|most| *most > 0).unwrap_or(MOST_RECONCILES)
}

async fn tidy(agents: Arc<Agents>, sources: Arc<Sources>) {
    loop {
        tokio::time::sleep(TIDY).await;
        agents.tidy();
        sources.tidy();
    }
}

/// The signals that tell the operator to end.
struct Told {
    terminate: Signal,
    interrupt: Signal,
}

impl Told {
    fn new() -> Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Some("always"), "Always")]
    #[case(Some("NEVER"), "Never")]
    #[case(Some("sometimes"), "IfNotPresent")]
    #[case(None, "IfNotPresent")]
    fn pull_policies_are_lenient(#[case] given: Option<&str>, #[case] expected: &str) {
        assert_eq!(pull_policy(given), expected);
    }

    #[rstest]
    #[case(Some("7"), 7)]
    #[case(Some("0"), 25)]
    #[case(Some("many"), 25)]
    #[case(None, 25)]
    fn a_number_of_reconciles_that_makes_no_sense_is_none(#[case] given: Option<&str>, #[case] expected: u32) {
        assert_eq!(most_reconciles(given), expected);
    }
}
