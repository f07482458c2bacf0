//! Texts that reach users through conditions, events and Updates. Tools match on them: they are
//! never reworded.

/// Texts on a Stack.
pub mod stack {
    use std::fmt::Display;

    use crate::go_quote;

    /// Ready is False, in progress.
    pub const IN_PROGRESS: &str = "reconciliation is in progress";
    /// Ready is False, stalled.
    pub const STALLED: &str = "reconciliation is stalled";
    /// Ready is True.
    pub const UP_TO_DATE: &str = "the stack has been processed and is up to date";

    /// Reconciling: the Workspace is being made ready.
    pub const WAITING_FOR_WORKSPACE: &str = "waiting for workspace readiness";
    /// Reconciling: an Update is planned or running.
    pub const BEING_PROCESSED: &str = "stack is being processed";

    /// Stalled: the Flux source has nothing to offer yet.
    pub const FLUX_SOURCE_WITHOUT_ARTIFACT: &str = "Flux source has no artifact";
    /// Stalled: the Program cannot be read.
    pub const PROGRAM_UNAVAILABLE: &str = "unable to retrieve program for stack";
    /// Stalled: the Program has not been packed yet.
    pub const PROGRAM_WITHOUT_ARTIFACT: &str = "Program has no artifact";

    /// Reconciling: the last update failed, and is tried again at that time.
    pub fn update_failures(failures: i64, next: impl Display) -> String {
        format!("{failures} update failure(s); next attempt at {next}")
    }

    /// Reconciling: the last preview failed, and is tried again at that time.
    pub fn preview_failed(failures: i64, next: impl Display) -> String {
        format!("preview failed ({failures} attempt(s)); next attempt at {next}")
    }

    /// Reconciling: somebody else is updating the stack, and it is tried again at that time.
    pub fn update_conflict(next: impl Display) -> String {
        format!("another update of the stack is in progress; next attempt at {next}")
    }

    /// Stalled: the last update failed too often, and is tried again at that time.
    pub fn gave_up(update_type: &str, failures: i64, next: impl Display) -> String {
        format!("{update_type} failed {failures} times; next attempt at {next}, or when the spec or source changes")
    }

    /// Stalled: resources were changed from outside, and the user wants to know before they are changed back.
    pub const UNEXPECTED_REFRESH_CHANGES: &str = "the refresh before the update found that resources were changed outside of Pulumi, and \
         spec.expectNoRefreshChanges is set; look at them, then annotate the Stack with \
         pulumi.com/reconciliation-request to have it updated";

    /// Stalled: a destroy found nothing to destroy, though an update had succeeded.
    pub fn nothing_destroyed(pulumi_stack: &str, stack: &str, namespace: &str) -> String {
        format!(
            "the destroy of {} found nothing to destroy, although an update of it has succeeded: perhaps its state is \
             in another backend, or was lost. If all is well, annotate the Stack with \
             pulumi.com/reconciliation-request to have it destroyed once more and released; to release it without, \
             kubectl patch stack {stack} -n {namespace} --type=merge -p '{{\"metadata\":{{\"finalizers\":[]}}}}'",
            go_quote(pulumi_stack)
        )
    }

    /// Stalled: the Flux source's kind cannot be watched.
    pub fn source_reference_invalid(error: impl Display) -> String {
        format!("cannot process source reference: {error}")
    }

    /// Stalled: the Flux source cannot be read.
    pub fn source_unresolved(error: impl Display) -> String {
        format!("could not resolve sourceRef: {error}")
    }

    /// Stalled: so is the Workspace, for that reason and with that message.
    pub fn workspace_stalled(reason: &str, message: &str) -> String {
        format!("{reason}: {message}")
    }

    /// Stalled: the namespace goes away, and a workspace for the destroy cannot be made in it.
    /// `see` is where the user finds the resources: the last update's page, if there is one.
    pub fn namespace_terminating(namespace: &str, stack: &str, see: Option<&str>) -> String {
        let quoted = go_quote(namespace);
        let see = see.filter(|page| !page.is_empty()).unwrap_or("the Pulumi backend");
        format!(
            "namespace {quoted} is terminating, so a workspace cannot be created to run destroy; \
             cloud resources will NOT be deleted and must be cleaned up manually (see {see}). \
             The finalizer is retained to avoid silently orphaning resources. \
             Once the resources are handled, release the Stack with: \
             kubectl patch stack {stack} -n {namespace} --type=merge -p '{{\"metadata\":{{\"finalizers\":[]}}}}'"
        )
    }
}

/// Why a prerequisite holds a Stack back.
pub mod prerequisite {
    use std::fmt::Display;

    use crate::go_quote;

    /// It has not run for its present generation and request.
    pub const NOT_COMPLETED: &str = "prerequisite has not run to completion";
    /// Its last update failed.
    pub const FAILED: &str = "prerequisite failed";
    /// Its last success is too old.
    pub const OUT_OF_DATE: &str = "prerequisite is out of date";

