//! Building a part with the Go client, from a module written for it. Go's own caches keep what an interrupted build had
//! done.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::{
    pins::{Part, Recipe},
    sources,
};
use crate::{
    host,
    progress::{Step, run_logged},
};

/// Writes the part's module and compiles its binaries into a directory.
pub(crate) fn build(part: &Part, work: &Path, out: &Path, step: &Step, log: &Path) -> Result<()> {
    if !host::succeeds(Command::new("go").arg("version")) {
        bail!("building {} needs Go 1.25 or newer on PATH", part.name);
    }
    write_module(part, work, step, log)?;
    compile(part, work, out, step, log)?;
    copy_directories(part, work, out, step, log)
}

fn copy_directories(part: &Part, work: &Path, out: &Path, step: &Step, log: &Path) -> Result<()> {
    let Recipe::Repeated { module, directories } = part.recipe else { return Ok(()) };
    let own = downloaded(module, part.version, work, step, log)?;
    for (name, within) in directories {
        let (from, to) = (own.join(within), out.join(name));
        fs::create_dir(&to)?;
        for file in fs::read_dir(&from).with_context(|| format!("reading {}", from.display()))? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
    }
    Ok(())
}

fn compile(part: &Part, work: &Path, out: &Path, step: &Step, log: &Path) -> Result<()> {
    let mut flags = "-s -w".to_owned();
    for stamp in part.stamps {
        write!(flags, " -X {}", stamp.replace("{version}", part.version))?;
    }
    // Packages of one name each go into the directory in one call, so that they are compiled together.
    let packages: Vec<&str> = part.binaries.iter().map(|(_, package)| *package).collect();
    let target = match part.binaries {
        [(name, _)] => out.join(name),
        _ => out.join(""),
    };
    run_logged(step, go(work).args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(target).args(packages), log)
}

fn write_module(part: &Part, work: &Path, step: &Step, log: &Path) -> Result<()> {
    let sources = sources::of(part)?;
    for path in &sources {
        fs::copy(path, work.join(path.file_name().context("a file has a name")?))?;
    }
    let mut module = format!("module parts/{}\n\ngo 1.25\n", part.name);
    match part.recipe {
        Recipe::OwnModule | Recipe::Crate => return Ok(()),
        Recipe::Modules(requires) | Recipe::OwnMain(requires) => {
            for require in requires {
                writeln!(module, "require {}", require.replace("{version}", part.version))?;
            }
        }
        Recipe::Kubernetes => {
            let own = downloaded("k8s.io/kubernetes", part.version, work, step, log)?;
            let staging = part.version.replacen("v1.", "v0.", 1);
            writeln!(module, "require k8s.io/kubernetes {}", part.version)?;
            for line in replace_lines(&own)? {
                let path = line.split_whitespace().next().context("a replace line names a module")?;
                writeln!(module, "replace {path} => {path} {staging}")?;
            }
        }
        Recipe::Repeated { module: path, .. } => {
            let own = downloaded(path, part.version, work, step, log)?;
            writeln!(module, "require {path} {}", part.version)?;
            for line in replace_lines(&own)?.iter().filter(|l| !l.contains("=> ./")) {
                writeln!(module, "replace {line}")?;
            }
            fs::copy(own.join("go.sum"), work.join("go.sum"))?;
        }
    }
    fs::write(work.join("go.mod"), module)?;
    if sources.is_empty() {
        let mut imports = "//go:build tools\n\npackage tools\n\n".to_owned();
        for (_, package) in part.binaries {
            writeln!(imports, "import _ {package:?}")?;
        }
        fs::write(work.join("tools.go"), imports)?;
    }
    Ok(())
}

/// The directory of a module's sources in Go's module cache.
fn downloaded(path: &str, version: &str, work: &Path, step: &Step, log: &Path) -> Result<PathBuf> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Download {
        dir: PathBuf,
    }
    step.show(&format!("downloading {path}"));
    let answer =
        host::output(go(work).env("GOWORK", "off").args(["mod", "download", "-json", &format!("{path}@{version}")]))
            .with_context(|| format!("the log is {}", log.display()))?;
    let download: Download = serde_json::from_str(&answer).context("reading the answer of go mod download")?;
    Ok(download.dir)
}

/// The `replace` lines of a module's go.mod, block or single, without the word itself.
fn replace_lines(module: &Path) -> Result<Vec<String>> {
    let text =
        fs::read_to_string(module.join("go.mod")).with_context(|| format!("reading go.mod of {}", module.display()))?;
    Ok(parse_replace_lines(&text))
}

fn parse_replace_lines(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in text.lines().map(|l| l.split("//").next().unwrap_or(l).trim()) {
        match line {
            "replace (" => inside = true,
            ")" => inside = false,
            _ if inside && line.contains("=>") => lines.push(line.to_owned()),
            _ => lines.extend(line.strip_prefix("replace ").map(str::to_owned)),
        }
    }
    lines
}

fn go(work: &Path) -> Command {
    let mut command = Command::new("go");
    command.current_dir(work).env("CGO_ENABLED", "0").env("GOFLAGS", "-buildvcs=false -mod=mod").env("GOWORK", "off");
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_lines_are_read_from_blocks_and_single_lines() {
        let text = "module a\nreplace x => y v1 // why\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\nrequire z v1\n";
        assert_eq!(parse_replace_lines(text), ["x => y v1", "k8s.io/api => ./staging/src/k8s.io/api"]);
    }
}
