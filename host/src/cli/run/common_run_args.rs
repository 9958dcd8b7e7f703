use std::path::PathBuf;

use clap::Args;

use crate::capability::Usd;
use crate::cli::{
    ask::ApprovalModeArg,
    input::StdinMode,
    launch::LaunchFlags,
    render::{ProgressLevel, RunOutputFormat},
};

/// The options with which an agent runs.
#[derive(Args)]
pub struct CommonRunArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    pub(super) plugins: Vec<PathBuf>,
    /// The agent or team (default: the one of the session, or the entry agent of the config).
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// The model: its name in the config, or the id of a provider plugin that needs no grant. Without a config, also a
    /// vendor's model name.
    #[arg(long, value_name = "NAME")]
    pub(super) model: Option<String>,
    /// The format of standard output.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = RunOutputFormat::Text)]
    pub(super) output: RunOutputFormat,
    /// Answers requests for consent and questions of agents in this way, without asking. Without this option you are asked
    /// if there is a terminal, even if standard input is a pipe; otherwise `never` applies.
    #[arg(long, value_name = "WHEN", value_enum)]
    pub(super) approve: Option<ApprovalModeArg>,
    /// Trust the project's config and permissions for this run without asking; see shelly-host config trust. A config named
    /// with --config, and plugins named with --plugins, need no consent. Also resume a session that was not made here by you,
    /// and accept the current tools of MCP servers.
    #[arg(long)]
    pub(super) trust: bool,
    /// When to send standard input to the model with the task, marked as input. The task `-` is always read from standard
    /// input.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = StdinMode::Auto)]
    pub(super) stdin: StdinMode,
    /// The maximum cost of this run in US dollars, including all of its sub-runs. The price of every model that it may use
    /// must be known.
    #[arg(long, value_name = "USD", value_parser = cost)]
    pub(super) max_cost: Option<Usd>,
    /// Print only the answer, without progress and notes. Warnings, errors and the path of a config that was found are still
    /// printed.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Write the text of each reply to standard output as it arrives, including what an agent says before it calls tools.
    /// A terminal shows it in any case; elsewhere, only the answer is written, when it is complete.
    #[arg(long, conflicts_with = "quiet")]
    pub(super) stream: bool,
    /// Also show log entries of plugins and the resource use of each plugin call.
    #[arg(long, short)]
    pub(super) verbose: bool,
}

/// Parses a bound on cost.
pub fn cost(text: &str) -> Result<Usd, String> {
    match text.parse::<Usd>() {
        Ok(usd) if usd > Usd::ZERO => Ok(usd),
        Ok(_) => Err("the cost must be more than 0, or no model can be called".into()),
        Err(error) => Err(error.to_string()),
    }
}

impl CommonRunArgs {
    /// Returns the amount of progress that is shown.
    pub(super) fn level(&self) -> ProgressLevel {
        match (self.quiet, self.verbose) {
            (true, _) => ProgressLevel::Quiet,
            (false, true) => ProgressLevel::Verbose,
            (false, false) => ProgressLevel::Normal,
        }
    }

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
