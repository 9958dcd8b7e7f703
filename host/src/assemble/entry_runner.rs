use std::sync::Arc;

use crate::{
    agent::{Agent, AgentGroup, Runner},
    capability::{Budget, Ceiling},
    team::Team,
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

    /// Returns it with this budget in addition to its own: of each amount the smaller one holds.
    pub(super) fn within(mut self, budget: &Budget) -> Self {
        let own = match &mut self {
            Self::Agent(agent) => &mut agent.budget,
            Self::Team(team) => &mut team.budget,
        };
        *own = own.meet(budget);
        self
    }

    /// Returns it with these bounds on the agents that it starts, in addition to its own.
    pub(super) fn below(mut self, ceiling: &Ceiling) -> Self {
        let own = match &mut self {
            Self::Agent(agent) => &mut agent.delegable,
            Self::Team(team) => &mut team.delegable,
        };
        *own = own.meet(ceiling);
        self
    }

    /// Attaches the agent group that it works with.
    pub(crate) fn with_agent_group(self, agent_group: &Arc<AgentGroup>) -> Self {
        match self {
            Self::Agent(agent) => {
                let depth = agent.options.max_delegation_depth;
                Self::Agent(Box::new(agent.with_agent_group(Arc::clone(agent_group), depth)))
            }
            Self::Team(team) => Self::Team(Box::new(team.with_agent_group(Arc::clone(agent_group)))),
        }
    }

    /// Returns it as a shared [`Runner`].
    pub(super) fn into_runner(self) -> Arc<dyn Runner> {
        match self {
            Self::Agent(agent) => Arc::new(*agent),
            Self::Team(team) => Arc::new(*team),
        }
    }
}
