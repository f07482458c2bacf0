//! What went wrong: a class that programs understand, and a few KiB that tell people what happened and what to do.

use jiff::Timestamp;

use crate::{
    Ended, Summary,
    locks::conflict,
    text::{LIMIT, cut, plain, shorten},
};

/// What comes from outside and may be long leaves room for the remedy.
const WORDS: usize = LIMIT - 1024;

/// Kinds of failures, by what there is to do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Another update of the stack is going on, or has left its lock.
    Conflict,
    /// The state backend cannot be reached.
    BackendUnavailable,
    /// Pulumi Cloud does not accept the access token, or there is none.
    InvalidAccessToken,
    /// The passphrase of the stack's secrets is wrong or missing.
    InvalidPassphrase,
    /// The directory has no project file, or one that cannot be read.
    ProjectNotFound,
    StackNotFound,
    /// A plugin or a language host is not there.
    PluginNotFound,
    /// A plugin could not be downloaded.
    PluginDownloadFailed,
    /// The project wants a value that the stack's configuration lacks.
    MissingConfiguration,
    PolicyViolation,
    /// A protected resource would have been deleted or replaced.
    ProtectedResource,
    /// The update would have done what its plan does not allow.
    PlanViolation,
    /// There were changes where none were expected.
    UnexpectedChanges,
    ProgramFailed,
    /// A resource could not be brought to its wanted state.
    ProviderFailed,
    Canceled,
    /// A signal ended the CLI.
    Killed,
    Other,
}

impl Class {
    pub const ALL: [Self; 18] = [
        Self::Conflict,
        Self::BackendUnavailable,
        Self::InvalidAccessToken,
        Self::InvalidPassphrase,
        Self::ProjectNotFound,
        Self::StackNotFound,
        Self::PluginNotFound,
        Self::PluginDownloadFailed,
        Self::MissingConfiguration,
        Self::PolicyViolation,
        Self::ProtectedResource,
        Self::PlanViolation,
        Self::UnexpectedChanges,
        Self::ProgramFailed,
        Self::ProviderFailed,
        Self::Canceled,
        Self::Killed,
        Self::Other,
    ];

    /// Whether trying again can help though nobody changes anything. What nobody has understood counts as passing.
    pub fn retryable(self) -> bool {
        match self {
            Self::Conflict
            | Self::BackendUnavailable
            | Self::PluginDownloadFailed
            | Self::ProgramFailed
            | Self::ProviderFailed
            | Self::Killed
            | Self::Other => true,
            Self::InvalidAccessToken
            | Self::InvalidPassphrase
            | Self::ProjectNotFound
            | Self::StackNotFound
            | Self::PluginNotFound
            | Self::MissingConfiguration
            | Self::PolicyViolation
            | Self::ProtectedResource
            | Self::PlanViolation
            | Self::UnexpectedChanges
            | Self::Canceled => false,
        }
    }
}

/// A failed call of the CLI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub class: Class,
    /// What happened and, where it is known, what to do about it.
    pub message: String,
}

