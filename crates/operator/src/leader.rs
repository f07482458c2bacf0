//! Holds the lease, or waits for it. What to do about it is decided in the core.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use pko_api::{managers, names};
use pko_core::lease::{LeaseFacts, LeaseSeen, LeaseStep, Timing, decide};
use serde_json::json;
use tracing::{debug, info, warn};

use crate::cluster::{At, Cluster, Failure, resources};

/// Who holds a lease that was given up.
const NOBODY: &str = "";
/// How long a lease that was given up says it is good for.
const GIVEN_UP: i32 = 1;

/// One who would lead.
#[derive(Debug)]
pub struct Candidate {
    cluster: Cluster,
    namespace: String,
    identity: String,
    timing: Timing,
    /// The lease as it was read or written last, and when we saw that version first.
    lease: Option<Lease>,
    since: Instant,
    /// When we wrote ourselves into it last; before the request went out, not after.
    renewed: Option<Instant>,
    /// What we know may be out of date.
    stale: bool,
}

/// Leadership has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl Candidate {
    pub fn new(cluster: Cluster, namespace: String, identity: String, timing: Timing) -> Self {
        Self { cluster, namespace, identity, timing, lease: None, since: Instant::now(), renewed: None, stale: true }
    }

    /// Waits until we lead.
    pub async fn lead(&mut self) {
        info!(identity = self.identity, "waiting for the lease");
        while self.renewed.is_none() {
            let wait = self.step().await.unwrap_or(self.timing.retry);
            if self.renewed.is_none() {
                tokio::time::sleep(wait).await;
            }
        }
        info!(identity = self.identity, "leading");
    }

    /// Renews for as long as we lead.
    pub async fn keep(&mut self) -> Lost {
        loop {
            tokio::time::sleep(self.timing.retry).await;
            if let Err(lost) = self.step().await {
                return lost;
            }
        }
    }

    /// Gives the lease up if it is ours, so that another need not wait.
    pub async fn release(&mut self) -> Result<(), Failure> {
        // A renewal may have been under way when we were told to end.
        self.renewed = None;
        self.read().await?;
        let Some(lease) = self.lease.clone() else { return Ok(()) };
        let spec = lease.spec.unwrap_or_default();
        if spec.holder_identity.as_ref() != Some(&self.identity) {
            return Ok(());
        }
        let spec = LeaseSpec {
            holder_identity: Some(NOBODY.to_owned()),
            lease_duration_seconds: Some(GIVEN_UP),
            renew_time: Some(now()),
            ..spec
        };
        self.replace(lease.metadata, spec).await
    }

    /// Reads if need be, decides, writes. Yields how long to wait before the next step.
    async fn step(&mut self) -> Result<Duration, Lost> {
        if self.stale
            && let Err(failure) = self.read().await
        {
            warn!("the lease: {failure}");
            // Without a fresh look, all that can be known is that our time is over.
            return match decide(&self.facts(), &self.timing) {
                LeaseStep::Lost => Err(Lost),
                _ => Ok(self.timing.retry),
            };
        }
        let begun = Instant::now();
        let written = match decide(&self.facts(), &self.timing) {
            LeaseStep::Lost => return Err(Lost),
            LeaseStep::Wait(wait) => {
                self.stale = true;
                return Ok(wait);
            }
            LeaseStep::Create => self.create().await,
            LeaseStep::Hold { transition } => self.hold(transition).await,
        };
        match written {
            Ok(()) => self.renewed = Some(begun),
            Err(failure) => {
                debug!("the lease: {failure}");
                self.stale = true;
                if decide(&self.facts(), &self.timing) == LeaseStep::Lost {
                    return Err(Lost);
                }
            }
        }
        Ok(self.timing.retry)
    }

    fn facts(&self) -> LeaseFacts {
        let seen = |lease: &Lease| {
            let spec = lease.spec.clone().unwrap_or_default();
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            LeaseSeen {
                holder: spec.holder_identity.unwrap_or_default(),
                duration: Duration::from_secs(seconds.unwrap_or_default()),
            }
        };
        LeaseFacts {
            identity: self.identity.clone(),
            lease: self.lease.as_ref().map(seen),
            unchanged_for: self.since.elapsed(),
            renewed_ago: self.renewed.map(|renewed| renewed.elapsed()),
        }
    }

    /// A request that outlasts our time as the leader is of no use, and one that hangs leaves time for another.
    fn in_time(&self) -> Cluster {
        let deadline = self.timing.renew_deadline;
        let left = self.renewed.map_or(deadline, |renewed| deadline.saturating_sub(renewed.elapsed()));
        self.cluster.within(left.min(deadline / 2).max(Duration::from_millis(100)))
    }

    async fn read(&mut self) -> Result<(), Failure> {
        let found = self.in_time().get::<Lease>(&self.at()).await?;
        self.saw(found);
        Ok(())
    }

    async fn create(&mut self) -> Result<(), Failure> {
        let metadata = ObjectMeta {
            name: Some(names::LEASE.to_owned()),
            namespace: Some(self.namespace.clone()),
            ..ObjectMeta::default()
        };
        let lease = Lease { metadata, spec: Some(self.ours(LeaseSpec::default(), true)) };
        let path = format!("{}?fieldManager={}", self.at().collection(), managers::OPERATOR);
        let created = self.in_time().post::<Lease>(&self.at(), &path, &json!(lease)).await?;
        self.saw(Some(created));
        Ok(())
    }

    async fn hold(&mut self, transition: bool) -> Result<(), Failure> {
        let lease = self.lease.clone().unwrap_or_default();
        let spec = self.ours(lease.spec.unwrap_or_default(), transition);
        self.replace(lease.metadata, spec).await
    }

    /// The version in the metadata guards the write.
    async fn replace(&mut self, metadata: ObjectMeta, spec: LeaseSpec) -> Result<(), Failure> {
        let body = json!(Lease { metadata, spec: Some(spec) });
        let written = self.in_time().replace::<Lease>(&self.at(), managers::OPERATOR, &body).await?;
        self.saw(Some(written));
        Ok(())
    }

    fn ours(&self, before: LeaseSpec, transition: bool) -> LeaseSpec {
        let seconds = i32::try_from(self.timing.lease.as_secs()).unwrap_or(i32::MAX);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(seconds.max(1)),
            acquire_time: before.acquire_time.filter(|_| !transition).or_else(|| Some(now())),
            renew_time: Some(now()),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(transition)),
            ..before
        }
    }

    fn saw(&mut self, lease: Option<Lease>) {
        let version = |lease: &Option<Lease>| lease.as_ref().and_then(|l| l.metadata.resource_version.clone());
        if version(&self.lease) != version(&lease) {
            self.since = Instant::now();
        }
        self.lease = lease;
        self.stale = false;
    }

    fn at(&self) -> At<'_> {
        At::new(&resources::LEASES, &self.namespace, names::LEASE)
    }
}

fn now() -> MicroTime {
    MicroTime(Timestamp::now())
}
