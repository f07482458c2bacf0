//! What `cargo xtask test` tells tests on a cluster.

/// A variable of the test run; panics without it.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run this test with cargo xtask test"))
}
