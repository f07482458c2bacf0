//! A project without a program: enough for the CLI to find and destroy a stack whose source is gone.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use crate::staging::{FileError, make_directory};

/// What is kept of a project.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub name: String,
    pub runtime: String,
    /// Where its stacks are, if the project says so itself.
    pub backend: Option<String>,
    /// Where its stacks' files are, if not beside its own.
    pub stack_config_dir: Option<String>,
}

/// Writes `Pulumi.yaml` into a directory, which is made when it is missing.
pub fn write(directory: &Path, project: &Kept) -> Result<(), FileError> {
    make_directory(directory)?;
    let file = directory.join("Pulumi.yaml");
    // A rename, so that a container stopped half-way leaves no half of a project.
    let unfinished = directory.join(".Pulumi.yaml.unfinished");
    fs::write(&unfinished, text(project)).map_err(FileError::new("writing", &unfinished))?;
    fs::set_permissions(&unfinished, Permissions::from_mode(0o644))
        .map_err(FileError::new("setting the mode of", &unfinished))?;
    fs::rename(&unfinished, &file).map_err(FileError::new("writing", &file))
}

fn text(project: &Kept) -> String {
    let Kept { name, runtime, backend, stack_config_dir } = project;
    let lines = [
        Some(format!("name: {}\n", scalar(name))),
        Some(format!("runtime: {}\n", scalar(runtime))),
        backend.as_ref().map(|url| format!("backend:\n  url: {}\n", scalar(url))),
        stack_config_dir.as_ref().map(|dir| format!("stackConfigDir: {}\n", scalar(dir))),
    ];
    lines.into_iter().flatten().collect()
}

/// A YAML scalar that is read back as this text. Names as they usually are stand without quotes.
fn scalar(text: &str) -> String {
    const NOT_TEXT: &[&str] = &["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && !NOT_TEXT.contains(&text.to_ascii_lowercase().as_str());
    // JSON's strings are YAML's in double quotes.
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn kept(name: &str, runtime: &str) -> Kept {
        Kept { name: name.to_owned(), runtime: runtime.to_owned(), ..Kept::default() }
    }

    #[test]
    fn backend_and_directory_of_stack_files_are_kept() {
        let project = Kept {
            backend: Some("s3://states?region=eu-1".to_owned()),
            stack_config_dir: Some("stacks".to_owned()),
            ..kept("p", "go")
        };
        let expected = "name: p\nruntime: go\nbackend:\n  url: \"s3://states?region=eu-1\"\nstackConfigDir: stacks\n";
        assert_eq!(text(&project), expected);
    }

    #[test]
    fn the_project_has_a_name_and_a_runtime_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("share/workspace");
        for _ in 0..2 {
            write(&project, &kept("myproject", "yaml")).unwrap();
        }
        let file = project.join("Pulumi.yaml");
        assert_eq!(fs::read_to_string(&file).unwrap(), "name: myproject\nruntime: yaml\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(&project).unwrap().count(), 1, "nothing unfinished stays");
    }

    #[test]
    fn any_name_is_read_back_as_it_was_given() {
        for name in ["a", "my.project-1_x", "123", "yes", "Null", "1e3", "a: b", "#x", "\"q\"", "- a", "ü\n", "~", ""]
        {
            let read: BTreeMap<String, String> = serde_saphyr::from_str(&text(&kept(name, "nodejs"))).unwrap();
            assert_eq!(read["name"], name);
            assert_eq!(read["runtime"], "nodejs");
        }
    }
}
