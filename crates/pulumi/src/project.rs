//! The project file: its name and runtime, and whether the program has anything to install.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

const FILES: [&str; 3] = ["Pulumi.yaml", "Pulumi.yml", "Pulumi.json"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    pub name: String,
    pub runtime: String,
    /// Where its stacks are, if the project says so itself.
    pub backend: Option<String>,
    /// Where its stacks' files are, if not beside its own.
    pub stack_config_dir: Option<String>,
    /// False when the program is known to need no plugin and no package.
    pub installs: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum NoProject {
    #[error("unable to find project settings in workspace: {0} has no Pulumi.yaml")]
    Missing(PathBuf),
    #[error("found project settings, but failed to load: {0}: {1}")]
    Unreadable(PathBuf, String),
}

impl Project {
    /// Reads the project file in a directory; those above it are not searched.
    pub fn load(directory: &Path) -> Result<Self, NoProject> {
        for file in FILES.map(|f| directory.join(f)) {
            match fs::read_to_string(&file) {
                Ok(text) => {
                    let other_program = directory.join("Main.yaml").exists() || directory.join("Main.json").exists();
                    return Self::parse(&text, other_program).map_err(|e| NoProject::Unreadable(file, e));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(NoProject::Unreadable(file, error.to_string())),
            }
        }
        Err(NoProject::Missing(directory.to_owned()))
    }

    fn parse(text: &str, other_program: bool) -> Result<Self, String> {
        let fields: Map<String, Value> = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
        let name = fields.get("name").and_then(Value::as_str).filter(|n| !n.is_empty());
        let name = name.ok_or("project is missing a 'name' attribute")?.to_owned();
        let runtime = match fields.get("runtime") {
            Some(Value::String(runtime)) => runtime,
            Some(Value::Object(runtime)) => match runtime.get("name") {
                Some(Value::String(name)) => name,
                _ => return Err("the project's runtime has no name".to_owned()),
            },
            _ => return Err("project is missing a 'runtime' attribute".to_owned()),
        };
        let plain_yaml = fields.get("runtime") == Some(&Value::String("yaml".to_owned())) && !other_program;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).filter(|t| !t.is_empty()).map(str::to_owned);
        Ok(Self {
            name,
            runtime: runtime.clone(),
            backend: text(fields.get("backend").and_then(|backend| backend.get("url"))),
            stack_config_dir: text(stack_config_dir(&fields)),
            installs: !(plain_yaml && needs_nothing(&fields)),
        })
    }
}

/// Where the CLI keeps the settings of a stack: beside the project file or where that says, and of its form. Nothing, if
/// there is no project.
pub fn stack_file(directory: &Path, stack: &str) -> Option<PathBuf> {
    let files = FILES.map(|file| directory.join(file));
    let (project, text) = files.iter().find_map(|file| Some((file, fs::read_to_string(file).ok()?)))?;
    let fields: Map<String, Value> = serde_saphyr::from_str(&text).ok()?;
    let elsewhere = stack_config_dir(&fields).and_then(Value::as_str).unwrap_or_default();
    let name = stack.rsplit('/').next().unwrap_or(stack);
    let form = project.extension()?.to_str()?;
    Some(directory.join(elsewhere).join(format!("Pulumi.{name}.{form}")))
}

/// Where a project's stacks have their files; its older name is still understood.
fn stack_config_dir(project: &Map<String, Value>) -> Option<&Value> {
    project.get("stackConfigDir").or_else(|| project.get("config"))
}

/// Top-level fields under which a YAML program cannot ask for a plugin or a package, or only where `asks` looks.
const HARMLESS: [&str; 15] = [
    "name",
    "runtime",
    "description",
    "author",
    "license",
    "website",
    "backend",
    "template",
    "stackConfigDir",
    "requiredPulumiVersion",
    "config",
    "configuration",
    "variables",
    "resources",
    "outputs",
];
/// Functions of the YAML language itself.
const OWN_FUNCTIONS: [&str; 11] = [
    "fn::join",
    "fn::split",
    "fn::select",
    "fn::toJSON",
    "fn::fromBase64",
    "fn::toBase64",
    "fn::secret",
    "fn::stringAsset",
    "fn::fileAsset",
    "fn::readFile",
    "fn::assetArchive",
];

/// Whether `pulumi install` would find nothing to do. Anything unknown counts as something: a needless install costs a
/// third of a second, a missing one a failed run.
fn needs_nothing(program: &Map<String, Value>) -> bool {
    let built_in = |resource: &Value| {
        let kind = resource.get("type").and_then(Value::as_str).unwrap_or_default();
        kind.starts_with("pulumi:index:") || kind == "pulumi:pulumi:StackReference"
    };
    program.keys().all(|key| HARMLESS.contains(&key.as_str()))
        && match program.get("resources") {
            None | Some(Value::Null) => true,
            Some(Value::Object(resources)) => resources.values().all(built_in),
            Some(_) => false,
        }
        && !program.values().any(calls_functions)
}

fn calls_functions(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            (key.to_ascii_lowercase().starts_with("fn::") && !OWN_FUNCTIONS.contains(&key.as_str()))
                || calls_functions(value)
        }),
        Value::Array(items) => items.iter().any(calls_functions),
        _ => false,
    }
}

