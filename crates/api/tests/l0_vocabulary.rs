//! Names, labels, reasons, messages and events are the ones that the reference implementation left
//! on a real cluster.

mod support;

use std::collections::BTreeSet;

use pko_api::events::Event;
use pko_api::reasons::{self, Reason};
use pko_api::{GoDuration, annotations, events, finalizers, labels, managers, messages, names};
use pko_api::{go_quote, outputs, paths};
use rstest::rstest;
use serde_json::{Value, json};

/// The object of that name among those of a kind.
fn object(file: &str, name: &str) -> Value {
    support::items(&format!("reference-objects/{file}.yaml"))
        .into_iter()
        .find(|object| object["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("no {name} in {file}"))
}

fn condition(object: &Value, of_type: &str) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array().expect("conditions");
    let found = conditions.iter().find(|condition| condition["type"] == of_type).expect(of_type);
    let text = |field: &str| found[field].as_str().expect(field).to_owned();
    (text("reason"), text("message"))
}

fn pair(reason: &Reason, message: &str) -> (String, String) {
    (reason.to_string(), message.to_owned())
}

#[test]
fn a_stacks_conditions_are_worded_as_the_reference_words_them() {
    let failed = object("stacks", "failed");
    assert_eq!(condition(&failed, "Ready"), pair(&reasons::stack::NOT_READY_IN_PROGRESS, messages::stack::IN_PROGRESS));
    // Ours goes on with the time of the next attempt.
    let (reason, message) = condition(&failed, "Reconciling");
    assert_eq!(reason, reasons::stack::RETRYING_AFTER_FAILURE.to_string());
    assert!(messages::stack::update_failures(2, "then").starts_with(&message));
    assert_eq!(
        condition(&object("stacks", "ready"), "Ready"),
        pair(&reasons::stack::PROCESSING_COMPLETED, messages::stack::UP_TO_DATE)
    );
    assert_eq!(
        condition(&object("stacks", "slow"), "Reconciling"),
        pair(&reasons::stack::STACK_PROCESSING, messages::stack::BEING_PROCESSED)
    );
    let why = messages::prerequisite::not_satisfied("failed", messages::prerequisite::NOT_COMPLETED);
    assert_eq!(
        condition(&object("stacks", "waiting"), "Reconciling"),
        pair(&reasons::stack::PREREQUISITE_NOT_SATISFIED, &why)
    );
}

#[test]
fn a_workspaces_conditions_are_worded_as_the_reference_words_them() {
    assert_eq!(
        condition(&object("workspaces", "ready"), "Ready"),
        pair(&reasons::workspace::SUCCEEDED, messages::workspace::SUCCEEDED)
    );
}

#[rstest]
#[case("ready-1a1dd36ad2f", [reasons::update::COMPLETE, reasons::update::UPDATE_SUCCEEDED, reasons::update::UPDATED])]
#[case("failed-1a1dd36ae75", [reasons::update::COMPLETE, reasons::update::UNKNOWN, reasons::update::UPDATED])]
#[case("slow-1a1dd36ada9", [reasons::update::PROGRESSING, reasons::update::PROGRESSING, reasons::update::PROGRESSING])]
fn an_updates_reasons_are_the_references(#[case] name: &str, #[case] expected: [Reason; 3]) {
    let update = object("updates", name);
    let found = ["Progressing", "Failed", "Complete"].map(|of_type| condition(&update, of_type).0);
    assert_eq!(found, expected.map(|reason| reason.to_string()));
}

/// One line of the recorded events.
fn line(kind: &str, source: &str, event: &Event) -> [String; 5] {
    let words = [kind, event.kind.as_str(), event.reason, source, event.message.as_str()];
    words.map(str::to_owned)
}

#[test]
fn every_recorded_event_is_one_of_ours() {
    use events::recorder;
    let detected = |trigger: &str| line("Stack", recorder::STACK, &events::stack::update_detected(trigger));
    let failure = "up failed: failed to run update: exit status 1";
    let ours: BTreeSet<[String; 5]> = [
        detected(messages::trigger::INITIAL),
        detected(&messages::trigger::backoff(GoDuration::from_secs(10))),
        detected(&messages::trigger::backoff(GoDuration::from_secs(30))),
        line("Stack", recorder::STACK, &events::stack::update_failure(failure)),
        line("Stack", recorder::STACK, &events::stack::updated()),
        line("Update", recorder::UPDATE, &events::update::failed("up", "dev")),
        line("Update", recorder::UPDATE, &events::update::succeeded("up", "dev")),
        line("Update", recorder::UPDATE, &events::update::succeeded("preview", "dev")),
    ]
    .into_iter()
    .chain(["failed", "previewed", "ready", "slow"].map(|workspace| {
        let event = events::workspace::initialized(&names::pod(workspace));
        line("Workspace", recorder::WORKSPACE, &event)
    }))
    .collect();

    let recorded: BTreeSet<[String; 5]> = support::text("reference-objects/events.txt")
        .lines()
        // The other lines continue the message of a failed update.
        .filter(|line| ["Stack ", "Workspace ", "Update "].iter().any(|kind| line.starts_with(kind)))
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let message = words[5..].join(" ");
            [words[0], words[2], words[3], words[4], &message].map(str::to_owned)
        })
        .collect();
    assert_eq!(recorded, ours);
}

