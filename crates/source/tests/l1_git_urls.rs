//! Addresses of repositories: whatever is written, nothing panics and no password is printed.
#![allow(clippy::unwrap_used, reason = "a failed parse of what must parse fails the test")]

use pko_source::git::GitUrl;
use proptest::prelude::*;

/// Pieces of which addresses are made, so that many of them nearly are one.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "http",
            "https",
            "ssh",
            "file",
            "git",
            "://",
            ":",
            "/",
            "@",
            "[",
            "]",
            "~",
            "..",
            "-",
            "%41",
            "%",
            "%zz",
            "?",
            "#",
            "'",
            " ",
            "host",
            "example.com",
            "::1",
            "22",
            "65536",
            "me",
            "shop.git",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,3}",
        any::<String>(),
    ]
}

fn told(text: &str) -> String {
    match GitUrl::parse(text) {
        Ok(url) => format!("{url} {url:?}"),
        Err(error) => format!("{error} {error:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(pieces in prop::collection::vec(piece(), 0..10)) {
        let text = pieces.concat();
        prop_assert!(!told(&text).is_empty());
        if let Ok(url) = GitUrl::parse(&text) {
            prop_assert!(!url.host().is_empty(), "{:?} has no host", text);
        }
    }

    #[test]
    fn no_password_is_printed(
        scheme in prop::sample::select(vec!["http://", "https://", "HTTPS://", "ssh://", "ftp://", "file://", ""]),
        user in "[a-z]{0,8}",
        password in "pw[A-Za-z0-9.%:!$-]{4,16}",
        rest in prop::sample::select(vec!["host/shop.git", "host:2222/shop.git", "host:shop.git", "[::1]/x", "host", ""]),
    ) {
        let text = told(&format!("{scheme}{user}:{password}@{rest}"));
        prop_assert!(!text.contains(&password), "{}", text);
    }

    #[test]
    fn both_ways_of_writing_an_ssh_address_name_the_same_host(
        user in "[a-z]{1,8}",
        host in "[a-z]{1,8}(\\.[a-z]{1,8}){0,2}",
        path in "[a-z]{1,8}(/[a-z]{1,8}){0,2}",
    ) {
        let short = GitUrl::parse(&format!("{user}@{host}:{path}")).unwrap();
        let long = GitUrl::parse(&format!("ssh://{user}@{host}/{path}")).unwrap();
        prop_assert!(short.is_ssh() && long.is_ssh());
        prop_assert_eq!(short.host(), long.host());
        let web = GitUrl::parse(&format!("https://{host}/{path}")).unwrap();
        prop_assert!(!web.is_ssh());
    }
}

/// Addresses that once were, or easily are, misread.
#[test]
fn the_corpus_is_read_as_it_is_meant() {
    let usable = [
        "https://github.com/pulumi/examples",
        "https://github.com/pulumi/examples.git",
        "http://gitea.git.svc.cluster.local:3000/acme/shop.git",
        "https://dev.azure.com/acme/shop/_git/infra",
        "https://user@dev.azure.com/acme/shop/_git/infra",
        "git@ssh.dev.azure.com:v3/acme/shop/infra",
        "git@gitlab.com:acme/group/shop.git",
        "ssh://git@bitbucket.corp:7999/acme/shop.git",
        "ssh://git-codecommit.eu-west-1.amazonaws.com/v1/repos/shop",
        "acme@host.xz:~/shop",
    ];
    for text in usable {
        assert!(GitUrl::parse(text).is_ok(), "{text}");
    }
    let unusable = [
        "",
        " ",
        "/",
        ".",
        "..",
        "shop",
        "./shop",
        "../shop.git",
        "/srv/shop.git",
        "C:",
        "host:",
        ":path",
        "@:",
        "git@:x",
        "file:///srv/shop.git",
        "git://host/shop",
        "ext::sh -c id",
        "https://",
        "ssh://",
        "ssh:///shop",
        "ssh://host",
        "ssh://host/",
        "ssh://:22/x",
        "https://host:99999/x",
        "ssh://host:99999/x",
        "git@host:--upload-pack=x",
        "git@[::1",
        "https://host/x?y",
        "https://host/x#y",
    ];
    for text in unusable {
        assert!(GitUrl::parse(text).is_err(), "{text}");
    }
}