/// Words of the CLI and what they mean; those of one line must all be there. The first line that fits is taken.
const WORDS_OF: [(&[&str], Class); 37] = [
    (&["Conflict: Another update is currently in progress"], Class::Conflict),
    (&["the stack is currently locked by"], Class::Conflict),
    (&["invalid access token"], Class::InvalidAccessToken),
    (&["PULUMI_ACCESS_TOKEN must be set"], Class::InvalidAccessToken),
    (&["Unauthorized: No credentials provided or are invalid"], Class::InvalidAccessToken),
    (&["[401]"], Class::InvalidAccessToken),
    (&["this command requires logging in"], Class::InvalidAccessToken),
    (&["incorrect passphrase"], Class::InvalidPassphrase),
    (&["passphrase must be set with PULUMI_CONFIG_PASSPHRASE"], Class::InvalidPassphrase),
    (&["no stack named", "found"], Class::StackNotFound),
    (&["no Pulumi.yaml project file found"], Class::ProjectNotFound),
    (&["could not unmarshal '", "Pulumi."], Class::ProjectNotFound),
    (&["Could not automatically download and install", "plugin"], Class::PluginDownloadFailed),
    (&["failed to download plugin"], Class::PluginDownloadFailed),
    (&["plugin 'pulumi-", "found in the workspace"], Class::PluginNotFound),
    (&["is missing configuration value"], Class::MissingConfiguration),
    (&["missing required configuration variable"], Class::MissingConfiguration),
    (&["Missing required configuration variable"], Class::MissingConfiguration),
    (&["no changes were expected", "but changes were proposed"], Class::UnexpectedChanges),
    (&["no changes were expected", "but changes occurred"], Class::UnexpectedChanges),
    (&["violates plan"], Class::PlanViolation),
    (&["no plan for resource"], Class::PlanViolation),
    (&["error: update canceled"], Class::Canceled),
    (&["error: preview canceled"], Class::Canceled),
    (&["error: refresh canceled"], Class::Canceled),
    (&["error: destroy canceled"], Class::Canceled),
    (&["connection refused"], Class::BackendUnavailable),
    (&["connection reset by peer"], Class::BackendUnavailable),
    (&["no such host"], Class::BackendUnavailable),
    (&["no route to host"], Class::BackendUnavailable),
    (&["network is unreachable"], Class::BackendUnavailable),
    (&["i/o timeout"], Class::BackendUnavailable),
    (&["TLS handshake timeout"], Class::BackendUnavailable),
    (&["[429]"], Class::BackendUnavailable),
    (&["[502]"], Class::BackendUnavailable),
    (&["[503]"], Class::BackendUnavailable),
    (&["[504]"], Class::BackendUnavailable),
];

/// The class that the CLI's own words tell.
pub fn classify(text: &str) -> Class {
    let fits = |words: &[&str]| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
    WORDS_OF.iter().find(|(words, _)| fits(words)).map_or(Class::Other, |(_, class)| *class)
}

/// Why a call failed. `what` was tried; `summary` is of its events, if it writes any; `now` tells how old a lock is.
pub fn explain(what: &str, ended: &Ended, summary: &Summary, now: Timestamp) -> Failed {
    let stderr = told(&ended.stderr);
    let class = class_of(ended, summary, &stderr);
    // What a program says matters unless a resource is to blame.
    let program = if summary.blames_resources() { String::new() } else { summary.program_words() };
    let said = [program.as_str()].into_iter().chain(summary.errors());
    // Once the engine has begun, the rest of the standard error is what others said through it.
    let last = if summary.seen > 0 { own_words(&stderr, summary) } else { Vec::new() };
    let text = describe(what, said.chain(last), ended);
    let all = [text.as_str(), &stderr].join("\n");
    let message = match (class, remedy(class, &all, now)) {
        (_, None) => text,
        // These say it all themselves.
        (Class::Conflict | Class::PlanViolation, Some(remedy)) => remedy,
        (_, Some(remedy)) => format!("{}\n{remedy}", cut(&text, WORDS)),
    };
    Failed { class, message: shorten(&message) }
}

/// Errors of the CLI itself. Its standard error also repeats what the engine, providers and programs have said, which is
/// in the events, and what they log.
pub fn own_words<'a>(stderr: &'a str, summary: &Summary) -> Vec<&'a str> {
    let program = summary.program_words();
    let said = |bare: &str| summary.errors().any(|error| error.contains(bare)) || program.contains(bare);
    stderr
        .lines()
        .filter(|line| line.strip_prefix("error: ").is_some_and(|bare| !is_generic(bare) && !said(bare.trim())))
        .collect()
}

/// What can be wrong before the engine begins, or after it has ended. Others use the same words for matters of their own.
fn of_the_cli_alone(class: Class) -> bool {
    matches!(
        class,
        Class::Conflict
            | Class::BackendUnavailable
            | Class::InvalidAccessToken
            | Class::InvalidPassphrase
            | Class::ProjectNotFound
            | Class::StackNotFound
            | Class::Other
    )
}