#[test]
fn events_carry_their_type_as_kubernetes_writes_it() {
    assert_eq!(events::stack::config_invalid("no").kind.as_str(), "Warning");
    assert_eq!(events::stack::workspace_deleted().kind.as_str(), "Normal");
}

#[test]
fn objects_are_named_as_the_reference_names_them() {
    let update = object("updates", "ready-1a1dd36ad2f");
    assert_eq!(names::update("ready", 0x1a1_dd36_ad2f), update["metadata"]["name"]);
    assert_eq!(names::workspace("ready"), update["spec"]["workspaceName"]);
    assert_eq!(names::outputs_secret("ready-1a1dd36ad2f"), update["status"]["outputs"]);
    let workspace = object("workspaces", "ready");
    assert_eq!(names::agent_address("ready", "takeover"), workspace["status"]["address"]);
    assert_eq!(names::LEASE, support::yaml("reference-objects/lease.yaml")["metadata"]["name"]);
    assert_eq!(names::service("ready"), "ready-workspace");
    assert_eq!(names::stateful_set("ready"), "ready-workspace");
    assert_eq!(names::pod("ready"), "ready-workspace-0");
    assert_eq!(names::token_audience("ready", "takeover"), "ready.takeover");
}

#[test]
fn a_programs_artifact_is_where_the_reference_puts_it() {
    let artifact = &object("programs", "hello")["status"]["artifact"];
    assert_eq!(names::artifact_path("takeover", "hello", 1), artifact["path"]);
    let server = "pulumi-kubernetes-operator.pulumi-kubernetes-operator:80";
    assert_eq!(names::artifact_url(server, "takeover", "hello", 1), artifact["url"]);
    assert_eq!(names::artifact_url("https://x", "n", "p", 2), "https://x/programs/n/p/2");
}

#[test]
fn made_objects_are_labelled_as_the_reference_labels_them() {
    let of = |object: &Value| object["metadata"]["labels"].clone();
    assert_eq!(json!(labels::of_stack("ready")), of(&object("workspaces", "ready")));
    let secret = object("outputs-secrets", "ready-1a1dd36ad2f-stack-outputs");
    assert_eq!(json!(labels::of_update("ready-1a1dd36ad2f")), of(&secret));
    assert_eq!(
        json!(labels::of_workspace("w")),
        json!({"auto.pulumi.com/component": "workspace", "auto.pulumi.com/workspace-name": "w"})
    );
}

