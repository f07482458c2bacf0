//! A Git repository: which commit, and with which credentials.

use std::time::Duration;

use k8s_openapi::api::core::v1::SecretKeySelector;
use pko_api::{
    Stack,
    messages::{
        git::{self as message, credential},
        reference,
    },
    stack::{ResourceRef, ref_type},
    workspace::{GitAuth, GitHubAppAuth, GitSource},
};

use super::{Draft, Resolved, Source, unavailable};
use crate::{
    ask::{GitTrouble, Listing},
    facts::Facts,
    invalid::Invalid,
    stack::synced::{asked_for, resync_frequency},
    step::Decision,
};

/// How old a look at the repository may be when somebody waits for what it shows.
const FRESH: Duration = Duration::from_secs(5);

/// A Secret that appears wakes its Stack; this is for a watch that missed it.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

pub(super) fn resolve(facts: &Facts, draft: &mut Draft) -> Decision<Resolved> {
    let stack = draft.stack;
    let wanted = Wanted::of(stack).map_err(|invalid| draft.spec_invalid(&invalid.message))?;
    let auth = auth(stack).map_err(|invalid| draft.spec_invalid(&invalid.message))?;
    let listing = Listing {
        url: wanted.url.to_owned(),
        reference: wanted.reference.to_owned(),
        auth: auth.clone(),
        max_age: max_age(draft),
    };
    let commit = match facts.revision(listing)? {
        Ok(commit) => commit.to_owned(),
        // The address itself may hold a password, so it is not repeated.
        Err(GitTrouble::Address(why)) => return Err(draft.spec_invalid(&format!("spec.projectRepo: {why}"))),
        Err(GitTrouble::Credentials(why)) => return Err(draft.spec_invalid_for_now(why, LOOK_AGAIN)),
        Err(GitTrouble::NoRevision(why)) => {
            return Err(unavailable(draft, format!("{}: {why}", message::no_such_ref(wanted.reference))));
        }
        Err(GitTrouble::Unavailable(why)) => return Err(unavailable(draft, message::listing(why))),
    };
    let from = Source::Git(GitSource {
        url: Some(wanted.url.to_owned()),
        git_ref: Some(commit.clone()),
        dir: filled(stack.spec.repo_dir.as_ref()).map(str::to_owned),
        auth,
        shallow: stack.spec.shallow.unwrap_or_default(),
    });
    Ok(Resolved { from, commit })
}

/// Whether the Stack's commit may change though its spec does not.
pub(in crate::stack) fn follows_a_branch(stack: &Stack) -> bool {
    filled(stack.spec.branch.as_ref()).is_some_and(|branch| !is_commit(branch))
}

/// What tells repositories and their directories apart.
pub(in crate::stack) fn identity(stack: &Stack) -> Option<(&str, &str)> {
    let dir = filled(stack.spec.repo_dir.as_ref()).unwrap_or_default();
    Some((filled(stack.spec.project_repo.as_ref())?, dir.trim_matches('/')))
}

/// All digits of a commit.
fn is_commit(reference: &str) -> bool {
    reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Looks that others have had are good enough for polling. When the user has just asked for something, they are not.
fn max_age(draft: &Draft) -> Duration {
    if asked_for(draft.stack, &draft.status) { FRESH } else { resync_frequency(draft.stack) * 9 / 10 }
}

struct Wanted<'a> {
    url: &'a str,
    reference: &'a str,
}

impl<'a> Wanted<'a> {
    fn of(stack: &'a Stack) -> Result<Self, Invalid> {
        let spec = &stack.spec;
        let url = filled(spec.project_repo.as_ref()).ok_or_else(|| {
            Invalid::new(format!("{}; give the URL of the repository in spec.projectRepo", message::MISSING_REPO))
        })?;
        match (filled(spec.commit.as_ref()), filled(spec.branch.as_ref())) {
            (None, None) => Err(Invalid::new(format!(
                "{}; give spec.branch to follow a branch or a tag, or spec.commit to stay at one",
                message::MISSING_REF
            ))),
            (Some(_), Some(_)) => {
                Err(Invalid::new(format!("{}; remove spec.commit or spec.branch", message::AMBIGUOUS_REF)))
            }
            (Some(reference), None) | (None, Some(reference)) => Ok(Self { url, reference }),
        }
    }
}

