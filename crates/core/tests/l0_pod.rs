//! The Service and the StatefulSet of a Workspace.

mod objects;

use insta::assert_snapshot;
use k8s_openapi::api::apps::v1::StatefulSet;
use objects::{artifact, differences, reference, settings, stack, text, workspace};
use pko_api::{Workspace, annotations};
use pko_core::{
    settings::Settings,
    stack::plan::{self, Source},
    workspace::build,
};
use serde_json::{Value, json};

fn built(spec: Value) -> Value {
    build::stateful_set(&workspace(spec), &settings()).expect("a StatefulSet").object
}

fn refused(spec: Value) -> String {
    build::stateful_set(&workspace(spec), &settings()).expect_err("a refusal").message
}

fn pod(spec: Value) -> Value {
    built(spec)["spec"]["template"]["spec"].clone()
}

fn names(containers: &Value) -> Vec<&str> {
    containers.as_array().into_iter().flatten().filter_map(|container| container["name"].as_str()).collect()
}

/// A source that every pod of these tests may have.
fn flux() -> Value {
    json!({"url": "http://operator.test:80/programs/team/app/1", "digest": "sha256:0123"})
}

#[test]
fn a_stateful_set_is_the_references_but_for_how_the_agent_gets_in() {
    let workspace: Workspace = serde_json::from_value(reference("ready", "Workspace")).unwrap();
    let ours = build::stateful_set(&workspace, &settings()).unwrap().object;
    assert_snapshot!(differences(&reference("ready", "StatefulSet"), &ours), @r#"
    /metadata/generation: 1 | nothing
    /metadata/uid: "bcec10e9-a2cb-4fa6-be11-b9e8f12d8280" | nothing
    /spec/persistentVolumeClaimRetentionPolicy: {"whenDeleted":"Retain","whenScaled":"Retain"} | nothing
    /spec/revisionHistoryLimit: 10 | nothing
    /spec/template/metadata/annotations/auto.pulumi.com/revision-hash: "cc114aa7b9ad65669bd5f3e55e50e7ce" | "71d449f58e7bf8c09a9e811f098a598a"
    /spec/template/metadata/annotations/auto.pulumi.com/spec-hash: nothing | "a9bf74c01eebabc14e8140ea1014897a"
    /spec/template/metadata/labels/app.kubernetes.io/component: nothing | "workspace"
    /spec/template/metadata/labels/app.kubernetes.io/managed-by: nothing | "pulumi-kubernetes-operator"
    /spec/template/metadata/labels/app.kubernetes.io/name: nothing | "pulumi"
    /spec/template/spec/containers/0/env/3/valueFrom/fieldRef/apiVersion: "v1" | nothing
    /spec/template/spec/containers/0/env/4/valueFrom/fieldRef/apiVersion: "v1" | nothing
    /spec/template/spec/containers/0/env/5/valueFrom/resourceFieldRef/divisor: "0" | nothing
    /spec/template/spec/containers/0/imagePullPolicy: "IfNotPresent" | nothing
    /spec/template/spec/containers/0/ports/0/protocol: "TCP" | nothing
    /spec/template/spec/containers/0/terminationMessagePath: "/dev/termination-log" | nothing
    /spec/template/spec/containers/0/terminationMessagePolicy: "File" | "FallbackToLogsOnError"
    /spec/template/spec/dnsPolicy: "ClusterFirst" | nothing
    /spec/template/spec/initContainers/0/args: ["cp","/agent","/tini","/share/"] | nothing
    /spec/template/spec/initContainers/0/command: nothing | ["/agent","bootstrap","/share"]
    /spec/template/spec/initContainers/0/resources: {} | nothing
    /spec/template/spec/initContainers/0/terminationMessagePath: "/dev/termination-log" | nothing
    /spec/template/spec/initContainers/0/terminationMessagePolicy: "File" | "FallbackToLogsOnError"
    /spec/template/spec/initContainers/1/args: ["sh","-c","\n/share/agent init -t /share/source --flux-url \"$FLUX_URL\" --flux-digest \"$FLUX_DIGEST\" &&\nln -s \"/share/source/$FLUX_DIR\" /share/workspace\n\t\t"] | nothing
    /spec/template/spec/initContainers/1/command: nothing | ["/share/agent","init","--target-dir","/share/source","--flux-url","$(FLUX_URL)","--flux-digest","$(FLUX_DIGEST)","--at","/share/workspace"]
    /spec/template/spec/initContainers/1/resources: {} | nothing
    /spec/template/spec/initContainers/1/terminationMessagePath: "/dev/termination-log" | nothing
    /spec/template/spec/initContainers/1/terminationMessagePolicy: "File" | "FallbackToLogsOnError"
    /spec/template/spec/restartPolicy: "Always" | nothing
    /spec/template/spec/schedulerName: "default-scheduler" | nothing
    /spec/template/spec/serviceAccount: "pulumi" | nothing
    /spec/template/spec/volumes/0/configMap/defaultMode: 420 | nothing
    /spec/template/spec/volumes/1/secret/defaultMode: 420 | nothing
    /spec/updateStrategy: {"rollingUpdate":{"partition":0},"type":"RollingUpdate"} | nothing
    "#);
}

#[test]
fn a_service_is_the_references() {
    let workspace: Workspace = serde_json::from_value(reference("ready", "Workspace")).unwrap();
    assert_snapshot!(differences(&reference("ready", "Service"), &build::service(&workspace)), @r#"
    /metadata/uid: "4fd24d06-aff9-48b0-bb6a-f5c759a54988" | nothing
    /spec/clusterIPs: ["None"] | nothing
    /spec/internalTrafficPolicy: "Cluster" | nothing
    /spec/ipFamilies: ["IPv4"] | nothing
    /spec/ipFamilyPolicy: "SingleStack" | nothing
    /spec/ports/0/protocol: "TCP" | nothing
    /spec/ports/0/targetPort: 50051 | nothing
    /spec/sessionAffinity: "None" | nothing
    /spec/type: "ClusterIP" | nothing
    "#);
}

/// From the Stack to the pod.
#[test]
fn pod_of_a_program_stack() {
    let stack = stack(json!({
        "stack": "dev",
        "programRef": {"name": "app"},
        "backend": "file:///states",
        "secretsProvider": "passphrase",
        "envRefs": {
            "PULUMI_CONFIG_PASSPHRASE": {"type": "Secret", "secret": {"name": "pass", "key": "passphrase"}},
            "LEVEL": {"type": "Literal", "literal": {"value": "info"}},
        },
        "config": {"app:who": "world"},
        "secretsRef": {"app:token": {"type": "Secret", "secret": {"name": "tok", "key": "t"}}},
    }));
    let mut workspace = plan::workspace(&stack, &artifact()).unwrap();
    workspace.metadata.uid = Some("workspace-uid".to_owned());
    let settings = Settings { flux_max_untar_size_bytes: Some("1000".to_owned()), ..settings() };
    let object = build::stateful_set(&workspace, &settings).unwrap().object;
    assert_snapshot!(text(&object));
    assert!(serde_json::from_value::<StatefulSet>(object).is_ok());
}

#[test]
fn pod_with_the_baseline_profile() {
    let object = built(json!({"securityProfile": "baseline", "flux": flux()}));
    assert_snapshot!(text(&object["spec"]["template"]));
}

#[test]
fn pod_with_a_template() {
    let object = built(json!({
        "flux": flux(),
        "resources": {"requests": {"memory": "512Mi"}, "limits": {"cpu": 2}},
        "initContainers": [{"name": "second", "image": "busybox"}],
        "pulumiLogLevel": 3,
        "podTemplate": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "n"}},
            "spec": {
                "terminationGracePeriodSeconds": 120,
                "tolerations": [{"key": "dedicated", "operator": "Exists"}],
                "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}],
                "initContainers": [{"name": "first", "image": "busybox", "command": ["true"]}],
                "containers": [
                    {"name": "proxy", "image": "proxy:1", "env": [{"name": "MODE", "value": "quiet"}]},
                    {
                        "name": "pulumi",
                        "env": [{"name": "HTTP_PROXY", "value": "http://localhost:3128"}],
                        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                        "resources": {"limits": {"memory": "1Gi"}},
                    },
                ],
            },
        },
    }));
    assert_snapshot!(text(&object["spec"]["template"]));
}