/// A name as one segment of a property path. The path parser knows one escape only.
pub(crate) fn literal_segment(name: &str) -> String {
    format!("[\"{}\"]", name.replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installs(program: &str) -> bool {
        Project::parse(&format!("name: shop\nruntime: yaml\n{program}"), false).unwrap().installs
    }

    #[test]
    fn name_and_runtime_are_read_in_either_form() {
        let project = Project::parse("name: shop\nruntime:\n  name: nodejs\n  options: {a: 1}\n", false).unwrap();
        assert_eq!((project.name.as_str(), project.runtime.as_str(), project.installs), ("shop", "nodejs", true));
        assert_eq!((project.stack_config_dir, project.backend), (None, None));
        assert_eq!(Project::parse("{\"name\": \"a\", \"runtime\": \"go\"}", false).unwrap().runtime, "go");
        for (text, error) in [("runtime: go", "'name'"), ("name: a", "'runtime'"), ("name: a\nruntime: {}", "no name")]
        {
            assert!(Project::parse(text, false).unwrap_err().contains(error), "{text}");
        }
    }

    #[test]
    fn what_a_project_says_of_its_stacks_is_read() {
        let text = "name: a\nruntime: go\nbackend: {url: 'file:///x'}\nstackConfigDir: stacks\n";
        let project = Project::parse(text, false).unwrap();
        assert_eq!(project.backend.as_deref(), Some("file:///x"));
        assert_eq!(project.stack_config_dir.as_deref(), Some("stacks"));
        let declared = Project::parse("name: a\nruntime: go\nconfig: {who: {type: string}}\n", false).unwrap();
        assert_eq!(declared.stack_config_dir, None, "these are declarations of configuration");
    }

    #[test]
    fn the_settings_of_a_stack_are_where_the_project_says() {
        let dir = tempfile::tempdir().unwrap();
        let file = || stack_file(dir.path(), "acme/shop/dev");
        assert_eq!(file(), None);
        fs::write(dir.path().join("Pulumi.json"), r#"{"name": "shop"}"#).unwrap();
        assert_eq!(file(), Some(dir.path().join("Pulumi.dev.json")));
        fs::write(dir.path().join("Pulumi.yaml"), "name: shop\nstackConfigDir: settings\n").unwrap();
        assert_eq!(file(), Some(dir.path().join("settings/Pulumi.dev.yaml")));
    }

    #[test]
    fn a_yaml_program_of_built_in_things_installs_nothing() {
        assert!(!installs(""));
        assert!(!installs("resources:\n  a: {type: 'pulumi:index:Stash', properties: {input: {'fn::secret': x}}}\n"));
        assert!(!installs("outputs: {a: {'fn::toJSON': {b: 1}}}\n"));
    }

    #[test]
    fn whatever_may_need_a_plugin_is_installed() {
        for program in [
            "resources:\n  a: {type: 'aws:s3:Bucket'}\n",
            "resources:\n  a: {type: 'pulumi:providers:aws'}\n",
            "variables: {a: {'fn::invoke': {function: 'aws:x:y'}}}\n",
            "outputs: {a: [{'fn::pkotest:echo': {value: 1}}]}\n",
            "packages: {a: b}\n",
            "plugins: {providers: []}\n",
            "main: elsewhere\n",
        ] {
            assert!(installs(program), "{program}");
        }
        assert!(Project::parse("name: a\nruntime: yaml\n", true).unwrap().installs, "another file has the program");
        assert!(Project::parse("name: a\nruntime: {name: yaml}\n", false).unwrap().installs);
    }
}
