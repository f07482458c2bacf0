//! The operator. So far it tells its version; the controllers come to live here, one folder each.

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "manager", about = "Keeps Pulumi stacks as their Stack objects say", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the version
    Version,
}

fn main() {
    match Cli::parse().command {
        Command::Version => print_version(),
    }
}

#[allow(clippy::print_stdout, reason = "the version is this command's answer")]
fn print_version() {
    println!("{}", env!("CARGO_PKG_VERSION"));
}
