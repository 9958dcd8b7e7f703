//! Builds the blueprint of each agent and team of a run once.

use std::{collections::HashMap, sync::Arc};

use super::{
    App, ModelCache, ResolvedModel, RunResources, StartupNotices,
    agent_assembly::no_price,
    runner_blueprint::{RunnerBlueprint, TeamBlueprint},
};
use crate::{
    config::{AgentConfig, RunnerConfig, TeamConfig},
    error::Report,
};

/// Builds agents and teams, each once.
pub(crate) struct RunnerFactory<'a> {
    pub app: &'a App,
    /// The model that the command line names, for all of them.
    pub model: Option<&'a str>,
    pub models: &'a ModelCache,
    pub shared: &'a RunResources,
    made: HashMap<String, (RunnerBlueprint, ResolvedModel)>,
}

impl<'a> RunnerFactory<'a> {
    pub fn new(app: &'a App, model: Option<&'a str>, models: &'a ModelCache, shared: &'a RunResources) -> Self {
        Self { app, model, models, shared, made: HashMap::new() }
    }

    /// Builds a runner with everything that it needs, and resolves its own model. Mistakes in any of them are found now,
    /// and not when it is started.
    pub async fn make(
        &mut self,
        who: RunnerConfig<'_>,
        notices: &mut StartupNotices,
    ) -> Result<(RunnerBlueprint, ResolvedModel), Report> {
        for inner in self.app.config.needed_by(who) {
            if !self.made.contains_key(inner.name()) {
                let made = match inner {
                    RunnerConfig::Agent(agent) => self.agent(agent, notices).await?,
                    RunnerConfig::Team(team) => self.team(team, notices).await?,
                };
                made.0.whole(&mut notices.warnings)?;
                self.made.insert(inner.name().to_owned(), made);
                if let Err(report) = self.check_prices(inner, inner.own()) {
                    // A runner that was refused must not be used by others either.
                    self.made.remove(inner.name());
                    return Err(report);
                }
            }
        }
        Ok(self.made[who.name()].clone())
    }

    /// Does the same as [`Self::make`], for a runner whose cost counts for the budget of `by`.
    pub async fn make_priced(
        &mut self,
        who: RunnerConfig<'_>,
        by: &AgentConfig,
        notices: &mut StartupNotices,
    ) -> Result<RunnerBlueprint, Report> {
        let (made, _) = self.make(who, notices).await?;
        self.check_prices(who, by)?;
        Ok(made)
    }

    /// Returns a runner that was built.
    pub fn made(&self, name: &str) -> RunnerBlueprint {
        self.made[name].0.clone()
    }

    /// Checks that the prices of a runner and of those that it needs are known, if `by` bounds their cost.
    fn check_prices(&self, who: RunnerConfig<'_>, by: &AgentConfig) -> Result<(), Report> {
        if by.bounds_usd().is_none() && by.delegable.budget.usd.is_none() {
            return Ok(());
        }
        // The bound may apply only to the agents that `by` starts.
        let counts = |inner: &RunnerConfig<'_>| by.bounds_usd().is_some() || inner.name() != by.name;
        self.unpriced(who, counts).map_or(Ok(()), |model| Err(no_price(by, &model)))
    }

    /// Checks that the prices of a runner and of those that it needs are known. Creates the error from the name of a model
    /// without a known price.
    pub fn check_all_prices(&self, who: RunnerConfig<'_>, error: impl FnOnce(&str) -> Report) -> Result<(), Report> {
        self.unpriced(who, |_| true).map_or(Ok(()), |model| Err(error(&model)))
    }

    /// Returns the name of a model without a known price, of a runner and those that it needs as far as they count.
    fn unpriced(&self, who: RunnerConfig<'_>, counts: impl Fn(&RunnerConfig<'_>) -> bool) -> Option<String> {
        let needed = self.app.config.needed_by(who);
        let agents = needed.iter().filter(|inner| counts(inner) && inner.own().worker_labels.is_none());
        let agents = agents.map(|inner| &self.made[inner.name()].0.own().agent);
        let mut models = agents.flat_map(|agent| agent.models.values().chain([&agent.completer]));
        models.find(|model| model.info().price.is_none()).map(|model| model.info().model.clone())
    }

    async fn agent(
        &self,
        agent: &AgentConfig,
        notices: &mut StartupNotices,
    ) -> Result<(RunnerBlueprint, ResolvedModel), Report> {
        let (blueprint, model) = self.app.blueprint(agent, self.model, self.models, self.shared, notices).await?;
        Ok((RunnerBlueprint::Agent(Arc::new(blueprint)), model))
    }

    /// Builds a team whose members are built.
    async fn team(
        &self,
        config: &TeamConfig,
        notices: &mut StartupNotices,
    ) -> Result<(RunnerBlueprint, ResolvedModel), Report> {
        let members = config.members.iter().map(|uses| (uses.clone(), self.made[&uses.agent].0.clone()));
        let members: Vec<_> = members.collect();
        let own = &config.own;
        let model = match config.asks() {
            true => self.app.model(own, self.model, self.models, notices).await?,
            // The model is only named in messages.
            false => self.made[&config.members[0].agent].1.clone(),
        };
        let mut blueprint = self.app.blueprint_around(own, Arc::clone(&model.completer), self.shared, notices).await?;
        blueprint.agent.models = self.app.other_models(own, self.models, notices).await?;
        Ok((RunnerBlueprint::Team(Arc::new(TeamBlueprint { own: blueprint, config: config.clone(), members })), model))
    }
}
