use clap::Args;
use serde_json::json;

use super::{
    config_path::read_config_silently,
    render::{self, RunOutputFormat},
    run::{self, CommonRunArgs},
};
use crate::{
    config::{AgentConfig, Config},
    error::{ErrorKind, Report},
    project::{ProjectLayout, Staleness, staleness},
};

/// Update the project description that every agent is given, or check whether it is up to date.
///
/// Runs the agent `indexer` of the config, or the one that --agent names, which reads the project and writes
/// .shelly/context.md and .shelly/knowledge. The index is out of date if .shelly/context.md is missing, or if the branch
/// or the newest commit of the git repository has changed since that file was written.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host init --template project-indexer     # writes a config with such an agent
  shelly-host index
  shelly-host index --approve all                 # approves the changes without asking
  shelly-host index --check                       # exits with 1 if the index is out of date; changes nothing")]
pub struct IndexArgs {
    /// Check only: exit with 0 if .shelly/context.md is up to date, with 1 if not.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    with: CommonRunArgs,
}

/// The agent that renews the index if none is named.
const INDEXER: &str = "indexer";

/// The task of that agent.
const TASK: &str = "Update the description of this project that agents are given: .shelly/context.md, and the files in \
                    .shelly/knowledge if there are any. Read the current files, compare them with the project, and \
                    rewrite them; keep what is still true. Then summarize your changes in a few lines.";

impl IndexArgs {
    pub fn execute(self) -> u8 {
        let Self { check, with } = self;
        let output = with.output();
        let code = read_config_silently(with.runner().config.as_ref()).and_then(|config| match check {
            true => Ok(tell(&staleness(&layout(&config)), output)),
            false => renew(with, &config),
        });
        code.unwrap_or_else(|report| render::failed(&report, output))
    }
}

fn layout(config: &Config) -> ProjectLayout {
    ProjectLayout::new(&config.root)
}

/// Prints whether the index is up to date. Returns the exit code.
fn tell(staleness: &Staleness, output: RunOutputFormat) -> u8 {
    let (code, reason) = match staleness {
        Staleness::Fresh => (0, None),
        Staleness::Stale { reason } => (ErrorKind::Run.exit_code(), Some(reason)),
    };
    let text = match (output, reason) {
        (RunOutputFormat::Text, None) => ".shelly/context.md is up to date".to_owned(),
        (RunOutputFormat::Text, Some(reason)) => {
            format!("the index is out of date: {reason}; update it with shelly-host index")
        }
        (RunOutputFormat::Json | RunOutputFormat::Events, reason) => {
            render::json_line(&json!({ "event": "result", "fresh": reason.is_none(), "reason": reason }))
        }
    };
    render::print(&text).map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| code)
}

/// Runs the indexing agent. Returns the exit code of the run, or that of a failed run if the index is still out of date.
fn renew(with: CommonRunArgs, config: &Config) -> Result<u8, Report> {
    let name = with.runner().agent.as_deref().unwrap_or(INDEXER).to_owned();
    if !config.everyone().any(|agent: &AgentConfig| agent.name == name) {
        let mut report = crate::config::unknown("agent", &name, config.everyone().map(|agent| agent.name.as_str()));
        report.hint = Some(
            "name the agent that updates the index with --agent, or write a config that has one: shelly-host init \
             --template project-indexer"
                .into(),
        );
        return Err(report);
    }
    let code = run::once(with.for_agent(name), TASK.into(), true);
    Ok(match staleness(&layout(config)) {
        Staleness::Stale { reason } if code == 0 => {
            render::warn(&format!("the index is still out of date: {reason}"));
            ErrorKind::Run.exit_code()
        }
        _ => code,
    })
}
