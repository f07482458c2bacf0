//! Time as objects hold it, and how much of it has passed.

use std::time::Duration;

use jiff::Timestamp;

/// Times in objects have whole seconds. With more, what is read back would not be what was written.
pub(crate) fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// What has passed since then; nothing if a clock is behind.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}