#[test]
fn pod_for_a_destroy_without_sources() {
    let project =
        pko_api::ProjectInfo { name: "app".to_owned(), runtime: "yaml".to_owned(), ..pko_api::ProjectInfo::default() };
    let mut workspace = plan::workspace(&stack(json!({"stack": "dev"})), &Source::ProjectInfo(project)).unwrap();
    workspace.metadata.uid = Some("workspace-uid".to_owned());
    let object = build::stateful_set(&workspace, &settings()).unwrap().object;
    assert_snapshot!(text(&object["spec"]["template"]["spec"]["initContainers"]));
}

#[test]
fn a_destroy_without_sources_looks_where_the_project_keeps_its_stacks() {
    let project = pko_api::ProjectInfo {
        name: "app".to_owned(),
        runtime: "yaml".to_owned(),
        backend: Some("s3://states".to_owned()),
        stack_config_dir: Some("stacks".to_owned()),
    };
    let mut workspace = plan::workspace(&stack(json!({"stack": "dev"})), &Source::ProjectInfo(project)).unwrap();
    workspace.metadata.uid = Some("workspace-uid".to_owned());
    let object = build::stateful_set(&workspace, &settings()).unwrap().object;
    let fetch = &object["spec"]["template"]["spec"]["initContainers"][1];
    let command: Vec<&str> = fetch["command"].as_array().unwrap().iter().filter_map(|word| word.as_str()).collect();
    let options = "--project-backend $(PROJECT_BACKEND) --project-stack-config-dir $(PROJECT_STACK_CONFIG_DIR)";
    assert!(command.join(" ").ends_with(options), "{command:?}");
    let value =
        |name: &str| fetch["env"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap()["value"].clone();
    assert_eq!((value("PROJECT_BACKEND"), value("PROJECT_STACK_CONFIG_DIR")), (json!("s3://states"), json!("stacks")));
}

#[test]
fn fetching_from_git() {
    let selector = |key: &str| json!({"name": "git", "key": key, "optional": true});
    let pod = pod(json!({"git": {
        "url": "https://git.test/app.git",
        "ref": "0123456789012345678901234567890123456789",
        "dir": "infra",
        "shallow": true,
        "auth": {
            "sshPrivateKey": selector("sshPrivateKey"),
            "username": selector("username"),
            "password": selector("password"),
            "token": selector("accessToken"),
            "githubApp": {
                "appID": {"name": "app", "key": "id"},
                "installationID": {"name": "app", "key": "installation"},
                "privateKey": {"name": "app", "key": "key"},
            },
        },
    }}));
    assert_snapshot!(text(&pod["initContainers"][1]));
}

#[test]
fn a_pod_that_fetches_over_ssh_knows_the_hosts_of_its_secret_and_of_the_cluster() {
    let spec = |url: &str| {
        let key = json!({"name": "deploy", "key": "identity"});
        json!({"git": {"url": url, "ref": "main", "auth": {"sshPrivateKey": key}}})
    };
    let hosts = |url: &str, cluster: Option<&str>| -> Vec<Value> {
        let settings = Settings { known_hosts: cluster.map(str::to_owned), ..settings() };
        let set = build::stateful_set(&workspace(spec(url)), &settings).unwrap().object;
        let env = set["spec"]["template"]["spec"]["initContainers"][1]["env"].as_array().unwrap().clone();
        env.into_iter().filter(|variable| variable["name"].as_str().unwrap().contains("KNOWN_HOSTS")).collect()
    };
    let secret = json!({"name": "GIT_SSH_KNOWN_HOSTS", "valueFrom": {
        "secretKeyRef": {"name": "deploy", "key": "known_hosts", "optional": true},
    }});
    let cluster = json!({"name": "GIT_SSH_KNOWN_HOSTS_CLUSTER", "value": "git.test ssh-rsa AA== $$(me)"});
    for url in ["git@git.test:app.git", "ssh://git@git.test/app.git"] {
        assert_eq!(hosts(url, None), [secret.clone()]);
        assert_eq!(hosts(url, Some("git.test ssh-rsa AA== $(me)")), [secret.clone(), cluster.clone()]);
    }
    for url in ["https://git.test/app.git", "HTTP://git.test/app.git"] {
        assert!(hosts(url, Some("git.test ssh-rsa AA==")).is_empty(), "{url}");
    }
}

#[test]
fn linking_a_directory_of_the_image() {
    let pod = pod(json!({"local": {"dir": "/app"}}));
    let fetch = &pod["initContainers"][1];
    assert_eq!(fetch["command"], json!(["/share/agent", "link", "$(LOCAL_DIR)", "--at", "/share/workspace"]));
    assert_eq!(fetch["env"][0], json!({"name": "LOCAL_DIR", "value": "/app"}));
}

#[test]
fn without_a_source_only_the_agent_is_brought() {
    assert_eq!(names(&pod(json!({}))["initContainers"]), ["bootstrap"]);
}

#[test]
fn the_users_init_containers_come_after_the_operators() {
    let pod = pod(json!({
        "flux": flux(),
        "initContainers": [{"name": "last", "image": "i"}],
        "podTemplate": {"spec": {"containers": [], "initContainers": [
            {"name": "first", "image": "i"},
            {"name": "fetch", "image": "mirror/agent:1"},
        ]}},
    }));
    assert_eq!(names(&pod["initContainers"]), ["bootstrap", "fetch", "first", "last"]);
    assert_eq!(pod["initContainers"][1]["image"], "mirror/agent:1", "a template may still customise the operator's");
}

#[test]
fn every_container_knows_the_file_of_variables() {
    let pod = pod(json!({
        "flux": flux(),
        "initContainers": [{"name": "mine", "image": "i"}],
        "podTemplate": {"spec": {"containers": [{"name": "extra", "env": [{"name": "PULUMI_ENV", "value": "/own"}]}]}},
    }));
    for (list, container, expected) in [
        ("initContainers", 0, "/share/.env"),
        ("initContainers", 1, "/share/.env"),
        ("initContainers", 2, "/share/.env"),
        ("containers", 0, "/own"),
        ("containers", 1, "/share/.env"),
    ] {
        let container = &pod[list][container];
        let found: Vec<&Value> =
            container["env"].as_array().unwrap().iter().filter(|variable| variable["name"] == "PULUMI_ENV").collect();
        assert_eq!(found, [&json!({"name": "PULUMI_ENV", "value": expected})], "{}", container["name"]);
    }
}

#[test]
fn the_restricted_profile_meets_the_standard_of_that_name() {
    let pod = pod(json!({"flux": flux()}));
    let of_pod = &pod["securityContext"];
    assert_eq!((&of_pod["runAsNonRoot"], &of_pod["seccompProfile"]["type"]), (&json!(true), &json!("RuntimeDefault")));
    assert_ne!(of_pod["runAsUser"], 0);
    for container in ["initContainers", "containers"].into_iter().flat_map(|list| pod[list].as_array().unwrap()) {
        let context = &container["securityContext"];
        assert_eq!(context["allowPrivilegeEscalation"], false, "{}", container["name"]);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{}", container["name"]);
        let added = context["capabilities"]["add"].as_array().unwrap();
        assert!(added.iter().all(|added| added == "NET_BIND_SERVICE"), "{}", container["name"]);
        assert!(context.get("privileged").is_none() && context.get("procMount").is_none(), "{}", container["name"]);
    }
    for volume in pod["volumes"].as_array().unwrap() {
        assert!(volume.get("emptyDir").is_some(), "{volume}");
    }
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        assert!(pod.get(field).is_none(), "{field}");
    }
}

