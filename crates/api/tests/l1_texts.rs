//! Properties of durations, output keys, volume names and reported reasons.

use pko_api::reasons::Reason;
use pko_api::{GoDuration, go_quote, outputs, paths};
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_printed_duration_reads_as_the_duration(nanos in any::<i64>()) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn a_printed_short_duration_reads_as_the_duration(nanos in -10_000_000_000_i64..10_000_000_000) {
        let duration = GoDuration::from_nanos(nanos);
        prop_assert_eq!(duration.to_string().parse(), Ok(duration));
    }

    #[test]
    fn reading_a_duration_never_panics_and_a_refusal_stays_short(text in ".{0,300}") {
        if let Err(error) = text.parse::<GoDuration>() {
            prop_assert!(error.to_string().chars().count() < 1_000);
        }
    }

    #[test]
    fn an_output_key_is_always_a_valid_secret_key(name in ".{1,60}") {
        let key = outputs::secret_key(&name);
        prop_assert!(key.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)));
        prop_assert_eq!(key.chars().count(), name.chars().count());
        prop_assert_eq!(outputs::secret_key(&key), key);
    }

    #[test]
    fn a_volume_name_is_always_a_valid_label(name in "[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?") {
        for volume in [paths::secret_volume(&name), paths::config_map_volume(&name)] {
            prop_assert!(volume.len() <= 63, "{volume}");
            prop_assert!(volume.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
            prop_assert!(volume.ends_with(|c: char| c.is_ascii_alphanumeric()), "{volume}");
        }
    }

    #[test]
    fn a_reported_reason_is_always_well_formed(text in ".{0,40}") {
        let reason = Reason::reported(&text);
        prop_assert!(reason.as_str().starts_with(|c: char| c.is_ascii_alphabetic()));
        prop_assert!(reason.as_str().chars().all(|c| c.is_ascii_alphanumeric() || "_,:".contains(c)));
    }

    #[test]
    fn quoted_text_is_one_line_and_its_inner_quotes_are_escaped(text in ".{0,40}") {
        let quoted = go_quote(&text);
        prop_assert!(!quoted.contains('\n'));
        prop_assert!(quoted.len() >= text.len() + 2);
    }
}