fn class_of(ended: &Ended, summary: &Summary, stderr: &str) -> Class {
    let last = own_words(stderr, summary);
    let protected = |text: &str| {
        text.contains("because it is protected") || text.contains("as it is currently marked for protection")
    };
    let program = summary.program_words();
    if ended.signal.is_some() {
        return Class::Killed;
    }
    let own = if summary.seen > 0 { last.join("\n") } else { stderr.to_owned() };
    match classify(&own) {
        Class::Other => {}
        class => return class,
    }
    let engine = classify(&summary.own_errors().collect::<Vec<_>>().join("\n"));
    if !of_the_cli_alone(engine) {
        return engine;
    }
    if summary.result.as_deref() == Some("canceled") {
        return Class::Canceled;
    }
    if summary.violations > 0 {
        return Class::PolicyViolation;
    }
    if summary.errors().any(protected) {
        return Class::ProtectedResource;
    }
    let wanted = classify(&program);
    if matches!(wanted, Class::PluginNotFound | Class::PluginDownloadFailed | Class::MissingConfiguration) {
        return wanted;
    }
    if summary.blames_resources() {
        return Class::ProviderFailed;
    }
    // Of an up whose plan is violated the engine says that it failed, and nothing else.
    let silent = stderr.is_empty() && summary.complete && summary.result.as_deref() == Some("failed");
    match ended.code {
        Some(3) => Class::InvalidAccessToken,
        Some(6) => Class::StackNotFound,
        Some(7) => Class::UnexpectedChanges,
        Some(8) => Class::Canceled,
        _ if !last.is_empty() => Class::Other,
        _ if !program.is_empty() || summary.own_errors().any(|e| !is_generic(e)) => Class::ProgramFailed,
        _ if silent => Class::PlanViolation,
        _ => Class::Other,
    }
}

/// What there is to do, if anybody knows.
fn remedy(class: Class, text: &str, now: Timestamp) -> Option<String> {
    Some(match class {
        Class::Conflict => conflict(text, now),
        Class::BackendUnavailable => {
            "The state backend does not answer, or not now; is its address right, and is there a \
             way to it from the workspace?"
                .to_owned()
        }
        Class::InvalidAccessToken => "Give the stack a valid PULUMI_ACCESS_TOKEN, through envRefs or the environment \
             of its workspace."
            .to_owned(),
        Class::InvalidPassphrase => "Set PULUMI_CONFIG_PASSPHRASE (or PULUMI_CONFIG_PASSPHRASE_FILE), through envRefs \
             or the environment of the workspace, to the passphrase that the stack was created with."
            .to_owned(),
        Class::ProjectNotFound => "The program's directory must hold a readable Pulumi.yaml; is the directory of the \
             source (repoDir, dir) the right one?"
            .to_owned(),
        Class::StackNotFound => "Create the stack, or let the operator do so: it does unless useLocalStackOnly or a \
             destroy forbids it. Is the backend the right one?"
            .to_owned(),
        Class::PluginNotFound | Class::PluginDownloadFailed => plugin(text)?,
        Class::MissingConfiguration => "Add the value to the stack's configuration.".to_owned(),
        Class::PolicyViolation => {
            "A mandatory policy refused the change; change the program, or the policy.".to_owned()
        }
        Class::ProtectedResource => protected(text),
        Class::PlanViolation => {
            "The update would have done something that its plan does not allow, so it was stopped; \
             the CLI does not say what. Make a new plan with a preview of the program as it is now."
                .to_owned()
        }
        Class::UnexpectedChanges => "expectNoChanges was asked for and there were changes; see the run's summary for \
             how many of each kind. Of an up or a refresh they have been made."
            .to_owned(),
        Class::Killed => {
            "What the CLI was doing at that moment may be unknown to the stack's state: run a refresh. Give \
             the workspace more memory if it was short of it. A lock that the process has left is removed by the next \
             run in this workspace; should the stack stay locked, use `pulumi cancel`."
                .to_owned()
        }
        Class::ProgramFailed | Class::ProviderFailed | Class::Canceled | Class::Other => return None,
    })
}

