use std::sync::Arc;

use crate::{
    assemble::{App, RunResources, StartupNotices},
    chat::{Chat, Message},
    config::RunnerConfig,
    error::Report,
    event::RunCx,
    model::{Price, ScriptedCompleter},
};

/// An estimate of the prompt with which an agent begins each run: its system prompt and its tools.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptEstimate {
    /// The name of the model; `None` if no config names one.
    pub model: Option<String>,
    /// The price of the model, if it is known.
    pub price: Option<Price>,
    /// The tokens of the prompt. For a team, those of all members that are agents. Tools of MCP servers are not counted.
    pub tokens: u64,
}

impl App {
    /// Estimates the prompt of an agent or team without sending a request: tools of plugins are listed in their sandboxes,
    /// and MCP servers are not asked.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such agent or model, or a plugin cannot be loaded.
    pub async fn prompt_estimate(&self, name: Option<&str>, model: Option<&str>) -> Result<PromptEstimate, Report> {
        self.open_plugins(name, model).await?;
        let default;
        let who = match self.is_default(name) {
            true => {
                default = self.default_agent(&mut Vec::new());
                RunnerConfig::Agent(&default)
            }
            false => name.map_or_else(|| self.config.entry(), |name| self.config.who(name))?,
        };
        let mut tokens = 0;
        for needed in self.config.needed_by(who) {
            let RunnerConfig::Agent(agent) = needed else { continue };
            // Agents that are tools run only when they are called.
            if matches!(who, RunnerConfig::Agent(entry) if entry.name != agent.name) {
                continue;
            }
            let shared = RunResources::new(&self.project, &self.broker, self.changes());
            let nobody = Arc::new(ScriptedCompleter::new([ScriptedCompleter::text("-")]));
            let mut notices = StartupNotices::default();
            let blueprint = self.blueprint_around(agent, Arc::clone(&nobody) as _, &shared, &mut notices).await?;
            let mut agent = blueprint.agent(&mut notices.warnings)?;
            // Nothing but the agent's own code takes part: a plugin could send requests.
            agent.effects.clear();
            agent.middleware.clear();
            agent.model_middleware.clear();
            let task = vec![Message::user("-")];
            // A failure has its reason after the request, if there is one.
            let _ = agent.run(&RunCx::new(Arc::clone(&agent.name)), &Chat::new(), task).await;
            tokens += nobody.requests().first().map_or(0, |request| request.tokens());
        }
        let named = model.or(who.own().provider.as_deref());
        let provider = match self.config.named_provider(named) {
            Ok(provider) => provider,
            // A plugin or a vendor's model that the command line names.
            Err(_) if self.config.providers.is_empty() || self.is_model_plugin(named) => None,
            Err(report) => return Err(report),
        };
        let price = provider.and_then(|provider| self.price(provider));
        let model = provider.map(|provider| provider.name.clone()).or(named.map(str::to_owned));
        Ok(PromptEstimate { model, price, tokens })
    }
}
