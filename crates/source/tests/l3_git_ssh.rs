//! Git over SSH, from a real `sshd`.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

mod git;

use std::{fs, time::Duration};

use git::{Shop, access, assert_checked_out, fetch, names, resolve};
use pko_source::git::{Access, Depth, GitError, GitUrl};
use pko_testkit::git::{KeyForm, KeyKind, SshKey, SshOptions, SshServer};

const MISSING: &str = "0123456789012345678901234567890123456789";

fn key() -> SshKey {
    SshKey::new(KeyKind::Ed25519, KeyForm::OpenSsh, "")
}

/// Access with a key to a server that is known.
fn known(server: &SshServer, key: &SshKey, more: &[(&str, &str)]) -> Access {
    let hosts = server.known_hosts();
    let mut variables = vec![("GIT_SSH_PRIVATE_KEY", key.private.as_str()), ("GIT_SSH_KNOWN_HOSTS", hosts.as_str())];
    variables.extend(more);
    access(&variables).unwrap()
}

#[tokio::test]
async fn every_kind_and_form_of_key_opens_the_door() {
    use KeyForm::{OpenSsh, Pem, Pkcs8};
    use KeyKind::{Ecdsa, Ed25519, Rsa};
    let shop = Shop::new();
    let forms = [
        (Ed25519, OpenSsh, ""),
        (Ed25519, OpenSsh, "open sesame"),
        (Ecdsa, OpenSsh, ""),
        (Ecdsa, OpenSsh, "open sesame"),
        (Ecdsa, Pem, ""),
        (Ecdsa, Pkcs8, ""),
        (Rsa, OpenSsh, ""),
        (Rsa, OpenSsh, "open sesame"),
        (Rsa, Pem, ""),
        (Rsa, Pem, "open sesame"),
        (Rsa, Pkcs8, ""),
        (Rsa, Pkcs8, "open sesame"),
    ];
    let keys: Vec<SshKey> = forms.iter().map(|(kind, form, phrase)| SshKey::new(*kind, *form, phrase)).collect();
    // RSA with SHA-1 is not taken by this server, whatever its own defaults are.
    let more = "PubkeyAcceptedAlgorithms ssh-ed25519,ecdsa-sha2-nistp256,rsa-sha2-256,rsa-sha2-512";
    let options = SshOptions { more, ..SshOptions::default() };
    let server = SshServer::start(&shop.repositories, &keys.iter().collect::<Vec<_>>(), &options);
    for ((kind, form, phrase), key) in forms.iter().zip(&keys) {
        let access = known(&server, key, &[("GIT_PASSWORD", phrase)]);
        let found = resolve(&server.url("shop.git"), &access, "main").await;
        assert_eq!(found.map_err(|e| e.to_string()), Ok(shop.main[2].clone()), "{kind:?} {form:?} {phrase:?}");
    }
    // What passes through YAML gets indented, and a passphrase that is not needed does no harm.
    let indented: String = keys[0].private.lines().flat_map(|line| ["  ", line, "\r\n"]).collect();
    let access = known(&server, &SshKey { private: indented, ..keys[0].clone() }, &[("GIT_PASSWORD", "unused")]);
    assert_eq!(resolve(&server.url("shop.git"), &access, "main").await.unwrap(), shop.main[2]);
}

