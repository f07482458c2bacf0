//! Durations are read and printed as Go does.

use pko_api::{GoDuration, ParseGoDurationError};
use rstest::rstest;

const SECOND: i64 = 1_000_000_000;

#[rstest]
#[case("0", 0, "zero alone needs no unit")]
#[case("0s", 0, "zero with one")]
#[case("+0", 0, "a sign does not change zero")]
#[case("-0", 0, "nor does the other")]
#[case("5s", 5 * SECOND, "one term")]
#[case("30m", 1800 * SECOND, "minutes")]
#[case("24h", 86_400 * SECOND, "hours")]
#[case("1h30m", 5400 * SECOND, "terms add up")]
#[case("1m1m", 120 * SECOND, "a unit may come twice")]
#[case("1s1h", 3601 * SECOND, "in any order")]
#[case("-1.5h", -5400 * SECOND, "the sign is for all terms")]
#[case("1.5s", 1_500_000_000, "fractions")]
#[case("1.s", SECOND, "a point without decimals")]
#[case(".5s", SECOND / 2, "decimals without an integer")]
#[case("300ms", 300_000_000, "milliseconds")]
#[case("1us", 1_000, "u for micro")]
#[case("1\u{b5}s", 1_000, "the micro sign")]
#[case("1\u{3bc}s", 1_000, "the Greek letter")]
#[case("12ns", 12, "nanoseconds")]
#[case("0.3333333333333333333h", 1_200 * SECOND, "more decimals than a number holds")]
#[case("0.9223372036854775807h", 3_320_413_933_267, "as many as it holds")]
#[case("0.100000000000000000000h", 360 * SECOND, "trailing zeros")]
#[case("9223372036854775807ns", i64::MAX, "the longest")]
#[case("-9223372036854775808ns", i64::MIN, "the longest backwards")]
#[case("9223372036854775.807us", i64::MAX, "the longest, in other units")]
#[case("-9223372036s854ms775us808ns", i64::MIN, "the longest backwards, in terms")]
#[case("52763797000ns", 52_763_797_000, "a plain large number")]
fn a_duration_is_read_as_go_reads_it(#[case] text: &str, #[case] nanos: i64, #[case] reason: &str) {
    assert_eq!(text.parse(), Ok(GoDuration::from_nanos(nanos)), "{reason}");
}

#[rstest]
#[case("", "nothing")]
#[case("3", "a number other than zero needs a unit")]
#[case("-", "only a sign")]
#[case("s", "only a unit")]
#[case(".", "only a point")]
#[case("-.", "a sign and a point")]
#[case(".s", "a point and a unit")]
#[case("+.s", "with a sign")]
#[case("1d", "days are no unit")]
#[case("soon", "a word")]
#[case("1h 30m", "a space")]
#[case("\u{85}\u{85}", "neither digits nor units")]
#[case("hello \u{fffd} world", "text")]
#[case("9223372036854775808ns", "one too many")]
#[case("9223372036854775.808us", "one too many, in other units")]
#[case("-9223372036854775809ns", "one too many backwards")]
#[case("3000000h", "too many hours")]
#[case("18446744073709551616ns", "more than the number type holds")]
#[case("9223372036854ms775us808ns", "one too many in terms")]
fn what_go_refuses_is_refused(#[case] text: &str, #[case] reason: &str) {
    assert!(text.parse::<GoDuration>().is_err(), "{reason}");
}

#[rstest]
#[case(0, "0s", "zero")]
#[case(1, "1ns", "below a microsecond")]
#[case(1_100, "1.1\u{b5}s", "below a millisecond, with the micro sign")]
#[case(2_200_000, "2.2ms", "below a second")]
#[case(300_000_000, "300ms", "no decimals when there are none")]
#[case(3_300_000_000, "3.3s", "seconds have decimals")]
#[case(10 * SECOND, "10s", "no minutes below one")]
#[case(60 * SECOND, "1m0s", "minutes bring seconds along")]
#[case(90 * SECOND, "1m30s", "both")]
#[case(3600 * SECOND, "1h0m0s", "hours bring minutes along")]
#[case(86_400 * SECOND, "24h0m0s", "there are no days")]
#[case(245_000_000_001, "4m5.000000001s", "inner zeros stay")]
#[case(18_367_001_000_000, "5h6m7.001s", "outer zeros go")]
#[case(480_000_000_001, "8m0.000000001s", "seconds below one")]
#[case(-5400 * SECOND, "-1h30m0s", "backwards")]
#[case(i64::MAX, "2562047h47m16.854775807s", "the longest")]
#[case(i64::MIN, "-2562047h47m16.854775808s", "the longest backwards")]
fn a_duration_is_printed_as_go_prints_it(#[case] nanos: i64, #[case] text: &str, #[case] reason: &str) {
    assert_eq!(GoDuration::from_nanos(nanos).to_string(), text, "{reason}");
}

#[test]
fn a_refusal_says_what_is_wrong() {
    let error = |text: &str| text.parse::<GoDuration>().unwrap_err();
    assert_eq!(error("3"), ParseGoDurationError::MissingUnit(r#""3""#.to_owned()));
    assert_eq!(error("1d").to_string(), r#""1d" is not a duration: "d" is not one of the units ns, us, ms, s, m, h"#);
    assert_eq!(error("-").to_string(), r#""-" is not a duration"#);
    assert!(matches!(error("3000000h"), ParseGoDurationError::TooLong(_)));
}

#[test]
fn a_negative_duration_is_no_wait() {
    assert_eq!(GoDuration::from_nanos(-1).to_std(), std::time::Duration::ZERO);
    assert_eq!(GoDuration::from_secs(2).to_std(), std::time::Duration::from_secs(2));
}
