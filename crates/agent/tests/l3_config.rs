//! Every kind of configuration, by the real agent with the real CLI.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

mod support;

use std::collections::HashMap;

use pko_proto::{
    agent::{ConfigItem, ConfigValueFrom, config_item::V, config_value_from::F},
    runs::{Run, Stack},
};
use serde_json::{Value, json};
use support::{Rig, follow, init, reason, stack, start, until};

const EMPTY: &str = "name: shop\nruntime: yaml\n";

fn literal(key: &str, value: &Value) -> ConfigItem {
    ConfigItem { key: key.to_owned(), v: Some(V::Value(pko_proto::to_value(value))), ..ConfigItem::default() }
}

fn text(key: &str, value: &str) -> ConfigItem {
    literal(key, &json!(value))
}

fn from(key: &str, f: F, json: bool) -> ConfigItem {
    let v = Some(V::ValueFrom(ConfigValueFrom { f: Some(f), json: Some(json) }));
    ConfigItem { key: key.to_owned(), v, ..ConfigItem::default() }
}

fn secret(item: ConfigItem) -> ConfigItem {
    ConfigItem { secret: Some(true), ..item }
}

fn path(item: ConfigItem) -> ConfigItem {
    ConfigItem { path: Some(true), ..item }
}

async fn set(rig: &Rig, run_id: &str, config: Vec<ConfigItem>) -> Run {
    rig.run(run_id, init(vec![Stack { config, ..stack() }])).await
}

fn plain(value: &str) -> Value {
    json!({"value": value, "secret": false})
}

#[tokio::test]
async fn values_of_every_kind_are_set_and_the_repositorys_own_stay() {
    let mut rig = Rig::new(EMPTY);
    std::fs::write(
        rig.path("share/source/Pulumi.dev.yaml"),
        "config:\n  shop:own: kept\n  shop:region: old\n  aws:profile: kept\n  shop:tree:\n    kept: 1\n    new: old\n",
    )
    .unwrap();
    std::fs::write(rig.path("file"), "from a file\n").unwrap();
    std::fs::write(rig.path("map.json"), "{\"big\": 9007199254740993, \"list\": [1, \"two\"], \"no\": null}\n")
        .unwrap();
    std::fs::write(rig.path("number.json"), " 12 ").unwrap();
    rig.set_env("FROM_ENV", "from the environment");
    rig.set_env("EMPTY_ENV", "");
    rig.start_agent().await;
    let file = |name: &str| F::Path(rig.path(name).display().to_string());
    let config = vec![
        text("region", "eu-west-1"),
        text("looks.like.number", "0012"),
        text("empty", ""),
        text("lines", "one\ntwo\n"),
        literal("number", &json!(42)),
        literal("fraction", &json!(0.5)),
        literal("flag", &json!(true)),
        literal("list", &json!(["a", {"b": []}])),
        literal("object", &json!({"a.b": {"c": "1"}})),
        literal("nothing", &Value::Null),
        literal("dotted.list", &json!([1])),
        from("env", F::Env("FROM_ENV".to_owned()), false),
        from("emptyEnv", F::Env("EMPTY_ENV".to_owned()), false),
        from("file", file("file"), false),
        from("map", file("map.json"), true),
        from("parsed", file("number.json"), true),
        from("unparsed", file("number.json"), false),
        path(text("tree.new", "7")),
        path(text("tree.deep.list[0]", "true")),
        path(text("tree.deep.list[1]", "x")),
        text("aws:region", "eu"),
        text("gcp:config:project", "p"),
    ];
    let run = set(&rig, "i", config).await;
    assert_eq!(run.failure, None, "{:?}", rig.calls());
    let found = rig.config();
    for (key, value) in [
        ("shop:own", "kept"),
        ("aws:profile", "kept"),
        ("shop:region", "eu-west-1"),
        ("shop:looks.like.number", "0012"),
        ("shop:empty", ""),
        ("shop:lines", "one\ntwo\n"),
        ("shop:env", "from the environment"),
        ("shop:emptyEnv", ""),
        ("shop:file", "from a file\n"),
        ("shop:unparsed", " 12 "),
        ("shop:number", "42"),
        ("shop:fraction", "0.5"),
        ("shop:flag", "true"),
        ("shop:parsed", "12"),
        ("aws:region", "eu"),
        ("gcp:project", "p"),
    ] {
        assert_eq!(found[key], plain(value), "{key}");
    }
    assert_eq!(found["shop:list"]["objectValue"], json!(["a", {"b": []}]));
    assert_eq!(found["shop:object"]["objectValue"], json!({"a.b": {"c": "1"}}));
    assert_eq!(found["shop:dotted.list"]["objectValue"], json!([1]));
    assert_eq!(found["shop:tree"]["objectValue"], json!({"kept": 1, "new": 7, "deep": {"list": [true, "x"]}}));
    assert_eq!(found.get("shop:nothing"), None, "a null leaves a key alone");
    let stored = std::fs::read_to_string(rig.path("share/source/Pulumi.dev.yaml")).unwrap();
    assert!(stored.contains("big: 9007199254740993"), "no digit is lost: {stored}");
    assert!(stored.contains("shop:number: 42\n") && stored.contains("shop:flag: true\n"), "{stored}");
    assert_eq!(rig.calls_of("config set-all"), 2, "one call for paths and one for values: {:?}", rig.calls());
}

