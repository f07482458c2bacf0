//! Every call of the CLI and its arguments. Secret values are never among them.

use crate::Operation;

/// One call of the CLI. All that work on a stack name it: which one is selected does not matter.
#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    Version,
    /// Prints who the backend takes us for; older versions know no JSON.
    WhoAmI {
        json: bool,
    },
    Install,
    /// Selects a stack that exists.
    SelectStack {
        stack: &'a str,
    },
    /// Selects a stack and creates it if need be; the secrets provider is for a new one only.
    SelectOrCreateStack {
        stack: &'a str,
        secrets_provider: &'a str,
    },
    CreateStack {
        stack: &'a str,
        secrets_provider: &'a str,
    },
    /// Prints the name of the selected stack.
    SelectedStack,
    /// Prints all stacks of the project.
    ListStacks,
    RemoveStack {
        stack: &'a str,
    },
    Outputs {
        stack: &'a str,
        show_secrets: bool,
    },
    /// Sets plain values; `path` says that the keys are paths.
    SetConfig {
        stack: &'a str,
        path: bool,
        pairs: &'a [(String, String)],
    },
    /// Sets plain values of any type from a JSON document.
    SetJsonConfig {
        stack: &'a str,
        document: &'a str,
    },
    /// Sets one text, which is read from standard input.
    SetOneConfig {
        stack: &'a str,
        secret: bool,
        path: bool,
        key: &'a str,
    },
    AddEnvironments {
        stack: &'a str,
        environments: &'a [String],
    },
    /// Removes every lock of a stack on a self-managed backend; on the service, ends its update.
    Cancel {
        stack: &'a str,
    },
    Operate(&'a Operation),
}

impl Call<'_> {
    pub fn args(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let mut args = match self {
            // The one call that every version of the CLI takes, without even a global flag.
            Self::Version => return words(&["version"]),
            Self::WhoAmI { json: true } => words(&["whoami", "--json"]),
            Self::WhoAmI { json: false } => words(&["whoami"]),
            Self::Install => words(&["install"]),
            Self::SelectStack { stack } => words(&["stack", "select", "--stack", stack]),
            Self::SelectOrCreateStack { stack, secrets_provider } => {
                let mut args = words(&["stack", "select", "--stack", stack, "--create"]);
                args.extend(provider(secrets_provider));
                args
            }
            Self::CreateStack { stack, secrets_provider } => {
                let mut args = words(&["stack", "init", stack]);
                args.extend(provider(secrets_provider));
                args
            }
            Self::SelectedStack => words(&["stack", "--show-name"]),
            Self::ListStacks => words(&["stack", "ls", "--json"]),
            Self::RemoveStack { stack } => words(&["stack", "rm", "--yes", stack]),
            Self::Outputs { stack, show_secrets } => {
                let mut args = words(&["stack", "output", "--json"]);
                args.extend(show_secrets.then(|| "--show-secrets".to_owned()));
                args.extend(words(&["--stack", stack]));
                args
            }
            Self::SetConfig { stack, path, pairs } => {
                let mut args = words(&["config", "set-all", "--stack", stack]);
                args.extend(path.then(|| "--path".to_owned()));
                for (key, value) in *pairs {
                    args.extend(["--plaintext".to_owned(), pair(key, value)]);
                }
                args
            }
            Self::SetJsonConfig { stack, document } => {
                words(&["config", "set-all", "--stack", stack, "--json", document])
            }
            Self::SetOneConfig { stack, secret, path, key } => {
                let kind = if *secret { "--secret" } else { "--plaintext" };
                let mut args = words(&["config", "set", "--stack", stack, kind]);
                args.extend(path.then(|| "--path".to_owned()));
                // A key that looks like a flag is none.
                args.extend(words(&["--", key]));
                args
            }
            Self::AddEnvironments { stack, environments } => {
                let mut args = words(&["config", "env", "add"]);
                args.extend(environments.iter().cloned());
                args.extend(words(&["--yes", "--stack", stack]));
                args
            }
            Self::Cancel { stack } => words(&["cancel", "--yes", "--stack", stack]),
            Self::Operate(operation) => operation.args(),
        };
        args.insert(0, "--non-interactive".to_owned());
        args
    }

    /// What was tried, for messages: the words of the call without its values.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Version => "pulumi version",
            Self::WhoAmI { .. } => "pulumi whoami",
            Self::Install => "pulumi install",
            Self::SelectStack { .. } | Self::SelectOrCreateStack { .. } => "pulumi stack select",
            Self::CreateStack { .. } => "pulumi stack init",
            Self::SelectedStack => "pulumi stack --show-name",
            Self::ListStacks => "pulumi stack ls",
            Self::RemoveStack { .. } => "pulumi stack rm",
            Self::Outputs { .. } => "pulumi stack output",
            Self::SetConfig { .. } | Self::SetJsonConfig { .. } => "pulumi config set-all",
            Self::SetOneConfig { .. } => "pulumi config set",
            Self::AddEnvironments { .. } => "pulumi config env add",
            Self::Cancel { .. } => "pulumi cancel",
            Self::Operate(operation) => match operation.kind {
                crate::Kind::Preview => "pulumi preview",
                crate::Kind::Up => "pulumi up",
                crate::Kind::Refresh => "pulumi refresh",
                crate::Kind::Destroy => "pulumi destroy",
            },
        }
    }

    /// Whether what the CLI prints is an answer, to be kept whole and shown to nobody.
    pub(crate) fn answers(&self) -> bool {
        matches!(
            self,
            Self::Version | Self::WhoAmI { .. } | Self::SelectedStack | Self::ListStacks | Self::Outputs { .. }
        )
    }
}