#[tokio::test]
async fn every_way_to_name_a_revision_leads_to_its_commit() {
    let (shop, key) = (Shop::new(), key());
    // A stock server speaks the old protocol, in which it gives no commit that it did not offer.
    for new_protocol in [true, false] {
        let options = SshOptions { new_protocol, ..SshOptions::default() };
        let server = SshServer::start(&shop.repositories, &[&key], &options);
        let (url, access) = (server.url("shop.git"), known(&server, &key, &[]));
        let [first, second, third] = &shop.main;
        for (revision, commit, version) in [
            ("", third, "3"),
            ("feature/new", &shop.feature, "feature"),
            ("refs/pull/7/head", &shop.feature, "feature"),
            ("v1", first, "1"),
            (second, second, "2"),
        ] {
            for depth in [Depth::Full, Depth::One] {
                let dir = tempfile::tempdir().unwrap();
                let target = dir.path().join("source");
                let address = GitUrl::parse(&url).unwrap();
                let found = pko_source::git::fetch(&address, &access, revision, depth, &target).await.unwrap();
                assert_eq!(&found, commit, "{revision}");
                assert_checked_out(&target, commit, version);
                assert_eq!(names(dir.path()), ["source"]);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("source");
        let error = fetch(&url, &access, "mian", &target).await.unwrap_err().to_string();
        assert_eq!(error, format!("{url} has no branch, tag or ref \"mian\"; it has feature/new, main, light, v1"));
        let error = fetch(&url, &access, MISSING, &target).await.unwrap_err().to_string();
        assert_eq!(error, format!("{url} has no commit {MISSING}; it is in none of its branches and tags"));
    }
}

#[tokio::test]
async fn a_second_run_does_nothing_or_replaces_everything() {
    let (shop, key) = (Shop::new(), key());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let (url, access) = (server.url("shop.git"), known(&server, &key, &[]));
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("source");
    for (revision, commit, version) in
        [("main", &shop.main[2], "3"), ("main", &shop.main[2], "3"), ("v1", &shop.main[0], "1")]
    {
        fetch(&url, &access, revision, &target).await.unwrap();
        assert_checked_out(&target, commit, version);
    }
    assert_eq!(git::git(&target, &["remote", "get-url", "origin"]), url);
    // A commit that is there is not asked for, so nobody has to be there who could be asked.
    drop(server);
    fetch(&url, &access, &shop.main[0], &target).await.unwrap();
}

#[tokio::test]
async fn a_repository_with_a_strange_name_is_found_by_that_name() {
    let (shop, key) = (Shop::new(), key());
    let name = "it's a $(shop); !really";
    fs::rename(shop.repositories.path("shop.git"), shop.repositories.path(name)).unwrap();
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let url = server.url(&name.replace(' ', "%20"));
    assert_eq!(resolve(&url, &known(&server, &key, &[]), "main").await.unwrap(), shop.main[2]);
}

#[tokio::test]
async fn what_the_server_says_of_a_missing_repository_is_passed_on() {
    let (shop, key) = (Shop::new(), key());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let access = known(&server, &key, &[]);
    let dir = tempfile::tempdir().unwrap();
    for revision in ["main", MISSING] {
        let error = fetch(&server.url("shoop.git"), &access, revision, &dir.path().join("source")).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, GitError::Failed { .. }), "{error:?}");
        assert!(
            text.contains("ended with status 128 and said: ")
                && text.contains("does not appear to be a git repository"),
            "{text}"
        );
    }
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_key_that_is_not_let_in_fails_at_once_and_is_named() {
    let (shop, key, other) = (Shop::new(), key(), key());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let error = resolve(&server.url("shop.git"), &known(&server, &other, &[]), "main").await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, GitError::Refused { .. }), "{error:?}");
    assert!(text.contains("GIT_SSH_PRIVATE_KEY (sshPrivateKey)") && text.contains(&other.fingerprint()), "{text}");
    assert!(text.contains(server.user()) && !text.contains("PRIVATE KEY-"), "{text}");
}

