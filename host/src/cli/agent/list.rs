//! `shelly-host agent list`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::{
    cli::{
        plugin::packages::project_and_person,
        render::{CliOutputFormat, json_line, name, print},
    },
    error::Report,
    packages::{LockedAgentPackage, PackagePlace},
};

/// List the agent packages that are installed for the project and for you, with the agents and teams that they bring.
#[derive(Args)]
pub struct AgentListArgs {
    /// The config file of the project (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
}

impl AgentListArgs {
    /// Lists the packages.
    pub fn list(&self) -> Result<u8, Report> {
        let (_, project, person) = project_and_person(self.config.as_ref())?;
        let mut found: Vec<(PackagePlace, LockedAgentPackage)> = Vec::new();
        for place in [project].into_iter().chain(person) {
            let lock = place.read_lock().map_err(|error| error.report())?;
            found.extend(lock.agents().map(|locked| (place.clone(), locked.clone())));
        }
        match self.output {
            CliOutputFormat::Json => {
                let rows = found.iter().map(|(place, locked)| {
                    json!({
                        "id": locked.id, "version": locked.version, "source": locked.source, "model": locked.model,
                        "agents": locked.runners, "is_personal": place.is_personal,
                    })
                });
                print(&json_line(&rows.collect::<Vec<_>>()))?;
            }
            CliOutputFormat::Text if found.is_empty() => print("no agent package is installed")?,
            CliOutputFormat::Text => {
                let rows: Vec<_> = found.iter().map(|(place, locked)| row(place, locked)).collect();
                print(&rows.join("\n"))?;
            }
        }
        Ok(0)
    }
}

fn row(place: &PackagePlace, locked: &LockedAgentPackage) -> String {
    let agents: Vec<_> = locked.runners.iter().map(|agent| name(agent)).collect();
    let whose = if place.is_personal { "  in all projects" } else { "" };
    format!("{}  {}  {}  from {}{whose}", locked.id, name(&locked.version), agents.join(", "), name(&locked.source))
}
