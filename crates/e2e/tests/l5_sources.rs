//! Stacks whose program is in a Git repository, on real servers that operator and pods reach over the network.
#![allow(clippy::unwrap_used, reason = "what a test cannot set up fails it")]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use pko_e2e::{
    repositories::{APP, APP_TOKEN, GitHost, INSTALLATION, authority, greets, makes_a_thing, trusting_template},
    scene::Scene,
};
use pko_testkit::{
    cluster::{authorities, condition, install_operator_trusting, read, wait_for},
    shared::Shared,
};
use serde_json::{Value, json};

const TOKEN: &str = "planted-git-token";
const PASSWORD: &str = "planted-git-password";

/// The operator, and the servers that all tests share.
fn git() -> Arc<GitHost> {
    static HOST: Shared<GitHost> = Shared::new();
    install_operator_trusting(&authority().pem());
    HOST.get(GitHost::start)
}

/// A reference to a key of the Secret `credentials`.
fn credential(key: &str) -> Value {
    json!({"type": "Secret", "secret": {"name": "credentials", "key": key}})
}

fn update_name(stack: &Value) -> &str {
    stack["status"]["lastUpdate"]["name"].as_str().unwrap()
}

/// What is to be seen of a Stack that ran the program of a commit.
fn assert_ran(stack: &Value, commit: &str, greeting: &str) {
    assert_eq!(stack["status"]["outputs"], json!({"greeting": greeting}));
    assert_eq!(stack["status"]["lastUpdate"]["lastSuccessfulCommit"], commit);
    assert_eq!(stack["status"]["lastUpdate"]["lastAttemptedCommit"], commit);
    assert_eq!(condition(stack, "Ready")["reason"], "ProcessingCompleted");
    assert!(condition(stack, "Stalled").is_null(), "{stack}");
}

// Takes longer than all others together, and they run beside it: its name comes first.
#[test]
fn a_branch_is_followed_by_looking_at_it_every_minute() {
    let git = git();
    let scene = Scene::new("branch");
    let first = git.create("branch.git", "first");
    let source = json!({"projectRepo": git.open.url("branch.git"), "branch": "main", "resyncFrequencySeconds": 60});
    scene.apply_stack_from("branch", &source);
    let stack = scene.until_updated("branch", "");
    assert_ran(&stack, &first, "first");

    let second = git.commit("branch.git", &[("Pulumi.yaml", &greets("branch", "second"))]);
    let pushed = Instant::now();
    wait_for("the Stack to see the commit", Duration::from_mins(2), || {
        let seen = read(scene.kubectl(), "stack", "branch")?;
        if condition(&seen, "Ready")["status"] == "True" { Err(seen["status"].to_string()) } else { Ok(()) }
    });
    let took = pushed.elapsed();
    // A minute, and a tenth of one, lest all Stacks look at once.
    assert!(took < Duration::from_secs(72), "the Stack saw the commit after {took:?}");
    assert_ran(&scene.until_updated("branch", update_name(&stack)), &second, "second");
}

#[test]
fn a_closed_repository_over_https_opens_to_a_token_and_to_a_password() {
    let git = git();
    let scene = Scene::new("https");
    scene.kubectl().apply(&authorities(scene.namespace(), &authority().pem()).to_string());
    scene.apply_secret("credentials", &json!({"token": TOKEN, "user": "ada", "password": PASSWORD}));
    let by_token = git.create("token.git", "let in by a token");
    git.closed.close("token.git", "git", TOKEN);
    let by_password = git.create("password.git", "let in by a password");
    git.closed.close("password.git", "ada", PASSWORD);
    let apply = |name: &str, auth: &Value| {
        let source = json!({
            "projectRepo": git.closed.url(&format!("{name}.git")),
            "branch": "refs/heads/main",
            "gitAuth": auth,
            "workspaceTemplate": trusting_template(),
        });
        scene.apply_stack_from(name, &source);
    };
    apply("token", &json!({"accessToken": credential("token")}));
    apply("password", &json!({"basicAuth": {"userName": credential("user"), "password": credential("password")}}));

    assert_ran(&scene.until_updated("token", ""), &by_token, "let in by a token");
    assert_ran(&scene.until_updated("password", ""), &by_password, "let in by a password");
    let objects = scene.kubectl().run(&["get", "stack,workspace,update,statefulset,pod,event", "-o", "json"]);
    assert!(!objects.contains(TOKEN) && !objects.contains(PASSWORD), "{objects}");
}

