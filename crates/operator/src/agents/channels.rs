//! Connections to agents, by the UID of the pod: an address that another pod has taken over is not reused.

use std::{
    collections::HashMap,
    fmt,
    net::Ipv6Addr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use pko_api::names;
use pko_core::seen::PodRef;
use tonic::transport::{Channel, Endpoint};

const CONNECT: Duration = Duration::from_secs(2);
/// How long a connection is kept that nobody uses. A stream holds its own.
const IDLE: Duration = Duration::from_mins(3);
/// PKO's agent ends a connection that is pinged more often than every five minutes.
const PING: Duration = Duration::from_mins(5);
const PONG: Duration = Duration::from_secs(20);
/// Below that, so that a pod whose node has died is noticed.
const TCP_KEEPALIVE: Duration = Duration::from_mins(1);
/// Errors of the CLI may come in a header.
const LARGEST_HEADERS: u32 = 16 << 20;

/// The connections.
pub(super) struct Channels {
    everywhere_at: Option<String>,
    /// By pod and address: a pod whose sandbox is made anew keeps its UID and gets another address.
    open: Mutex<HashMap<(String, String), Open>>,
}

struct Open {
    channel: Channel,
    used: Instant,
}

impl fmt::Debug for Channels {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Channels").field("everywhere_at", &self.everywhere_at).finish_non_exhaustive()
    }
}

impl Channels {
    pub(super) fn new(everywhere_at: Option<String>) -> Self {
        Self { everywhere_at, open: Mutex::default() }
    }

    /// Connects when it is used.
    pub(super) fn to(&self, pod: &PodRef) -> Channel {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let found = open.entry(place(pod)).or_insert_with(|| {
            let address = self.everywhere_at.clone().unwrap_or_else(|| address(&pod.ip));
            Open { channel: endpoint(&address).connect_lazy(), used: Instant::now() }
        });
        found.used = Instant::now();
        found.channel.clone()
    }

    /// A stream to a pod is alive.
    pub(super) fn touch(&self, pod: &PodRef) {
        if let Some(open) = self.open.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&place(pod)) {
            open.used = Instant::now();
        }
    }

    pub(super) fn tidy(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, open| open.used.elapsed() < IDLE);
        open.shrink_to_fit();
    }
}

fn place(pod: &PodRef) -> (String, String) {
    (pod.uid.clone(), pod.ip.clone())
}

fn endpoint(address: &str) -> Endpoint {
    // An address that is none leads nowhere, which is said when it is used.
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .unwrap_or_else(|_| Endpoint::from_static("http://0.0.0.0:1"));
    endpoint
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .keep_alive_while_idle(false)
        .http2_max_header_list_size(LARGEST_HEADERS)
        .buffer_size(16)
}

fn address(ip: &str) -> String {
    let port = names::AGENT_PORT;
    if ip.parse::<Ipv6Addr>().is_ok() { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_addresses_of_either_kind() {
        assert_eq!(address("10.244.0.7"), "10.244.0.7:50051");
        assert_eq!(address("fd00::7"), "[fd00::7]:50051");
    }
}
