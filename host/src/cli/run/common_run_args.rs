use std::path::PathBuf;

use clap::Args;

use crate::capability::Usd;
use crate::cli::{ask::ApprovalModeArg, input::StdinMode, launch::LaunchFlags, render::RunOutputFormat};

/// The options with which an agent runs.
#[derive(Args)]
pub struct CommonRunArgs {
    /// The config; without it .shelly/config.yaml or shelly.yaml, if there is one.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// A directory of plugin folders; may be given several times.
    #[arg(long, value_name = "DIR")]
    pub(super) plugins: Vec<PathBuf>,
    /// The agent or team; without it the session's, or the entry agent of the config.
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// The model, by its name in the config, or the id of a provider plugin that needs no grant; without a config also a
    /// vendor's name.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// The format of standard output.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = RunOutputFormat::Text)]
    pub(super) output: RunOutputFormat,
    /// Answers requests for consent and questions of agents in this way, without asking you. Without it you are asked if there
    /// is a terminal, also if standard input is a pipe; else it is `never`.
    #[arg(long, value_name = "WHEN", value_enum)]
    pub(super) approve: Option<ApprovalModeArg>,
    /// Act on what the config and the permissions that were found in the project name, for this run, though you have not
    /// said yes to it; see shelly-host config trust. What you name with --config and --plugins needs none of it. Also go on
    /// with a session that was not made here by you, and take the tools of MCP servers as they are now.
    #[arg(long)]
    pub(super) trust: bool,
    /// When standard input goes to the model with the task, marked as input. A task of `-` is read from it in any case.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = StdinMode::Auto)]
    pub(super) stdin: StdinMode,
    /// The most that this run may cost, in US dollars, with all agents that work for it. The price of every model that it may
    /// use must be known.
    #[arg(long, value_name = "USD", value_parser = cost)]
    pub(super) max_cost: Option<Usd>,
    /// Print the answer alone: no progress, no notes. Warnings and errors are still printed.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Also show what plugins log and what each call of a plugin costs.
    #[arg(long, short)]
    pub(super) verbose: bool,
}

/// Parses a bound on cost.
fn cost(text: &str) -> Result<Usd, String> {
    match text.parse::<Usd>() {
        Ok(usd) if usd > Usd::ZERO => Ok(usd),
        Ok(_) => Err("a run that may cost nothing cannot ask a model; give an amount above 0".into()),
        Err(error) => Err(error.to_string()),
    }
}

impl CommonRunArgs {
    /// Returns the options that a session stores.
    pub(super) fn named(&self) -> LaunchFlags {
        LaunchFlags { config: self.config.clone(), plugins: self.plugins.clone(), model: self.model.clone() }
    }

    pub fn config(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }

    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    pub fn output(&self) -> RunOutputFormat {
        self.output
    }

    /// Selects the agent.
    pub fn for_agent(self, agent: String) -> Self {
        Self { agent: Some(agent), ..self }
    }
}
