//! The CRDs of this clone in the cluster under test.

use std::{path::Path, sync::OnceLock, time::Duration};

use super::{Kubectl, wait_for};

const CRDS: &[&str] =
    &["stacks.pulumi.com", "programs.pulumi.com", "workspaces.auto.pulumi.com", "updates.auto.pulumi.com"];

/// Applies deploy/crds and waits until the API serves them; once per test program.
pub fn install_crds() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        let kubectl = Kubectl::new();
        kubectl.run(&["apply", "--server-side", "--force-conflicts", "-f", &dir.display().to_string()]);
        // `kubectl wait` gives up on a CRD that has no conditions yet.
        wait_for("the CRDs to be served", Duration::from_mins(1), || {
            let template = "jsonpath={range .items[*]}{.status.conditions[?(@.type==\"Established\")].status} {end}";
            let args = [&["get", "crd", "-o", template][..], CRDS].concat();
            let seen = kubectl.try_run(&args)?;
            if seen.split_whitespace().filter(|s| *s == "True").count() == CRDS.len() { Ok(()) } else { Err(seen) }
        });
    });
}
