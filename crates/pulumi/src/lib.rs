//! Driving the Pulumi CLI: what it is called with, its processes, its events, its words. Nothing here knows gRPC or
//! Kubernetes.

mod calls;
mod config;
mod env_file;
mod events;
mod failure;
mod locks;
mod operation;
mod outputs;
mod process;
mod project;
mod settings;
mod stacks;
mod tail;
mod text;
mod version;

pub use calls::Call;
pub use config::{ConfigError, ConfigItem, ConfigStep, ConfigValue, plan as plan_config};
pub use env_file::{BadEnvFile, parse as parse_env_file};
pub use events::{EventLog, Summary};
pub use failure::{Class, Failed, classify, describe, explain, own_words};
pub use locks::{Lock, locks};
pub use operation::{Kind, Operation, Options};
pub use outputs::{MASK, Output, compact, is_secret, masked, outputs_of_cli};
pub use process::{Cannot, Cli, Ended, Identity, Running, Wiring};
pub use project::{NoProject, Project, stack_file};
pub use settings::{Carried, Settings, compose};
pub use stacks::{StackListed, selected_of_list};
pub use text::shorten;
pub use version::{BadVersion, ENVIRONMENTS, INSTALL, JSON_CONFIG, Version};