#[tokio::test]
async fn a_literal_beyond_a_doubles_digits_arrives_whole() {
    let rig = Rig::serving(EMPTY).await;
    let config = vec![text("a", "x"), literal("n", &json!(9_007_199_254_740_993_u64))];
    let exact = HashMap::from([(1, "9007199254740993".to_owned())]);
    let run = rig.run("i", init(vec![Stack { config, exact, ..stack() }])).await;
    assert_eq!(run.failure, None);
    assert_eq!(rig.config()["shop:n"], plain("9007199254740993"));
}

#[tokio::test]
async fn unusual_keys_are_set_under_their_own_names() {
    let rig = Rig::serving(EMPTY).await;
    let keys = [
        "with=equals",
        "with=\"both'=quotes",
        "\"quoted[key]\"",
        "back\\slash",
        "trailing\\",
        "a.b[0]",
        "--flag",
        "sp ace",
        "ünïcødé",
        "'single'=x",
    ];
    let mut config: Vec<ConfigItem> = keys.iter().map(|key| text(key, &format!("<{key}>"))).collect();
    config.extend(keys.iter().map(|key| secret(text(&format!("s:{key}"), &format!("<{key}>")))));
    config.push(text("[\"already.escaped\"]", "v"));
    let run = set(&rig, "i", config).await;
    assert_eq!(run.failure, None, "{:?}", rig.calls());
    let found = rig.config();
    for key in keys {
        assert_eq!(found[format!("shop:{key}")], plain(&format!("<{key}>")), "{key}: {found}");
        assert_eq!(found[format!("s:{key}")], json!({"value": format!("<{key}>"), "secret": true}), "{key}: {found}");
    }
    assert_eq!(found["shop:already.escaped"], plain("v"));
    assert_eq!(found.as_object().unwrap().len(), 2 * keys.len() + 1, "{found}");
}

#[tokio::test]
async fn structured_values_under_unusual_keys_keep_their_names_too() {
    let rig = Rig::serving(EMPTY).await;
    let keys = ["a.b", "with=equals", "quo\"te", "back\\slash", "br[ack]et", "\\\"both\".x"];
    let config = keys.iter().map(|key| literal(key, &json!([key]))).collect();
    let run = set(&rig, "i", config).await;
    assert_eq!(run.failure, None, "{:?}", rig.calls());
    let found = rig.config();
    for key in keys {
        assert_eq!(found[format!("shop:{key}")]["objectValue"], json!([key]), "{key}: {found}");
    }
}

#[tokio::test]
async fn paths_and_values_of_a_project_with_a_dot_in_its_name_are_its_own() {
    let rig = Rig::serving("name: my.shop\nruntime: yaml\n").await;
    let config = vec![
        text("k", "v"),
        path(text("tree.leaf", "1")),
        secret(path(text("tree.hidden", "planted"))),
        literal("n", &json!([1])),
    ];
    let run = set(&rig, "i", config).await;
    assert_eq!(run.failure, None, "{:?}", rig.calls());
    let found = rig.config();
    assert_eq!(found["my.shop:k"], plain("v"));
    assert_eq!(found["my.shop:tree"]["objectValue"], json!({"leaf": 1, "hidden": "planted"}));
    assert_eq!(found["my.shop:n"]["objectValue"], json!([1]));
    assert_eq!(found.as_object().unwrap().len(), 3, "{found}");
}

