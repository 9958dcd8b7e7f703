//! The commands for agents of somebody else: they publish, install, list, update and remove agent packages. Nothing of a package
//! runs when it is installed.

mod agent_acceptance;
mod agent_candidate;
mod agent_growth;
mod install;
mod list;
mod package_names;
mod publish;
mod remove;
mod update;

use clap::Subcommand;

use self::{
    install::AgentInstallArgs, list::AgentListArgs, publish::AgentPublishArgs, remove::AgentRemoveArgs,
    update::AgentUpdateArgs,
};
use super::render::{self, CliOutputFormat};

/// A subcommand of `shelly-host agent`.
#[derive(Subcommand)]
pub enum AgentCommand {
    Install(AgentInstallArgs),
    List(AgentListArgs),
    Update(AgentUpdateArgs),
    Remove(AgentRemoveArgs),
    Publish(AgentPublishArgs),
}

impl AgentCommand {
    pub fn execute(self) -> u8 {
        let (result, output) = match self {
            Self::Install(args) => (args.install(), CliOutputFormat::Text),
            Self::List(args) => (args.list(), args.output),
            Self::Update(args) => (args.update(), CliOutputFormat::Text),
            Self::Remove(args) => (args.remove(), CliOutputFormat::Text),
            Self::Publish(args) => (args.publish(), CliOutputFormat::Text),
        };
        result.unwrap_or_else(|report| render::failed(&report, output.into()))
    }
}
