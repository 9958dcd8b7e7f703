//! Builds runners, agents and teams, from the blueprints of their members, under any ceiling.

use std::{collections::HashMap, sync::Arc};

use super::{App, ModelCache, ResolvedModel, RunResources, StartupNotices, agent_blueprint::AgentBlueprint, no_price};
use crate::{
    agent::{Agent, AgentGroup, AgentRefusal, Runner},
    capability::Ceiling,
    config::{
        AgentConfig, HandOffChats, HostCoordinator, MemberUse, PluginSection, RolesParams, RunnerConfig, TeamConfig,
        TeamStopCondition,
    },
    error::{ErrorKind, Report},
    plugin::{Plugin, PluginCoordinator},
    team::{
        Coordinator, HandoffCoordinator, LoopCoordinator, Member, ModelCoordinator, RoleRoundRobin, RoundRobinUntil,
        SequenceCoordinator, StopCondition, Team, TeamChatMode,
    },
};

/// The agent or team that a run starts with.
pub enum EntryRunner {
    /// An agent.
    Agent(Box<Agent>),
    /// A team.
    Team(Box<Team>),
}

impl EntryRunner {
    /// Returns it as a [`Runner`].
    pub fn runner(&self) -> &dyn Runner {
        match self {
            Self::Agent(agent) => &**agent,
            Self::Team(team) => &**team,
        }
    }

    /// Returns the agent, if it is one.
    pub fn agent(&self) -> Option<&Agent> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Team(_) => None,
        }
    }

    /// Attaches the agent group that it works with.
    pub(super) fn with_agent_group(self, agent_group: &Arc<AgentGroup>) -> Self {
        match self {
            Self::Agent(agent) => {
                let depth = agent.options.max_delegation_depth;
                Self::Agent(Box::new(agent.with_agent_group(Arc::clone(agent_group), depth)))
            }
            Self::Team(team) => Self::Team(Box::new(team.with_agent_group(Arc::clone(agent_group)))),
        }
    }

    fn into_runner(self) -> Arc<dyn Runner> {
        match self {
            Self::Agent(agent) => Arc::new(*agent),
            Self::Team(team) => Arc::new(*team),
        }
    }
}

/// The blueprint of an agent or a team, from which it can be built under any ceiling.
#[derive(Clone)]
pub(super) enum RunnerBlueprint {
    Agent(Arc<AgentBlueprint>),
    Team(Arc<TeamBlueprint>),
}

/// The blueprint of a team.
pub(super) struct TeamBlueprint {
    /// The settings that it shares with agents: the model, middleware and ceilings.
    own: AgentBlueprint,
    config: TeamConfig,
    /// Its members in order, each with its use in the team and its own blueprint.
    members: Vec<(MemberUse, RunnerBlueprint)>,
}

impl RunnerBlueprint {
    /// Builds the runner under its own ceilings only.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be built, or a team's ceiling leaves a member too little.
    pub fn whole(&self, warnings: &mut Vec<String>) -> Result<EntryRunner, Report> {
        match self {
            Self::Agent(blueprint) => blueprint.agent(warnings).map(|agent| EntryRunner::Agent(Box::new(agent))),
            Self::Team(team_blueprint) => {
                let own = team_blueprint.own.agent(warnings)?;
                let refused = |AgentRefusal(why)| {
                    Report::new(ErrorKind::Usage, format!("the team `{}` cannot be made", own.name)).cause(why)
                };
                let ceiling = own.delegable.clone();
                let team = team_blueprint.team(own.clone(), &team_blueprint.own.whole_coordinator(), &ceiling);
                team.map(|team| EntryRunner::Team(Box::new(team))).map_err(refused)
            }
        }
    }

    /// Builds the runner under the ceiling of the agent that starts it.
    ///
    /// # Errors
    ///
    /// [`AgentRefusal`] with the line of config that would help.
    pub fn under(&self, ceiling: &Ceiling) -> Result<Arc<dyn Runner>, AgentRefusal> {
        Ok(match self {
            Self::Agent(blueprint) => EntryRunner::Agent(Box::new(blueprint.under(ceiling)?)),
            Self::Team(team_blueprint) => {
                let own = team_blueprint.own.under(ceiling)?;
                let plugin = team_blueprint.own.coordinator_under(ceiling)?;
                let ceiling = own.delegable.meet(ceiling);
                EntryRunner::Team(Box::new(team_blueprint.team(own, &plugin, &ceiling)?))
            }
        }
        .into_runner())
    }

    /// Returns the settings that agents and teams share.
    fn own(&self) -> &AgentBlueprint {
        match self {
            Self::Agent(blueprint) => blueprint,
            Self::Team(team_blueprint) => &team_blueprint.own,
        }
    }
}

