//! Whatever came before and whatever the text, the conditions of a Stack are consistent and fit the schema.

use jiff::Timestamp;
use pko_api::reasons::Reason;
use pko_core::outcome::{Outcome, faults, stack_conditions};
use proptest::prelude::*;

fn outcomes() -> impl Strategy<Value = Outcome> {
    let long = "[aäß€😀]{1,9}".prop_map(|text| text.repeat(8_000));
    let text = prop_oneof![any::<String>(), long];
    let reason = any::<String>().prop_map(|text| Reason::reported(&text));
    prop_oneof![
        Just(Outcome::Ready),
        (reason.clone(), text.clone()).prop_map(|(reason, message)| Outcome::Reconciling { reason, message }),
        (reason, text).prop_map(|(reason, message)| Outcome::Stalled { reason, message }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_sequence_of_outcomes_leaves_consistent_conditions(sequence in prop::collection::vec(outcomes(), 1..6)) {
        let mut conditions = Vec::new();
        for (second, outcome) in (0..).zip(&sequence) {
            conditions = stack_conditions(&conditions, outcome, Timestamp::from_second(second)?);
            prop_assert_eq!(faults(&conditions), Vec::<String>::new());
        }
        let last = sequence.last().expect("it is not empty");
        let again = stack_conditions(&conditions, last, Timestamp::from_second(1_000)?);
        prop_assert_eq!(again, conditions, "the same outcome later is no change");
    }
}
