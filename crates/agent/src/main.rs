//! The program in each workspace pod. In the init containers it brings itself and the sources onto the shared volume,
//! so that the image needs neither a shell nor `cp` and `ln`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Parser, Subcommand};
use pko_agent::{
    auth::ApiServer,
    command::{block_on, exit_code, log_to_stderr},
    place, serve, tini,
};

#[derive(Parser)]
#[command(name = "agent", about = "Runs Pulumi in a workspace pod", version)]
struct Cli {
    /// Log more
    #[arg(short, long, global = true)]
    verbose: bool,
    #[command(flatten)]
    api_server: ApiServer,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy the agent onto the shared volume, where the pod's other containers start it
    Bootstrap {
        /// The shared volume
        to: PathBuf,
    },
    /// Get the program's files
    #[command(disable_help_flag = true)]
    Init {
        /// Options of `agent-init`, a program of its own beside this one
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
        options: Vec<OsString>,
    },
    /// Make the workspace a link to the directory that holds the project
    Link {
        /// The project's directory
        directory: PathBuf,
        /// Where the workspace container looks for it
        #[arg(long)]
        at: PathBuf,
    },
    /// Run Pulumi for whoever may ask for it
    Serve(serve::Args),
    /// Print the version
    Version,
}

fn main() -> ExitCode {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    let name = args.first().and_then(|path| Path::new(path).file_name()).unwrap_or_default();
    let outcome = if name == "tini" {
        block_on(tini::run(args.split_off(1)))
    } else {
        // Where tini does not swallow it, the `--` of PKO's pods arrives here.
        if args.get(1).is_some_and(|first| first == "--") {
            args.remove(1);
        }
        run(Cli::parse_from(args)).map(|()| ExitCode::SUCCESS)
    };
    exit_code(outcome)
}

fn run(cli: Cli) -> Result<()> {
    log_to_stderr(cli.verbose);
    match cli.command {
        Command::Bootstrap { to } => place::copy_agent(&to),
        Command::Init { options } => place::become_init(cli.verbose, &options),
        Command::Link { directory, at } => place::link(&directory, &at),
        Command::Serve(args) => block_on(serve::run(args, &cli.api_server)),
        Command::Version => {
            print_version();
            Ok(())
        }
    }
}

#[allow(clippy::print_stdout, reason = "the version is this command's answer")]
fn print_version() {
    println!("{}", env!("CARGO_PKG_VERSION"));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn flags_do_not_contradict_each_other() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_are_spelt_as_pkos_pods_spell_them() {
        let line = "agent serve --workspace /share/workspace --skip-install --env-file /share/.env --auth-mode kube \
                    --kube-audience ws.ns --kube-workspace-namespace ns --kube-workspace-name ws --pulumi-log-level 9";
        assert!(matches!(Cli::parse_from(line.split_whitespace()).command, Command::Serve(_)));
    }

    #[test]
    fn options_of_init_are_passed_on_as_they_stand() {
        for line in ["agent init -t /share/source --git-url u --at=/w", "agent init --help", "agent init"] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let Command::Init { options } = Cli::parse_from(&words).command else { panic!("{line}") };
            assert_eq!(options, words[2..], "{line}");
        }
    }
}
