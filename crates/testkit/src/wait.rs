//! Waiting with a deadline.

use std::time::{Duration, Instant};

/// Asks until `look` finds what is awaited. Panics at the deadline with what was seen last.
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < deadline, "waited {limit:?} for {what}; last seen: {seen}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