/// `… plugin 'pulumi-resource-aws' at version v1.2.3 …`, or `nosuch-1.2.3` of a failed download.
fn plugin(text: &str) -> Option<String> {
    let named = text.split_once("plugin 'pulumi-").and_then(|(_, rest)| rest.split_once('\''));
    if let Some((name, rest)) = named {
        let line = rest.lines().next().unwrap_or_default();
        let version = line.split_once("at version ").and_then(|(_, v)| v.split([' ', ',', ':', '\'']).next());
        let version = version.map(|v| format!(" {v}")).unwrap_or_default();
        return Some(match name.split_once('-') {
            Some(("language", language)) => format!(
                "The workspace's image has no language host for {language}; use one that has, such as \
                 pulumi/pulumi-{language}."
            ),
            Some((_, package)) => format!(
                "The plugin pulumi-{name}{version} is not in the workspace. Let `pulumi install` download {package}, \
                 which needs a way to its server, or use an image that holds it."
            ),
            None => return None,
        });
    }
    let file = text.split_once("failed to download plugin: ")?.1.split([':', '\n']).next()?;
    Some(format!(
        "The plugin {file} could not be downloaded. Is there a way to its server from the workspace? If there is to be \
         none, use an image that holds it."
    ))
}

fn protected(text: &str) -> String {
    let urn = text.split_once("resource \"").and_then(|(_, rest)| rest.split_once('"')).map_or("the resource", |u| u.0);
    format!(
        "To unprotect {urn}, take `protect` off it in the program and run an up, or use `pulumi state unprotect '{urn}'`."
    )
}

/// The engine ends with a message of its own that says nothing once there are others.
fn is_generic(error: &str) -> bool {
    ["update failed", "preview failed", "refresh failed", "destroy failed"]
        .contains(&error.trim().trim_start_matches("error: "))
}

/// What the CLI wrote to its standard error, without its warnings and its log.
fn told(stderr: &str) -> String {
    let is_log = |line: &str| {
        let bytes = line.as_bytes();
        bytes.len() > 5 && b"IWEF".contains(&bytes[0]) && bytes[1..5].iter().all(u8::is_ascii_digit)
    };
    let lines: Vec<&str> = stderr
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("warning: ") && !is_log(line))
        .collect();
    plain(&lines.join("\n"))
}

