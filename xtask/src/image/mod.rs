//! Images: the operator's, and the stand-ins for `pulumi/pulumi` that workspaces run.

mod rootfs;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    archive::{self, Image},
    cluster::{self, Cluster, Target},
    digest, host,
    paths::{self, Lock},
    progress::{Step, run_logged},
    tools,
};

/// The operator with its agent.
pub(crate) const OPERATOR: &str = "localhost/pulumi-kubernetes-operator:dev";
/// The image that workspaces take by default, by the name it has in the world.
pub(crate) const WORKSPACE: &str = "docker.io/pulumi/pulumi:latest-nonroot";
/// The one that workspaces of the `baseline` profile take, which runs as root.
const WORKSPACE_ROOT: &str = "docker.io/pulumi/pulumi:latest";
const WORKSPACE_ENV: &[&str] = &["PATH=/pulumi/bin:/usr/local/bin:/usr/bin:/bin", "PULUMI_SKIP_UPDATE_CHECK=true"];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build the operator's binaries as they ship: small, fast and slow to link
    #[arg(long)]
    release: bool,
    /// Only write the archives
    #[arg(long)]
    no_load: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let archives = [operator(args.release)?, workspace()?];
    if args.no_load {
        return show(&archives);
    }
    deliver(&archives, &Target::get()?)
}

/// Both images, as tests need them, in the cluster that they run on.
pub(crate) fn ensure_loaded(target: &Target, release: bool) -> Result<()> {
    deliver(&[operator(release)?, workspace()?], target)
}

/// The same as long as the operator's image that was built last has the same content.
pub(crate) fn operator_digest() -> Result<String> {
    let file = images_dir()?.join("operator.digest");
    std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
}

/// The manager that went into the image for tests; static, so it runs on this machine as well.
pub(crate) fn manager(release: bool) -> Result<PathBuf> {
    Ok(images_dir()?.join(profile(release)).join("manager"))
}

fn profile(release: bool) -> &'static str {
    if release { "release" } else { "quick" }
}

/// Loads archives into our cluster, or tells how to load them into another.
fn deliver(archives: &[PathBuf], target: &Target) -> Result<()> {
    match target {
        Target::Foreign(kubeconfig) => {
            println!("KUBECONFIG={} names a cluster of yours; the images go into it with one of", kubeconfig.display());
            for archive in archives.iter().map(|a| a.display()) {
                println!("  kind load image-archive {archive}");
                println!("  docker load -i {archive}");
                println!("  ctr -n k8s.io images import {archive}");
            }
            Ok(())
        }
        Target::Ours { cluster, .. } => archives.iter().try_for_each(|archive| load(cluster, archive)),
    }
}

fn show(archives: &[PathBuf]) -> Result<()> {
    for archive in archives {
        println!("{} ({} MB)", archive.display(), std::fs::metadata(archive)?.len() / 1_000_000);
    }
    Ok(())
}

/// Loads an archive unless this cluster already took one of the same content.
fn load(cluster: &Cluster, archive: &Path) -> Result<()> {
    let name = archive.file_name().context("an archive has a name")?.display().to_string();
    let digest = std::fs::read_to_string(archive.with_extension("digest"))?;
    let mark = cluster.loaded_mark(&name);
    if std::fs::read_to_string(&mark).is_ok_and(|seen| seen == digest) {
        return Ok(());
    }
    let step = Step::begin(format!("loading {name}"));
    cluster::import(cluster, archive)?;
    std::fs::write(&mark, digest)?;
    step.done("loaded");
    Ok(())
}

/// Builds the operator's image; returns its archive.
fn operator(release: bool) -> Result<PathBuf> {
    tools::packages(&tools::IMAGE_PACKAGES)?;
    let binaries = binaries(profile(release))?;
    let root = rootfs::operator(&binaries)?;
    let archive = images_dir()?.join("operator.tar");
    let image = Image {
        name: OPERATOR,
        // None: a Deployment's `args: [/manager, …]` then run as they stand, as they do with PKO's image.
        entrypoint: &[],
        user: "65532:65532",
        env: &["SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
    };
    archive::write(&[image], &root, &archive)?;
    Ok(archive)
}

/// Builds the stand-ins for `pulumi/pulumi` from the parts in the cache; returns their archive.
fn workspace() -> Result<PathBuf> {
    tools::packages(&tools::IMAGE_PACKAGES)?;
    let root = rootfs::workspace(&tools::ensure(tools::WORKSPACE_IMAGE)?)?;
    let images = [
        Image { name: WORKSPACE, entrypoint: &[], user: "1000:1000", env: WORKSPACE_ENV },
        Image { name: WORKSPACE_ROOT, entrypoint: &[], user: "", env: WORKSPACE_ENV },
    ];
    // Big, and made from parts only, so kept with them and shared by all clones.
    let key = digest::short(tools::fingerprint(tools::WORKSPACE_IMAGE)?);
    let archive = paths::cache()?.join("images").join(format!("workspace-{key}.tar"));
    std::fs::create_dir_all(archive.parent().context("the cache has a folder for images")?)?;
    let _lock = Lock::take("images")?;
    archive::write_if_new(&images, &root, &archive)?;
    Ok(archive)
}

fn images_dir() -> Result<PathBuf> {
    let dir = paths::root().join("target/images");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn rust_target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Builds our programs statically for musl; returns the directory they are in.
fn binaries(profile: &str) -> Result<PathBuf> {
    let target = rust_target();
    let installed =
        host::output(Command::new("rustup").current_dir(paths::root()).args(["target", "list", "--installed"]))
            .context("the images need rustup to add Rust's musl target")?;
    let step = Step::begin(format!("building manager and agent ({profile})"));
    let log = images_dir()?.join("build.log");
    // All clones share what is compiled of dependencies; what is built of this clone is then its own.
    let shared = paths::cache()?.join("rust");
    let _lock = Lock::take("rust")?;
    if !installed.lines().any(|l| l == target) {
        run_logged(&step, Command::new("rustup").current_dir(paths::root()).args(["target", "add", &target]), &log)?;
    }
    run_logged(
        &step,
        Command::new(env!("CARGO"))
            .current_dir(paths::root())
            .arg("build")
            .arg("--target-dir")
            .arg(&shared)
            .args(["--locked", "--profile", profile, "--target", &target, "-p", "pko-operator", "-p", "pko-agent"])
            .env(format!("CC_{}", target.replace('-', "_")), "musl-gcc"),
        &log,
    )?;
    let dir = images_dir()?.join(profile);
    std::fs::create_dir_all(&dir)?;
    for binary in rootfs::PROGRAMS {
        let built = shared.join(&target).join(profile).join(binary);
        if !archive::is_static(&built)? {
            bail!("{} is not statically linked", built.display());
        }
        let own = dir.join(binary);
        // A new file: the old one may be running.
        let unfinished = own.with_extension("unfinished");
        std::fs::copy(&built, &unfinished).with_context(|| format!("copying {}", built.display()))?;
        std::fs::rename(&unfinished, &own).with_context(|| format!("replacing {}", own.display()))?;
    }
    step.done("built");
    Ok(dir)
}