#[tokio::test]
async fn of_two_items_about_the_same_key_the_later_wins() {
    let rig = Rig::serving(EMPTY).await;
    let config = vec![
        text("a", "1"),
        text("a", "2"),
        literal("b", &json!([1])),
        text("b", "2"),
        text("c", "plain"),
        secret(text("c", "planted")),
        secret(text("d", "planted")),
        text("d", "plain"),
    ];
    let run = set(&rig, "i", config).await;
    assert_eq!(run.failure, None, "{:?}", rig.calls());
    let found = rig.config();
    for (key, value) in [("shop:a", "2"), ("shop:b", "2"), ("shop:d", "plain")] {
        assert_eq!(found[key], plain(value), "{key}");
    }
    assert_eq!(found["shop:c"], json!({"value": "planted", "secret": true}));
}

#[tokio::test]
async fn secrets_are_texts_whatever_they_look_like_and_only_changed_ones_are_set_again() {
    let mut rig = Rig::new(EMPTY);
    std::fs::write(rig.path("secret"), "{\"pass\": \"planted\"}\n\n").unwrap();
    rig.start_agent().await;
    let path = rig.path("secret").display().to_string();
    let file = || F::Path(path.clone());
    let config = |token: &str| {
        vec![
            secret(text("token", token)),
            secret(from("file", file(), true)),
            secret(literal("object", &json!({"pass": "planted"}))),
            secret(text("lines", "planted\r\n\n")),
            secret(text("empty", "")),
        ]
    };
    assert_eq!(set(&rig, "i1", config("planted-1")).await.failure, None);
    let shown = |key: &str| rig.config()[key].clone();
    let hidden = |value: &str| json!({"value": value, "secret": true});
    assert_eq!(shown("shop:file"), hidden("{\"pass\": \"planted\"}\n\n"), "to the last newline");
    assert_eq!(shown("shop:object"), hidden("{\"pass\":\"planted\"}"));
    assert_eq!(shown("shop:lines"), hidden("planted\r\n\n"));
    assert_eq!(rig.calls_of("config set "), 5);

    assert_eq!(set(&rig, "i2", config("planted-2")).await.failure, None);
    assert_eq!(rig.calls_of("config set "), 6, "one secret has changed: {:?}", rig.calls());
    assert_eq!(shown("shop:token"), hidden("planted-2"));

    // The repository's own file comes back, as after a fetch: what it lacks is set again.
    std::fs::remove_file(rig.path("share/source/Pulumi.dev.yaml")).unwrap();
    assert_eq!(set(&rig, "i3", config("planted-2")).await.failure, None);
    assert_eq!(rig.calls_of("config set "), 11);
    assert_eq!(shown("shop:token"), hidden("planted-2"));

    rig.kill_agent();
    rig.start_agent().await;
    assert_eq!(set(&rig, "i4", config("planted-2")).await.failure, None);
    assert_eq!(rig.calls_of("config set "), 16, "a next agent knows nothing");
    for (what, seen) in [("arguments", rig.calls().join("\n")), ("journal", rig.journal()), ("log", rig.log())] {
        assert!(!seen.contains("planted"), "{what}: {seen}");
    }
}

#[tokio::test]
async fn values_that_do_not_fit_on_a_command_line_are_set_too() {
    let rig = Rig::serving(EMPTY).await;
    let long = "0123456789abcdef".repeat(20_000);
    let run = set(&rig, "i", vec![text("long", &long), secret(text("s:long", &long)), text("short", "x")]).await;
    assert_eq!(run.failure, None);
    let found = rig.config();
    assert_eq!((found["shop:long"]["value"].as_str(), found["s:long"]["value"].as_str()), (Some(&*long), Some(&*long)));
    assert_eq!(found["shop:short"], plain("x"));
}

