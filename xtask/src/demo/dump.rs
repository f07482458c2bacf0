//! What one needs to understand a demo that failed.

use super::{NAMESPACE, OPERATOR_NAMESPACE, kubectl::Kubectl, title};

/// Shows objects, events and logs. What cannot be had is left out: the demo's own error comes after it.
pub(crate) fn everything(kubectl: &Kubectl) {
    title("The demo failed; this is what there is");
    let looks: [&[&str]; 10] = [
        &["get", "nodes", "-o", "wide"],
        &["get", "deployment,pod", "-n", OPERATOR_NAMESPACE, "-o", "wide"],
        &["describe", "pods", "-n", OPERATOR_NAMESPACE],
        &["logs", "deployment/controller-manager", "-n", OPERATOR_NAMESPACE, "--tail=200"],
        &["get", "all,persistentvolumeclaim,serviceaccount", "-n", NAMESPACE, "-o", "wide"],
        &["describe", "stacks,programs,workspaces,updates", "-n", NAMESPACE],
        &["describe", "pods", "-n", NAMESPACE],
        &["get", "events", "-n", NAMESPACE, "--sort-by=.lastTimestamp"],
        &["logs", "demo-workspace-0", "-n", NAMESPACE, "--all-containers", "--prefix", "--tail=200"],
        &["logs", "demo-workspace-0", "-n", NAMESPACE, "--all-containers", "--prefix", "--tail=100", "--previous"],
    ];
    for look in looks {
        if let Err(error) = kubectl.run(look) {
            println!("{error:#}");
        }
    }
}
