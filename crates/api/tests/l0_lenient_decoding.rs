//! What an API server accepts never makes an object unreadable, and what cannot be used is named.

use kube::core::{ObjectList, WatchEvent};
use kube::{Resource, ResourceExt};
use pko_api::{Checked, GoDuration, Guarded, Program, Stack, Update, Workspace};
use rstest::rstest;
use serde_json::{Value, json};

fn stack(spec: &Value) -> Stack {
    let object = json!({"apiVersion": "pulumi.com/v1", "kind": "Stack", "metadata": {"name": "s"}, "spec": spec});
    serde_json::from_value(object).expect("a Stack")
}

fn workspace(spec: &Value) -> Workspace {
    serde_json::from_value(json!({"metadata": {"name": "w"}, "spec": spec})).expect("a Workspace")
}

fn update(spec: &Value) -> Update {
    serde_json::from_value(json!({"metadata": {"name": "u"}, "spec": spec})).expect("an Update")
}

fn stack_problems(spec: &Value) -> Vec<String> {
    stack(spec).spec.problems().iter().map(ToString::to_string).collect()
}

#[rstest]
#[case(json!(5), "a number")]
#[case(json!("text"), "a string")]
#[case(json!([1]), "a list")]
#[case(json!(true), "a boolean")]
fn config_that_is_no_map_is_named(#[case] config: Value, #[case] found: &str) {
    assert_eq!(
        stack_problems(&json!({"stack": "dev", "config": config})),
        [format!("spec.config: must be a map from keys to values, found {found}")]
    );
}

#[test]
fn a_wrong_config_value_is_not_quoted_because_it_may_be_confidential() {
    let problems = stack_problems(&json!({"config": "hunter2"}));
    assert!(!problems[0].contains("hunter2"), "{problems:?}");
}

#[test]
fn a_prerequisite_duration_that_is_none_is_named() {
    let spec = json!({"prerequisites": [
        {"name": "a"},
        {"name": "b", "requirement": {"succeededWithinDuration": "soon"}},
    ]});
    assert_eq!(
        stack_problems(&spec),
        [concat!(
            r#"spec.prerequisites[1].requirement.succeededWithinDuration: "soon" is not a duration; "#,
            r#"write it with units, for example "90s", "15m" or "1h30m""#
        )]
    );
}

#[rstest]
#[case(json!(-1), "-1")]
#[case(json!(99_999_999_999_i64), "99999999999")]
fn a_log_level_out_of_range_is_named(#[case] level: Value, #[case] found: &str) {
    let expected = format!("spec.pulumiLogLevel: must be a whole number from 0 to 4294967295, found {found}");
    let spec = json!({"pulumiLogLevel": level});
    assert_eq!(workspace(&spec).spec.problems()[0].to_string(), expected);
    assert_eq!(stack_problems(&spec), [expected]);
}

#[test]
fn an_update_with_an_unusable_lifetime_or_parallelism_is_named() {
    let spec = json!({"ttlAfterCompleted": "soon", "parallel": 99_999_999_999_i64});
    let fields: Vec<String> = update(&spec).spec.problems().into_iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["spec.ttlAfterCompleted", "spec.parallel"]);
}

#[test]
fn an_unusable_value_inside_a_template_stays_as_written() {
    let template = json!({"spec": {"ttlAfterCompleted": "soon", "parallel": "many"}});
    let stack = stack(&json!({"stack": "dev", "updateTemplate": template}));
    assert_eq!(stack.spec.problems(), []);
    assert_eq!(stack.spec.update_template.unwrap().raw(), &template);
}

#[test]
fn an_unusable_value_encodes_as_it_was_written() {
    let spec = json!({
        "stack": "dev",
        "config": [1, {"a": null}],
        "pulumiLogLevel": -1,
        "prerequisites": [{"name": "a", "requirement": {"succeededWithinDuration": "soon"}}],
    });
    assert_eq!(serde_json::to_value(stack(&spec).spec).unwrap(), spec);
}

#[test]
fn a_usable_duration_encodes_as_go_prints_it() {
    let update = update(&json!({"ttlAfterCompleted": "24h"}));
    assert_eq!(update.spec.ttl_after_completed, Some(Checked::Good(GoDuration::from_secs(86_400))));
    assert_eq!(serde_json::to_value(update.spec).unwrap(), json!({"ttlAfterCompleted": "24h0m0s"}));
}

