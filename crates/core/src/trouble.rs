//! Why a pod does not run, and what to do about it, from what the scheduler and the kubelet say in its status.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};

/// The most that is told of a container's last words; the kubelet keeps no more than twice that.
const LONGEST_TAIL: usize = 1024;

/// In words for a condition; nothing for a pod that runs, or merely has not started yet.
pub(crate) fn of(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    if let Some(text) = unschedulable(status) {
        return Some(text);
    }
    let init = status.init_container_statuses.iter().flatten().map(|container| ("init container", container));
    let containers = status.container_statuses.iter().flatten().map(|container| ("container", container));
    let found = init.chain(containers).find_map(|(what, container)| in_container(what, container));
    found.or_else(|| ended(status))
}

fn unschedulable(status: &PodStatus) -> Option<String> {
    let conditions = status.conditions.iter().flatten();
    let scheduled = conditions.into_iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    let why = scheduled.message.as_deref().or(scheduled.reason.as_deref()).unwrap_or("no node takes it");
    Some(format!(
        "the pod cannot be scheduled: {why}; make room on the nodes, or change spec.resources or what \
         spec.podTemplate demands of a node"
    ))
}

/// Evicted, for example: the words are the pod's, not a container's.
fn ended(status: &PodStatus) -> Option<String> {
    let failed = status.phase.as_deref() == Some("Failed");
    let words = [status.reason.as_deref(), status.message.as_deref()];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    (failed && !words.is_empty()).then(|| format!("the pod failed: {}", words.join(": ")))
}

fn in_container(what: &str, container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    let name = &container.name;
    if let Some(waiting) = &state.waiting {
        let reason = waiting.reason.as_deref()?;
        let words = waiting.message.as_deref().filter(|text| !text.is_empty());
        let said = words.map_or(String::new(), |text| format!(": {text}"));
        return match reason {
            "PodInitializing" | "ContainerCreating" => None,
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" | "ImageInspectError" => {
                Some(format!(
                    "image {} of {what} {name} cannot be had, {reason}{said}; correct its name, or give the pod \
                     imagePullSecrets in spec.podTemplate",
                    container.image
                ))
            }
            "CreateContainerConfigError" => Some(format!(
                "{what} {name} cannot be made, {reason}{said}; create what is missing, or correct the reference"
            )),
            "CrashLoopBackOff" => {
                let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
                Some(last.map_or_else(
                    || format!("{what} {name} keeps failing{said}"),
                    |last| format!("{what} {name} keeps failing, {}", told(last)),
                ))
            }
            _ => Some(format!("{what} {name} does not start, {reason}{said}")),
        };
    }
    let terminated = failed(state)?;
    Some(format!("{what} {name} failed, {}", told(terminated)))
}

fn failed(state: &ContainerState) -> Option<&ContainerStateTerminated> {
    state.terminated.as_ref().filter(|terminated| terminated.exit_code != 0)
}

fn told(terminated: &ContainerStateTerminated) -> String {
    let how = match terminated.reason.as_deref() {
        Some("OOMKilled") => "it was out of memory; raise the limit in spec.resources".to_owned(),
        _ => format!("exit code {}", terminated.exit_code),
    };
    match terminated.message.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
        Some(words) => format!("{how}: {}", tail(words)),
        None => how,
    }
}

fn tail(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(LONGEST_TAIL))..]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn trouble(status: &Value) -> Option<String> {
        of(&serde_json::from_value(json!({"metadata": {}, "status": status})).unwrap())
    }

    fn container(state: Value) -> Value {
        let container = json!({"name": "pulumi", "image": "a:1", "imageID": "", "ready": false, "restartCount": 0});
        let mut container = container;
        container["state"] = state;
        json!({"containerStatuses": [container]})
    }

    fn waiting(reason: &str, message: &str) -> Value {
        container(json!({"waiting": {"reason": reason, "message": message}}))
    }

    #[rstest]
    #[case::runs(container(json!({"running": {}})))]
    #[case::is_being_made(waiting("ContainerCreating", ""))]
    #[case::waits_for_init_containers(waiting("PodInitializing", ""))]
    #[case::has_no_status(json!({}))]
    #[case::ended_well(container(json!({"terminated": {"exitCode": 0}})))]
    fn there_is_none_when_a_pod(#[case] status: Value) {
        assert_eq!(trouble(&status), None);
    }

    #[rstest]
    #[case(
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 Insufficient cpu."}]}),
        "the pod cannot be scheduled: 0/1 nodes are available: 1 Insufficient cpu.; make room"
    )]
    #[case(
        waiting("ErrImagePull", "no such host"),
        "image a:1 of container pulumi cannot be had, ErrImagePull: no such host; correct its name"
    )]
    #[case(
        waiting("CreateContainerConfigError", "couldn't find key k in Secret team/s"),
        "container pulumi cannot be made, CreateContainerConfigError: couldn't find key k in Secret team/s; create what"
    )]
    #[case(waiting("CreateContainerError", "x"), "container pulumi does not start, CreateContainerError: x")]
    #[case(
        container(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
        "container pulumi failed, it was out of memory; raise the limit"
    )]
    #[case(
        container(json!({"terminated": {"exitCode": 1, "message": "no such repository\n"}})),
        "container pulumi failed, exit code 1: no such repository"
    )]
    #[case(
        json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}),
        "the pod failed: Evicted: The node was low on resource: memory."
    )]
    fn it_is_told_with_what_to_do(#[case] status: Value, #[case] expected: &str) {
        let told = trouble(&status).unwrap();
        assert!(told.starts_with(expected), "{told}");
    }

    #[test]
    fn a_crash_loop_is_told_by_its_last_end() {
        let mut status = waiting("CrashLoopBackOff", "back-off 10s restarting failed container");
        status["containerStatuses"][0]["lastState"] = json!({"terminated": {"exitCode": 2, "message": "bad key"}});
        let moved = json!({"initContainerStatuses": status["containerStatuses"]});
        assert_eq!(trouble(&status).unwrap(), "container pulumi keeps failing, exit code 2: bad key");
        assert_eq!(trouble(&moved).unwrap(), "init container pulumi keeps failing, exit code 2: bad key");
    }

    #[test]
    fn of_long_last_words_the_end_is_told() {
        let words = format!("{}the end", "é".repeat(2000));
        let told = trouble(&container(json!({"terminated": {"exitCode": 1, "message": words}}))).unwrap();
        assert!(told.ends_with("éthe end") && told.len() < LONGEST_TAIL + 100, "{told}");
    }
}
