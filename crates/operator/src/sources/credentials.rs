//! From keys of Secrets to what a repository is read with. Values are never printed; what is missing is told in PKO's
//! words, with what to do about it.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::api::core::v1::{Secret, SecretKeySelector};
use pko_api::{
    env, go_quote,
    messages::git::{self as message, credential},
    workspace::GitAuth,
};
use pko_source::git::{Access, GitError, KnownHosts, Patience};
use sha2::{Digest, Sha256};

use crate::cluster::{At, Cause, Cluster, Failure, is_segment, resources};

/// Where GitHub's API is, for whoever has it elsewhere.
const GITHUB_API_URL: &str = "GITHUB_API_URL";

/// Whoever can read Secrets as they are.
pub trait Secrets: Sync {
    /// The values of a Secret; nothing if there is no such Secret.
    fn secret(&self, namespace: &str, name: &str) -> impl Future<Output = Result<Option<Values>, Failure>> + Send;
}

/// The values of a Secret by their keys.
#[derive(Clone, Default)]
pub struct Values(pub BTreeMap<String, Vec<u8>>);

impl fmt::Debug for Values {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl Secrets for Cluster {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Values>, Failure> {
        if !is_segment(name) {
            return Ok(None);
        }
        let found: Option<Secret> = self.get(&At::new(&resources::SECRETS, namespace, name)).await?;
        let values = |secret: Secret| secret.data.into_iter().flatten().map(|(key, value)| (key, value.0)).collect();
        Ok(found.map(|secret| Values(values(secret))))
    }
}

/// Why there are no credentials.
#[derive(Debug)]
pub(super) enum Missing {
    /// In words for the user.
    Credential(String),
    /// Nobody knows; the Secrets could not be read.
    Unread(Failure),
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        Self::Unread(failure)
    }
}

/// All that was given, by the names of the variables that a workspace pod has it in.
#[derive(Default)]
pub(super) struct Given {
    variables: BTreeMap<&'static str, String>,
    /// Lines about hosts, each with where they are from.
    known_hosts: Vec<(String, String)>,
}

impl fmt::Debug for Given {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.variables.keys()).finish()
    }
}

impl Given {
    /// With lines about hosts that all of the cluster knows.
    pub(super) fn and_known_hosts(mut self, lines: Option<String>) -> Self {
        self.known_hosts.extend(lines.map(|lines| ("known_hosts of the operator".to_owned(), lines)));
        self
    }

    /// Another for whatever is given otherwise.
    pub(super) fn digest(&self) -> [u8; 32] {
        let variables = self.variables.iter().map(|(name, value)| (*name, value));
        let known_hosts = self.known_hosts.iter().map(|(_, lines)| (env::KNOWN_HOSTS_KEY, lines));
        let mut hash = Sha256::new();
        for (name, value) in variables.chain(known_hosts) {
            for part in [name, value] {
                hash.update(part.len().to_be_bytes());
                hash.update(part);
            }
        }
        hash.finalize().into()
    }

    /// As repositories are read by the operator.
    pub(super) fn access(&self, github_api: Option<&str>) -> Result<Access, GitError> {
        let mut access = Access::from_variables(|name| match name {
            GITHUB_API_URL => github_api.map(str::to_owned),
            name => self.variables.get(name).cloned(),
        })?;
        access.known_hosts = KnownHosts::from_texts(self.known_hosts.iter().cloned());
        access.patience = Patience::for_a_look();
        Ok(access)
    }
}

