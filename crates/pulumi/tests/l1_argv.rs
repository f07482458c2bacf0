//! Whatever is to be set or read: no argument holds a secret, every key comes back as it was given, and no text of a
//! user, a program or the CLI stops the agent.

#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::time::{Duration, Instant};

use pko_pulumi::{Call, ConfigItem, ConfigStep, ConfigValue, EventLog, Summary, parse_env_file, plan_config};
use proptest::prelude::*;
use serde_json::value::RawValue;

/// No key and no plain value has this.
const MARK: &str = "PLANTED";
/// How long one text of a few KiB may take on a busy machine.
const MOMENT: Duration = Duration::from_secs(5);

fn key() -> impl Strategy<Value = String> {
    let part =
        prop::sample::select(vec!["a", "b.c", "[0]", "[\"q\"]", "=", "\"", "'", "\\", " ", "--x", "ü", "'=", "\"="]);
    let name = prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat());
    (prop::sample::select(vec!["", "", "shop:", "aws:", "gcp:config:", "my.ns:", ":"]), name)
        .prop_map(|(namespace, name)| format!("{namespace}{name}"))
}

fn value() -> impl Strategy<Value = ConfigValue> {
    let text = prop_oneof!["[ -~\n]{0,20}", "\\PC{0,8}"];
    let json = prop::sample::select(vec!["1", "[1,\"a\"]", "{\"a\":{\"b\":null}}", "9007199254740993", "true"]);
    prop_oneof![
        3 => text.prop_map(ConfigValue::Text),
        2 => json.prop_map(|json| ConfigValue::Json(RawValue::from_string(json.to_owned()).unwrap())),
    ]
}

fn item() -> impl Strategy<Value = ConfigItem> {
    (key(), any::<bool>(), value(), any::<bool>()).prop_map(|(key, path, value, secret)| {
        let value = match (secret, value) {
            (false, value) => value,
            (true, ConfigValue::Text(text)) => ConfigValue::Text(format!("{text}{MARK}{text}")),
            (true, ConfigValue::Json(json)) => {
                ConfigValue::Json(RawValue::from_string(format!("{{\"{MARK}\":{json}}}")).unwrap())
            }
        };
        ConfigItem { key, path, value, secret }
    })
}

/// How the CLI takes `key=value` apart.
fn split(pair: &str) -> (String, String) {
    let quote = pair.chars().next().filter(|c| ['"', '\''].contains(c));
    let (body, at) = match quote {
        Some(quote) => (&pair[1..], format!("{quote}=")),
        None => (pair, "=".to_owned()),
    };
    let (key, value) = body.split_once(&at).unwrap();
    (key.to_owned(), value.to_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_argument_holds_a_secret_and_each_secret_is_read_once(items in prop::collection::vec(item(), 0..8)) {
        let Ok(steps) = plan_config("shop", &items) else { return Ok(()) };
        for step in &steps {
            let call = step.call("dev");
            for argument in call.args() {
                prop_assert!(!argument.contains(MARK), "{call:?}");
            }
            let shown = format!("{step:?} {call:?}");
            prop_assert!(!shown.contains(MARK), "{shown}");
        }
        let read = steps.iter().filter(|step| step.stdin().is_some_and(|text| text.contains(MARK))).count();
        prop_assert_eq!(read, items.iter().filter(|item| item.secret).count());
    }

    #[test]
    fn every_plain_text_is_what_the_cli_makes_of_it(items in prop::collection::vec(item(), 0..8)) {
        let Ok(steps) = plan_config("shop", &items) else { return Ok(()) };
        for step in &steps {
            let (ConfigStep::Plain { pairs, .. }, Call::SetConfig { .. }) = (step, step.call("dev")) else { continue };
            let given = step.call("dev").args().into_iter().filter(|a| a.contains('='));
            for (argument, pair) in given.zip(pairs) {
                prop_assert_eq!(&split(&argument), pair);
            }
        }
    }

    #[test]
    fn no_environment_file_stops_the_agent(text in environment_file()) {
        let began = Instant::now();
        if let Ok(found) = parse_env_file(&text) {
            prop_assert!(found.iter().all(|(name, value)| !name.is_empty() && value.len() <= 128 * 1024));
        }
        prop_assert!(began.elapsed() < MOMENT);
    }

    #[test]
    fn no_event_stops_the_agent(lines in prop::collection::vec(event(), 0..20)) {
        let began = Instant::now();
        let mut summary = Summary::default();
        for line in &lines {
            summary.take(line);
        }
        prop_assert_eq!(summary.seen, lines.len() as u64);
        prop_assert!(summary.errors().map(str::len).sum::<usize>() <= 16 * 1024 + 8);
        prop_assert!(summary.program_words().len() <= 8 * 1024);
        let ended = pko_pulumi::Ended { code: Some(1), ..pko_pulumi::Ended::default() };
        let failed = pko_pulumi::explain("pulumi up", &ended, &summary, jiff_epoch());
        prop_assert!(!failed.message.is_empty() && failed.message.len() <= 4 * 1024 + 3);
        prop_assert!(began.elapsed() < MOMENT);
    }

    #[test]
    fn a_log_gives_the_same_lines_however_it_was_written(lines in prop::collection::vec("[a-z]{0,30}", 0..20)) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, [lines.clone(), vec!["unfinished".to_owned()]].concat().join("\n")).unwrap();
        let mut found = Vec::new();
        EventLog::new(file.path()).read(|line| found.push(String::from_utf8(line.to_vec()).unwrap())).unwrap();
        prop_assert_eq!(found, lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>());
    }
}

