//! Where Stacks' programs come from, as far as the operator looks at it: which commit a branch is at, and which artifact
//! a Flux source has. The files themselves are fetched by the workspace pods.

mod credentials;
mod flux;
mod follow;
mod git;
mod known_hosts;
mod listings;
mod served;
mod slot;
mod tokens;

use std::sync::Arc;

use pko_core::{
    ask::{GitTrouble, Listing, SourceRef, SourceSeen},
    seen::Key,
};

pub use credentials::{Secrets, Values};
pub use flux::Flux;
pub use git::Git;
pub use known_hosts::KnownHosts;

use crate::{
    cluster::{Cluster, Failure},
    queue::Queue,
    store::Store,
};

/// Everything that is known about sources.
#[derive(Debug)]
pub struct Sources {
    cluster: Cluster,
    git: Git,
    flux: Flux,
    known_hosts: Arc<KnownHosts>,
}

impl Sources {
    /// Wakes Stacks of the store when something about their sources changes.
    pub fn new(
        cluster: &Cluster,
        store: &Arc<Store>,
        queue: &Arc<Queue>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let flux = Flux::watching(cluster.clone(), Arc::clone(store), Arc::clone(queue));
        Self::with(cluster, flux, Arc::clone(queue), variable)
    }

    /// Looks, and wakes nobody.
    pub(crate) fn read_only(cluster: &Cluster, variable: impl Fn(&str) -> Option<String>) -> Self {
        Self::with(cluster, Flux::new(cluster.clone()), Arc::default(), variable)
    }

    fn with(cluster: &Cluster, flux: Flux, queue: Arc<Queue>, variable: impl Fn(&str) -> Option<String>) -> Self {
        let known_hosts = Arc::new(KnownHosts::from_variables(&variable));
        let git = Git::new(queue, Arc::clone(&known_hosts), variable("GITHUB_API_URL"));
        Self { cluster: cluster.clone(), git, flux, known_hosts }
    }

    /// The commit that a ref is at, for a Stack.
    pub(crate) async fn revision(&self, asker: &Key, listing: &Listing) -> Result<Result<String, GitTrouble>, Failure> {
        self.git.revision(&self.cluster, asker, listing).await
    }

    /// What a source of a namespace has to offer.
    pub(crate) async fn artifact(&self, namespace: &str, source: &SourceRef) -> Result<SourceSeen, Failure> {
        self.flux.read(namespace, source).await
    }

    /// Lines about hosts that all of the cluster knows.
    pub(crate) fn known_hosts(&self) -> Option<String> {
        self.known_hosts.lines()
    }

    /// Drops what nobody has asked for in a while.
    pub fn tidy(&self) {
        self.git.tidy();
        self.flux.tidy();
    }
}