/// Credentials as keys of Secrets: those of `gitAuthSecret`, and over them those of `gitAuth`.
pub(super) fn auth(stack: &Stack) -> Result<Option<GitAuth>, Invalid> {
    let spec = &stack.spec;
    let mut auth = GitAuth::default();
    if let Some(secret) = filled(spec.git_auth_secret.as_ref()) {
        let key =
            |key: &str| Some(SecretKeySelector { name: secret.to_owned(), key: key.to_owned(), optional: Some(true) });
        auth.ssh_private_key = key("sshPrivateKey");
        auth.password = key("password");
        auth.username = key("username");
        auth.token = key("accessToken");
    }
    if let Some(given) = &spec.git_auth {
        let of = |which: &str, field: &str, reference: &ResourceRef| selector(stack, which, field, reference).map(Some);
        if let Some(ssh) = &given.ssh_auth {
            auth.ssh_private_key = of(credential::SSH_PRIVATE_KEY, "sshAuth.sshPrivateKey", &ssh.ssh_private_key)?;
            if let Some(password) = &ssh.password {
                auth.password = of(credential::SSH_PASSWORD, "sshAuth.password", password)?;
            }
        }
        if let Some(token) = &given.access_token {
            auth.token = of(credential::ACCESS_TOKEN, "accessToken", token)?;
        }
        if let Some(basic) = &given.basic_auth {
            auth.username = of(credential::USER_NAME, "basicAuth.userName", &basic.user_name)?;
            auth.password = of(credential::PASSWORD, "basicAuth.password", &basic.password)?;
        }
        if let Some(app) = &given.github_app {
            auth.github_app = Some(GitHubAppAuth {
                app_id: selector(stack, credential::APP_ID, "githubApp.appID", &app.app_id)?,
                installation_id: selector(
                    stack,
                    credential::INSTALLATION_ID,
                    "githubApp.installationID",
                    &app.installation_id,
                )?,
                private_key: selector(stack, credential::APP_PRIVATE_KEY, "githubApp.privateKey", &app.private_key)?,
            });
        }
        if spec.git_auth_secret.is_none() && auth == GitAuth::default() {
            return Err(Invalid::new(format!("spec.gitAuth: {}; give one of them", message::MISSING_AUTH)));
        }
    }
    Ok((auth != GitAuth::default()).then_some(auth))
}

fn selector(stack: &Stack, which: &str, field: &str, given: &ResourceRef) -> Result<SecretKeySelector, Invalid> {
    let fault = |why: &str, remedy: &str| {
        Err(Invalid::new(format!("spec.gitAuth.{field}: {}; {remedy}", message::resolving(which, why))))
    };
    if given.ref_type != ref_type::SECRET {
        let why = message::not_a_secret(&given.ref_type);
        return fault(&why, "put the value into a Secret, and refer to that with type Secret");
    }
    let Some(secret) = &given.secret else {
        return fault(reference::MISSING_SECRET, "add `secret` with name and key");
    };
    let namespace = secret.namespace.as_deref().unwrap_or_default();
    if !namespace.is_empty() && Some(namespace) != stack.metadata.namespace.as_deref() {
        return fault(reference::CROSS_NAMESPACE, "copy the Secret to the Stack's namespace");
    }
    if secret.name.is_empty() || secret.key.is_empty() {
        return fault("the reference is incomplete", "give both name and key");
    }
    Ok(SecretKeySelector { name: secret.name.clone(), key: secret.key.clone(), optional: None })
}

fn filled(text: Option<&String>) -> Option<&str> {
    text.map(|text| text.trim()).filter(|text| !text.is_empty())
}