fn jiff_epoch() -> jiff::Timestamp {
    jiff::Timestamp::UNIX_EPOCH
}

/// Lines that are nearly right, and some that are not.
fn environment_file() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "export ", "A", "B.c", "=", ": ", "'", "\"", "\\", "\\n", "$A", "${A}", "${", "$", "#", " #", "\n", "\r\n",
        "x", "ü", "\u{feff}", "\0", "\t",
    ]);
    let doubling = (1_usize..60).prop_map(|count| {
        (0..count).map(|n| format!("V{}=$V{n}${{V{n}}}\n", n + 1)).fold("V0=xy\n".to_owned(), |all, line| all + &line)
    });
    prop_oneof![
        8 => prop::collection::vec(part, 0..60).prop_map(|parts| parts.concat()),
        1 => doubling,
        1 => "\\PC{0,200}",
    ]
}

/// Events with something missing, wrong or very deep, and lines that are none.
fn event() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![
        "diagnosticEvent",
        "resourcePreEvent",
        "resOutputsEvent",
        "resOpFailedEvent",
        "summaryEvent",
        "policyEvent",
        "errorEvent",
        "cancelEvent",
        "unheardOf",
    ]);
    let field = prop::sample::select(vec![
        "\"severity\":\"error\"",
        "\"severity\":\"info#err\"",
        "\"message\":\"no stack named x found\"",
        "\"message\":\"<{%reset\\u001b[3\"",
        "\"message\":7",
        "\"urn\":\"::\"",
        "\"urn\":\"a::b::c$d::e\"",
        "\"metadata\":{\"op\":\"create\",\"type\":\"pulumi:pulumi:Stack\",\"new\":{\"outputs\":{\"a\":1e400}}}",
        "\"metadata\":null",
        "\"result\":\"failed\"",
        "\"resourceChanges\":{\"same\":99999999999}",
        "\"enforcementLevel\":\"mandatory\"",
        "\"error\":\"x\"",
        "\"ephemeral\":true",
    ]);
    let body = prop::collection::vec(field, 0..5).prop_map(|fields| fields.join(","));
    prop_oneof![
        6 => (kind, body).prop_map(|(kind, body)| format!("{{\"sequence\":1,\"{kind}\":{{{body}}}}}").into_bytes()),
        1 => (1_usize..3000).prop_map(|depth| format!("{{\"resOutputsEvent\":{}", "[".repeat(depth)).into_bytes()),
        1 => (1_usize..3000).prop_map(|size| {
            let message = "é ".repeat(size);
            format!("{{\"diagnosticEvent\":{{\"severity\":\"error\",\"message\":\"{message}\"}}}}").into_bytes()
        }),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}
