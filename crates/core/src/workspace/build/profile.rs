//! What the containers that the operator generates may do.

use pko_api::workspace::{WorkspaceSpec, defaults, security_profile};
use serde_json::{Value, json};

use super::Invalid;

/// The user and group that Pulumi's images without root have.
const USER: i64 = 1000;

/// A level of the Pod Security Standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
    Restricted,
    Baseline,
}

impl Profile {
    pub(super) fn of(spec: &WorkspaceSpec) -> Result<Self, Invalid> {
        match spec.security_profile.as_deref().unwrap_or_default() {
            "" | security_profile::RESTRICTED => Ok(Self::Restricted),
            security_profile::BASELINE => Ok(Self::Baseline),
            _ => Err(Invalid::new("spec.securityProfile: unknown profile; write `restricted` or `baseline`")),
        }
    }

    /// The image unless the spec names one.
    pub(super) const fn image(self) -> &'static str {
        match self {
            Self::Restricted => defaults::RESTRICTED_IMAGE,
            Self::Baseline => defaults::BASELINE_IMAGE,
        }
    }

    /// Of the pod.
    pub(super) fn pod(self) -> Value {
        let seccomp = json!({"type": "RuntimeDefault"});
        match self {
            Self::Baseline => json!({"seccompProfile": seccomp}),
            Self::Restricted => json!({
                "seccompProfile": seccomp,
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
            }),
        }
    }

    /// Puts a security context on a generated container.
    pub(super) fn confine(self, container: &mut Value) {
        if self == Self::Restricted {
            container["securityContext"] = json!({
                "allowPrivilegeEscalation": false,
                "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            });
        }
    }
}
