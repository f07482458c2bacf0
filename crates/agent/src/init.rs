//! `agent init`: brings a program's files onto the shared volume. It may run again on a volume that was filled before.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use anyhow::{Context, Result, bail, ensure};
use clap::{ArgGroup, builder::NonEmptyStringValueParser};
use pko_source::{
    artifact::{Artifact, Bounds},
    git::{self, Access, Depth, GitUrl},
    project,
    untar::Limit,
};

use crate::place;

/// Overrides how large an artifact may be when extracted.
const UNTAR_LIMIT: &str = "FLUX_MAX_UNTAR_SIZE_BYTES";
/// Names another host for artifacts, for an operator that runs outside its cluster.
const OTHER_HOST: &str = "SOURCE_CONTROLLER_LOCALHOST";

/// With `true`, history is left at the server.
const SHALLOW: &str = "GIT_SHALLOW";

#[derive(Debug, Clone, clap::Args)]
#[command(group(ArgGroup::new("source").args(["git_url", "flux_url", "project_name"]).required(true)))]
pub struct Args {
    /// Where to put the files
    #[arg(short, long, value_name = "DIR")]
    target_dir: PathBuf,

    /// Address of a Flux artifact
    #[arg(long, value_name = "URL", requires = "flux_digest", value_parser = NonEmptyStringValueParser::new())]
    flux_url: Option<String>,
    /// Digest of the Flux artifact, such as sha256:<hex>
    #[arg(long, value_name = "DIGEST", requires = "flux_url")]
    flux_digest: Option<String>,

    /// Address of a git repository
    #[arg(long, value_name = "URL", requires = "git_revision", value_parser = NonEmptyStringValueParser::new())]
    git_url: Option<String>,
    /// Branch, tag, ref or commit of the git repository; its default branch when empty
    #[arg(long, value_name = "REVISION", requires = "git_url")]
    git_revision: Option<String>,

    /// Write a project of this name that has no program
    #[arg(long, value_name = "NAME", requires = "project_runtime", value_parser = NonEmptyStringValueParser::new())]
    project_name: Option<String>,
    /// Runtime of that project
    #[arg(long, value_name = "RUNTIME", requires = "project_name", value_parser = NonEmptyStringValueParser::new())]
    project_runtime: Option<String>,
    /// Where that project's stacks are, if it said so itself
    #[arg(long, value_name = "URL", requires = "project_name", value_parser = NonEmptyStringValueParser::new())]
    project_backend: Option<String>,
    /// Where that project's stack files are, if not beside its own
    #[arg(long, value_name = "DIR", requires = "project_name", value_parser = NonEmptyStringValueParser::new())]
    project_stack_config_dir: Option<String>,

    /// Directory of the project within the files
    #[arg(long, value_name = "SUBDIR", requires = "at")]
    dir: Option<PathBuf>,
    /// Make a link to the project's directory here
    #[arg(long, value_name = "PATH")]
    at: Option<PathBuf>,
}

pub async fn run(args: Args) -> Result<()> {
    let target = std::path::absolute(&args.target_dir)
        .with_context(|| format!("finding --target-dir {}", args.target_dir.display()))?;
    let setting = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    if let (Some(name), Some(runtime)) = (&args.project_name, &args.project_runtime) {
        let project = project::Kept {
            name: name.clone(),
            runtime: runtime.clone(),
            backend: args.project_backend.clone(),
            stack_config_dir: args.project_stack_config_dir.clone(),
        };
        project::write(&target, &project).context("unable to write the project")?;
    } else if let (Some(url), Some(digest)) = (&args.flux_url, &args.flux_digest) {
        let extracted = untar_limit(setting(UNTAR_LIMIT).as_deref())?;
        fetch_artifact(url, digest, setting(OTHER_HOST).as_deref(), &target, extracted)
            .await
            .context("unable to fetch flux artifact")?;
    } else if let (Some(url), Some(revision)) = (&args.git_url, &args.git_revision) {
        fetch_git(url, revision, &target).await.context("unable to fetch git source")?;
    }
    match &args.at {
        Some(at) => link(&target, args.dir.as_deref().unwrap_or(Path::new("")), at),
        None => Ok(()),
    }
}

