//! A test that fails leaves behind what one needs to understand it.

use std::{fs, path::Path, time::Duration};

use pko_testkit::cluster::{Namespace, wait_for};

#[test]
fn a_failing_test_leaves_the_objects_events_and_logs_of_its_namespace() {
    let image = std::env::var("PKO_TEST_WORKSPACE_IMAGE").expect("cargo xtask test L5 sets PKO_TEST_WORKSPACE_IMAGE");
    let mut name = String::new();
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let namespace = Namespace::new("dump");
        namespace.name().clone_into(&mut name);
        let kubectl = namespace.kubectl();
        kubectl.run(&["create", "configmap", "seen-in-the-dump", "--from-literal=a=b"]);
        let speak = ["--command", "--", "sh", "-c", "echo said in the log"];
        let run = ["run", "speaker", "--restart=Never", "--image-pull-policy=Never", &format!("--image={image}")];
        kubectl.run(&[&run[..], &speak[..]].concat());
        wait_for("the pod to end", Duration::from_mins(1), || {
            let phase = kubectl.try_run(&["get", "pod", "speaker", "-o", "jsonpath={.status.phase}"])?;
            if phase == "Succeeded" { Ok(()) } else { Err(phase) }
        });
        panic!("this test fails on purpose");
    }));
    assert!(failed.is_err());
    let dir = std::env::var_os("PKO_TEST_DUMPS").expect("cargo xtask test L5 sets PKO_TEST_DUMPS");
    let file = Path::new(&dir).join(format!("{name}.txt"));
    let dump = fs::read_to_string(&file).expect("the dump is written");
    fs::remove_file(file).expect("a failure on purpose leaves nothing to look at");
    for expected in ["seen-in-the-dump", "said in the log", "Scheduled", "speaker"] {
        assert!(dump.contains(expected), "{expected} is missing in the dump:\n{dump}");
    }
}
