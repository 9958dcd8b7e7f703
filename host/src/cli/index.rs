use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::{
    config_path::usual,
    render::{self, RunOutputFormat},
    run::{self, CommonRunArgs},
};
use crate::{
    config::{AgentConfig, Config},
    error::{ErrorKind, Report},
    project::{ProjectLayout, Staleness, staleness},
};

/// Renew what every agent is told of this project, or see whether that is due.
///
/// The agent `indexer` of the config, or the one that --agent names, reads the project and writes .shelly/context.md and
/// .shelly/knowledge. It is due when the git repository has moved on since .shelly/context.md was written, or where that
/// file is missing.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host init --template project-indexer     a config with such an agent
  shelly-host index
  shelly-host index --approve all                 where nobody is there to look at what it writes
  shelly-host index --check                       exits with 1 if it is due, and changes nothing")]
pub struct IndexArgs {
    /// Say whether it is due and do nothing: exit with 0 if .shelly/context.md keeps up with the project, with 1 if not.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    with: CommonRunArgs,
}

/// The agent that renews the index if none is named.
const INDEXER: &str = "indexer";

/// The task of that agent.
const TASK: &str = "Renew what agents are told of this project: .shelly/context.md, and .shelly/knowledge where that has \
                    files. Look at what is there now, compare it with the project as it is, and write it anew; keep what \
                    is still true. Then say in a few lines what you have changed.";

impl IndexArgs {
    pub fn execute(self) -> u8 {
        let Self { check, with } = self;
        let output = with.output();
        let code = config(with.config()).and_then(|config| match check {
            true => Ok(tell(&staleness(&layout(&config)), output)),
            false => renew(with, &config),
        });
        code.unwrap_or_else(|report| render::failed(&report, output))
    }
}

/// Reads the config that is named or found, without a message: the command that uses it prints one.
fn config(named: Option<&PathBuf>) -> Result<Config, Report> {
    let path = named.cloned().or_else(|| usual(Path::new("")));
    path.map_or_else(|| Ok(Config::default()), |path| Config::read(&path))
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
            format!("the index is out of date: {reason}; renew it with shelly-host index")
        }
        (RunOutputFormat::Json | RunOutputFormat::Events, reason) => {
            render::json_line(&json!({ "event": "result", "fresh": reason.is_none(), "reason": reason }))
        }
    };
    render::print(&text).map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| code)
}

/// Runs the indexing agent. Returns the exit code of the run, or that of a failed run if the index is still out of date.
fn renew(with: CommonRunArgs, config: &Config) -> Result<u8, Report> {
    let name = with.agent().unwrap_or(INDEXER).to_owned();
    if !config.everyone().any(|agent: &AgentConfig| agent.name == name) {
        let mut report = crate::config::unknown("agent", &name, config.everyone().map(|agent| agent.name.as_str()));
        report.hint = Some(
            "name the agent that renews the index with --agent, or write a config with one: shelly-host init --template \
             project-indexer"
                .into(),
        );
        return Err(report);
    }
    let code = run::once(with.for_agent(name), TASK.into());
    Ok(match staleness(&layout(config)) {
        Staleness::Stale { reason } if code == 0 => {
            render::warn(&format!("the index was not renewed: {reason}"));
            ErrorKind::Run.exit_code()
        }
        _ => code,
    })
}