#[test]
fn requests_have_defaults_and_limits_have_none() {
    let of = |resources: Value| pod(json!({"resources": resources}))["containers"][0]["resources"].clone();
    let rows = [
        (json!(null), json!({"requests": {"memory": "64Mi", "cpu": "100m"}}), "nothing is said"),
        (json!({"requests": {"cpu": 1}}), json!({"requests": {"memory": "64Mi", "cpu": 1}}), "one is said"),
        (
            json!({"requests": {"memory": "0", "cpu": 0}}),
            json!({"requests": {"memory": "64Mi", "cpu": "100m"}}),
            "zero",
        ),
        (
            json!({"limits": {"memory": "1Gi"}}),
            json!({"requests": {"memory": "64Mi", "cpu": "100m"}, "limits": {"memory": "1Gi"}}),
            "a limit is no request",
        ),
    ];
    for (given, expected, reason) in rows {
        assert_eq!(of(given), expected, "{reason}");
    }
}

#[test]
fn the_image_follows_the_profile_unless_it_is_given() {
    let rows = [
        (json!({}), "pulumi/pulumi:latest-nonroot", "restricted is the default"),
        (json!({"securityProfile": ""}), "pulumi/pulumi:latest-nonroot", "and what empty means"),
        (json!({"securityProfile": "baseline"}), "pulumi/pulumi:latest", "root is allowed"),
        (json!({"securityProfile": "baseline", "image": "mine:1"}), "mine:1", "given"),
    ];
    for (spec, image, reason) in rows {
        assert_eq!(pod(spec)["containers"][0]["image"], image, "{reason}");
    }
}

