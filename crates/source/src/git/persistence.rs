//! Trying again when that may help.

use std::time::Duration;

use super::error::GitError;

/// Makes one try more than there are waits, as long as the failure is one that may pass.
pub(super) async fn persistently<T, F: Future<Output = Result<T, GitError>>>(
    waits: &[Duration],
    mut attempt: impl FnMut() -> F,
) -> Result<T, GitError> {
    let mut waits = waits.iter();
    let mut attempts = 1;
    loop {
        let error = match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let Some(wait) = waits.next().filter(|_| error.is_transient()) else {
            return Err(match attempts {
                1 => error,
                _ => GitError::GaveUp { attempts, error: Box::new(error) },
            });
        };
        tokio::time::sleep(*wait).await;
        attempts += 1;
    }
}