#[test]
fn secret_outputs_are_marked_as_the_reference_marks_them() {
    let secret = object("outputs-secrets", "ready-1a1dd36ad2f-stack-outputs");
    let marks = &secret["metadata"]["annotations"][annotations::SECRETS];
    assert_eq!(outputs::secret_keys_annotation(["hidden"]), *marks);
    assert_eq!(object("stacks", "ready")["status"]["outputs"]["hidden"], outputs::SECRET_PLACEHOLDER);
    assert_eq!(outputs::secret_keys_annotation([]), "[]");
    assert_eq!(outputs::secret_keys_annotation(["b", "a:x"]), r#"["a_x","b"]"#);
}

#[rstest]
#[case("plain", "plain")]
#[case("a.b-c_D9", "a.b-c_D9")]
#[case("with space/slash:colon", "with_space_slash_colon")]
#[case("größe", "gr__e")]
fn an_outputs_key_keeps_only_what_a_secrets_key_may_have(#[case] name: &str, #[case] key: &str) {
    assert_eq!(outputs::secret_key(name), key);
}

#[test]
fn fields_are_managed_under_the_references_names() {
    let managers_of = |object: &Value| -> BTreeSet<String> {
        let fields = object["metadata"]["managedFields"].as_array().expect("managed fields");
        fields.iter().map(|entry| entry["manager"].as_str().expect("manager").to_owned()).collect()
    };
    let holds = |object: &Value, manager: &str| managers_of(object).contains(manager);
    let stack = object("stacks", "ready");
    assert!(holds(&stack, managers::OPERATOR) && holds(&stack, managers::STACK_STATUS));
    let update = object("updates", "slow-1a1dd36ada9");
    assert!(holds(&update, managers::STACK_FINALIZER) && holds(&update, managers::UPDATE_STATUS));
    assert!(holds(&object("workspaces", "ready"), managers::WORKSPACE_STATUS));
    assert!(holds(&object("programs", "hello"), managers::PROGRAM_STATUS));
    assert_eq!(update["metadata"]["finalizers"], json!([finalizers::STACK]));
}

#[test]
fn values_from_elsewhere_are_mounted_where_the_reference_mounts_them() {
    let spec = &object("workspaces", "ready")["spec"]["podTemplate"]["spec"];
    let mounts = &spec["containers"][0]["volumeMounts"];
    assert_eq!(spec["containers"][0]["name"], paths::PULUMI_CONTAINER);
    assert_eq!(
        mounts,
        &json!([
            {"mountPath": paths::config_map_mount("cm"), "name": paths::config_map_volume("cm")},
            {"mountPath": paths::secret_mount("tok"), "name": paths::secret_volume("tok")},
        ])
    );
}

#[rstest]
#[case("my.secret", "dots")]
#[case("a-secret-name-that-is-much-longer-than-the-sixty-three-characters-of-a-label", "length")]
fn a_volume_name_is_valid_whatever_the_secrets_name(#[case] secret: &str, #[case] reason: &str) {
    let volume = paths::secret_volume(secret);
    assert!(volume.len() <= 63 && volume.starts_with("secret-"), "{reason}: {volume}");
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(volume.chars().all(valid) && !volume.ends_with('-'), "{reason}: {volume}");
}

#[test]
fn volumes_of_secrets_whose_names_differ_in_a_dot_are_told_apart() {
    assert_ne!(paths::secret_volume("my.secret"), paths::secret_volume("my-secret"));
    assert_ne!(paths::secret_volume("a.b-c"), paths::secret_volume("a-b.c"));
}

#[rstest]
#[case("main", r#""main""#)]
#[case("a\"b\\c", r#""a\"b\\c""#)]
#[case("tab\tline\nbell\u{7}", r#""tab\tline\nbell\a""#)]
#[case("\u{1}\u{7f}", r#""\x01\x7f""#)]
#[case("it's größer", r#""it's größer""#)]
#[case("\u{feff}", r#""\ufeff""#)]
#[case("\u{e0001}", r#""\U000e0001""#)]
fn text_is_quoted_as_go_quotes_it(#[case] text: &str, #[case] quoted: &str) {
    assert_eq!(go_quote(text), quoted);
}

#[test]
fn triggers_are_worded_as_specified() {
    use messages::trigger;
    assert_eq!(trigger::new_generation(3), "New stack generation: 3");
    assert_eq!(trigger::sync_request("now"), r#"Sync request: "now""#);
    assert_eq!(trigger::new_commit("abc"), r#"New commit detected: "abc""#);
    assert_eq!(trigger::resync(GoDuration::from_secs(60)), "Resync time elapsed: 1m0s");
    assert_eq!(trigger::backoff(GoDuration::from_secs(90)), "Backoff time elapsed: 1m30s");
    assert_eq!(trigger::DELETION, "Stack marked for deletion");
}

#[test]
fn a_git_credential_at_fault_is_named_as_specified() {
    use messages::git;
    let why = git::no_such_key("k", "n", "s");
    assert_eq!(
        git::resolving(git::credential::SSH_PRIVATE_KEY, why),
        r#"resolving gitAuth SSH private key: no key "k" found in secret n/s"#
    );
}

#[test]
fn the_way_out_of_a_terminating_namespace_is_told_in_full() {
    let text = messages::stack::namespace_terminating("n", "s", None);
    assert_eq!(
        text,
        "namespace \"n\" is terminating, so a workspace cannot be created to run destroy; cloud \
         resources will NOT be deleted and must be cleaned up manually (see the Pulumi backend). The \
         finalizer is retained to avoid silently orphaning resources. Once the resources are handled, \
         release the Stack with: kubectl patch stack s -n n --type=merge -p \
         '{\"metadata\":{\"finalizers\":[]}}'"
    );
    assert!(messages::stack::namespace_terminating("n", "s", Some("https://p")).contains("(see https://p)"));
}

#[rstest]
#[case("Unauthenticated", "Unauthenticated")]
#[case("UpdateConflict", "UpdateConflict")]
#[case("a", "a")]
#[case("", "Unknown")]
#[case("9lives", "Unknown")]
#[case("no spaces", "Unknown")]
#[case("ends:", "Unknown")]
fn a_reported_reason_is_always_one_that_a_condition_may_have(#[case] reported: &str, #[case] reason: &str) {
    assert_eq!(Reason::reported(reported).as_str(), reason);
}

#[rstest]
#[case("true", true)]
#[case("1", true)]
#[case("T", true)]
#[case("false", false)]
#[case("yes", false)]
#[case("", false)]
fn the_initialized_annotation_is_read_as_go_reads_booleans(#[case] value: &str, #[case] yes: bool) {
    assert_eq!(annotations::is_true(value), yes);
}