#[test]
fn a_service_template_adds_and_does_not_replace() {
    let service = build::service(&workspace(json!({"serviceTemplate": {"metadata": {
        "labels": {"team": "a", "auto.pulumi.com/component": "mine"},
        "annotations": {"note": "n"},
    }}})));
    assert_snapshot!(text(&service));
}

#[test]
fn a_pod_is_renewed_by_what_it_runs_and_by_nothing_else() {
    let base =
        json!({"flux": flux(), "stacks": [{"name": "dev", "create": true, "config": [{"key": "a", "value": "1"}]}]});
    let with = |changes: Value| {
        let mut spec = base.clone();
        spec.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        workspace(spec)
    };
    let hash = |workspace: &Workspace| build::stateful_set(workspace, &settings()).unwrap().revision_hash;
    let same = hash(&workspace(base.clone()));
    let renewing = [
        (json!({"flux": {"url": "http://x.test", "digest": "sha256:9"}}), "another artifact"),
        (json!({"flux": {"url": flux()["url"], "digest": "sha256:0123", "dir": "sub"}}), "another directory"),
        (json!({"image": "mine:2"}), "another image"),
        (json!({"env": [{"name": "A", "value": "1"}]}), "another variable"),
        (json!({"securityProfile": "baseline"}), "another profile"),
        (json!({"serviceAccountName": "other"}), "another account"),
        (json!({"podTemplate": {"spec": {"containers": [], "hostname": "h"}}}), "another pod template"),
        (json!({"podTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {}}}), "another label of the pod"),
    ];
    for (changes, reason) in renewing {
        assert_ne!(hash(&with(changes)), same, "{reason}");
    }
    let keeping = [
        (json!({"serviceTemplate": {"metadata": {"labels": {"a": "b"}}}}), "the Service is not the pod"),
        (json!({"securityProfile": "restricted", "serviceAccountName": "default"}), "what is so anyway"),
        (json!({"pulumiLogLevel": 0}), "zero is off, and off is the default"),
        (json!({"stacks": [{"name": "dev", "create": true, "config": [{"key": "a", "value": "2"}]}]}), "in place"),
        (json!({"stacks": []}), "in place"),
    ];
    for (changes, reason) in keeping {
        assert_eq!(hash(&with(changes)), same, "{reason}");
    }
    let mut later = workspace(base.clone());
    later.metadata.generation = Some(99);
    later.metadata.resource_version = Some("1234".to_owned());
    later.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    assert_eq!(hash(&later), same, "metadata of the Workspace is not the pod");

    let under = |settings: &Settings| build::stateful_set(&workspace(base.clone()), settings).unwrap().revision_hash;
    let moved = Settings { artifact_address: "elsewhere:80".to_owned(), ..settings() };
    assert_eq!(under(&moved), same, "where the operator serves from shows only in the Workspace's source");
    let upgraded = Settings { agent_image: "operator:next".to_owned(), ..settings() };
    assert_ne!(under(&upgraded), same, "another agent");
}

#[test]
fn the_hash_is_on_the_pod_and_cannot_be_forged() {
    let spec =
        json!({"podTemplate": {"metadata": {"annotations": {annotations::REVISION_HASH: "forged"}}, "spec": {}}});
    let plan = build::stateful_set(&workspace(spec), &settings()).unwrap();
    let found = &plan.object["spec"]["template"]["metadata"]["annotations"][annotations::REVISION_HASH];
    assert_eq!(*found, plan.revision_hash);
    assert_eq!(plan.revision_hash.len(), 32);
}

#[test]
fn a_template_does_not_take_the_pod_from_its_stateful_set() {
    let labels = json!({"auto.pulumi.com/component": "mine", "auto.pulumi.com/workspace-name": "other", "team": "a"});
    let object = built(json!({"podTemplate": {"metadata": {"labels": labels}, "spec": {}}}));
    let on_pod = object["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
    for (label, value) in object["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(&on_pod[label], value, "{label}");
    }
    assert_eq!(on_pod["team"], "a");
}

#[test]
fn what_no_pod_can_be_made_from_is_explained() {
    let container = |container: Value| json!({"podTemplate": {"spec": {"containers": [container]}}});
    let rows = [
        (
            json!({"securityProfile": "privileged"}),
            "spec.securityProfile: unknown profile; write",
            "two profiles exist",
        ),
        (
            json!({"flux": flux(), "local": {"dir": "/x"}}),
            "spec.flux, spec.local: a Workspace takes its program from one",
            "one place",
        ),
        (json!({"git": {"ref": "x"}}), "spec.git.url: is missing", "nothing to fetch from"),
        (json!({"git": {"url": "x"}}), "spec.git.ref: is missing", "nothing to check out"),
        (json!({"flux": {}}), "spec.flux.url: is missing", "nothing to fetch from"),
        (json!({"local": {}}), "spec.local.dir: is missing", "nothing to link"),
        (
            json!({"podTemplate": {"metadata": {"labels": {"a": "b"}}}}),
            "spec.podTemplate.spec: is missing; write `spec:",
            "PKO fails on a nil there",
        ),
        (json!({"podTemplate": {"spec": "x"}}), "spec.podTemplate.spec: its value has the wrong type", "not a pod"),
        (
            json!({"podTemplate": {"spec": {"containers": "x"}}}),
            "spec.podTemplate.spec.containers: its value",
            "not a list",
        ),
        (
            json!({"podTemplate": {"spec": {"containers": [null]}}}),
            "spec.podTemplate.spec.containers[0]: its value",
            "not a container",
        ),
        (container(json!({"image": "x"})), "spec.podTemplate.spec.containers[0]: has no `name`", "which container?"),
        (
            container(json!({"name": "pulumi", "ports": [{"containerPort": 99_999_999_999_i64}]})),
            "spec.podTemplate.spec.containers[0].ports[0].containerPort: its value",
            "the schema admits it, a pod cannot have it",
        ),
        (
            json!({"podTemplate": {"spec": {"containers": [{"$patch": "replace"}]}}}),
            "without its container `pulumi`",
            "nobody would run Pulumi",
        ),
        (
            json!({"podTemplate": {"spec": {"containers": null}}}),
            "without its container `pulumi`",
            "nobody would run Pulumi",
        ),
        (json!({"env": [{"value": "x"}]}), "spec.env[0]: has no name", "which variable?"),
        (json!({"env": [{"name": "A"}, {"name": "A"}]}), "spec.env[1]: A is in spec.env twice", "which of the two?"),
        (
            json!({"env": [{"name": "POD_NAMESPACE", "value": "x"}]}),
            "spec.env[0]: POD_NAMESPACE is set by the operator",
            "the agent relies on it",
        ),
        (json!({"env": [{"name": "A", "value": 5}]}), "spec.env[0].value: its value", "variables are texts"),
        (
            json!({"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
            "spec.env[0]: A has both value and valueFrom",
            "a template that overrides a reference with a value leads there",
        ),
        (json!({"envFrom": ["x"]}), "spec.envFrom[0]: its value", "not a source"),
        (json!({"resources": {"requests": 5}}), "spec.resources.requests: its value", "not a map"),
        (json!({"initContainers": [{"image": "x"}]}), "spec.initContainers[0]: has no name", "which container?"),
        (
            json!({"initContainers": [{"name": "fetch"}]}),
            "spec.initContainers[0]: `fetch` is the operator's own",
            "a name that is taken",
        ),
        (
            json!({"initContainers": [{"name": "a"}], "podTemplate": {"spec": {"initContainers": [{"name": "a"}]}}}),
            "spec.initContainers[0]: spec.podTemplate.spec.initContainers or",
            "a name that is taken",
        ),
    ];
    for (spec, expected, reason) in rows {
        let message = refused(spec);
        assert!(message.contains(expected), "{reason}: {message}");
    }
}