#[tokio::test]
async fn what_cannot_be_set_is_named_before_anything_is_done() {
    let rig = Rig::serving(EMPTY).await;
    for (n, (item, words)) in [
        (from("k", F::Env("NO_SUCH_VARIABLE".to_owned()), false), "NO_SUCH_VARIABLE"),
        (from("k", F::Path("/no/such/file".to_owned()), false), "/no/such/file"),
        (from("k", F::Env("PATH".to_owned()), true), "parsing \"k\" as JSON"),
        (path(literal("a.b", &json!([1]))), "path=true is incompatible"),
        (text("a:b:c", "x"), "could not parse a:b:c"),
        (ConfigItem { key: "k".to_owned(), ..ConfigItem::default() }, "invalid config value"),
    ]
    .into_iter()
    .enumerate()
    {
        let run = set(&rig, &format!("i{n}"), vec![item]).await;
        assert_eq!(reason(&run), "InitializationFailed");
        let failure = run.failure.unwrap();
        assert!(failure.message.contains(words) && failure.stack_name == "dev", "{}", failure.message);
    }
    assert_eq!(rig.calls_of("stack") + rig.calls_of("config"), 0, "{:?}", rig.calls());
}

fn settings(rig: &Rig) -> String {
    std::fs::read_to_string(rig.path("share/source/Pulumi.dev.yaml")).unwrap()
}

fn salt(rig: &Rig) -> String {
    let text = settings(rig);
    let line = text.lines().find(|line| line.starts_with("encryptionsalt:")).unwrap_or_else(|| panic!("{text}"));
    line.split_once(' ').unwrap().1.replace('"', "")
}

#[tokio::test]
async fn what_an_earlier_init_has_set_and_this_one_does_not_is_gone() {
    let rig = Rig::serving(EMPTY).await;
    let config = vec![
        text("kept", "1"),
        text("gone", "1"),
        literal("list", &json!([1, 2])),
        path(text("tree.kept", "1")),
        path(text("tree.gone", "1")),
        secret(text("hidden", "planted")),
        secret(text("hidden.gone", "planted")),
    ];
    assert_eq!(set(&rig, "i1", config).await.failure, None);
    let before = salt(&rig);
    let config = vec![text("kept", "2"), path(text("tree.kept", "2")), secret(text("hidden", "planted"))];
    assert_eq!(set(&rig, "i2", config).await.failure, None);
    let expected = json!({
        "shop:kept": {"value": "2", "secret": false},
        "shop:tree": {"value": "{\"kept\":2}", "secret": false, "objectValue": {"kept": 2}},
        "shop:hidden": {"value": "planted", "secret": true},
    });
    assert_eq!(rig.config(), expected);
    assert_eq!(rig.calls_of("config set "), 2, "a secret that has not changed costs no call: {:?}", rig.calls());
    assert_eq!(set(&rig, "i3", Vec::new()).await.failure, None);
    assert_eq!((rig.config(), salt(&rig)), (json!({}), before), "the key of the stack's secrets stays");
}

#[tokio::test]
async fn what_the_repository_says_comes_back_when_it_is_no_longer_overridden() {
    let mut rig = Rig::new("name: shop\nruntime: yaml\nstackConfigDir: settings\n");
    let file = rig.path("share/source/settings/Pulumi.dev.yaml");
    let own =
        "# by hand\nconfig:\n    shop:version: \"1.10\" # exactly\n    shop:tree:\n        own: 1\n    shop:open: x\n";
    std::fs::create_dir(rig.path("share/source/settings")).unwrap();
    std::fs::write(&file, own).unwrap();
    rig.start_agent().await;
    let config = |value: &str| {
        vec![text("version", value), path(text("tree.own", "2")), secret(text("open", "planted")), text("new", "x")]
    };
    for (run_id, value) in [("i1", "2.0"), ("i2", "2.1")] {
        assert_eq!(set(&rig, run_id, config(value)).await.failure, None);
        assert_eq!(rig.config()["shop:version"], plain(value));
        assert_eq!(rig.config()["shop:tree"]["objectValue"], json!({"own": 2}));
        assert_eq!(rig.config()["shop:open"], json!({"value": "planted", "secret": true}));
    }
    assert_eq!(rig.calls_of("config set "), 1, "though it is in the place of another value: {:?}", rig.calls());
    assert_eq!(set(&rig, "i3", Vec::new()).await.failure, None);
    let expected = json!({
        "shop:version": plain("1.10"),
        "shop:tree": {"value": "{\"own\":1}", "secret": false, "objectValue": {"own": 1}},
        "shop:open": plain("x"),
    });
    assert_eq!(rig.config(), expected);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with(own) && text[own.len()..].starts_with("encryptionsalt: "), "{text}");
    assert!(!rig.journal().contains("planted") && !rig.log().contains("planted"));
}

