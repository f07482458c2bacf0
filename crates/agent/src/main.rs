//! The program in each workspace pod. In the init containers it brings itself and the sources onto the shared volume,
//! so that the image needs neither a shell nor `cp` and `ln`.

mod place;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "agent", about = "Runs Pulumi in a workspace pod", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy this program onto the shared volume, where the workspace container starts it
    Bootstrap {
        /// The shared volume
        to: PathBuf,
    },
    /// Make the workspace a link to the directory that holds the project
    Link {
        /// The project's directory
        directory: PathBuf,
        /// Where the workspace container looks for it
        #[arg(long)]
        at: PathBuf,
    },
    /// Print the version
    Version,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Bootstrap { to } => place::copy_self(&to),
        Command::Link { directory, at } => place::link(&directory, &at),
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
