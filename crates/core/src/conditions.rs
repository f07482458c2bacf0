//! Setting one condition. Its time moves only when its status does.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use pko_api::{
    conditions::{ConditionStatus, ConditionType, find},
    reasons::Reason,
};

use crate::time::whole_second;

/// The longest message that the schema of a condition takes.
pub(crate) const LONGEST_MESSAGE: usize = 32 * 1024;

/// A condition that follows the one of its type among the previous ones.
pub(crate) fn condition(
    previous: &[Condition],
    kind: ConditionType,
    status: ConditionStatus,
    reason: &Reason,
    message: &str,
    now: Timestamp,
) -> Condition {
    let unchanged = find(previous, kind).filter(|condition| condition.status == status.as_str());
    Condition {
        type_: kind.as_str().to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.as_str().to_owned(),
        message: shortened(message).to_owned(),
        last_transition_time: unchanged.map_or(Time(whole_second(now)), |c| c.last_transition_time.clone()),
        observed_generation: None,
    }
}

/// What is the matter behind what is waited for.
pub(crate) fn joined(text: &str, more: &str) -> String {
    match (text, more) {
        (text, "") => text.to_owned(),
        ("", more) => more.to_owned(),
        (text, more) => format!("{text}: {more}"),
    }
}

pub(crate) fn shortened(message: &str) -> &str {
    &message[..message.floor_char_boundary(LONGEST_MESSAGE)]
}