#[rstest]
#[case("60", 60)]
#[case("60.0", 60)]
#[case("1e3", 1_000)]
#[case("-60.0", -60)]
fn a_whole_number_may_be_written_as_a_float(#[case] written: &str, #[case] meant: i64) {
    let spec = serde_json::from_str(&format!(r#"{{"resyncFrequencySeconds": {written}}}"#)).unwrap();
    assert_eq!(stack(&spec).spec.resync_frequency_seconds, Some(Checked::Good(meant)));
}

#[rstest]
#[case("60.5")]
#[case("9223372036854775808")]
#[case("1e300")]
fn a_number_that_does_not_fit_is_named(#[case] written: &str) {
    let spec = serde_json::from_str(&format!(r#"{{"resyncFrequencySeconds": {written}}}"#)).unwrap();
    assert_eq!(stack(&spec).spec.problems()[0].field, "spec.resyncFrequencySeconds");
}

#[test]
fn null_is_the_zero_value_everywhere() {
    let names = [
        "stack",
        "accessTokenSecret",
        "backend",
        "envs",
        "envSecrets",
        "envRefs",
        "config",
        "configRef",
        "configRefs",
        "secrets",
        "secretsRef",
        "secretsProvider",
        "projectRepo",
        "gitAuthSecret",
        "gitAuth",
        "repoDir",
        "commit",
        "branch",
        "shallow",
        "fluxSource",
        "programRef",
        "targets",
        "targetDependents",
        "prerequisites",
        "continueResyncOnCommitMatch",
        "resyncFrequencySeconds",
        "refresh",
        "expectNoRefreshChanges",
        "destroyOnFinalize",
        "runProgram",
        "retryOnUpdateConflict",
        "useLocalStackOnly",
        "serviceAccountName",
        "workspaceTemplate",
        "workspaceReclaimPolicy",
        "environment",
        "updateTemplate",
        "retryMaxBackoffDurationSeconds",
        "preview",
        "pulumiLogLevel",
    ];
    let spec: Value = names.into_iter().map(|name| (name, Value::Null)).collect();
    assert_eq!(stack(&spec).spec, stack(&json!({})).spec);
}

#[test]
fn null_items_and_null_map_values_are_zero_values_too() {
    let stack = stack(&json!({"targets": [null, "a"], "secrets": {"k": null}}));
    assert_eq!(stack.spec.targets, ["", "a"]);
    assert_eq!(stack.spec.secrets["k"], "");
}

#[test]
fn an_object_without_its_payload_decodes_as_an_empty_one() {
    let bare = json!({"metadata": {"name": "x"}});
    assert_eq!(serde_json::from_value::<Stack>(bare.clone()).unwrap(), Stack::new("x", <_>::default()));
    assert_eq!(serde_json::from_value::<Program>(bare).unwrap(), Program::new("x", <_>::default()));
    let null = json!({"metadata": {"name": "x"}, "spec": null, "status": null});
    assert_eq!(serde_json::from_value::<Update>(null).unwrap(), Update::new("x", <_>::default()));
}

#[test]
fn unknown_fields_are_ignored() {
    assert_eq!(stack(&json!({"stack": "dev", "novelty": {"a": 1}})), stack(&json!({"stack": "dev"})));
}

#[test]
fn an_integer_quantity_is_carried_as_it_is() {
    let spec = json!({"resources": {"requests": {"cpu": 1}}});
    let workspace = workspace(&spec);
    assert_eq!(serde_json::to_value(&workspace.spec).unwrap(), spec);
    let resources = workspace.spec.resources.unwrap().decode().unwrap();
    assert_eq!(resources.requests.unwrap()["cpu"].0, "1");
}

#[test]
fn embedded_json_that_its_type_refuses_is_carried_too_and_named_when_decoded() {
    let spec = json!({"initContainers": [{"name": "i", "ports": [{"containerPort": 99_999_999_999_i64}]}]});
    let workspace = workspace(&spec);
    assert_eq!(serde_json::to_value(&workspace.spec).unwrap(), spec);
    let error = workspace.spec.init_containers[0].decode().unwrap_err();
    assert!(error.to_string().starts_with("not a valid Container: "), "{error}");
}

#[test]
fn what_cannot_be_read_of_a_status_counts_as_never_written() {
    let stack: Stack = serde_json::from_value(json!({"metadata": {}, "status": {
        "observedGeneration": "many",
        "lastUpdate": {"lastResyncTime": "2026-01-01T00:00:00+99:99", "generation": 2.0},
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "A", "message": "", "lastTransitionTime": "never"},
            {"type": "Stalled", "status": "True", "reason": "B", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"},
        ],
    }}))
    .unwrap();
    let status = stack.status.unwrap();
    assert_eq!(status.observed_generation, 0);
    let last_update = status.last_update.unwrap();
    assert_eq!((last_update.last_resync_time, last_update.generation), (None, 2));
    let types: Vec<&str> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Stalled"]);
}

#[rstest]
#[case("projectRepo", json!(""))]
#[case("gitAuthSecret", json!(""))]
#[case("gitAuth", json!({}))]
#[case("repoDir", json!(""))]
#[case("commit", json!(""))]
#[case("branch", json!(""))]
#[case("shallow", json!(false))]
fn each_git_field_makes_git_the_source_even_if_empty(#[case] field: &str, #[case] empty: Value) {
    assert!(stack(&json!({"stack": "dev", field: empty})).spec.has_git_source());
}

#[test]
fn without_a_git_field_git_is_not_the_source() {
    let spec = json!({"stack": "dev", "programRef": {"name": "p"}, "fluxSource": {}});
    assert!(!stack(&spec).spec.has_git_source());
}

/// Three Stacks as a server sends them; the one in the middle is given by its `spec`.
fn list_with(spec: &str) -> String {
    let good = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"stack":"dev"}}}}"#);
    let bad = format!(
        r#"{{"apiVersion":"pulumi.com/v1","kind":"Stack","spec":{spec},"metadata":{{"name":"bad","namespace":"n","uid":"1"}}}}"#
    );
    format!(
        r#"{{"apiVersion":"pulumi.com/v1","kind":"StackList","metadata":{{}},"items":[{},{bad},{}]}}"#,
        good("a"),
        good("c")
    )
}

