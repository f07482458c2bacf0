//! Addresses of repositories: `http://`, `https://`, `ssh://` and `user@host:path`. Nothing here repeats a password.

use std::fmt;

use reqwest::Url;

use super::secret::Secret;
use crate::http;

/// The user of every git server that has only one.
const GIT: &str = "git";
const SSH_PORT: u16 = 22;

/// Where a repository is. Printed, also by `Debug`, without what is secret in it.
#[derive(Clone, PartialEq, Eq)]
pub struct GitUrl {
    pub(super) place: Place,
    shown: String,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Place {
    Http(HttpPlace),
    Ssh(SshPlace),
}

/// A repository over HTTP; its credentials are apart from its address.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct HttpPlace {
    pub(super) url: Url,
    pub(super) login: Option<(String, Secret)>,
}

/// A repository over SSH. The path is as the remote shell gets it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct SshPlace {
    pub(super) user: String,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) path: String,
}

/// Why a text is no address of a repository. It does not repeat the text, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the address of the repository is not usable: {0}; https://, http://, ssh:// and user@host:path are")]
pub struct UrlError(String);

fn refused<T>(why: impl Into<String>) -> Result<T, UrlError> {
    Err(UrlError(why.into()))
}

impl GitUrl {
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        if text.is_empty() {
            return refused("it is empty");
        }
        if text.chars().any(char::is_control) {
            return refused("it has control characters");
        }
        let place = match text.split_once("://") {
            Some((scheme, _)) => match scheme.to_ascii_lowercase().as_str() {
                "http" | "https" => Place::Http(over_http(text)?),
                "ssh" => Place::Ssh(over_ssh(text)?),
                other if other.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) => {
                    return refused(format!("{other}:// is not supported"));
                }
                _ => return refused("it has no scheme"),
            },
            None => Place::Ssh(like_scp(text)?),
        };
        let shown = match &place {
            Place::Http(place) => http::shown(&place.url),
            // With a password it would not have come this far.
            Place::Ssh(_) => text.to_owned(),
        };
        Ok(Self { place, shown })
    }

    /// The host, without a port.
    pub fn host(&self) -> &str {
        match &self.place {
            Place::Http(place) => place.url.host_str().unwrap_or_default(),
            Place::Ssh(place) => &place.host,
        }
    }

    /// The port of an HTTP address that names one.
    pub(super) fn http_port(&self) -> Option<u16> {
        match &self.place {
            Place::Http(place) => place.url.port(),
            Place::Ssh(_) => None,
        }
    }

    pub fn is_ssh(&self) -> bool {
        matches!(self.place, Place::Ssh(_))
    }
}

impl fmt::Display for GitUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for GitUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl std::str::FromStr for GitUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

fn over_http(text: &str) -> Result<HttpPlace, UrlError> {
    let mut url = Url::parse(text).map_err(|error| UrlError(error.to_string()))?;
    if url.query().is_some() || url.fragment().is_some() {
        return refused("it has a query or a fragment, which repositories do not have");
    }
    let user = decoded(url.username())?;
    let password = decoded(url.password().unwrap_or_default())?;
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let login = (!user.is_empty() || !password.is_empty()).then(|| (user, Secret::new(password)));
    Ok(HttpPlace { url, login })
}

fn over_ssh(text: &str) -> Result<SshPlace, UrlError> {
    let url = Url::parse(text).map_err(|error| UrlError(error.to_string()))?;
    if url.password().is_some() {
        return refused("it has a password, and ssh is used with keys only");
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    // A home directory is written `/~user`, and the remote shell knows it without the slash.
    let path = decoded(url.path())?;
    let path = if path.starts_with("/~") { path[1..].to_owned() } else { path };
    ssh_place(&decoded(url.username())?, host, url.port().unwrap_or(SSH_PORT), &path)
}

/// `user@host:path`; the colon comes before the first slash, or it is a file's name.
fn like_scp(text: &str) -> Result<SshPlace, UrlError> {
    let (user, rest) = match text.split_once('@') {
        Some((user, rest)) if !user.contains(['/', ':']) => (user, rest),
        // It might be a path with an `@` in it as well; rather refuse one than print a password.
        Some((user, _)) if user.contains(':') => return refused("it has a password and no scheme"),
        _ => ("", text),
    };
    let (host, path) = match rest.strip_prefix('[') {
        Some(bracketed) => match bracketed.split_once("]:") {
            Some(parts) => parts,
            None => return refused("a bracket in it is not closed"),
        },
        None => match rest.split_once(':') {
            Some((host, path)) if !host.contains('/') => (host, path),
            _ => return refused("it has no scheme"),
        },
    };
    ssh_place(user, host, SSH_PORT, path)
}

fn ssh_place(user: &str, host: &str, port: u16, path: &str) -> Result<SshPlace, UrlError> {
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || "/@[]".contains(c)) {
        return refused("it has no host");
    }
    if unrooted(path).is_empty() {
        return refused("it names no repository on its host");
    }
    if path.starts_with(':') {
        return refused("it has no scheme");
    }
    // The server's program would take it for a flag.
    if path.starts_with('-') {
        return refused("its path begins with a dash");
    }
    if path.chars().any(char::is_control) {
        return refused("it has control characters");
    }
    let user = if user.is_empty() { GIT } else { user };
    Ok(SshPlace { user: user.to_owned(), host: host.to_lowercase(), port, path: path.to_owned() })
}