/// Why a call failed: its error messages, else what it printed last, else how it ended. Never empty.
pub fn describe<'a>(what: &str, errors: impl Iterator<Item = &'a str>, ended: &Ended) -> String {
    let telling: Vec<&str> = errors.filter(|e| !e.is_empty() && !is_generic(e)).collect();
    if !telling.is_empty() {
        return shorten(&telling.join("\n"));
    }
    for text in [told(&ended.stderr), plain(&ended.stdout), plain(&ended.stderr)] {
        if !text.is_empty() && !is_generic(&text) {
            return shorten(&format!("{what}: {}\n{text}", ended.how()));
        }
    }
    format!("{what} failed without saying why: {}", ended.how())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOCKED: &str = "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to \
        end or delete the lock file with `pulumi cancel`.\n  \
        file:///b/.pulumi/locks/organization/shop/dev/07.json?no_tmp_dir=true: created by root@shop-workspace-0 (pid \
        28977) at 2026-11-15T23:15:47Z\n";
    const WARNING: &str = "warning: using pulumi-language-yaml from $PATH at /x/pulumi-language-yaml\n";
    const THING: &str = "urn:pulumi:dev::shop::pkotest:index:Thing::a";

    fn ended(code: i32, stderr: &str) -> Ended {
        Ended { code: Some(code), stderr: format!("{WARNING}{stderr}"), ..Ended::default() }
    }

    fn events(result: &str, events: &[serde_json::Value]) -> Summary {
        let mut summary = Summary::default();
        let end = [json!({"summaryEvent": {"result": result}}), json!({"cancelEvent": {}})];
        for event in events.iter().chain(&end) {
            summary.take(event.to_string().as_bytes());
        }
        summary
    }

    fn says(severity: &str, urn: &str, message: &str) -> serde_json::Value {
        json!({"diagnosticEvent": {"severity": severity, "urn": urn, "message": message, "color": "never"}})
    }

    fn explained(ended: &Ended, summary: &Summary) -> (Class, String) {
        let Failed { class, message } = explain("pulumi up", ended, summary, "2026-11-15T23:20:00Z".parse().unwrap());
        (class, message)
    }

    #[test]
    fn what_the_cli_says_after_its_engine_is_not_hidden_by_what_the_program_said() {
        let program = says("info#err", "", "DeprecationWarning: use something newer");
        let printed = "DeprecationWarning: use something newer\nerror: writing snapshot: no space left on device\n";
        let (class, message) = explained(&ended(1, printed), &events("succeeded", &[program]));
        assert_eq!(class, Class::Other);
        assert!(message.contains("error: writing snapshot: no space left on device"), "{message}");
    }

    #[test]
    fn what_others_say_through_the_cli_is_not_taken_for_its_own_words() {
        for words in ["registry said [401], going on without", "the stack is currently locked by someone"] {
            let said = [says("info#err", "", words), says("error", THING, "quota exceeded")];
            let printed = format!("{words}\nerror: quota exceeded\nerror: update failed\n");
            let (class, message) = explained(&ended(1, &printed), &events("failed", &said));
            assert_eq!(class, Class::ProviderFailed, "{words}");
            assert!(message.contains("quota exceeded") && !message.contains("PULUMI_ACCESS_TOKEN"), "{message}");
        }
        let late = "error: failed to save: [401] Unauthorized: No credentials provided or are invalid.";
        let (class, _) = explained(&ended(1, late), &events("succeeded", &[]));
        assert_eq!(class, Class::InvalidAccessToken, "this is the CLI itself");
    }

    /// What the CLI 3.259 writes to its standard error before the engine is started, with its exit status.
    #[test]
    fn a_failure_before_the_engine_is_told_by_the_words_on_standard_error() {
        for (code, stderr, class, told) in [
            (1, "error: [409] Conflict: Another update is currently in progress.", Class::Conflict, "`pulumi cancel`"),
            (
                255,
                "error: problem logging in: dial tcp 10.0.0.1:443: connect: connection refused",
                Class::BackendUnavailable,
                "does not answer",
            ),
            (1, "error: [503] Service Unavailable", Class::BackendUnavailable, "does not answer"),
            (1, LOCKED, Class::Conflict, "root@shop-workspace-0 (pid 28977) since 2026-11-15T23:15:47Z, 4 minutes ago"),
            (1, "error: getting secrets manager: invalid access token", Class::InvalidAccessToken, "envRefs"),
            (
                3,
                "error: PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions",
                Class::InvalidAccessToken,
                "envRefs",
            ),
            (3, "error: forbidden", Class::InvalidAccessToken, "forbidden"),
            (
                1,
                "error: getting stack configuration: get stack secrets manager: incorrect passphrase",
                Class::InvalidPassphrase,
                "PULUMI_CONFIG_PASSPHRASE_FILE",
            ),
            (
                1,
                "error: getting stack configuration: get stack secrets manager: passphrase must be set with \
                 PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE environment variables",
                Class::InvalidPassphrase,
                "envRefs",
            ),
            (6, "error: no stack named 'dev' found", Class::StackNotFound, "no stack named 'dev' found\nCreate"),
            (
                1,
                "error: no Pulumi.yaml project file found (searching upwards from /x). If you have not created a \
                 project yet, use `pulumi new` to do so: no project file found",
                Class::ProjectNotFound,
                "repoDir",
            ),
            (
                1,
                "error: could not unmarshal '/x/Pulumi.yaml': invalid YAML file: yaml: line 3: did not find expected \
                 node content",
                Class::ProjectNotFound,
                "line 3",
            ),
            (
                1,
                "error: failed to load language plugin nodejs: no language plugin 'pulumi-language-nodejs' found in \
                 the workspace or on your $PATH",
                Class::PluginNotFound,
                "no language host for nodejs; use one that has, such as pulumi/pulumi-nodejs",
            ),
            (
                1,
                "error: installing packages: failed to download plugin: nosuch-1.2.3: failed all 5 attempts\ncontext \
                 canceled",
                Class::PluginDownloadFailed,
                "The plugin nosuch-1.2.3 could not be downloaded",
            ),
            (
                1,
                "error: validating stack config: Stack 'dev' is missing configuration value 'region'",
                Class::MissingConfiguration,
                "'region'",
            ),
            (
                7,
                "error: no changes were expected for update but changes were proposed",
                Class::UnexpectedChanges,
                "they have been made",
            ),
            (8, "error: confirmation declined", Class::Canceled, "declined"),
            (1, "error: unable to open state directory \"file:///nope\"", Class::Other, "state directory"),
            (1, "E1115 10:11:12.000000 1 x.go:1] incorrect passphrase\nerror: other", Class::Other, "error: other"),
        ] {
            let (found, message) = explained(&ended(code, stderr), &Summary::default());
            assert_eq!(found, class, "{stderr}");
            assert!(message.contains(told) && !message.contains("warning:"), "{message}");
        }
    }

    /// Events of the CLI 3.259; those of the policy are made after its sources.
    #[test]
    fn a_failure_of_the_engine_is_told_by_its_events() {
        let generic = says("error", "", "update failed\n");
        let policy = json!({"policyEvent": {"resourceUrn": THING, "message": "<{%fg 1%}>no public things<{%reset%}>\n",
            "policyName": "no-public", "policyPackName": "house", "policyPackVersion": "1.0.0",
            "enforcementLevel": "mandatory"}});
        let advice = json!({"policyEvent": {"message": "better not", "policyName": "p", "policyPackName": "house",
            "enforcementLevel": "advisory"}});
        for (reason, all, class, told) in [
            (
                "a protected resource is named with its command",
                vec![
                    says(
                        "error",
                        THING,
                        "resource \"urn:pulumi:dev::shop::pkotest:index:Thing::a\" cannot be deleted\nbecause it is \
                         protected. To unprotect the resource, either remove the `protect` flag",
                    ),
                    generic.clone(),
                ],
                Class::ProtectedResource,
                "`pulumi state unprotect 'urn:pulumi:dev::shop::pkotest:index:Thing::a'`",
            ),
            (
                "a mandatory policy is named",
                vec![advice.clone(), policy],
                Class::PolicyViolation,
                "pkotest:index:Thing (a): policy no-public of house 1.0.0: no public things",
            ),
            (
                "advice is no violation",
                vec![advice, says("error", THING, "quota\n"), generic.clone()],
                Class::ProviderFailed,
                "pkotest:index:Thing (a): quota",
            ),
            (
                "what a provider says of tokens is about its own cloud",
                vec![says("error", THING, "invalid access token"), generic.clone()],
                Class::ProviderFailed,
                "invalid access token",
            ),
            (
                "an error of the program",
                vec![
                    says("error", "", "resource or variable named \"nope\" could not be found\n"),
                    says("error", "", "Error registering output [x]: no diagnostics\n"),
                ],
                Class::ProgramFailed,
                "\"nope\" could not be found",
            ),
            (
                "a program whose only words are on its standard error",
                vec![
                    says("info#err", "", "Error: Property bogus does not exist on 'pkotest:index:Thing'\n\n"),
                    says("info#err", "", "  on Pulumi.yaml line 6:\n\n"),
                ],
                Class::ProgramFailed,
                "Property bogus does not exist on 'pkotest:index:Thing'\non Pulumi.yaml line 6:",
            ),
            (
                "a plugin that the program cannot load",
                vec![says(
                    "info#err",
                    "",
                    "Error: error resolving type of resource a: internal error loading package \"nosuch\": no \
                     resource plugin 'pulumi-resource-nosuch' found in the workspace at version v1.2.3 or on your \
                     $PATH\n\n",
                )],
                Class::PluginNotFound,
                "The plugin pulumi-resource-nosuch v1.2.3 is not in the workspace",
            ),
            (
                "a configuration value that the program wants",
                vec![says("error", "", "missing required configuration variable 'region'; run `pulumi config` to set")],
                Class::MissingConfiguration,
                "'region'",
            ),
            ("a violated plan, of which nothing is told", vec![], Class::PlanViolation, "its plan does not allow"),
        ] {
            let (found, message) = explained(&ended(1, ""), &events("failed", &all));
            assert_eq!(found, class, "{reason}");
            assert!(message.contains(told) && !message.contains("update failed"), "{reason}: {message}");
        }
        let (class, _) = explained(&ended(1, ""), &events("canceled", &[]));
        assert_eq!(class, Class::Canceled);
    }

    #[test]
    fn what_the_cli_repeats_of_a_provider_is_still_the_providers() {
        let summary =
            events("failed", &[says("error", THING, "invalid access token"), says("error", "", "update failed")]);
        let (class, message) = explained(&ended(1, "error: invalid access token\nerror: update failed\n"), &summary);
        assert_eq!((class, message.as_str()), (Class::ProviderFailed, "pkotest:index:Thing (a): invalid access token"));
    }

    #[test]
    fn each_holder_of_a_lock_is_named() {
        let two = format!("{LOCKED}  file:///b/08.json: created by a@b (pid 1) at 2026-11-01T00:00:00Z\n");
        let (_, message) = explained(&ended(1, &two), &Summary::default());
        assert_eq!(
            message,
            "The stack is locked by root@shop-workspace-0 (pid 28977) since 2026-11-15T23:15:47Z, 4 minutes ago and by \
             a@b (pid 1) since 2026-11-01T00:00:00Z, 14 days ago. Wait for that process to end; if it is gone, remove \
             its lock with `pulumi cancel`."
        );
    }

    #[test]
    fn the_engines_own_words_come_last() {
        let ended = Ended { code: Some(1), stderr: "error: update failed\n".into(), ..Ended::default() };
        let text = describe("pulumi up", ["a (b): no zone", "update failed"].into_iter(), &ended);
        assert_eq!(text, "a (b): no zone");
        let text = describe("pulumi up", ["update failed"].into_iter(), &ended);
        assert_eq!(text, "pulumi up failed without saying why: exit status 1");
    }

    #[test]
    fn without_diagnostics_the_last_words_are_taken() {
        let ended = Ended {
            code: Some(255),
            stdout: "Updating\n".into(),
            stderr: "warning: old\n\u{1b}[31merror:\u{1b}[0m no backend\n".into(),
            ..Ended::default()
        };
        assert_eq!(describe("pulumi up", [].into_iter(), &ended), "pulumi up: exit status 255\nerror: no backend");
    }

    #[test]
    fn a_killed_cli_is_told_as_such_with_what_it_may_have_left() {
        let killed = Ended { signal: Some(9), ..Ended::default() };
        let (class, message) = explained(&killed, &Summary::default());
        assert_eq!(class, Class::Killed);
        assert!(message.starts_with(
            "pulumi up failed without saying why: killed by signal 9, perhaps for lack of memory\nWhat the CLI was"
        ));
    }

    #[test]
    fn a_long_text_leaves_room_for_its_remedy() {
        let many: Vec<_> = (0..9).map(|n| says("error", THING, &format!("{n} {}", "e".repeat(1000)))).collect();
        let all = [many, vec![says("error", THING, "because it is protected")]].concat();
        let (_, message) = explained(&ended(1, ""), &events("failed", &all));
        assert!(message.len() <= LIMIT && message.ends_with("unprotect 'the resource'`."), "{message}");
    }
}