/// Reads what a Stack's credentials refer to.
pub(super) async fn resolve(secrets: &impl Secrets, namespace: &str, auth: Option<&GitAuth>) -> Result<Given, Missing> {
    let mut given = Given::default();
    let Some(auth) = auth else { return Ok(given) };
    let mut reader = Reader { secrets, namespace, read: BTreeMap::new() };
    let one_secret = of_one_secret(auth);
    if let Some(name) = one_secret {
        reader.must_exist(name).await?;
    }
    let password = match (&auth.username, &auth.ssh_private_key) {
        (None, Some(_)) => credential::SSH_PASSWORD,
        _ => credential::PASSWORD,
    };
    let app = auth.github_app.as_ref();
    for (variable, which, selector) in [
        (env::GIT_SSH_PRIVATE_KEY, credential::SSH_PRIVATE_KEY, auth.ssh_private_key.as_ref()),
        (env::GIT_TOKEN, credential::ACCESS_TOKEN, auth.token.as_ref()),
        (env::GIT_USERNAME, credential::USER_NAME, auth.username.as_ref()),
        (env::GIT_PASSWORD, password, auth.password.as_ref()),
        (env::GIT_GITHUB_APP_ID, credential::APP_ID, app.map(|app| &app.app_id)),
        (env::GIT_GITHUB_APP_INSTALLATION_ID, credential::INSTALLATION_ID, app.map(|app| &app.installation_id)),
        (env::GIT_GITHUB_APP_PRIVATE_KEY, credential::APP_PRIVATE_KEY, app.map(|app| &app.private_key)),
    ] {
        if let Some(selector) = selector
            && let Some(value) = reader.value(which, selector).await?
        {
            if value.is_empty() && variable != env::GIT_PASSWORD && selector.optional != Some(true) {
                return Err(reader.unusable(which, selector, "is empty"));
            }
            given.variables.insert(variable, value);
        }
    }
    if let Some(name) = one_secret {
        given.password_comes_with_user(namespace, name)?;
    }
    if let Some(key) = &auth.ssh_private_key
        && let Some(lines) = reader.known_hosts(&key.name).await?
    {
        given.known_hosts.push((format!("known_hosts of Secret {namespace}/{}", key.name), lines));
    }
    Ok(given)
}

impl Given {
    fn has(&self, variable: &str) -> bool {
        self.variables.get(variable).is_some_and(|value| !value.is_empty())
    }

    fn password_comes_with_user(&self, namespace: &str, secret: &str) -> Result<(), Missing> {
        let others = [env::GIT_PASSWORD, env::GIT_SSH_PRIVATE_KEY, env::GIT_TOKEN, env::GIT_GITHUB_APP_ID];
        if !self.has(env::GIT_USERNAME) || others.iter().any(|other| self.has(other)) {
            return Ok(());
        }
        let why = message::creating_auth(message::no_such_key("password", namespace, secret));
        Err(Missing::Credential(format!("{why}; add the password of the user")))
    }
}

/// The Secret of `gitAuthSecret`: all that it may hold is looked for in it, and nothing has to be there.
fn of_one_secret(auth: &GitAuth) -> Option<&str> {
    let all = [&auth.ssh_private_key, &auth.username, &auth.password, &auth.token];
    let first = auth.ssh_private_key.as_ref()?;
    let same = |selector: &SecretKeySelector| selector.optional == Some(true) && selector.name == first.name;
    all.into_iter().all(|selector| selector.as_ref().is_some_and(same)).then_some(&first.name)
}

/// Reads each Secret once.
struct Reader<'a, S> {
    secrets: &'a S,
    namespace: &'a str,
    read: BTreeMap<String, Option<Values>>,
}

impl<S: Secrets> Reader<'_, S> {
    async fn secret(&mut self, name: &str) -> Result<Option<&Values>, Failure> {
        if !self.read.contains_key(name) {
            let found = self.secrets.secret(self.namespace, name).await?;
            self.read.insert(name.to_owned(), found);
        }
        Ok(self.read.get(name).and_then(Option::as_ref))
    }

    async fn must_exist(&mut self, name: &str) -> Result<(), Missing> {
        let namespace = self.namespace;
        let why = match self.secret(name).await {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {
                format!("{}; create it in namespace {namespace}, or correct spec.gitAuthSecret", not_found(name))
            }
            Err(failure) if failure.cause == Cause::Forbidden => {
                message::secret_unavailable(namespace, name, failure.why())
            }
            Err(failure) => return Err(Missing::Unread(failure)),
        };
        Err(Missing::Credential(why))
    }

    /// Nothing, if it is optional and not there.
    async fn value(&mut self, which: &str, selector: &SecretKeySelector) -> Result<Option<String>, Missing> {
        let SecretKeySelector { name, key, optional } = selector;
        let namespace = self.namespace;
        let fault = |why: String, remedy: &str| {
            let text = message::resolving(which, why);
            Err(Missing::Credential(if remedy.is_empty() { text } else { format!("{text}; {remedy}") }))
        };
        let found = match self.secret(name).await {
            Ok(found) => found.map(|values| values.0.get(key)),
            Err(failure) if failure.cause == Cause::Forbidden => {
                return fault(message::secret_unavailable(namespace, name, failure.why()), "");
            }
            Err(failure) => return Err(Missing::Unread(failure)),
        };
        match found {
            None | Some(None) if *optional == Some(true) => Ok(None),
            None => fault(
                message::secret_unavailable(namespace, name, not_found(name)),
                "create it, or correct the reference to it",
            ),
            Some(None) => fault(message::no_such_key(key, namespace, name), "add it, or correct the reference to it"),
            Some(Some(value)) => match String::from_utf8(value.clone()) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(self.unusable(which, selector, "is no text")),
            },
        }
    }

    async fn known_hosts(&mut self, secret: &str) -> Result<Option<String>, Failure> {
        let lines = self.secret(secret).await?.and_then(|values| values.0.get(env::KNOWN_HOSTS_KEY));
        Ok(lines.map(|lines| String::from_utf8_lossy(lines).into_owned()))
    }

    fn unusable(&self, which: &str, selector: &SecretKeySelector, how: &str) -> Missing {
        let place = format!("key {} of secret {}/{}", go_quote(&selector.key), self.namespace, selector.name);
        Missing::Credential(format!("{}; correct it", message::resolving(which, format!("{place} {how}"))))
    }
}