    /// It does not exist.
    pub fn not_found(name: &str, error: impl Display) -> String {
        format!("unable to fetch prerequisite {}: {error}", go_quote(name))
    }

    /// It does not meet the requirement, because of one of this module's constants.
    pub fn not_satisfied(name: &str, why: &str) -> String {
        format!("prerequisite not satisfied for {}: {why}", go_quote(name))
    }

    /// Several do not.
    pub fn several(names: &[&str]) -> String {
        format!("multiple prerequisites were not satisfied {}", names.join(", "))
    }
}

/// Why a Stack is updated: the text of the event and the message of the Update.
pub mod trigger {
    use crate::{GoDuration, go_quote};

    /// It never was.
    pub const INITIAL: &str = "Initial stack update";
    /// It is to be destroyed.
    pub const DELETION: &str = "Stack marked for deletion";

    /// Its spec changed.
    pub fn new_generation(generation: i64) -> String {
        format!("New stack generation: {generation}")
    }

    /// The user asked.
    pub fn sync_request(request: &str) -> String {
        format!("Sync request: {}", go_quote(request))
    }

    /// A refresh before the update has found no changes.
    pub const REFRESHED: &str = "Refresh found no changes";

    /// A Secret or a ConfigMap that it uses changed.
    pub const NEW_REFERENCES: &str = "Referenced Secret or ConfigMap changed";

    /// Its source changed.
    pub fn new_commit(commit: &str) -> String {
        format!("New commit detected: {}", go_quote(commit))
    }

    /// It is due.
    pub fn resync(frequency: GoDuration) -> String {
        format!("Resync time elapsed: {frequency}")
    }

    /// The last one failed, long enough ago.
    pub fn backoff(cooldown: GoDuration) -> String {
        format!("Backoff time elapsed: {cooldown}")
    }
}

/// What is wrong with a Stack's references to values.
pub mod reference {
    use crate::go_quote;

    /// Only the Stack's namespace may be referred to.
    pub const CROSS_NAMESPACE: &str = "cross-namespace refs are not allowed";
    /// Type `Literal` without its member.
    pub const MISSING_LITERAL: &str = "missing literal reference in ResourceRef";
    /// Type `Secret` without its member.
    pub const MISSING_SECRET: &str = "missing secret reference in ResourceRef";
    /// Type `ConfigMap` without its member.
    pub const MISSING_CONFIG_MAP: &str = "missing configMap reference in ResourceRef";

    /// Types `Env` and `FS`.
    pub fn deprecated(ref_type: &str) -> String {
        format!("ref type {} is deprecated", go_quote(ref_type))
    }

    /// A type that does not exist.
    pub fn unsupported(ref_type: &str) -> String {
        format!("unsupported selector type: {ref_type}")
    }

    /// An entry of `envRefs` is at fault.
    pub fn in_env(name: &str, why: &str) -> String {
        format!("resolving env variable reference for {}: {why}", go_quote(name))
    }

    /// An entry of `configRef` is at fault.
    pub fn in_config(key: &str, why: &str) -> String {
        format!("failed to set stack config: updating configRef for {}: {why}", go_quote(key))
    }

    /// An entry of `secretsRef` is at fault.
    pub fn in_secrets(key: &str, why: &str) -> String {
        format!("failed to set stack config: updating secretRef for {}: {why}", go_quote(key))
    }
}

/// What is wrong with a Stack's Git source.
pub mod git {
    use std::fmt::Display;

    use crate::go_quote;

    /// No repository.
    pub const MISSING_REPO: &str = r#"missing "projectRepo""#;
    /// Neither commit nor branch.
    pub const MISSING_REF: &str = r#"missing "commit" or "branch""#;
    /// Both of them.
    pub const AMBIGUOUS_REF: &str = r#"only one of "commit" or "branch" should be specified"#;
    /// No kind of credentials in `gitAuth`.
    pub const MISSING_AUTH: &str = "gitAuth config must specify exactly one of \
        'personalAccessToken', 'sshPrivateKey', 'basicAuth', or 'githubApp'";

    /// The URL cannot be used.
    pub fn bad_url(url: &str, error: impl Display) -> String {
        format!("parsing {}: {error}", go_quote(url))
    }

    /// The repository has no such branch or tag.
    pub fn no_such_ref(git_ref: &str) -> String {
        format!("no commits found for ref {}", go_quote(git_ref))
    }

    /// The repository's refs cannot be listed.
    pub fn listing(error: impl Display) -> String {
        format!("listing: {error}")
    }

    /// The credentials cannot be used.
    pub fn auth_method(error: impl Display) -> String {
        format!("getting auth method: {error}")
    }

    /// A credential cannot be resolved; which is one of [`credential`].
    pub fn resolving(which: &str, why: impl Display) -> String {
        format!("resolving gitAuth {which}: {why}")
    }

