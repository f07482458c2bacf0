//! What a user may call a revision, and which commit that is at a server.

use gix::{
    ObjectId,
    bstr::{BStr, BString, ByteSlice as _},
    progress::Discard,
    protocol::{self, Handshake, LsRefsCommand, handshake::Ref, ls_refs::RefPrefixes},
};
use gix_transport::Service;

use super::{
    error::GitError,
    transport::{Dialer, Transport, Trouble},
};

/// Where a short name is looked for, in this order.
const PLACES: [&str; 4] = ["refs/heads/", "refs/tags/", "refs/remotes/", "refs/"];
/// As many names are told when one was not found.
const MOST_NAMES: usize = 10;

/// What to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Revision {
    /// What the server has as its own.
    Head,
    /// By all its digits.
    Commit(ObjectId),
    /// A branch, a tag, or any ref by its full name.
    Reference(String),
}

/// A commit, and the ref that it was found under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) commit: ObjectId,
    pub(super) reference: Option<String>,
}

impl Revision {
    pub(super) fn parse(text: &str) -> Self {
        match text.trim() {
            "" | "HEAD" => Self::Head,
            text => match ObjectId::from_hex(text.to_ascii_lowercase().as_bytes()) {
                Ok(commit) => Self::Commit(commit),
                Err(_) => Self::Reference(text.to_owned()),
            },
        }
    }

    /// The full names that this may mean, best first.
    fn candidates(&self) -> Vec<String> {
        match self {
            Self::Head => vec!["HEAD".to_owned()],
            Self::Commit(_) => Vec::new(),
            Self::Reference(name) if name.starts_with("refs/") => vec![name.clone()],
            Self::Reference(name) => PLACES.iter().map(|place| format!("{place}{name}")).collect(),
        }
    }

    /// Asks the server, unless the commit itself is named.
    pub(super) fn find(&self, dialer: &Dialer) -> Result<Wanted, GitError> {
        if let Self::Commit(commit) = self {
            return Ok(Wanted { commit: *commit, reference: None });
        }
        let (mut transport, trouble) = dialer.connect()?;
        let mut handshake =
            protocol::handshake(&mut transport, Service::UploadPack, |_| Ok(None), Vec::new(), &mut Discard)
                .map_err(|error| trouble.behind(&error))?;
        let candidates = self.candidates();
        // Older versions of the protocol tell all refs at once.
        let told = handshake.refs.take();
        let refs = match &told {
            Some(refs) => refs.clone(),
            None => list(&mut transport, &handshake, &candidates, &trouble)?,
        };
        if let Some(wanted) = choose(&refs, &candidates) {
            return Ok(wanted);
        }
        let all = match told {
            Some(refs) => Ok(refs),
            None => list(&mut transport, &handshake, &PLACES[..2], &trouble),
        };
        // Which names there are is good to know, and no more: there may be too many to hear them all.
        let hint = all.map_or_else(|_| "what it has could not be listed".to_owned(), |refs| told_names(&refs));
        let revision = match self {
            Self::Reference(name) => format!("branch, tag or ref {name:?}"),
            _ => "default branch".to_owned(),
        };
        Err(GitError::NoRevision { repository: dialer.url.to_string(), revision, hint })
    }
}

fn list(
    transport: &mut Transport,
    handshake: &Handshake,
    prefixes: &[impl AsRef<str>],
    trouble: &Trouble,
) -> Result<Vec<Ref>, GitError> {
    let mut filter = RefPrefixes::new();
    filter.extend(prefixes.iter().map(|prefix| BString::from(prefix.as_ref())));
    let agent = ("agent", Some(protocol::agent(gix::env::agent())));
    LsRefsCommand::new(Some(filter), &handshake.capabilities, agent)
        .invoke_blocking(transport, &mut Discard, false)
        .map_err(|error| trouble.behind(&error))
}

/// Annotated tags are followed to what they name.
fn choose(refs: &[Ref], candidates: &[String]) -> Option<Wanted> {
    candidates.iter().find_map(|name| {
        let commit = refs.iter().find_map(|found| match found {
            Ref::Peeled { full_ref_name, object, .. }
            | Ref::Direct { full_ref_name, object }
            | Ref::Symbolic { full_ref_name, object, .. } => (full_ref_name == name).then_some(*object),
            Ref::Unborn { .. } => None,
        })?;
        Some(Wanted { commit, reference: name.starts_with("refs/").then(|| name.clone()) })
    })
}

fn told_names(refs: &[Ref]) -> String {
    let name = |found: &Ref| -> Option<String> {
        let (name, ..) = found.unpack();
        let short = |prefix: &str| Some(BStr::new(name).strip_prefix(prefix.as_bytes())?.to_str_lossy().into_owned());
        short(PLACES[0]).or_else(|| short(PLACES[1]))
    };
    let names: Vec<String> = refs.iter().filter_map(name).collect();
    match names.len() {
        0 => "it has no branches and no tags".to_owned(),
        n if n > MOST_NAMES => format!("it has {}, and {} more", names[..MOST_NAMES].join(", "), n - MOST_NAMES),
        _ => format!("it has {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    fn id(hex: &str) -> ObjectId {
        ObjectId::from_hex(hex.as_bytes()).unwrap()
    }

    fn direct(name: &str, hex: &str) -> Ref {
        Ref::Direct { full_ref_name: name.into(), object: id(hex) }
    }

    #[test]
    fn only_all_digits_name_a_commit() {
        assert_eq!(Revision::parse(&"A".repeat(40)), Revision::Commit(id(&"a".repeat(40))));
        for text in ["abc1234", "main", &"a".repeat(39), &"g".repeat(40), "refs/heads/x"] {
            assert_eq!(Revision::parse(text), Revision::Reference(text.to_owned()));
        }
        for text in ["", " ", "HEAD"] {
            assert_eq!(Revision::parse(text), Revision::Head);
        }
    }

    #[test]
    fn a_short_name_means_the_branch_before_the_tag() {
        let refs = [direct("refs/tags/x", ONE), direct("refs/heads/x", TWO), direct("refs/heads/a/x", ONE)];
        let choose = |text: &str| choose(&refs, &Revision::parse(text).candidates()).map(|wanted| wanted.commit);
        assert_eq!(choose("x"), Some(id(TWO)));
        assert_eq!(choose("tags/x"), Some(id(ONE)));
        assert_eq!(choose("refs/tags/x"), Some(id(ONE)));
        assert_eq!(choose("a/x"), Some(id(ONE)));
        assert_eq!(choose("refs/x"), None);
        assert_eq!(choose("a"), None);
    }

    #[test]
    fn a_few_names_are_told_and_not_all() {
        let refs: Vec<Ref> = (0..15).map(|n| direct(&format!("refs/heads/b{n}"), ONE)).collect();
        assert!(told_names(&refs).ends_with("b9, and 5 more"), "{}", told_names(&refs));
        assert_eq!(told_names(&refs[..1]), "it has b0");
        assert_eq!(told_names(&[]), "it has no branches and no tags");
    }
}