#[tokio::test]
async fn another_agent_goes_on_from_the_sources_own_settings() {
    let mut rig = Rig::new(EMPTY);
    std::fs::write(rig.path("share/source/Pulumi.dev.yaml"), "config:\n  shop:own: kept\n").unwrap();
    rig.start_agent().await;
    assert_eq!(set(&rig, "i1", vec![text("gone", "1"), secret(text("hidden", "planted"))]).await.failure, None);
    let before = salt(&rig);
    rig.kill_agent();
    rig.start_agent().await;
    assert_eq!(set(&rig, "i2", vec![text("new", "1"), secret(text("hidden", "planted"))]).await.failure, None);
    let hidden = json!({"value": "planted", "secret": true});
    assert_eq!(rig.config(), json!({"shop:own": plain("kept"), "shop:new": plain("1"), "shop:hidden": hidden}));
    assert_eq!(salt(&rig), before);
    for kept in std::fs::read_dir(rig.path("share/.settings")).unwrap() {
        assert!(!std::fs::read_to_string(kept.unwrap().path()).unwrap().contains("planted"));
    }
}

#[tokio::test]
async fn an_init_that_was_cut_off_anywhere_leaves_nothing_behind() {
    let mut rig = Rig::new(EMPTY);
    std::fs::write(rig.path("share/source/Pulumi.dev.yaml"), "config:\n  shop:own: kept\n").unwrap();
    rig.start_agent().await;
    let config = |n: usize| vec![text(&format!("k{n}"), "x"), secret(text(&format!("s{n}"), "planted"))];
    assert_eq!(set(&rig, "first", config(0)).await.failure, None);
    let before = salt(&rig);
    // Before each of its calls of the CLI; a file that is cut short is what a call leaves that was cut off itself.
    let file = rig.path("share/source/Pulumi.dev.yaml");
    for (n, (call, cut)) in
        [("stack", ""), ("config", ""), ("set", ""), ("set", ": > "), ("set", "echo 'config: {' > ")]
            .into_iter()
            .enumerate()
    {
        let reached = rig.path(&format!("reached-{n}"));
        let cut = if cut.is_empty() { String::new() } else { format!("{cut}{};", file.display()) };
        let stop = format!("{cut} touch {}; sleep 5; exit 1", reached.display());
        rig.write_pulumi(&format!("case \"$2 $3 \" in {call}\\ *|*\\ {call}\\ ) {stop};; esac"));
        let run_id = format!("cut-{n}");
        start(&mut rig.runs().await, &run_id, init(vec![Stack { config: config(n + 1), ..stack() }])).await.unwrap();
        until("the call is made", || async { reached.exists().then_some(()) }).await;
        rig.kill_agent();
        rig.write_pulumi("");
        rig.start_agent().await;
        follow(&mut rig.runs().await, &run_id).await;
        assert_eq!(set(&rig, &format!("last-{n}"), vec![text("last", "x")]).await.failure, None);
        assert_eq!(rig.config(), json!({"shop:own": plain("kept"), "shop:last": plain("x")}), "{call} {n}");
        assert_eq!(salt(&rig), before, "{call} {n}");
    }
}

#[tokio::test]
async fn secrets_of_the_state_can_be_read_after_a_change_of_the_configuration() {
    let program = support::program("value: x, secret: planted") + "  hidden: ${a.secretOutput}\n";
    let rig = Rig::serving(&program).await;
    assert_eq!(set(&rig, "i1", vec![text("one", "1"), secret(text("s", "planted"))]).await.failure, None);
    assert_eq!(rig.run("u1", support::up()).await.failure, None);
    assert_eq!(set(&rig, "i2", vec![text("two", "1")]).await.failure, None);
    let run = rig.run("u2", support::up()).await;
    assert_eq!((run.failure, run.resource_changes.get("same")), (None, Some(&2)));
    assert!(rig.pulumi(&["stack", "output", "hidden", "--show-secrets"]).contains("derived-from-planted"));
}