fn nested(depth: usize) -> String {
    format!(r#"{{"config":{}1{}}}"#, r#"{"a":"#.repeat(depth), "}".repeat(depth))
}

#[rstest]
#[case::wrong_type(r#"{"targets":5}"#.to_owned(), "spec.targets: ")]
#[case::wrong_type_within(r#"{"fluxSource":{"dir":[]}}"#.to_owned(), "spec.fluxSource.dir: ")]
#[case::too_deep(nested(200), "spec.config.a.a.")]
fn an_unreadable_object_does_not_hide_the_others(#[case] spec: String, #[case] why: &str) {
    let list: ObjectList<Guarded<Stack>> = serde_json::from_str(&list_with(&spec)).unwrap();
    let names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["a", "bad", "c"]);
    let unreadable = list.items[1].0.as_ref().unwrap_err();
    assert!(unreadable.why.starts_with(why), "{}", unreadable.why);
    assert!(unreadable.why.len() < 400, "{}", unreadable.why);
    assert_eq!(list.items[1].meta().namespace.as_deref(), Some("n"));
    assert!(list.items[0].readable().is_some() && list.items[2].readable().is_some());
}

#[test]
fn an_unreadable_object_does_not_end_a_watch() {
    let event = format!(r#"{{"type":"MODIFIED","object":{{"metadata":{{"name":"bad"}},"spec":{}}}}}"#, nested(200));
    let event: WatchEvent<Guarded<Stack>> = serde_json::from_str(&event).unwrap();
    let WatchEvent::Modified(guarded) = event else { panic!("{event:?}") };
    assert_eq!(guarded.name_any(), "bad");
    assert!(guarded.readable().is_none());
}

#[test]
fn an_unreadable_object_whose_managed_fields_mirror_its_depth_still_has_its_name() {
    let depth = 200;
    let mirror = format!("{}1{}", r#"{"f:a":"#.repeat(depth), "}".repeat(depth));
    let object = |spec: &str| {
        format!(
            r#"{{"metadata":{{"name":"deep","labels":{{"a":"b"}},"managedFields":[{{"fieldsV1":{mirror}}}]}},"spec":{spec}}}"#
        )
    };
    let unreadable: Guarded<Stack> = serde_json::from_str(&object(&nested(depth))).unwrap();
    assert_eq!(unreadable.name_any(), "deep");
    assert_eq!(unreadable.labels()["a"], "b");
    let why = unreadable.0.unwrap_err().why;
    assert!(why.starts_with("spec.config.a.a."), "{why}");

    let readable: Guarded<Stack> = serde_json::from_str(&object("{}")).unwrap();
    assert_eq!(readable.readable().map(ResourceExt::managed_fields), Some(&[][..]));
}

#[test]
fn broken_metadata_does_not_defeat_the_guard() {
    let object = r#"{"metadata":{"name":"bad","uid":"1","labels":5},"spec":{}}"#;
    let guarded: Guarded<Stack> = serde_json::from_str(object).unwrap();
    assert_eq!(guarded.name_any(), "bad");
    assert_eq!(guarded.meta().uid.as_deref(), Some("1"));
    assert!(guarded.0.unwrap_err().why.starts_with("metadata.labels: "));
}