fn provider(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { vec!["--secrets-provider".to_owned(), name.to_owned()] }
}

/// Whether `pair` can put a key before a value so that the CLI gets it back.
pub(crate) fn is_pair(key: &str) -> bool {
    !(key.contains('"') && key.contains("'=")) || !(key.contains('=') || key.starts_with(['"', '\'']))
}

/// The CLI splits at the first `=`, unless the key is in quotes; there is no way to escape a quote in it.
fn pair(key: &str, value: &str) -> String {
    if !key.contains('=') && !key.starts_with(['"', '\'']) {
        return format!("{key}={value}");
    }
    let quote = if key.contains('"') { '\'' } else { '"' };
    format!("{quote}{key}{quote}={value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Options};

    fn line(call: Call) -> String {
        call.args().join(" ")
    }

    fn operation(kind: Kind) -> Operation {
        let text = |t: &str| vec![t.to_owned()];
        Operation {
            kind,
            stack: "dev".to_owned(),
            options: Options {
                parallel: Some(10),
                message: Some("say \"hi\" \\ there".to_owned()),
                expect_no_changes: true,
                replace: text("urn:r"),
                target: text("urn:t"),
                target_dependents: true,
                policy_packs: text("pack"),
                refresh: true,
                continue_on_error: true,
                run_program: true,
            },
            event_log: "/share/.runs/1/events".into(),
            log_level: 9,
            agent: "a/v1".to_owned(),
        }
    }

    #[test]
    fn stacks_are_named_and_secrets_providers_are_left_out_when_there_is_none() {
        assert_eq!(line(Call::Version), "version");
        assert_eq!(line(Call::SelectStack { stack: "dev" }), "--non-interactive stack select --stack dev");
        assert_eq!(
            line(Call::SelectOrCreateStack { stack: "dev", secrets_provider: "" }),
            "--non-interactive stack select --stack dev --create"
        );
        assert_eq!(
            line(Call::CreateStack { stack: "dev", secrets_provider: "awskms://alias/x" }),
            "--non-interactive stack init dev --secrets-provider awskms://alias/x"
        );
        assert_eq!(line(Call::RemoveStack { stack: "dev" }), "--non-interactive stack rm --yes dev");
        assert_eq!(line(Call::Cancel { stack: "dev" }), "--non-interactive cancel --yes --stack dev");
        assert_eq!(
            line(Call::Outputs { stack: "dev", show_secrets: true }),
            "--non-interactive stack output --json --show-secrets --stack dev"
        );
        assert_eq!(
            line(Call::AddEnvironments { stack: "dev", environments: &["a".to_owned(), "p/b".to_owned()] }),
            "--non-interactive config env add a p/b --yes --stack dev"
        );
    }

    #[test]
    fn keys_that_the_cli_would_split_are_quoted() {
        let pairs = |key: &str| vec![(key.to_owned(), "a=b".to_owned())];
        let args = |key: &str| Call::SetConfig { stack: "dev", path: false, pairs: &pairs(key) }.args().pop().unwrap();
        assert_eq!(args("p:k"), "p:k=a=b");
        assert_eq!(args("p:k=1"), "\"p:k=1\"=a=b");
        assert_eq!(args("p:k=\"1"), "'p:k=\"1'=a=b");
    }

    #[test]
    fn a_secret_value_has_no_place_in_the_arguments() {
        assert_eq!(
            line(Call::SetOneConfig { stack: "dev", secret: true, path: true, key: "p:a.b" }),
            "--non-interactive config set --stack dev --secret --path -- p:a.b"
        );
    }

    #[test]
    fn each_operation_takes_the_options_it_has() {
        let common = "--logtostderr -v=9 --exec-kind=auto.local --exec-agent=a/v1 --message=say \"hi\" \\ there";
        let end = "--event-log /share/.runs/1/events --stack dev";
        let of = |kind| line(Call::Operate(&operation(kind)));
        assert_eq!(
            of(Kind::Preview),
            format!(
                "--non-interactive preview --diff {common} --expect-no-changes --replace=urn:r --target=urn:t \
                 --target-dependents --policy-pack=pack --parallel=10 --refresh {end}"
            )
        );
        assert_eq!(
            of(Kind::Up),
            format!(
                "--non-interactive up --yes --skip-preview --diff --suppress-progress {common} --expect-no-changes \
                 --replace=urn:r --target=urn:t --target-dependents --policy-pack=pack --parallel=10 --refresh \
                 --continue-on-error {end}"
            )
        );
        assert_eq!(
            of(Kind::Refresh),
            format!(
                "--non-interactive refresh --yes --skip-preview {common} --expect-no-changes --target=urn:t \
                 --parallel=10 --run-program=true {end}"
            )
        );
        assert_eq!(
            of(Kind::Destroy),
            format!(
                "--non-interactive destroy --yes --skip-preview {common} --target=urn:t --target-dependents \
                 --parallel=10 --refresh --continue-on-error --run-program=true {end}"
            )
        );
    }

    #[test]
    fn options_that_say_nothing_are_left_out() {
        let quiet = Operation {
            options: Options { parallel: Some(0), message: Some(String::new()), ..Options::default() },
            log_level: 0,
            ..operation(Kind::Up)
        };
        assert_eq!(
            line(Call::Operate(&quiet)),
            "--non-interactive up --yes --skip-preview --diff --suppress-progress --exec-kind=auto.local \
             --exec-agent=a/v1 --event-log /share/.runs/1/events --stack dev"
        );
    }
}