impl TeamBlueprint {
    /// Builds the team around its shared settings, with its members under this ceiling.
    fn team(&self, own: Agent, plugin: &Option<Arc<Plugin>>, ceiling: &Ceiling) -> Result<Team, AgentRefusal> {
        let (coordinator, meeting) = self.coordinator(plugin)?;
        let mut team = Team {
            name: own.name,
            description: own.description,
            prefix: own.prefix,
            instructions: own.instructions,
            members: Default::default(),
            coordinator,
            completer: Some(own.completer),
            models: own.models,
            middleware: own.middleware,
            budget: own.budget,
            delegable: own.delegable,
            agent_group: None,
            meeting,
        };
        for (uses, made) in &self.members {
            let runner = made.under(ceiling)?;
            let runner = runner.as_entered(Arc::clone(runner.name()), &ceiling.budget());
            let MemberUse { agent: _, name: _, role, description, retries, on_failure } = uses;
            let member = Member {
                name: uses.name().into(),
                role: role.as_deref().unwrap_or(uses.name()).into(),
                description: description.as_deref().map_or_else(|| Arc::clone(runner.description()), Into::into),
                runner,
                retries: *retries,
                on_failure: *on_failure,
            };
            team = team.try_with(member).map_err(|error| AgentRefusal(error.to_string()))?;
        }
        Ok(team)
    }

    /// Returns the coordinator, and the mode of the members' conversations.
    fn coordinator(&self, plugin: &Option<Arc<Plugin>>) -> Result<(Arc<dyn Coordinator>, TeamChatMode), AgentRefusal> {
        let of_plugin = || {
            let plugin = plugin.as_ref().and_then(PluginCoordinator::new);
            plugin.ok_or_else(|| {
                AgentRefusal(format!("the coordinator of the team `{}` is not there", self.config.own.name))
            })
        };
        let Some(own) = self.config.own_coordinator() else {
            let meeting = self.config.hand_over.map_or(TeamChatMode::Coordinated, meeting);
            return Ok((Arc::new(of_plugin()?), meeting));
        };
        let coordinator: Arc<dyn Coordinator> = match own {
            HostCoordinator::Sequence => Arc::new(SequenceCoordinator),
            HostCoordinator::Loop(params) => {
                Arc::new(LoopCoordinator { max_rounds: params.max_rounds, at_end: params.at_end })
            }
            HostCoordinator::RoundRobin { max_rounds, until } => {
                let until = match until {
                    TeamStopCondition::Text(pattern) => {
                        StopCondition::text(&pattern).map_err(|fault| AgentRefusal(fault.to_string()))?
                    }
                    TeamStopCondition::Coordinator(_) => StopCondition::Coordinator(Arc::new(of_plugin()?)),
                };
                Arc::new(RoundRobinUntil::new(max_rounds, until))
            }
            HostCoordinator::Roles(RolesParams { roles, max_cycles, at_end }) => {
                Arc::new(RoleRoundRobin { at_end, ..RoleRoundRobin::new(max_cycles, roles) })
            }
            HostCoordinator::Model(options) => Arc::new(ModelCoordinator::new(options)),
            HostCoordinator::HandOff(params) => {
                return Ok((Arc::new(HandoffCoordinator::new(params.max_hand_offs)), meeting(params.chats)));
            }
        };
        Ok((coordinator, TeamChatMode::Coordinated))
    }
}

/// Returns the mode of conversations for members that hand over to each other.
fn meeting(chats: HandOffChats) -> TeamChatMode {
    match chats {
        HandOffChats::Shared => TeamChatMode::SharedHandoff,
        HandOffChats::Private => TeamChatMode::Handoff,
    }
}

/// Builds agents and teams, each once.
pub(super) struct RunnerFactory<'a> {
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
        let needed = self.app.config.needed_by(who);
        // The bound may apply only to the agents that `by` starts.
        let counts = |inner: &&RunnerConfig<'_>| by.bounds_usd().is_some() || inner.name() != by.name;
        let agents = needed.iter().filter(counts).map(|inner| &self.made[inner.name()].0.own().agent);
        let mut models = agents.flat_map(|agent| agent.models.values().chain([&agent.completer]));
        match models.find(|model| model.info().price.is_none()) {
            Some(model) => Err(no_price(by, &model.info().model)),
            None => Ok(()),
        }
    }

    async fn agent(
        &self,
        agent: &AgentConfig,
        notices: &mut StartupNotices,
    ) -> Result<(RunnerBlueprint, ResolvedModel), Report> {
        let (blueprint, model) = self.app.make(agent, self.model, self.models, self.shared, notices).await?;
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
        let mut blueprint = self.app.dress(own, Arc::clone(&model.completer), self.shared, notices).await?;
        blueprint.agent.models = self.app.other_models(own, self.models, notices).await?;
        Ok((RunnerBlueprint::Team(Arc::new(TeamBlueprint { own: blueprint, config: config.clone(), members })), model))
    }
}

impl AgentBlueprint {
    /// Returns the plugin that coordinates a team, if there is one.
    fn whole_coordinator(&self) -> Option<Arc<Plugin>> {
        let attached_plugin =
            self.plugins.iter().find(|attached_plugin| attached_plugin.listed == PluginSection::Coordinator)?;
        Some(Arc::clone(&attached_plugin.plugin))
    }

    /// Returns that plugin under a ceiling.
    fn coordinator_under(&self, ceiling: &Ceiling) -> Result<Option<Arc<Plugin>>, AgentRefusal> {
        let whole = self.whole_coordinator();
        let narrowed = whole.map(|plugin| plugin.under(ceiling)).transpose();
        narrowed.map_err(|error| AgentRefusal(error.report().with_hint()))
    }
}