async fn fetch_artifact(
    url: &str,
    digest: &str,
    other_host: Option<&str>,
    target: &Path,
    extracted: Limit,
) -> Result<()> {
    let mut artifact = Artifact::new(url, digest)?;
    if let Some(host) = other_host {
        artifact = artifact.at_host(host).with_context(|| format!("invalid {OTHER_HOST}"))?;
    }
    artifact.fetch(target, &Bounds { extracted, ..Bounds::default() }).await?;
    Ok(())
}

async fn fetch_git(url: &str, revision: &str, target: &Path) -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let url = GitUrl::parse(url)?;
    let access = Access::from_variables(variable)?;
    let depth = if variable(SHALLOW).as_deref() == Some("true") { Depth::One } else { Depth::Full };
    tracing::info!(%url, revision, dir = %target.display(), "about to clone into");
    let commit = git::fetch(&url, &access, revision, depth, target).await?;
    tracing::info!(%url, commit, dir = %target.display(), "git artifact fetched");
    Ok(())
}

/// A negative number means no limit, as in PKO.
fn untar_limit(text: Option<&str>) -> Result<Limit> {
    let Some(text) = text else { return Ok(Limit::DEFAULT) };
    let bytes: i64 = text.trim().parse().with_context(|| {
        format!("invalid {UNTAR_LIMIT} {text:?}: it must be a whole number of bytes, or -1 for no limit")
    })?;
    Ok(u64::try_from(bytes).map_or(Limit::NONE, Limit::bytes))
}

/// Makes `at` a link to a directory of the files that were fetched.
fn link(target: &Path, dir: &Path, at: &Path) -> Result<()> {
    // PKO put the two together as text, where a leading slash made no difference.
    let dir: PathBuf = dir.components().filter(|c| !matches!(c, Component::RootDir | Component::CurDir)).collect();
    let project = target.join(&dir);
    let asked =
        || format!("the project's directory {:?} (spec.repoDir or spec.fluxSource.dir)", dir.display().to_string());
    let Ok(real) = project.canonicalize() else {
        bail!("{} does not exist in the source; at its top are: {}", asked(), top(target));
    };
    let root = target.canonicalize().with_context(|| format!("resolving {}", target.display()))?;
    ensure!(real.starts_with(&root), "{} leads out of the source; name a directory inside it", asked());
    ensure!(real.is_dir(), "{} is a file; name the directory that holds Pulumi.yaml", asked());
    place::link(&project, at)
}

