//! Durations as Go reads and prints them, since users and stored objects write them that way.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A signed span of nanoseconds, parsed like Go's `time.ParseDuration` and printed like
/// `Duration.String`: `24h` reads as what prints as `24h0m0s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// A text is no Go duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseGoDurationError {
    /// Not of the form number, unit, number, unit.
    #[error("{0} is not a duration")]
    Malformed(String),
    /// A number without a unit behind it.
    #[error("{0} is not a duration: a unit is missing")]
    MissingUnit(String),
    /// A unit that does not exist.
    #[error("{0} is not a duration: {1} is not one of the units ns, us, ms, s, m, h")]
    UnknownUnit(String, String),
    /// Over 292 years.
    #[error("{0} is too long for a duration, the longest is about 292 years")]
    TooLong(String),
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// One more than the largest positive value; the magnitude of the smallest negative one.
const LIMIT: u64 = 1 << 63;

impl GoDuration {
    /// Of so many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Of so many seconds; saturates.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// In nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// As an unsigned duration; what is negative is zero.
    pub const fn to_std(self) -> Duration {
        if self.0 < 0 { Duration::ZERO } else { Duration::from_nanos(self.0.unsigned_abs()) }
    }
}

impl From<Duration> for GoDuration {
    /// Saturates.
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl FromStr for GoDuration {
    type Err = ParseGoDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (negative, mut rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(ParseGoDurationError::Malformed(shown(text)));
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (nanos, remainder) = first_term(text, rest)?;
            total = total
                .checked_add(nanos)
                .filter(|total| *total <= LIMIT)
                .ok_or_else(|| ParseGoDurationError::TooLong(shown(text)))?;
            rest = remainder;
        }
        match (negative, i64::try_from(total)) {
            (false, Ok(nanos)) => Ok(Self(nanos)),
            (true, Ok(nanos)) => Ok(Self(-nanos)),
            (true, Err(_)) => Ok(Self(i64::MIN)),
            (false, Err(_)) => Err(ParseGoDurationError::TooLong(shown(text))),
        }
    }
}

/// Reads one number with its unit off the front.
fn first_term<'text>(text: &str, rest: &'text str) -> Result<(u64, &'text str), ParseGoDurationError> {
    let too_long = || ParseGoDurationError::TooLong(shown(text));
    let (digits, rest) = split_digits(rest);
    let whole = digits
        .bytes()
        .try_fold(0_u64, |number, digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0')).filter(|n| *n <= LIMIT)
        })
        .ok_or_else(too_long)?;
    let (fraction_digits, rest) = match rest.strip_prefix('.') {
        Some(after) => split_digits(after),
        None => ("", rest),
    };
    if digits.is_empty() && fraction_digits.is_empty() {
        return Err(ParseGoDurationError::Malformed(shown(text)));
    }
    let unit_end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit_name, rest) = rest.split_at(unit_end);
    let unit = match unit_name {
        "ns" => 1,
        // Micro sign and Greek mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        "" => return Err(ParseGoDurationError::MissingUnit(shown(text))),
        other => return Err(ParseGoDurationError::UnknownUnit(shown(text), shown(other))),
    };
    let nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= LIMIT).ok_or_else(too_long)?;
    let nanos =
        nanos.checked_add(fraction_of(fraction_digits, unit)).filter(|nanos| *nanos <= LIMIT).ok_or_else(too_long)?;
    Ok((nanos, rest))
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// `0.<digits>` of a unit, through a float as Go does it, so that the last nanosecond agrees.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    const MOST: u64 = LIMIT - 1;
    let mut number: u64 = 0;
    let mut scale = 1.0_f64;
    for digit in digits.bytes() {
        if number > MOST / 10 {
            break;
        }
        let next = number * 10 + u64::from(digit - b'0');
        if next > LIMIT {
            break;
        }
        number = next;
        scale *= 10.0;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "Go rounds in the same places"
    )]
    let nanos = (number as f64 * (unit as f64 / scale)) as u64;
    nanos
}

/// Quoted, and cut where it would flood a message.
fn shown(text: &str) -> String {
    const MOST: usize = 40;
    let cut: String = text.chars().take(MOST).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{cut:?}{more}")
}

impl fmt::Display for GoDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0 {
            formatter.write_str("-")?;
        }
        let nanos = self.0.unsigned_abs();
        match nanos {
            0 => formatter.write_str("0s"),
            1..MICROSECOND => write!(formatter, "{nanos}ns"),
            MICROSECOND..MILLISECOND => write_decimal(formatter, nanos, MICROSECOND, "\u{b5}s"),
            MILLISECOND..SECOND => write_decimal(formatter, nanos, MILLISECOND, "ms"),
            _ => {
                if nanos >= HOUR {
                    write!(formatter, "{}h", nanos / HOUR)?;
                }
                if nanos >= MINUTE {
                    write!(formatter, "{}m", nanos % HOUR / MINUTE)?;
                }
                write_decimal(formatter, nanos % MINUTE, SECOND, "s")
            }
        }
    }
}

/// So many units with as many decimals as are needed.
fn write_decimal(formatter: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(formatter, "{}", nanos / unit)?;
    let fraction = nanos % unit;
    if fraction != 0 {
        let width = unit.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        write!(formatter, ".{}", digits.trim_end_matches('0'))?;
    }
    formatter.write_str(name)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