fn not_found(secret: &str) -> String {
    format!("Secret {} not found", go_quote(secret))
}

#[cfg(test)]
mod tests {
    use pko_api::workspace::GitHubAppAuth;
    use rstest::rstest;

    use super::*;

    /// Secrets by name, with their keys and values; one of them cannot be read.
    struct Fake(&'static [(&'static str, &'static [(&'static str, &'static str)])]);

    impl Secrets for Fake {
        async fn secret(&self, _: &str, name: &str) -> Result<Option<Values>, Failure> {
            let failure = |cause, why: &str| Err(Failure::new(cause, "reading", "a Secret", why));
            match name {
                "unreachable" => return failure(Cause::Unreachable, "no answer"),
                "forbidden" => return failure(Cause::Forbidden, "you cannot"),
                _ => {}
            }
            let found = self.0.iter().find(|(known, _)| *known == name);
            let values = |all: &[(&str, &str)]| {
                all.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
            };
            Ok(found.map(|(_, all)| Values(values(all))))
        }
    }

    fn key(name: &str, key: &str, optional: Option<bool>) -> SecretKeySelector {
        SecretKeySelector { name: name.to_owned(), key: key.to_owned(), optional }
    }

    /// As the core has it for `gitAuthSecret`.
    fn one_secret(name: &str) -> GitAuth {
        let of = |selected: &str| Some(key(name, selected, Some(true)));
        GitAuth {
            ssh_private_key: of("sshPrivateKey"),
            username: of("username"),
            password: of("password"),
            token: of("accessToken"),
            github_app: None,
        }
    }

    fn token(name: &str, selected: &str) -> GitAuth {
        GitAuth { token: Some(key(name, selected, None)), ..GitAuth::default() }
    }

    async fn given(secrets: &Fake, auth: &GitAuth) -> Result<Given, String> {
        resolve(secrets, "team", Some(auth)).await.map_err(|missing| match missing {
            Missing::Credential(text) => text,
            Missing::Unread(failure) => format!("unread: {failure}"),
        })
    }

    #[tokio::test]
    async fn all_that_is_there_is_given_by_the_names_that_a_pod_knows() {
        let secrets = Fake(&[
            ("git", &[("k", "key"), ("p", "pass"), ("known_hosts", "h ssh-rsa AA==")]),
            ("app", &[("id", "1"), ("in", "2"), ("key", "3")]),
        ]);
        let auth = GitAuth {
            ssh_private_key: Some(key("git", "k", None)),
            password: Some(key("git", "p", None)),
            github_app: Some(GitHubAppAuth {
                app_id: key("app", "id", None),
                installation_id: key("app", "in", None),
                private_key: key("app", "key", None),
            }),
            ..GitAuth::default()
        };
        let given = given(&secrets, &auth).await.unwrap();
        let expected = [
            ("GIT_GITHUB_APP_ID", "1"),
            ("GIT_GITHUB_APP_INSTALLATION_ID", "2"),
            ("GIT_GITHUB_APP_PRIVATE_KEY", "3"),
            ("GIT_PASSWORD", "pass"),
            ("GIT_SSH_PRIVATE_KEY", "key"),
        ];
        assert_eq!(given.variables, expected.map(|(name, value)| (name, value.to_owned())).into());
        assert_eq!(given.known_hosts, [("known_hosts of Secret team/git".to_owned(), "h ssh-rsa AA==".to_owned())]);
    }

    #[tokio::test]
    async fn of_one_secret_all_keys_are_optional_and_the_secret_is_not() {
        let secrets = Fake(&[("git", &[("accessToken", "t")]), ("none", &[]), ("half", &[("username", "me")])]);
        let found = given(&secrets, &one_secret("git")).await.unwrap();
        assert_eq!(found.variables, [("GIT_TOKEN", "t".to_owned())].into());
        assert!(given(&secrets, &one_secret("none")).await.unwrap().variables.is_empty());
        assert_eq!(
            given(&secrets, &one_secret("absent")).await.unwrap_err(),
            "Secret \"absent\" not found; create it in namespace team, or correct spec.gitAuthSecret"
        );
        assert_eq!(
            given(&secrets, &one_secret("half")).await.unwrap_err(),
            "creating gitAuth: no key \"password\" found in secret team/half; add the password of the user"
        );
        let optional = GitAuth { token: Some(key("absent", "a", Some(true))), ..GitAuth::default() };
        assert!(given(&secrets, &optional).await.unwrap().variables.is_empty());
    }

    #[rstest]
    #[case::no_secret("absent", "t", "unable to get secret team/absent: Secret \"absent\" not found; create it, or")]
    #[case::no_key("git", "t", "no key \"t\" found in secret team/git; add it, or")]
    #[case::nothing_in_it("git", "empty", "key \"empty\" of secret team/git is empty; correct it")]
    #[case::not_allowed("forbidden", "t", "unable to get secret team/forbidden: you cannot")]
    #[tokio::test]
    async fn what_is_missing_is_told_in_pkos_words(#[case] secret: &str, #[case] selected: &str, #[case] why: &str) {
        let secrets = Fake(&[("git", &[("empty", "")])]);
        let told = given(&secrets, &token(secret, selected)).await.unwrap_err();
        assert!(told.starts_with(&format!("resolving gitAuth personal access token: {why}")), "{told}");
    }

    #[tokio::test]
    async fn a_secret_that_cannot_be_reached_is_nobodys_fault() {
        for auth in [token("unreachable", "t"), one_secret("unreachable")] {
            let told = given(&Fake(&[]), &auth).await.unwrap_err();
            assert!(told.starts_with("unread: "), "{told}");
        }
    }

    #[rstest]
    #[case::of_a_user(true, "resolving gitAuth password: ")]
    #[case::of_a_key(false, "resolving gitAuth SSH password: ")]
    #[tokio::test]
    async fn a_missing_password_is_that_of_the_user_or_that_of_the_key(#[case] user: bool, #[case] words: &str) {
        let secrets = Fake(&[("git", &[("a", "a")])]);
        let (there, absent) = (Some(key("git", "a", None)), Some(key("git", "b", None)));
        let auth = if user {
            GitAuth { username: there, password: absent, ..GitAuth::default() }
        } else {
            GitAuth { ssh_private_key: there, password: absent, ..GitAuth::default() }
        };
        let told = given(&secrets, &auth).await.unwrap_err();
        assert!(told.starts_with(words), "{told}");
    }

    #[tokio::test]
    async fn a_digest_changes_with_every_value_and_with_the_known_hosts() {
        let first = Fake(&[("git", &[("accessToken", "t")])]);
        let same = Fake(&[("other", &[("accessToken", "t")])]);
        let token = Fake(&[("git", &[("accessToken", "u")])]);
        let hosts = Fake(&[("git", &[("accessToken", "t"), ("known_hosts", "h")])]);
        let digest = async |secrets: &Fake, name: &str| given(secrets, &one_secret(name)).await.unwrap().digest();
        let own = digest(&first, "git").await;
        assert_eq!(digest(&same, "other").await, own, "where it is from is of no importance");
        assert_ne!(digest(&token, "git").await, own);
        assert_ne!(digest(&hosts, "git").await, own);
        let of_cluster = given(&first, &one_secret("git")).await.unwrap().and_known_hosts(Some("h".to_owned()));
        assert_ne!(of_cluster.digest(), own);
    }

    #[tokio::test]
    async fn values_are_not_printed() {
        let secrets = Fake(&[("git", &[("accessToken", "hunter2"), ("known_hosts", "h")])]);
        let given = given(&secrets, &one_secret("git")).await.unwrap();
        let values = secrets.secret("team", "git").await.unwrap().unwrap();
        let printed = format!("{given:?} {values:?} {:?}", given.access(None).unwrap());
        assert!(!printed.contains("hunter2") && printed.contains("GIT_TOKEN"), "{printed}");
    }
}