/// What a user would compare a misspelt directory with.
fn top(target: &Path) -> String {
    const MOST: usize = 20;
    let mut names: Vec<String> = fs::read_dir(target)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.sort();
    match names.len() {
        0 => "no files".to_owned(),
        n if n > MOST => format!("{}, and {} more", names[..MOST].join(", "), n - MOST),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Cli::try_parse_from(std::iter::once("init").chain(line.split_whitespace())).map(|cli| cli.args)
    }

    #[test]
    fn the_flags_that_pko_writes_are_understood() {
        let args = parse("-t /share/source --flux-url http://h/x --flux-digest sha256:00").unwrap();
        assert_eq!(args.target_dir, Path::new("/share/source"));
        assert_eq!(args.flux_url.as_deref(), Some("http://h/x"));
        let args = parse("-t /share/source --git-url https://h/x --git-revision abc").unwrap();
        assert_eq!(args.git_revision.as_deref(), Some("abc"));
        let args = parse("--target-dir /share/workspace --project-name p --project-runtime yaml").unwrap();
        assert_eq!(args.project_runtime.as_deref(), Some("yaml"));
    }

    #[test]
    fn flags_that_do_not_go_together_are_refused() {
        for line in [
            "--flux-url http://h/x --flux-digest d",
            "-t d",
            "-t d --flux-url http://h/x",
            "-t d --flux-digest d",
            "-t d --git-url x",
            "-t d --git-revision x",
            "-t d --project-name p",
            "-t d --project-runtime p",
            "-t d --flux-url u --flux-digest d --git-url u --git-revision r",
            "-t d --flux-url u --flux-digest d --project-name p --project-runtime r",
            "-t d --git-url u --git-revision r --project-name p --project-runtime r",
            "-t d --flux-url u --flux-digest d --dir sub",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let empty = ["init", "-t", "d", "--git-url", "", "--git-revision", "x"];
        assert!(Cli::try_parse_from(empty).is_err(), "an empty address is refused, not crashed on");
    }

    #[tokio::test]
    async fn an_address_that_git_does_not_have_is_refused_without_its_password() {
        let args = parse("-t /nowhere --git-url ftp://me:hunter2@h/x --git-revision abc").unwrap();
        let error = format!("{:#}", run(args).await.unwrap_err());
        assert!(error.starts_with("unable to fetch git source: the address of the repository"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[tokio::test]
    async fn a_project_is_written_and_linked() {
        let dir = tempfile::tempdir().unwrap();
        let shown = dir.path().display();
        let line = format!("-t {shown}/source --project-name p --project-runtime yaml --at {shown}/workspace");
        for _ in 0..2 {
            run(parse(&line).unwrap()).await.unwrap();
        }
        let text = fs::read_to_string(dir.path().join("workspace/Pulumi.yaml")).unwrap();
        assert_eq!(text, "name: p\nruntime: yaml\n");
    }

    #[tokio::test]
    async fn a_failed_fetch_says_what_was_attempted() {
        let dir = tempfile::tempdir().unwrap();
        let line = format!("-t {}/source --flux-url http://h/x --flux-digest blake3:00", dir.path().display());
        let error = format!("{:#}", run(parse(&line).unwrap()).await.unwrap_err());
        assert!(error.starts_with("unable to fetch flux artifact: digests of the kind \"blake3\""), "{error}");
    }

    #[test]
    fn the_limit_is_a_number_of_bytes_or_none() {
        assert_eq!(untar_limit(None).unwrap(), Limit::DEFAULT);
        assert_eq!(untar_limit(Some("1024")).unwrap(), Limit::bytes(1024));
        assert_eq!(untar_limit(Some("0")).unwrap(), Limit::bytes(0));
        assert_eq!(untar_limit(Some("-1")).unwrap(), Limit::NONE);
        for text in ["1Mi", "many", "1.5"] {
            let error = untar_limit(Some(text)).unwrap_err().to_string();
            assert!(error.starts_with("invalid FLUX_MAX_UNTAR_SIZE_BYTES"), "{error}");
        }
    }

    #[test]
    fn the_link_leads_to_a_directory_of_the_source_only() {
        let dir = tempfile::tempdir().unwrap();
        let (target, at) = (dir.path().join("source"), dir.path().join("workspace"));
        fs::create_dir_all(target.join("infra/dev")).unwrap();
        fs::create_dir(dir.path().join("elsewhere")).unwrap();
        fs::write(target.join("README.md"), "").unwrap();
        std::os::unix::fs::symlink("infra/dev", target.join("current")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", target.join("out")).unwrap();

        for (sub, leads_to) in [
            ("", "source"),
            (".", "source"),
            ("infra", "source/infra"),
            ("/infra/dev/", "source/infra/dev"),
            ("./infra/../infra/dev", "source/infra/dev"),
            ("current", "source/infra/dev"),
        ] {
            link(&target, Path::new(sub), &at).unwrap();
            assert_eq!(at.canonicalize().unwrap(), dir.path().join(leads_to).canonicalize().unwrap(), "{sub}");
        }
        for (sub, why) in [
            ("missing", "does not exist in the source; at its top are: README.md, current, infra, out"),
            ("../elsewhere", "leads out of the source"),
            ("out", "leads out of the source"),
            ("README.md", "is a file"),
        ] {
            let error = link(&target, Path::new(sub), &at).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("spec.repoDir"), "{sub}: {error}");
            assert!(error.contains(sub), "{sub}: {error}");
        }
    }
}