fn unrooted(path: &str) -> &str {
    path.trim_start_matches('/')
}

fn decoded(text: &str) -> Result<String, UrlError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        if let Some(decoded) = pair.filter(|_| byte == b'%').and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            bytes.push(decoded);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8(bytes).or_else(|_| refused("it is not text when its percent signs are resolved"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssh(text: &str) -> SshPlace {
        match GitUrl::parse(text).unwrap().place {
            Place::Ssh(place) => place,
            Place::Http(_) => panic!("{text} is not over ssh"),
        }
    }

    fn place(user: &str, host: &str, port: u16, path: &str) -> SshPlace {
        SshPlace { user: user.to_owned(), host: host.to_owned(), port, path: path.to_owned() }
    }

    #[test]
    fn both_ways_of_writing_an_ssh_address_are_understood() {
        for (text, expected) in [
            ("git@github.com:acme/shop.git", place("git", "github.com", 22, "acme/shop.git")),
            ("github.com:acme/shop.git", place("git", "github.com", 22, "acme/shop.git")),
            ("me@Example.COM:/srv/shop.git", place("me", "example.com", 22, "/srv/shop.git")),
            ("git@[::1]:shop.git", place("git", "::1", 22, "shop.git")),
            ("ssh://git@github.com/acme/shop.git", place("git", "github.com", 22, "/acme/shop.git")),
            ("SSH://host:2222/a%20b.git", place("git", "host", 2222, "/a b.git")),
            ("ssh://me@[::1]:2222/~me/shop", place("me", "::1", 2222, "~me/shop")),
            (" git@host:shop \n", place("git", "host", 22, "shop")),
        ] {
            assert!(ssh(text) == expected, "{text}");
        }
    }

    #[test]
    fn credentials_of_an_http_address_are_kept_apart_from_it() {
        let url = GitUrl::parse("https://me:hunter%32@example.com:8443/acme/shop.git").unwrap();
        let Place::Http(place) = &url.place else { panic!("it is over http") };
        assert_eq!(place.url.as_str(), "https://example.com:8443/acme/shop.git");
        assert!(place.login == Some(("me".to_owned(), Secret::new("hunter2"))));
        assert_eq!(url.to_string(), "https://example.com:8443/acme/shop.git");
        assert_eq!(format!("{url:?}"), url.to_string());
    }

    #[test]
    fn what_is_no_address_of_a_repository_is_refused_in_words() {
        for (text, why) in [
            ("", "is empty"),
            ("file:///srv/shop.git", "file:// is not supported"),
            ("git://host/shop.git", "git:// is not supported"),
            ("/srv/shop.git", "has no scheme"),
            ("github.com/acme/shop", "has no scheme"),
            ("./a:b", "has no scheme"),
            ("ext::sh -c id", "has no scheme"),
            ("me:hunter2@host/shop", "has a password and no scheme"),
            ("me:hunter2@host:shop", "has a password and no scheme"),
            ("ssh://me:hunter2@host/shop", "ssh is used with keys only"),
            ("https://me:hunter2@host/shop?x=hunter2", "has a query or a fragment"),
            ("https://", "empty host"),
            ("git@host:", "names no repository"),
            ("ssh://host", "names no repository"),
            ("git@host:-x", "begins with a dash"),
            ("git@host:a\nb", "control characters"),
            ("ssh://host/a%0ab", "control characters"),
            ("git@[host:x", "is not closed"),
        ] {
            let error = GitUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
