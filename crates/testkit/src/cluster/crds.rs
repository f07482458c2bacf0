//! The CRDs of this clone in the cluster under test.

use std::{path::Path, sync::OnceLock, time::Duration};

use super::{Kubectl, wait_for};

const CRDS: &[&str] =
    &["stacks.pulumi.com", "programs.pulumi.com", "workspaces.auto.pulumi.com", "updates.auto.pulumi.com"];

/// Applies deploy/crds and waits until the API serves them; once per test program.
pub fn install_crds() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let kubectl = Kubectl::new();
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds");
        let (generations, schemas) = (generations(&kubectl), published(&kubectl));
        kubectl.run(&["apply", "--server-side", "--force-conflicts", "-f", &dir.display().to_string()]);
        wait_for("the CRDs to be served", Duration::from_mins(1), || {
            let established = each(&kubectl, ".status.conditions[?(@.type==\"Established\")].status")?;
            if established == vec!["True"; CRDS.len()] { Ok(()) } else { Err(established.join(" ")) }
        });
        // A CRD that was there before says "Established" at once; that the server has taken over another schema shows
        // in what it publishes.
        if self::generations(&kubectl) != generations {
            wait_for("the schemas to be published", Duration::from_mins(1), || {
                let now = published(&kubectl);
                if now == schemas { Err(now) } else { Ok(()) }
            });
        }
    });
}

/// The generation of each CRD, or what kept it from being read, such as its absence.
fn generations(kubectl: &Kubectl) -> Result<Vec<String>, String> {
    each(kubectl, ".metadata.generation")
}

fn each(kubectl: &Kubectl, field: &str) -> Result<Vec<String>, String> {
    let template = format!("jsonpath={{range .items[*]}}{{{field}}} {{end}}");
    let args = [&["get", "crd", "-o", &template][..], CRDS].concat();
    Ok(kubectl.try_run(&args)?.split_whitespace().map(str::to_owned).collect())
}

/// The addresses of the published schemas of our groups, which change with their content.
fn published(kubectl: &Kubectl) -> String {
    let index = kubectl.run(&["get", "--raw", "/openapi/v3"]);
    index
        .split('"')
        .filter(|part| part.contains("pulumi.com/v1") && part.contains("hash="))
        .collect::<Vec<_>>()
        .join(" ")
}
