//! The developer's commands. `cargo xtask help` lists them; nothing else builds, starts or tests this project.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool speaks on its terminal")]

mod archive;
mod bench;
mod cluster;
mod crds;
mod demo;
mod digest;
mod host;
mod image;
mod install;
mod packages;
mod paths;
mod progress;
#[cfg(test)]
mod rooms;
mod soak;
mod test;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Builds, starts and tests everything in this project")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the operator in a cluster, with a Program and a Stack to watch
    Demo,
    /// Build or install the real parts that tests run against
    Tools(tools::Args),
    /// Start, stop or inspect the one-node cluster on this machine
    Cluster(cluster::Args),
    /// Build the operator's image and the stand-in for pulumi/pulumi, and load them into the cluster
    Image(image::Args),
    /// Write deploy/crds from the types in crates/api
    Crds,
    /// Run the tests of all levels, or of those named (L0 to L5)
    Test(test::Args),
    /// Run one of the long tests at its full size, and print its table
    Soak(soak::Args),
    /// Measure speeds, as ratios to the bare CLI
    Bench,
    /// The first process of a cluster's namespaces
    #[command(hide = true)]
    ClusterInit(cluster::InitArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo => return demo::run(),
        Command::Tools(args) => tools::run(&args)?,
        Command::Cluster(args) => return cluster::run(&args),
        Command::Image(args) => image::run(&args)?,
        Command::Crds => crds::run()?,
        Command::Test(args) => return test::run(&args),
        Command::Soak(args) => return soak::run(&args),
        Command::Bench => return bench::run(),
        Command::ClusterInit(args) => return cluster::init(&args),
    }
    Ok(ExitCode::SUCCESS)
}
