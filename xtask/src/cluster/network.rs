//! Addresses of a cluster, and the one cable between it and this machine.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result};

use crate::host;

/// Each cluster number has networks of its own, so that several can run side by side.
#[derive(Clone)]
pub(crate) struct Network {
    number: u8,
}

impl Network {
    pub(crate) fn new(number: u8) -> Self {
        Self { number }
    }

    /// The interface on this machine.
    fn link(&self) -> String {
        format!("pko{}", self.number)
    }

    /// This machine's address on the cable.
    pub(crate) fn host(&self) -> String {
        format!("10.243.{}.1", self.number)
    }

    /// The node's address: API server, kubelet and DNS.
    pub(crate) fn node(&self) -> String {
        format!("10.243.{}.2", self.number)
    }

    pub(crate) fn pods(&self) -> String {
        format!("10.244.{}.0/20", u16::from(self.number) * 16)
    }

    pub(crate) fn services(&self) -> String {
        format!("10.96.{}.0/20", u16::from(self.number) * 16)
    }

    /// The address of the `kubernetes` Service: the first of the range.
    pub(crate) fn first_service(&self) -> String {
        format!("10.96.{}.1", u16::from(self.number) * 16)
    }

    /// Lays the cable into the namespace of a process. It vanishes with that namespace, routes included.
    pub(crate) fn connect(&self, pid: u32) -> Result<()> {
        let (pid, link, host, node) = (pid.to_string(), self.link(), self.host(), self.node());
        ip(&["link", "add", &link, "type", "veth", "peer", "name", "eth0", "netns", &pid])?;
        ip(&["addr", "add", &format!("{host}/24"), "dev", &link])?;
        ip(&["link", "set", &link, "up"])?;
        for inside in [
            vec!["link", "set", "lo", "up"],
            vec!["addr", "add", &format!("{node}/24"), "dev", "eth0"],
            vec!["link", "set", "eth0", "up"],
            vec!["route", "add", "default", "via", &host],
        ] {
            host::output(Command::new("nsenter").args(["--target", &pid, "--net", "ip"]).args(inside))
                .context("setting up the node's network")?;
        }
        for range in [self.pods(), self.services()] {
            ip(&["route", "add", &range, "via", &node, "dev", &link])
                .with_context(|| format!("{range} is already used on this machine's network"))?;
        }
        Ok(())
    }

    /// Waits until the cable is gone, which the kernel sees to shortly after the last process of the cluster.
    pub(crate) fn await_gone(&self) -> Result<()> {
        let link = Path::new("/sys/class/net").join(self.link());
        super::await_some("the end of the cluster's network", Duration::from_mins(1), || (!link.exists()).then_some(()))
            .with_context(|| {
                format!(
                    "the interface {} belongs to something else, perhaps a cluster of another PKO_TOOLS_DIR; \
                 stop that one, or use another --number",
                    self.link()
                )
            })
    }
}

fn ip(args: &[&str]) -> Result<()> {
    host::output(Command::new("ip").args(args)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_different_numbers_share_no_address() {
        let all: Vec<String> =
            (0..=15).map(Network::new).flat_map(|n| [n.host(), n.node(), n.pods(), n.services()]).collect();
        let mut unique = all.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), all.len());
        assert_eq!(Network::new(15).pods(), "10.244.240.0/20");
    }
}
