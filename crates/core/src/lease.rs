//! Who leads. A leader renews its lease; another takes over when it has not moved for as long as it is good for.

use std::time::Duration;

/// How long things take. Short, since losing leadership loses nothing: runs are not the leader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A lease that has not been renewed for so long may be taken.
    pub lease: Duration,
    /// A leader that has failed to renew for so long no longer leads.
    pub renew_deadline: Duration,
    /// Between attempts to renew or to take.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew_deadline: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// What is known about the lease. Ages are by our own clock: nobody else's can be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFacts {
    pub identity: String,
    /// The lease as it is; nothing if there is none.
    pub lease: Option<LeaseSeen>,
    /// How long ago we first saw it in its present version.
    pub unchanged_for: Duration,
    /// How long ago we last renewed it, if we lead.
    pub renewed_ago: Option<Duration>,
}

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSeen {
    /// Empty if its last holder gave it up.
    pub holder: String,
    /// For how long its holder says it is good.
    pub duration: Duration,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseStep {
    /// Make it, and lead.
    Create,
    /// Write ourselves into it, if it still is the version that was read. `transition`: it was someone else's.
    Hold { transition: bool },
    /// It is someone else's: look again after that time.
    Wait(Duration),
    /// We led, and cannot claim that any longer.
    Lost,
}

/// What comes next for the lease.
pub fn decide(facts: &LeaseFacts, timing: &Timing) -> LeaseStep {
    if facts.renewed_ago.is_some_and(|ago| ago >= timing.renew_deadline) {
        return LeaseStep::Lost;
    }
    let Some(lease) = &facts.lease else { return LeaseStep::Create };
    if lease.holder == facts.identity {
        return LeaseStep::Hold { transition: false };
    }
    if facts.renewed_ago.is_some() && !lease.holder.is_empty() {
        return LeaseStep::Lost;
    }
    // A holder of another version may promise itself longer than we would.
    let good_for = lease.duration.max(timing.lease);
    if lease.holder.is_empty() || facts.unchanged_for >= good_for {
        return LeaseStep::Hold { transition: true };
    }
    LeaseStep::Wait(timing.retry.min(good_for.saturating_sub(facts.unchanged_for)).max(Duration::from_millis(100)))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn held_by(holder: &str) -> LeaseSeen {
        LeaseSeen { holder: holder.to_owned(), duration: seconds(15) }
    }

    #[rstest]
    #[case::nobody_has_led_here(None, 0, None, LeaseStep::Create)]
    #[case::a_restarted_container_is_the_same_holder(Some(held_by("me")), 0, None, LeaseStep::Hold { transition: false })]
    #[case::a_leader_renews(Some(held_by("me")), 2, Some(2), LeaseStep::Hold { transition: false })]
    #[case::another_leads(Some(held_by("other")), 3, None, LeaseStep::Wait(seconds(2)))]
    #[case::the_wait_ends_with_the_lease(Some(held_by("other")), 14, None, LeaseStep::Wait(seconds(1)))]
    #[case::another_has_gone_silent(Some(held_by("other")), 15, None, LeaseStep::Hold { transition: true })]
    #[case::another_gave_it_up(Some(held_by("")), 0, None, LeaseStep::Hold { transition: true })]
    #[case::another_took_it_from_us(Some(held_by("other")), 0, Some(3), LeaseStep::Lost)]
    #[case::we_could_not_renew_in_time(Some(held_by("me")), 10, Some(10), LeaseStep::Lost)]
    #[case::someone_deleted_it_under_us(None, 0, Some(3), LeaseStep::Create)]
    fn the_lease(
        #[case] lease: Option<LeaseSeen>,
        #[case] unchanged_for: u64,
        #[case] renewed_ago: Option<u64>,
        #[case] expected: LeaseStep,
    ) {
        let facts = LeaseFacts {
            identity: "me".to_owned(),
            lease,
            unchanged_for: seconds(unchanged_for),
            renewed_ago: renewed_ago.map(seconds),
        };
        assert_eq!(decide(&facts, &Timing::default()), expected);
    }

    #[test]
    fn a_holder_that_promises_itself_longer_is_given_longer() {
        let facts = LeaseFacts {
            identity: "me".to_owned(),
            lease: Some(LeaseSeen { holder: "other".to_owned(), duration: seconds(60) }),
            unchanged_for: seconds(20),
            renewed_ago: None,
        };
        assert_eq!(decide(&facts, &Timing::default()), LeaseStep::Wait(seconds(2)));
    }
}
