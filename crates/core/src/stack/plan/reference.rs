//! References from a Stack to values: which can be used, and what is wrong with the others.

use pko_api::{
    Stack,
    messages::reference as message,
    stack::{ConfigMapSelector, ResourceRef, SecretSelector, ref_type},
};

/// What a reference refers to.
pub(super) enum Referred<'a> {
    Literal(&'a str),
    Secret(&'a SecretSelector),
    ConfigMap(&'a ConfigMapSelector),
}

/// What is wrong with a reference, and what to do about it.
pub(super) struct Fault {
    pub(super) why: String,
    pub(super) remedy: &'static str,
}

impl Fault {
    /// The text for the user; `wrapped` is the reason in the words that PKO wraps it with.
    pub(super) fn text(&self, field: &str, key: &str, wrapped: impl Fn(&str, &str) -> String) -> String {
        format!("spec.{field}[{}]: {}; {}", pko_api::go_quote(key), wrapped(key, &self.why), self.remedy)
    }
}

/// The member that belongs to the reference's type.
pub(super) fn resolve<'a>(stack: &Stack, reference: &'a ResourceRef) -> Result<Referred<'a>, Fault> {
    let fault = |why: &str, remedy| Fault { why: why.to_owned(), remedy };
    match reference.ref_type.as_str() {
        ref_type::LITERAL => match &reference.literal {
            Some(literal) => Ok(Referred::Literal(&literal.value)),
            None => Err(fault(message::MISSING_LITERAL, "add `literal` with its value")),
        },
        ref_type::SECRET => {
            let Some(secret) = &reference.secret else {
                return Err(fault(message::MISSING_SECRET, "add `secret` with name and key"));
            };
            let namespace = secret.namespace.as_deref().unwrap_or_default();
            if !namespace.is_empty() && Some(namespace) != stack.metadata.namespace.as_deref() {
                return Err(fault(message::CROSS_NAMESPACE, "copy the Secret to the Stack's namespace"));
            }
            complete(&secret.name, &secret.key)?;
            Ok(Referred::Secret(secret))
        }
        ref_type::CONFIG_MAP => {
            let Some(config_map) = &reference.config_map else {
                return Err(fault(message::MISSING_CONFIG_MAP, "add `configMap` with name and key"));
            };
            complete(&config_map.name, &config_map.key)?;
            Ok(Referred::ConfigMap(config_map))
        }
        deprecated @ (ref_type::ENV | ref_type::FS) => Err(fault(
            &message::deprecated(deprecated),
            "the operator's own environment and files are out of reach; put the value into a Secret and refer to that",
        )),
        other => Err(unsupported(other)),
    }
}

/// A type that does not exist, or not there.
pub(super) fn unsupported(ref_type: &str) -> Fault {
    Fault { why: message::unsupported(ref_type), remedy: "use one of the types that the manual lists for this field" }
}

/// Both halves of a reference to a key are needed.
pub(super) fn complete(name: &str, key: &str) -> Result<(), Fault> {
    let missing = if name.is_empty() { "the reference has no name" } else { "the reference has no key" };
    if name.is_empty() || key.is_empty() {
        return Err(Fault { why: missing.to_owned(), remedy: "give both name and key" });
    }
    Ok(())
}