#[test]
fn a_github_app_opens_its_repository() {
    let git = git();
    let scene = Scene::new("app");
    scene.kubectl().apply(&authorities(scene.namespace(), &authority().pem()).to_string());
    let key = &git.app_key.private;
    scene.apply_secret("credentials", &json!({"app": APP, "installation": INSTALLATION, "key": key}));
    let commit = git.create("app.git", "let in as an app");
    git.closed.close("app.git", "git", APP_TOKEN);
    let source = json!({
        "projectRepo": git.closed.url("app.git"),
        "branch": "main",
        "gitAuth": {"githubApp": {
            "appID": credential("app"),
            "installationID": credential("installation"),
            "privateKey": credential("key"),
        }},
        "workspaceTemplate": trusting_template(),
    });
    scene.apply_stack_from("app", &source);
    assert_ran(&scene.until_updated("app", ""), &commit, "let in as an app");
}

#[test]
fn a_host_that_is_not_known_is_refused_with_the_line_that_lets_it_in() {
    let git = git();
    let scene = Scene::new("ssh");
    let commit = git.create("ssh.git", "let in by a key");
    scene.apply_secret("credentials", &json!({"sshPrivateKey": git.ssh_key.private}));
    let source = json!({
        "projectRepo": git.ssh.url("ssh.git"),
        "branch": "main",
        "gitAuth": {"sshAuth": {"sshPrivateKey": credential("sshPrivateKey")}},
    });
    scene.apply_stack_from("ssh", &source);
    let stack = scene.until_stalled("ssh", "SourceUnavailable");
    let message = condition(&stack, "Stalled")["message"].as_str().unwrap();
    // The last word of such a line is a comment.
    let known = git.ssh.known_hosts();
    let line: Vec<&str> = known.split_whitespace().take(3).collect();
    let line = line.join(" ");
    assert!(message.contains("is not known") && message.contains(&line), "{message}");

    scene.apply_secret("credentials", &json!({"sshPrivateKey": git.ssh_key.private, "known_hosts": line}));
    assert_ran(&scene.until_updated("ssh", ""), &commit, "let in by a key");
}

#[test]
fn a_stack_whose_repository_is_gone_says_so_and_is_destroyed_all_the_same() {
    let git = git();
    let scene = Scene::new("gone");
    git.create("gone.git", "");
    let commit = git.commit("gone.git", &[("Pulumi.yaml", &makes_a_thing("gone"))]);
    let source = json!({"projectRepo": git.open.url("gone.git"), "branch": "main", "destroyOnFinalize": true});
    scene.apply_stack_from("gone", &source);
    assert_ran(&scene.until_updated("gone", ""), &commit, "made");
    assert_eq!(scene.volume().things().len(), 1, "{:?}", scene.volume().ledger());

    git.delete("gone.git");
    // The look at the repository before the update serves for a few seconds more.
    let mut requests = 0;
    let stack = wait_for("the Stack to miss its repository", Duration::from_mins(1), || {
        requests += 1;
        let request = format!("pulumi.com/reconciliation-request={requests}");
        scene.kubectl().run(&["annotate", "--overwrite", "stack", "gone", &request]);
        let stack = read(scene.kubectl(), "stack", "gone")?;
        if condition(&stack, "Stalled")["status"] == "True" { Ok(stack) } else { Err(stack["status"].to_string()) }
    });
    assert_eq!(condition(&stack, "Stalled")["reason"], "SourceUnavailable", "{stack}");
    assert_eq!(stack["status"]["lastUpdate"]["lastSuccessfulCommit"], commit);

    scene.kubectl().run(&["delete", "stack", "gone", "--timeout=120s"]);
    assert_eq!(scene.volume().things(), Vec::<String>::new(), "{:?}", scene.volume().ledger());
    assert_eq!(scene.volume().ledger().last().unwrap().operation, "delete");
}

#[test]
fn tags_directories_and_shallow_clones() {
    let git = git();
    let scene = Scene::new("mono");
    let tagged = git.create("mono.git", "as tagged");
    git.tag("mono.git", "v1.0.0");
    let root = greets("mono", "at the top");
    let head = git
        .commit("mono.git", &[("Pulumi.yaml", &root), ("infra/dev/Pulumi.yaml", &greets("infra", "in a directory"))]);
    let apply = |name: &str, more: &Value| {
        let mut source = json!({"projectRepo": git.open.url("mono.git"), "stack": name});
        source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        scene.apply_stack_from(name, &source);
    };
    apply("tag", &json!({"branch": "refs/tags/v1.0.0"}));
    apply("directory", &json!({"branch": "main", "repoDir": "infra/dev"}));
    apply("shallow", &json!({"commit": head, "shallow": true}));

    assert_ran(&scene.until_updated("tag", ""), &tagged, "as tagged");
    assert_ran(&scene.until_updated("directory", ""), &head, "in a directory");
    assert_ran(&scene.until_updated("shallow", ""), &head, "at the top");
    let cut_off_at = |name: &str| {
        let pod = format!("{name}-workspace-0");
        scene.kubectl().try_run(&["exec", &pod, "-c", "pulumi", "--", "cat", "/share/source/.git/shallow"])
    };
    assert_eq!(cut_off_at("shallow").unwrap().trim(), head);
    assert!(cut_off_at("directory").unwrap_err().contains("No such file"));
}
