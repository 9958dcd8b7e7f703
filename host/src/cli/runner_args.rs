//! The options that select an agent and what it may do, of every command that runs one.

use std::path::PathBuf;

use clap::Args;

use super::{
    ask::ApprovalModeArg,
    config_path::read_config_with_toolboxes,
    host_environment::{compiling, environment, plugin_dirs},
    launch::LaunchFlags,
    trust,
};
use crate::{
    app::App,
    approval::ApprovalBroker,
    capability::{Budget, Usd},
    config::Config,
    error::Report,
};

/// The options that select an agent and what it may do.
#[derive(Args, Clone, Default)]
pub struct RunnerArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    pub plugins: Vec<PathBuf>,
    /// The agent or team (default: the one of the session, or the entry agent of the config).
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// The model: its name in the config, the vendor's name for a model of the config, or the id of a provider plugin that needs no
    /// grant. Without a config, also a vendor's model name.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Answers requests for consent and questions of agents in this way, without asking. Without this option you are asked
    /// if there is a terminal, even if standard input is a pipe; otherwise `never` applies.
    #[arg(long, value_name = "WHEN", value_enum)]
    pub approve: Option<ApprovalModeArg>,
    /// Trust the project's config and permissions for this run without asking; see shelly-host config trust. A config named
    /// with --config, and plugins named with --plugins, need no consent. Also resume a session that was not made here by you,
    /// and accept the current tools of MCP servers.
    #[arg(long)]
    pub trust: bool,
    /// The maximum cost of one run in US dollars, including all of its sub-runs. The price of every model that it may use
    /// must be known.
    #[arg(long, value_name = "USD", value_parser = cost)]
    pub max_cost: Option<Usd>,
    /// Also show log entries of plugins and the resource use of each plugin call.
    #[arg(long, short)]
    pub verbose: bool,
}

/// Parses a bound on cost.
pub fn cost(text: &str) -> Result<Usd, String> {
    match text.parse::<Usd>() {
        Ok(usd) if usd > Usd::ZERO => Ok(usd),
        Ok(_) => Err("the cost must be more than 0, or no model can be called".into()),
        Err(error) => Err(error.to_string()),
    }
}

impl RunnerArgs {
    /// Returns the options that a session stores.
    pub fn named(&self) -> LaunchFlags {
        LaunchFlags { config: self.config.clone(), plugins: self.plugins.clone(), model: self.model.clone() }
    }

    /// Takes options that the command line does not name from the session `id`.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the session's mark cannot be checked.
    pub fn recall(&mut self, id: &str, is_whole_name: bool) -> Result<(), Report> {
        let mut named = self.named();
        named.recall(id, is_whole_name)?;
        let LaunchFlags { config, plugins, model } = named;
        (self.config, self.plugins, self.model) = (config, plugins, model);
        Ok(())
    }

    /// Reads the config, with the default toolboxes if nothing in it names agents.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a config cannot be used.
    pub fn read_config(&self) -> Result<Config, Report> {
        read_config_with_toolboxes(self.config.as_ref(), &self.plugins)
    }

    /// Builds the app for a config that was read. It has sent nothing and started nothing.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a plugin directory or the project's folder cannot be used.
    pub fn app(&self, config: Config, broker: ApprovalBroker) -> Result<App, Report> {
        let app = App::new(config, plugin_dirs(&self.plugins), compiling(), environment(), broker)?;
        let app =
            app.with_own_key(trust::own_key()).with_approvals(trust::store(), self.trust).with_logins(trust::logins());
        Ok(app.with_budget(Budget { usd: self.max_cost, ..Budget::default() }))
    }
}
