//! Which credentials were given, and which of them a repository's scheme can use. Values are never printed; errors name
//! the variable and the key of the Secret that a credential came from.

use std::fmt;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{
    error::GitError,
    secret::Secret,
    url::{GitUrl, Place},
};

/// With a token the user is of no importance, but must be there.
const TOKEN_USER: &str = "git";

/// Everything that may be given, each as it was given. An empty text counts as not given.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    ssh_private_key: Option<Secret>,
    username: Option<String>,
    password: Option<Secret>,
    token: Option<Secret>,
    pub(super) app: Option<App>,
}

/// A GitHub App, whose installation token is used in the place of a token.
#[derive(Debug, Clone)]
pub(super) struct App {
    pub(super) id: String,
    pub(super) installation: String,
    pub(super) key: Secret,
    /// Where GitHub's API is, when it is not where the repository's host lets expect it.
    pub(super) api: Option<String>,
}

/// How to log in over HTTP, and where that came from.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) header: Option<Secret>,
    pub(super) origin: Origin,
    secrets: Vec<Secret>,
}

/// Where a credential came from, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Nothing,
    OnlySshKey,
    Address,
    Basic,
    Token,
    App,
    SshKey,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "no credentials (none are given)",
            Self::OnlySshKey => {
                "no credentials (an SSH key is given, which only ssh:// and user@host:path addresses use)"
            }
            Self::Address => "the user and password in its address",
            Self::Basic => "GIT_USERNAME and GIT_PASSWORD (username and password)",
            Self::Token => "GIT_TOKEN (accessToken)",
            Self::App => "the token of the GitHub App (GIT_GITHUB_APP_ID)",
            Self::SshKey => "GIT_SSH_PRIVATE_KEY (sshPrivateKey)",
        })
    }
}

impl Credentials {
    /// From variables as the init container has them.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, GitError> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let secret = |name: &str| given(name).map(Secret::new);
        let app = given("GIT_GITHUB_APP_ID").map(|id| -> Result<App, GitError> {
            let missing = |name| GitError::Credentials(format!("GIT_GITHUB_APP_ID is given and {name} is not"));
            let installation = "GIT_GITHUB_APP_INSTALLATION_ID";
            let key = "GIT_GITHUB_APP_PRIVATE_KEY";
            Ok(App {
                id,
                installation: given(installation).ok_or_else(|| missing(installation))?,
                key: secret(key).ok_or_else(|| missing(key))?,
                api: given("GITHUB_API_URL"),
            })
        });
        let credentials = Self {
            ssh_private_key: secret("GIT_SSH_PRIVATE_KEY"),
            username: given("GIT_USERNAME"),
            password: secret("GIT_PASSWORD"),
            token: secret("GIT_TOKEN"),
            app: app.transpose()?,
        };
        credentials.exclusive()?;
        Ok(credentials)
    }

    /// What contradicts itself is refused, as in PKO.
    fn exclusive(&self) -> Result<(), GitError> {
        let both = |a: &str, b: &str| {
            Err(GitError::Credentials(format!(
                "please specify one authentication option: both {a} and {b} are given; remove one of them"
            )))
        };
        let username = "GIT_USERNAME (username)";
        match self.username {
            Some(_) if self.ssh_private_key.is_some() => both(username, "GIT_SSH_PRIVATE_KEY (sshPrivateKey)"),
            Some(_) if self.app.is_some() => both(username, "GIT_GITHUB_APP_ID"),
            Some(_) if self.token.is_some() => both(username, "GIT_TOKEN (accessToken)"),
            _ => Ok(()),
        }
    }

    /// How to log in at an address over HTTP; the token of an app comes before a token that was given.
    pub(super) fn login(&self, url: &GitUrl, app_token: Option<Secret>) -> Login {
        let basic = |user: &str, password: &Secret, origin| Login {
            header: Some(Secret::new(format!(
                "Basic {}",
                BASE64_STANDARD.encode(format!("{user}:{}", password.reveal()))
            ))),
            origin,
            secrets: vec![password.clone()],
        };
        if let Some(token) = app_token {
            return basic(TOKEN_USER, &token, Origin::App);
        }
        if let Some(token) = &self.token {
            return basic(TOKEN_USER, token, Origin::Token);
        }
        if let (Some(user), Some(password)) = (&self.username, &self.password) {
            return basic(user, password, Origin::Basic);
        }
        if let Place::Http(place) = &url.place
            && let Some((user, password)) = &place.login
        {
            let mut login = basic(user, password, Origin::Address);
            // A token alone is written in the place of the user.
            login.secrets.push(Secret::new(user.clone()));
            return login;
        }
        let origin = if self.ssh_private_key.is_some() { Origin::OnlySshKey } else { Origin::Nothing };
        Login { header: None, origin, secrets: Vec::new() }
    }

    /// The key for an address over SSH, and the passphrase if there is one.
    pub(super) fn ssh_key(&self) -> Result<(&Secret, Option<&Secret>), GitError> {
        match &self.ssh_private_key {
            Some(key) => Ok((key, self.password.as_ref())),
            None => Err(GitError::Credentials(format!(
                "an address over ssh needs a private key: give it as GIT_SSH_PRIVATE_KEY (sshPrivateKey){}",
                if self.token.is_some() || self.username.is_some() || self.app.is_some() {
                    ", or use the https:// address, which the given credentials are for"
                } else {
                    ""
                }
            ))),
        }
    }
}

