//! Strategic merge: as Kubernetes' apimachinery does it, and what holds for every patch.

use std::collections::BTreeSet;

use pko_core::merge::{Schema, strategic};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Each case has the answer of apimachinery 0.34.4, asked with a pod template as schema.
const CASES: &str = include_str!("fixtures/strategic-merge.json");

#[test]
fn merges_as_apimachinery_does() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let mut different = Vec::new();
    for case in &cases {
        let found = strategic(case["original"].clone(), &case["patch"], Schema::Pod);
        let expected = (case["refused"] != true).then_some(&case["merged"]);
        if found.as_ref().ok() != expected {
            different.push(format!("{}\n  expected {expected:?}\n  found    {found:?}", case["reason"]));
        }
    }
    assert!(different.is_empty(), "{} of {} differ:\n{}", different.len(), cases.len(), different.join("\n"));
    let reasons: BTreeSet<_> = cases.iter().map(|case| case["reason"].to_string()).collect();
    assert_eq!(reasons.len(), cases.len(), "every case has a reason of its own");
}
