//! Tokens of GitHub Apps' installations, each used until shortly before its end.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use pko_source::git::{Access, AppToken, GitError, GitUrl};
use tokio::time::Instant;

use super::slot::Slot;

/// So long before its end a token is no longer used: clocks differ, and a look takes its time.
const BEFORE_THE_END: Duration = Duration::from_mins(5);
/// Longer than this, no token is used, whatever it says of its end.
const LONGEST_USE: Duration = Duration::from_mins(55);
/// A failure is told to others no longer than this.
const FAILURE_SHARED: Duration = Duration::from_secs(5);

type Made = Result<Token, Arc<GitError>>;

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) token: AppToken,
    good_until: Instant,
}

/// One slot for each app, installation, place and key.
#[derive(Default)]
pub(super) struct Tokens {
    slots: Mutex<HashMap<[u8; 32], Arc<Slot<Made>>>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokens").field("slots", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Tokens {
    /// A token that is no older than that, if the address is read with one of an app.
    pub(super) async fn get(
        &self,
        access: &Access,
        url: &GitUrl,
        max_age: Duration,
    ) -> Result<Option<AppToken>, Arc<GitError>> {
        let Some(app) = access.app(url)? else { return Ok(None) };
        let slot = Arc::clone(self.lock().entry(app).or_default());
        let good = |made: &Made, age: Duration| match made {
            Ok(token) => age <= max_age && Instant::now() < token.good_until,
            Err(_) => age <= FAILURE_SHARED,
        };
        let made = slot.get(good, async { make(access, url).await.map_err(Arc::new) }).await;
        made.map(|token| Some(token.token))
    }

    /// Forgets those that have ended.
    pub(super) fn tidy(&self) {
        let now = Instant::now();
        self.lock().retain(|_, slot| {
            let good = slot.last().is_some_and(|made| made.is_ok_and(|token| now < token.good_until));
            good || Arc::strong_count(slot) > 1
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Slot<Made>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn make(access: &Access, url: &GitUrl) -> Result<Token, GitError> {
    // Without an app nobody would have come here.
    let token = access.new_app_token(url).await?.ok_or(GitError::Stopped)?;
    let good_for = good_for(token.expires_at.as_deref(), Timestamp::now());
    Ok(Token { token, good_until: Instant::now() + good_for })
}

/// How long a token is used. One that does not tell its end is used once.
fn good_for(expires_at: Option<&str>, now: Timestamp) -> Duration {
    let end = expires_at.and_then(|text| text.parse::<Timestamp>().ok());
    let left = end.and_then(|end| Duration::try_from(end.duration_since(now)).ok()).unwrap_or_default();
    left.saturating_sub(BEFORE_THE_END).min(LONGEST_USE)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::an_hour_as_github_has_it(Some("2026-01-01T01:00:00Z"), 55)]
    #[case::in_another_zone(Some("2026-01-01T02:30:00+02:00"), 25)]
    #[case::longer_than_is_believed(Some("2030-01-01T00:00:00Z"), 55)]
    #[case::about_to_end(Some("2026-01-01T00:04:00Z"), 0)]
    #[case::over(Some("2025-01-01T00:00:00Z"), 0)]
    #[case::no_time(Some("soon"), 0)]
    #[case::nothing(None, 0)]
    fn a_token_is_used_until_shortly_before_its_end(#[case] expires_at: Option<&str>, #[case] minutes: u64) {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(good_for(expires_at, now), Duration::from_mins(minutes));
    }
}