impl Login {
    /// A server's words without what it may have repeated of ours.
    pub(super) fn scrubbed(&self, text: &str) -> String {
        let secrets = self.secrets.iter().chain(&self.header).map(Secret::reveal).filter(|secret| secret.len() > 3);
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, "…"))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?})", self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)]) -> Result<Credentials, GitError> {
        Credentials::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn origin(variables: &[(&str, &str)], url: &str) -> Origin {
        given(variables).unwrap().login(&GitUrl::parse(url).unwrap(), None).origin
    }

    #[test]
    fn options_that_exclude_each_other_are_refused_in_pkos_words() {
        for other in ["GIT_SSH_PRIVATE_KEY", "GIT_TOKEN"] {
            let error = given(&[("GIT_USERNAME", "me"), (other, "hunter2")]).unwrap_err().to_string();
            assert!(error.starts_with("please specify one authentication option"), "{error}");
            assert!(error.contains(other) && !error.contains("hunter2"), "{error}");
        }
        let app = [
            ("GIT_GITHUB_APP_ID", "1"),
            ("GIT_GITHUB_APP_INSTALLATION_ID", "2"),
            ("GIT_GITHUB_APP_PRIVATE_KEY", "k"),
            ("GIT_USERNAME", "me"),
        ];
        assert!(given(&app).unwrap_err().to_string().starts_with("please specify one authentication option"));
        assert!(given(&app[..3]).unwrap().app.is_some());
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let all = ["GIT_USERNAME", "GIT_TOKEN", "GIT_SSH_PRIVATE_KEY", "GIT_PASSWORD", "GIT_GITHUB_APP_ID"];
        let empty: Vec<_> = all.iter().map(|name| (*name, "")).collect();
        assert_eq!(origin(&empty, "https://host/x"), Origin::Nothing);
    }

    #[test]
    fn what_an_address_cannot_use_is_not_used() {
        assert_eq!(origin(&[("GIT_SSH_PRIVATE_KEY", "k")], "https://host/x"), Origin::OnlySshKey);
        assert_eq!(origin(&[("GIT_SSH_PRIVATE_KEY", "k"), ("GIT_TOKEN", "t")], "https://host/x"), Origin::Token);
        assert_eq!(origin(&[("GIT_USERNAME", "me")], "https://host/x"), Origin::Nothing);
        assert_eq!(origin(&[], "https://me:pw@host/x"), Origin::Address);
        assert_eq!(origin(&[("GIT_TOKEN", "t")], "https://me:pw@host/x"), Origin::Token);
        let error = given(&[("GIT_TOKEN", "hunter2")]).unwrap().ssh_key().unwrap_err().to_string();
        assert!(error.contains("sshPrivateKey") && error.contains("https://") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn an_app_is_whole_or_refused() {
        let error = given(&[("GIT_GITHUB_APP_ID", "1")]).unwrap_err().to_string();
        assert!(error.contains("GIT_GITHUB_APP_INSTALLATION_ID"), "{error}");
        let error = given(&[("GIT_GITHUB_APP_ID", "1"), ("GIT_GITHUB_APP_INSTALLATION_ID", "2")]).unwrap_err();
        assert!(error.to_string().contains("GIT_GITHUB_APP_PRIVATE_KEY"), "{error}");
    }

    #[test]
    fn nothing_that_is_printed_holds_a_secret() {
        let all = [
            ("GIT_TOKEN", "hunter2"),
            ("GIT_PASSWORD", "hunter2"),
            ("GIT_SSH_PRIVATE_KEY", "hunter2"),
            ("GIT_GITHUB_APP_ID", "1"),
            ("GIT_GITHUB_APP_INSTALLATION_ID", "2"),
            ("GIT_GITHUB_APP_PRIVATE_KEY", "hunter2"),
        ];
        let credentials = given(&all).unwrap();
        let login = credentials.login(&GitUrl::parse("https://host/x").unwrap(), None);
        let printed = format!("{credentials:?} {login:?} {}", login.scrubbed("you sent hunter2"));
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}
