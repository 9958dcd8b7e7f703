//! Blueprints of agents and teams, from which they can be built under any ceiling.

use std::sync::Arc;

use super::{agent_blueprint::AgentBlueprint, entry_runner::EntryRunner};
use crate::{
    agent::{Agent, AgentRefusal, Runner},
    capability::Ceiling,
    config::{HandoffChats, HostCoordinator, MemberUse, PluginSection, RolesParams, TeamConfig, TeamStopCondition},
    error::{ErrorKind, Report},
    plugin::{Plugin, PluginCoordinator},
    team::{
        Coordinator, HandoffCoordinator, LoopCoordinator, Member, ModelCoordinator, RoleRoundRobin, RoundRobinUntil,
        SequenceCoordinator, StopCondition, Team, TeamChatMode,
    },
};

/// The blueprint of an agent or a team, from which it can be built under any ceiling.
#[derive(Clone)]
pub(crate) enum RunnerBlueprint {
    Agent(Arc<AgentBlueprint>),
    Team(Arc<TeamBlueprint>),
}

/// The blueprint of a team.
pub(crate) struct TeamBlueprint {
    /// The settings that it shares with agents: the model, middleware and ceilings.
    pub own: AgentBlueprint,
    pub config: TeamConfig,
    /// Its members in order, each with its use in the team and its own blueprint.
    pub members: Vec<(MemberUse, RunnerBlueprint)>,
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
                    Report::new(ErrorKind::Usage, format!("the team `{}` cannot be started", own.name)).cause(why)
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
        self.runner_under(ceiling).map(EntryRunner::into_runner)
    }

    /// Builds the runner that a run begins with, under the bounds that a parent run on another host sets.
    ///
    /// # Errors
    ///
    /// A [`Report`] as from [`RunnerBlueprint::whole`], and if the bounds leave too little.
    pub fn entry(&self, ceiling: &Ceiling) -> Result<EntryRunner, Report> {
        if *ceiling == Ceiling::default() {
            return self.whole(&mut Vec::new());
        }
        let refused = |AgentRefusal(why)| {
            Report::new(ErrorKind::Usage, "the parent run may not pass on what the agent needs").cause(why)
        };
        // What it starts is bounded too.
        self.runner_under(ceiling).map(|entry| entry.below(ceiling)).map_err(refused)
    }

    fn runner_under(&self, ceiling: &Ceiling) -> Result<EntryRunner, AgentRefusal> {
        Ok(match self {
            Self::Agent(blueprint) => EntryRunner::Agent(Box::new(blueprint.under(ceiling)?)),
            Self::Team(team_blueprint) => {
                let own = team_blueprint.own.under(ceiling)?;
                let plugin = team_blueprint.own.coordinator_under(ceiling)?;
                let ceiling = own.delegable.meet(ceiling);
                EntryRunner::Team(Box::new(team_blueprint.team(own, &plugin, &ceiling)?))
            }
        })
    }

    /// Returns the settings that agents and teams share.
    pub fn own(&self) -> &AgentBlueprint {
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
            let runner = runner.with_name_and_budget(Arc::clone(runner.name()), &ceiling.budget());
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
                AgentRefusal(format!("the coordinator of the team `{}` is missing", self.config.own.name))
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
            HostCoordinator::Handoff(params) => {
                return Ok((Arc::new(HandoffCoordinator::new(params.max_hand_offs)), meeting(params.chats)));
            }
        };
        Ok((coordinator, TeamChatMode::Coordinated))
    }
}

/// Returns the mode of conversations for members that hand over to each other.
fn meeting(chats: HandoffChats) -> TeamChatMode {
    match chats {
        HandoffChats::Shared => TeamChatMode::SharedHandoff,
        HandoffChats::Private => TeamChatMode::Handoff,
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
