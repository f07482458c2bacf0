//! The log: lines on the standard output, in the words and forms of the flags.

use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    filter::Targets,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::flags::{Encoder, Flags, TimeEncoding};

/// Begins logging.
pub fn start(flags: &Flags) {
    let line = Line { encoder: flags.zap_encoder, times: flags.zap_time_encoding };
    let layer = tracing_subscriber::fmt::layer().event_format(line).with_writer(std::io::stdout);
    // Libraries may log what they transfer; only what they call an error is of interest.
    let level = level(&flags.zap_log_level);
    let libraries = if level == LevelFilter::TRACE { LevelFilter::DEBUG } else { LevelFilter::ERROR };
    let filter = Targets::new().with_default(libraries.min(level)).with_target("pko_operator", level);
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
}

/// As zap: words, or a number above zero for more.
fn level(text: &str) -> LevelFilter {
    match text.to_ascii_lowercase().as_str() {
        "debug" | "1" => LevelFilter::DEBUG,
        "error" | "panic" => LevelFilter::ERROR,
        text if text.parse::<u32>().is_ok_and(|number| number > 1) => LevelFilter::TRACE,
        _ => LevelFilter::INFO,
    }
}

#[derive(Clone, Copy, Debug)]
struct Line {
    encoder: Encoder,
    times: TimeEncoding,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        writeln!(writer, "{}", self.line(event.metadata(), &time(self.times, Timestamp::now()), fields))
    }
}

impl Line {
    fn line(self, metadata: &Metadata<'_>, time: &Value, fields: Fields) -> String {
        let level = word(*metadata.level());
        match self.encoder {
            Encoder::Json => {
                let mut line = fields.others;
                line.insert("level".to_owned(), level.into());
                line.insert("ts".to_owned(), time.clone());
                line.insert("msg".to_owned(), fields.message.into());
                Value::Object(line).to_string()
            }
            Encoder::Console => {
                let time = time.as_str().map_or_else(|| time.to_string(), str::to_owned);
                let others = if fields.others.is_empty() {
                    String::new()
                } else {
                    format!("\t{}", Value::Object(fields.others))
                };
                format!("{time}\t{}\t{}{others}", level.to_ascii_uppercase(), fields.message)
            }
        }
    }
}

const fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    }
}

fn time(encoding: TimeEncoding, now: Timestamp) -> Value {
    match encoding {
        #[expect(clippy::cast_precision_loss, reason = "microseconds are exact for centuries")]
        TimeEncoding::Epoch => (now.as_microsecond() as f64 / 1e6).into(),
        TimeEncoding::Millis => now.as_millisecond().into(),
        TimeEncoding::Nano => i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX).into(),
        TimeEncoding::Iso8601 => format!("{now:.3}").into(),
        TimeEncoding::Rfc3339 => format!("{now:.0}").into(),
        TimeEncoding::Rfc3339Nano => now.to_string().into(),
    }
}

/// What a line says.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        if field.name() == "message" {
            self.message = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        } else {
            self.others.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("info", LevelFilter::INFO)]
    #[case("debug", LevelFilter::DEBUG)]
    #[case("ERROR", LevelFilter::ERROR)]
    #[case("1", LevelFilter::DEBUG)]
    #[case("5", LevelFilter::TRACE)]
    #[case("whatever", LevelFilter::INFO)]
    fn levels_are_those_of_zap(#[case] text: &str, #[case] expected: LevelFilter) {
        assert_eq!(level(text), expected);
    }

    #[rstest]
    #[case(TimeEncoding::Epoch, "1700000000.123456")]
    #[case(TimeEncoding::Millis, "1700000000123")]
    #[case(TimeEncoding::Nano, "1700000000123456000")]
    #[case(TimeEncoding::Iso8601, "\"2023-11-14T22:13:20.123Z\"")]
    #[case(TimeEncoding::Rfc3339, "\"2023-11-14T22:13:20Z\"")]
    #[case(TimeEncoding::Rfc3339Nano, "\"2023-11-14T22:13:20.123456Z\"")]
    fn times_are_those_of_zap(#[case] encoding: TimeEncoding, #[case] expected: &str) {
        let now = Timestamp::from_microsecond(1_700_000_000_123_456).unwrap();
        assert_eq!(time(encoding, now).to_string(), expected);
    }
}
