//! A commit's objects from a server, and its files in a directory.

use std::{
    error::Error,
    fs,
    num::NonZeroU32,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use gix::{
    ObjectId, Repository,
    bstr::BString,
    create, open,
    progress::Discard,
    refs::{
        Target,
        transaction::{Change, LogChange, PreviousValue, RefEdit},
    },
    remote::{
        Direction,
        fetch::{Shallow, Tags},
        ref_map,
    },
};

use super::{
    error::{GitError, chain},
    revision::Wanted,
    transport::Dialer,
    url::GitUrl,
};

type AnyError = Box<dyn Error + Send + Sync>;

/// Branches and tags as a clone has them.
const EVERYTHING: [&str; 2] = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];

/// How a server answers to a request for objects.
enum Outcome {
    Given,
    /// Not that the connection failed: the server does not give what it was asked for.
    NotGiven(GitError),
}

/// Fills an empty directory with a repository whose work tree is the wanted commit.
pub(super) fn fill(
    directory: &Path,
    dialer: &Dialer,
    wanted: &Wanted,
    shallow: bool,
    stop: &AtomicBool,
) -> Result<(), GitError> {
    let url = &dialer.url;
    let local =
        |error: AnyError| GitError::Checkout { commit: wanted.commit.to_string(), reason: chain(error.as_ref()) };
    let repository = gix::ThreadSafeRepository::init_opts(
        directory,
        create::Kind::WithWorktree,
        create::Options::default(),
        options(),
    )
    .map_err(|error| local(error.into()))?
    .to_thread_local();
    let depth = if shallow { Shallow::DepthAtRemote(NonZeroU32::MIN) } else { Shallow::NoChange };
    let mut specs = vec![wanted.commit.to_string()];
    if !shallow {
        // Programs ask their repository for its tags, to tell their version.
        specs.extend(EVERYTHING.map(str::to_owned));
    }
    if let Outcome::NotGiven(_) = fetch(&repository, dialer, &specs, depth, stop)? {
        let mut specs: Vec<String> = EVERYTHING.map(str::to_owned).to_vec();
        specs.extend(wanted.reference.iter().map(|name| format!("+{name}:refs/remotes/named/{name}")));
        if let Outcome::NotGiven(error) = fetch(&repository, dialer, &specs, Shallow::NoChange, stop)? {
            return Err(error);
        }
    }
    let Ok(object) = repository.find_object(wanted.commit) else {
        return Err(GitError::NoRevision {
            repository: url.to_string(),
            revision: format!("commit {}", wanted.commit),
            hint: "it is in none of its branches and tags".to_owned(),
        });
    };
    if object.kind != gix::object::Kind::Commit {
        return Err(GitError::NoRevision {
            repository: url.to_string(),
            revision: format!("commit {}", wanted.commit),
            hint: format!("that is a {}", object.kind),
        });
    }
    set_head(&repository, wanted.commit).map_err(local)?;
    check_out(&repository, stop).map_err(local)?;
    name_origin(&repository, url).map_err(local)?;
    match present(directory, url) {
        Some(commit) if commit == wanted.commit => Ok(()),
        other => Err(GitError::Checkout {
            commit: wanted.commit.to_string(),
            reason: format!("what is checked out is {}", other.map_or("nothing".to_owned(), |c| c.to_string())),
        }),
    }
}

/// Nothing of the machine's or the user's configuration is read, no program is started, no log of refs is kept.
fn options() -> open::Options {
    open::Options::isolated().config_overrides(["core.logAllRefUpdates=false"])
}

fn fetch(
    repository: &Repository,
    dialer: &Dialer,
    specs: &[String],
    shallow: Shallow,
    stop: &AtomicBool,
) -> Result<Outcome, GitError> {
    let (transport, trouble) = dialer.connect()?;
    let fetched = (|| -> gix::Result<()> {
        let specs = specs.iter().map(|spec| BString::from(spec.as_str()));
        repository
            .remote_at(dialer.url.to_string().as_str())?
            .with_fetch_tags(Tags::None)
            .with_refspecs(specs, Direction::Fetch)?
            .to_connection_with_transport(transport)
            .with_credentials(|_| Ok(None))
            .prepare_fetch(Discard, ref_map::Options::default())?
            .with_shallow(shallow)
            .receive(Discard, stop)?;
        Ok(())
    })();
    match fetched {
        Ok(()) => Ok(Outcome::Given),
        Err(error) => match trouble.take() {
            Some(noted) => Err(noted),
            None => Ok(Outcome::NotGiven(trouble.failed(chain(&error)))),
        },
    }
}

fn set_head(repository: &Repository, commit: ObjectId) -> Result<(), AnyError> {
    repository.edit_reference(RefEdit {
        change: Change::Update { log: LogChange::default(), expected: PreviousValue::Any, new: Target::Object(commit) },
        name: "HEAD".try_into()?,
        deref: false,
    })?;
    Ok(())
}

fn check_out(repository: &Repository, stop: &AtomicBool) -> Result<(), AnyError> {
    let tree = repository.head_commit()?.tree_id()?;
    let mut index = repository.index_from_tree(&tree)?;
    let mut options = repository.checkout_options(gix::worktree::stack::state::attributes::Source::IdMapping)?;
    options.destination_is_initially_empty = true;
    let directory = repository.workdir().unwrap_or(repository.git_dir()).to_owned();
    let objects = repository.objects.clone().into_arc()?;
    let outcome = gix::worktree::state::checkout(&mut index, directory, objects, &Discard, &Discard, stop, options)?;
    if let Some(problem) = outcome.errors.first() {
        return Err(format!("{}: {}", problem.path, problem.error).into());
    }
    if let Some(collision) = outcome.collisions.first() {
        return Err(format!("{} is there twice", collision.path).into());
    }
    // An interrupted checkout is no error to gix.
    if stop.load(Ordering::Relaxed) {
        return Err("it was stopped half-way".into());
    }
    index.write(gix::index::write::Options::default())?;
    Ok(())
}

/// As a clone has it, for whoever looks into the repository, such as the CLI for its metadata. Without a password.
fn name_origin(repository: &Repository, url: &GitUrl) -> Result<(), AnyError> {
    let file = repository.git_dir().join("config");
    let mut config = gix::config::File::from_path_no_includes(file.clone(), gix::config::Source::Local)?;
    config.set_raw_value("remote.origin.url", url.to_string().as_str())?;
    config.set_raw_value("remote.origin.fetch", EVERYTHING[0])?;
    fs::write(&file, config.to_bstring())?;
    Ok(())
}

/// The commit that is checked out, if the directory holds this repository.
pub(super) fn present(directory: &Path, url: &GitUrl) -> Option<ObjectId> {
    let repository = gix::open_opts(directory, options()).ok()?;
    let origin = repository.config_snapshot().string("remote.origin.url")?;
    let commit = repository.head_id().ok()?.detach();
    (origin == url.to_string().as_str()).then_some(commit)
}
