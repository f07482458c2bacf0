//! deploy/install with the image that was built here in the place of the published one, for the demo and for tests.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{image, paths};

/// Rolls the operator's pod when an image of the same name has another content.
const IMAGE_DIGEST: &str = "localhost/image-digest";

/// All objects of deploy/install as one list. Without a digest the pod is not rolled for a new image.
pub(crate) fn rendered(image_digest: Option<&str>) -> Result<Value> {
    let mut objects = manifests()?;
    let deployment =
        objects.iter_mut().find(|o| o["kind"] == "Deployment").context("deploy/install holds no Deployment")?;
    set_image(deployment, image::OPERATOR, image_digest)?;
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": objects}))
}

fn manifests() -> Result<Vec<Value>> {
    let dir = paths::root().join("deploy/install");
    let mut files: Vec<_> = fs::read_dir(&dir)
        .with_context(|| format!("reading {}", dir.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    // The order in which kubectl takes them.
    files.sort();
    let mut objects = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file)?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("reading {}", file.display()))?;
        objects.extend(documents);
    }
    Ok(objects)
}

/// One image serves the manager and, by its environment, the agents of workspace pods.
fn set_image(deployment: &mut Value, image: &str, digest: Option<&str>) -> Result<()> {
    let template = &mut deployment["spec"]["template"];
    if let Some(digest) = digest {
        template["metadata"]["annotations"][IMAGE_DIGEST] = json!(digest);
    }
    let manager = template["spec"]["containers"]
        .as_array_mut()
        .and_then(|containers| containers.iter_mut().find(|c| c["name"] == "manager"))
        .context("the Deployment has no container named manager")?;
    let published = std::mem::replace(&mut manager["image"], json!(image));
    manager["imagePullPolicy"] = json!("IfNotPresent");
    let agent = manager["env"]
        .as_array_mut()
        .and_then(|env| env.iter_mut().find(|e| e["name"] == "AGENT_IMAGE"))
        .context("the manager has no AGENT_IMAGE in its environment")?;
    if std::mem::replace(&mut agent["value"], json!(image)) != published {
        bail!("AGENT_IMAGE in deploy/install is not the manager's image {published}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_built_here_takes_the_place_of_the_published_one_everywhere() {
        let list = rendered(Some("abc")).unwrap();
        let published = format!("pulumi-kubernetes-operator:{}", env!("CARGO_PKG_VERSION"));
        assert!(!list.to_string().contains(&published), "{list}");
        let deployment = list["items"].as_array().unwrap().iter().find(|o| o["kind"] == "Deployment").unwrap();
        let template = &deployment["spec"]["template"];
        assert_eq!(template["spec"]["containers"][0]["image"], image::OPERATOR);
        assert_eq!(template["metadata"]["annotations"][IMAGE_DIGEST], "abc");
    }

    #[test]
    fn the_manifests_name_the_image_of_this_version_for_manager_and_agents() {
        let text = serde_json::to_string(&manifests().unwrap()).unwrap();
        let published = format!("\"pulumi-kubernetes-operator:{}\"", env!("CARGO_PKG_VERSION"));
        assert_eq!(text.matches(&published).count(), 2, "{text}");
    }

    #[test]
    fn an_agent_image_that_differs_from_the_managers_is_refused() {
        let mut deployment = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "manager", "image": "a:1", "env": [{"name": "AGENT_IMAGE", "value": "a:2"}]},
        ]}}}});
        let error = set_image(&mut deployment, "b:1", None).unwrap_err().to_string();
        assert!(error.contains("is not the manager's image \"a:1\""), "{error}");
    }
}