    /// Credentials as messages call them.
    pub mod credential {
        /// `gitAuth.sshAuth.sshPrivateKey`
        pub const SSH_PRIVATE_KEY: &str = "SSH private key";
        /// `gitAuth.sshAuth.password`
        pub const SSH_PASSWORD: &str = "SSH password";
        /// `gitAuth.accessToken`
        pub const ACCESS_TOKEN: &str = "personal access token";
        /// `gitAuth.githubApp.appID`
        pub const APP_ID: &str = "GitHub App ID";
        /// `gitAuth.githubApp.installationID`
        pub const INSTALLATION_ID: &str = "GitHub App installation ID";
        /// `gitAuth.githubApp.privateKey`
        pub const APP_PRIVATE_KEY: &str = "GitHub App private key";
        /// `gitAuth.basicAuth.userName`
        pub const USER_NAME: &str = "username";
        /// `gitAuth.basicAuth.password`
        pub const PASSWORD: &str = "password";
    }

    /// What `gitAuthSecret` names is not usable.
    pub fn creating_auth(error: impl Display) -> String {
        format!("creating gitAuth: {error}")
    }

    /// GitHub's API answered with another status than expected.
    pub fn github_status(status: u16, body: &str) -> String {
        format!("GitHub API returned status {status}: {body}")
    }

    /// GitHub's API answered without a token.
    pub const GITHUB_EMPTY_TOKEN: &str = "GitHub API returned an empty token";
    /// The App's private key is not PEM.
    pub const GITHUB_KEY_NOT_PEM: &str = "failed to decode PEM block from GitHub App private key";

    /// GitHub gave no token for the App.
    pub fn installation_token(error: impl Display) -> String {
        format!("getting GitHub App installation token: {error}")
    }

    /// A credential that is not taken from a Secret.
    pub fn not_a_secret(ref_type: &str) -> String {
        format!("{ref_type} selectors are no longer supported in v2, please use a secret reference instead")
    }

    /// The Secret cannot be read.
    pub fn secret_unavailable(namespace: &str, secret: &str, error: impl Display) -> String {
        format!("unable to get secret {namespace}/{secret}: {error}")
    }

    /// The Secret lacks the key.
    pub fn no_such_key(key: &str, namespace: &str, secret: &str) -> String {
        format!("no key {} found in secret {namespace}/{secret}", go_quote(key))
    }
}

/// Texts on a Workspace.
pub mod workspace {
    use crate::go_quote;

    /// Ready is False: `Deleting`.
    pub const DELETING: &str = "Workspace is being deleted";
    /// Ready is False: `RollingUpdate`.
    pub const ROLLING_UPDATE: &str = "Waiting for the statefulset to be updated";
    /// Ready is False: `WaitingForReplicas`.
    pub const WAITING_FOR_REPLICAS: &str = "Waiting for the workspace pod to be available";
    /// Ready is False: `Installing`.
    pub const INSTALLING: &str = "Installing packages and plugins required by the program";
    /// Ready is False: `Initializing`.
    pub const INITIALIZING: &str = "Initializing and selecting a Pulumi stack";
    /// Ready is True.
    pub const SUCCEEDED: &str = "";
    /// First Pulumi CLI that can set structured configuration.
    pub const FIRST_JSON_VERSION: &str = "v3.202.0";

    /// A configuration value is no JSON that the agent's protocol can carry.
    pub fn config_value_undecodable(error: impl std::fmt::Display) -> String {
        format!("failed to unmarshal config value: {error}")
    }

    /// The agent could not be dialled; the state is gRPC's, for example `TRANSIENT_FAILURE`.
    pub fn unable_to_connect(state: &str) -> String {
        format!("unable to connect to workspace: {state}")
    }

    /// Ready is False: the CLI's version makes no sense.
    pub fn version_unparsable(version: &str) -> String {
        format!("Failed to parse Pulumi version {}", go_quote(version))
    }

    /// Stalled, for the same cause; says more.
    pub fn version_unparsable_because(version: &str, error: impl std::fmt::Display) -> String {
        format!("{}: {error}", version_unparsable(version))
    }

    /// The CLI is too old for structured configuration.
    pub fn version_too_low(version: &str) -> String {
        format!("Pulumi CLI version {version} does not support JSON configuration, require >= {FIRST_JSON_VERSION}")
    }

    /// A configuration item asks for what cannot go together.
    pub fn path_with_structured_value(key: &str) -> String {
        format!("path=true is incompatible with structured values (objects, arrays, etc.) for key {}", go_quote(key))
    }
}

/// Texts on an Update.
pub mod update {
    use crate::go_quote;

    /// `UpdateConflict`.
    pub const CONFLICT: &str = "Another update is currently in progress";
    /// `InvalidAccessToken`.
    pub const INVALID_ACCESS_TOKEN: &str = "Invalid access token used to authenticate with Pulumi Cloud";
    /// The agent's stream ended early.
    pub const NO_RESULT: &str = "didn't receive a result";

    /// The type is none of the four.
    pub fn unsupported_type(update_type: &str) -> String {
        format!("unsupported update type {}", go_quote(update_type))
    }
}
