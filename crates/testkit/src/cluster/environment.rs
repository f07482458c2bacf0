//! What `cargo xtask test` tells tests on a cluster.

use std::net::IpAddr;

/// A variable of the test run; panics without it.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run this test with cargo xtask test"))
}

/// This machine as pods reach it.
pub fn host_address() -> IpAddr {
    let text = variable("PKO_TEST_HOST_ADDRESS");
    text.parse().unwrap_or_else(|error| panic!("PKO_TEST_HOST_ADDRESS={text}: {error}"))
}