#[tokio::test]
async fn a_key_that_cannot_be_read_fails_at_once_and_is_named() {
    let shop = Shop::new();
    let keys = [
        SshKey::new(KeyKind::Ed25519, KeyForm::OpenSsh, "open sesame"),
        SshKey::new(KeyKind::Rsa, KeyForm::Pem, "open sesame"),
        SshKey::new(KeyKind::Rsa, KeyForm::Pkcs8, "open sesame"),
    ];
    let server = SshServer::start(&shop.repositories, &[&keys[0]], &SshOptions::default());
    let said = async |access: &Access| resolve(&server.url("shop.git"), access, "main").await.unwrap_err().to_string();
    for key in &keys {
        let error = said(&known(&server, key, &[("GIT_PASSWORD", "hunter2")])).await;
        assert!(error.contains("GIT_PASSWORD (password) is not its passphrase"), "{error}");
        assert!(!error.contains("hunter2") && !error.contains("tried"), "{error}");
        let error = said(&known(&server, key, &[])).await;
        assert!(error.contains("it has a passphrase; give it as GIT_PASSWORD (password)"), "{error}");
    }
    let broken = SshKey { private: "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n".to_owned(), ..keys[0].clone() };
    let error = said(&known(&server, &broken, &[])).await;
    assert!(error.starts_with("GIT_SSH_PRIVATE_KEY (sshPrivateKey) is not usable"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
    let error = said(&access(&[("GIT_TOKEN", "hunter2")]).unwrap()).await;
    assert!(error.starts_with("an address over ssh needs a private key"), "{error}");
}

#[tokio::test]
async fn a_host_that_is_not_known_is_refused_with_its_fingerprint() {
    let (shop, key) = (Shop::new(), key());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let dir = tempfile::tempdir().unwrap();
    let other = dir.path().join("other");
    fs::write(&other, format!("github.com {}\n127.0.0.1 {}\n", key.public, server.host_keys()[0].public)).unwrap();
    let variables = [("GIT_SSH_PRIVATE_KEY", key.private.as_str()), ("SSH_KNOWN_HOSTS", other.to_str().unwrap())];
    let error = resolve(&server.url("shop.git"), &access(&variables).unwrap(), "main").await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, GitError::HostKey(_)), "{error:?}");
    assert!(text.contains(&server.host_keys()[0].fingerprint()), "{text}");
    assert!(text.contains("is not known") && text.contains("GIT_SSH_KNOWN_HOSTS"), "{text}");
    assert!(text.contains(&format!("at port {}", server.port())), "{text}");
    let (_, line) = text.rsplit_once(": ").unwrap();
    let variables = [("GIT_SSH_PRIVATE_KEY", key.private.as_str()), ("GIT_SSH_KNOWN_HOSTS_CLUSTER", line)];
    let found = resolve(&server.url("shop.git"), &access(&variables).unwrap(), "main").await;
    assert_eq!(found.unwrap(), shop.main[2], "the line that is told lets the host in");
}

#[tokio::test]
async fn a_host_whose_key_changed_is_refused_with_where_the_old_one_is() {
    let (shop, key) = (Shop::new(), key());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("known_hosts");
    fs::write(&file, format!("# old\n{}", server.known_host(&key))).unwrap();
    let variables = [("GIT_SSH_PRIVATE_KEY", key.private.as_str()), ("SSH_KNOWN_HOSTS", file.to_str().unwrap())];
    let error = resolve(&server.url("shop.git"), &access(&variables).unwrap(), "main").await.unwrap_err().to_string();
    assert!(error.contains("has changed") && error.contains(&format!("{}, line 2", file.display())), "{error}");
    assert!(error.contains(&server.host_keys()[0].fingerprint()) && error.contains(&key.fingerprint()), "{error}");
}

#[tokio::test]
async fn without_known_hosts_pkos_words_are_said() {
    let (shop, key) = (Shop::new(), key());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let variables = [("GIT_SSH_PRIVATE_KEY", key.private.as_str()), ("SSH_KNOWN_HOSTS", "/no/such/file")];
    let error = resolve(&server.url("shop.git"), &access(&variables).unwrap(), "main").await.unwrap_err().to_string();
    let expected = "unable to find any valid known_hosts file, set SSH_KNOWN_HOSTS env variable";
    assert!(error.starts_with(expected) && error.contains("GIT_SSH_KNOWN_HOSTS"), "{error}");
}

#[tokio::test]
async fn host_keys_are_found_in_every_place_and_form() {
    let (shop, key) = (Shop::new(), key());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join(".ssh")).unwrap();
    let (plain, hashed) = (home.path().join(".ssh/known_hosts"), home.path().join("hashed"));
    fs::write(&plain, server.known_hosts()).unwrap();
    fs::write(&hashed, server.hashed_known_hosts()).unwrap();
    assert!(fs::read_to_string(&hashed).unwrap().starts_with("|1|"));
    let two = format!("/no/such/file:{}", hashed.display());
    let contents = server.hashed_known_hosts();
    for (name, value) in [
        ("HOME", home.path().to_str().unwrap()),
        ("SSH_KNOWN_HOSTS", &two),
        ("GIT_SSH_KNOWN_HOSTS", &contents),
        ("GIT_SSH_KNOWN_HOSTS_CLUSTER", &contents),
    ] {
        let access = access(&[("GIT_SSH_PRIVATE_KEY", &key.private), (name, value)]).unwrap();
        assert_eq!(resolve(&server.url("shop.git"), &access, "main").await.unwrap(), shop.main[2], "{name}");
    }
}

