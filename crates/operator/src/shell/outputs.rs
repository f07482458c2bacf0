//! The Secret with an Update's outputs: how it is written, and what of it is shown.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use pko_api::{Update, annotations, labels, names, outputs};
use pko_core::effect::Target;
use serde_json::{Value, json};

use crate::agents::Output;

/// The Secret, secret outputs in clear.
pub(super) fn secret(namespace: &str, update: &Target, all: &BTreeMap<String, Output>) -> Value {
    let data: BTreeMap<String, ByteString> =
        all.iter().map(|(name, output)| (outputs::secret_key(name), ByteString(output.value.clone()))).collect();
    let secret = all.iter().filter(|(_, output)| output.secret).map(|(name, _)| name.as_str());
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": names::outputs_secret(&update.name),
            "namespace": namespace,
            "labels": labels::of_update(&update.name),
            "annotations": {annotations::SECRETS: outputs::secret_keys_annotation(secret)},
            "ownerReferences": [{
                "apiVersion": Update::API_VERSION,
                "kind": Update::KIND,
                "name": update.name,
                "uid": update.uid,
            }],
        },
        "immutable": true,
        "data": data,
    })
}

/// The outputs as a status may show them. Where nobody says which are secret, all are.
pub(super) fn masked(secret: &Secret) -> BTreeMap<String, Value> {
    let listed = secret.metadata.annotations.as_ref().and_then(|all| all.get(annotations::SECRETS));
    let listed: Option<BTreeSet<String>> = listed.and_then(|text| serde_json::from_str(text).ok());
    let is_secret = |key: &String| listed.as_ref().is_none_or(|listed| listed.contains(key));
    let data = secret.data.iter().flatten();
    data.map(|(key, value)| (key.clone(), if is_secret(key) { hidden() } else { shown(&value.0) })).collect()
}

fn hidden() -> Value {
    outputs::SECRET_PLACEHOLDER.into()
}

fn shown(value: &[u8]) -> Value {
    serde_json::from_slice(value).unwrap_or_else(|_| String::from_utf8_lossy(value).into_owned().into())
}

#[cfg(test)]
mod tests {
    use pko_core::seen::Kind;

    use super::*;

    fn stored() -> Secret {
        let target = Target {
            kind: Kind::Update,
            name: "web-1".to_owned(),
            uid: "u".to_owned(),
            resource_version: String::new(),
        };
        let output = |text: &str, secret| Output { value: text.as_bytes().to_vec(), secret };
        let all = [
            ("url".to_owned(), output("\"https://a\"", false)),
            ("pass word".to_owned(), output("\"hush\"", true)),
            ("count".to_owned(), output("3", false)),
        ];
        serde_json::from_value(secret("team", &target, &all.into())).unwrap()
    }

    #[test]
    fn a_secret_is_immutable_labelled_and_owned() {
        let secret = stored();
        let metadata = &secret.metadata;
        assert_eq!(metadata.name.as_deref(), Some("web-1-stack-outputs"));
        assert_eq!(metadata.annotations.as_ref().unwrap()["pulumi.com/secrets"], r#"["pass_word"]"#);
        assert_eq!(metadata.labels.as_ref().unwrap()["auto.pulumi.com/update-name"], "web-1");
        let owner = &metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Update", "u", None));
        assert_eq!(secret.immutable, Some(true));
        assert_eq!(secret.data.as_ref().unwrap()["pass_word"].0, b"\"hush\"", "in clear, for who may read Secrets");
    }

    #[test]
    fn secret_outputs_are_masked() {
        let shown = masked(&stored());
        assert_eq!(Value::from_iter(shown), json!({"count": 3, "pass_word": "[secret]", "url": "https://a"}));
    }

    #[test]
    fn where_nobody_says_which_are_secret_all_are() {
        let mut secret = stored();
        secret.metadata.annotations = None;
        assert!(masked(&secret).values().all(|value| value == "[secret]"));
        secret.metadata.annotations = Some([("pulumi.com/secrets".to_owned(), "url".to_owned())].into());
        assert!(masked(&secret).values().all(|value| value == "[secret]"));
    }

    #[test]
    fn what_is_no_json_is_shown_as_text() {
        assert_eq!(shown(b"plain"), json!("plain"));
    }
}