#[tokio::test]
async fn a_host_with_several_keys_is_asked_for_the_one_that_is_known() {
    let (shop, key) = (Shop::new(), key());
    let host_keys = vec![KeyKind::Ed25519, KeyKind::Ecdsa, KeyKind::Rsa];
    let options = SshOptions { host_keys, ..SshOptions::default() };
    let server = SshServer::start(&shop.repositories, &[&key], &options);
    for host_key in server.host_keys() {
        let hosts = server.known_host(host_key);
        let variables = [("GIT_SSH_PRIVATE_KEY", key.private.as_str()), ("GIT_SSH_KNOWN_HOSTS", hosts.as_str())];
        let found = resolve(&server.url("shop.git"), &access(&variables).unwrap(), "main").await;
        assert_eq!(found.unwrap(), shop.main[2], "{}", host_key.public);
    }
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_tried_again_and_given_up() {
    let key = key();
    let variables = [("GIT_SSH_PRIVATE_KEY", key.private.as_str()), ("GIT_SSH_KNOWN_HOSTS", "# nobody\n")];
    // Port 1 of this machine is closed.
    let error = resolve("ssh://me@127.0.0.1:1/shop.git", &access(&variables).unwrap(), "main").await.unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("ssh://me@127.0.0.1:1/shop.git cannot be reached: "), "{text}");
    assert!(text.contains("refused") && text.ends_with("tried 4 times"), "{text}");
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let (shop, key) = (Shop::new(), key());
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let more = "ForceCommand cat";
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions { more, ..SshOptions::default() });
    let mut access = known(&server, &key, &[]);
    access.patience.silence = Duration::from_secs(2);
    access.patience.waits.clear();
    let before_its_key = format!("ssh://me@{}/shop.git", silent.local_addr().unwrap());
    for url in [before_its_key, server.url("shop.git")] {
        let error = resolve(&url, &access, "main").await.unwrap_err();
        assert!(matches!(error, GitError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().ends_with("the server said nothing for 2s"), "{error}");
    }
}

#[tokio::test]
async fn an_answer_that_takes_too_long_or_is_too_long_is_given_up() {
    let (shop, key) = (Shop::new(), key());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions::default());
    let url = server.url("shop.git");
    let mut access = known(&server, &key, &[]);
    access.patience.most = Some(100);
    let error = resolve(&url, &access, "main").await.unwrap_err().to_string();
    assert!(error.ends_with("its answer is longer than 100 bytes"), "{error}");
    // A byte now and then keeps silence away.
    let more = "ForceCommand while sleep 0.2; do printf 0; done";
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions { more, ..SshOptions::default() });
    let mut access = known(&server, &key, &[]);
    access.patience.whole = Some(Duration::from_millis(500));
    access.patience.waits.clear();
    let error = resolve(&server.url("shop.git"), &access, "main").await.unwrap_err().to_string();
    assert!(error.contains("takes longer than 500ms"), "{error}");
}

#[tokio::test]
async fn a_server_that_breaks_off_is_tried_again() {
    let (shop, key) = (Shop::new(), key());
    let dir = tempfile::tempdir().unwrap();
    let count = dir.path().join("count");
    // The first two times the session is killed before git speaks.
    let script = dir.path().join("script");
    let body = format!(
        "#!/bin/sh\necho x >> {0}\nif [ $(wc -l < {0}) -lt 3 ]; then kill -9 $PPID; exit 1; fi\n\
         exec sh -c \"$SSH_ORIGINAL_COMMAND\"\n",
        count.display()
    );
    fs::write(&script, body).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let more: &'static str = Box::leak(format!("ForceCommand {}", script.display()).into_boxed_str());
    let server = SshServer::start(&shop.repositories, &[&key], &SshOptions { more, ..SshOptions::default() });
    let found = resolve(&server.url("shop.git"), &known(&server, &key, &[]), "main").await;
    assert_eq!(found.map_err(|e| e.to_string()), Ok(shop.main[2].clone()), "{}", server.log());
    assert_eq!(fs::read_to_string(count).unwrap().lines().count(), 3);
}
