//! Teams, and whatever else can run: from what its members are made of to a runner under any ceiling.

use std::{collections::HashMap, sync::Arc};

use super::{App, Model, Models, Notices, Shared, no_price, outfit::Outfit};
use crate::{
    agent::{Agent, Crew, Refused, Runner},
    capability::Ceiling,
    config::{AgentConfig, Chats, Listed, MemberUse, OwnCoordinator, RolesParams, TeamConfig, UntilUse, Who},
    error::{ErrorKind, Report},
    model::Completer,
    plugin::{Plugin, PluginCoordinator},
    team::{
        Coordinator, HandOff, Loop, Meeting, Member, ModelCoordinator, RoleRoundRobin, RoundRobinUntil, Sequence, Team,
        Until,
    },
};

/// Somebody who can run.
pub enum Entrant {
    /// An agent.
    Agent(Box<Agent>),
    /// A team.
    Team(Box<Team>),
}

impl Entrant {
    /// It, to be run.
    pub fn runner(&self) -> &dyn Runner {
        match self {
            Self::Agent(agent) => &**agent,
            Self::Team(team) => &**team,
        }
    }

    /// The agent, if it is one.
    pub fn agent(&self) -> Option<&Agent> {
        match self {
            Self::Agent(agent) => Some(agent),
            Self::Team(_) => None,
        }
    }

    /// The same with those it works with.
    pub(super) fn with_crew(self, crew: &Arc<Crew>) -> Self {
        match self {
            Self::Agent(agent) => {
                let depth = agent.options.max_delegation_depth;
                Self::Agent(Box::new(agent.with_crew(Arc::clone(crew), depth)))
            }
            Self::Team(team) => Self::Team(Box::new(team.with_crew(Arc::clone(crew)))),
        }
    }

    fn into_runner(self) -> Arc<dyn Runner> {
        match self {
            Self::Agent(agent) => Arc::new(*agent),
            Self::Team(team) => Arc::new(*team),
        }
    }
}

/// What somebody who can run is made of: enough to make it under any ceiling.
#[derive(Clone)]
pub(super) enum Made {
    Agent(Arc<Outfit>),
    Team(Arc<Troupe>),
}

/// What a team is made of.
pub(super) struct Troupe {
    /// What it has as an agent has it: the model, middleware and ceilings.
    own: Outfit,
    config: TeamConfig,
    /// In order; what each is, in the team and by itself.
    members: Vec<(MemberUse, Made)>,
}

impl Made {
    /// It as its config has it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be made, under what its own team leaves it.
    pub fn whole(&self, warnings: &mut Vec<String>) -> Result<Entrant, Report> {
        match self {
            Self::Agent(outfit) => outfit.agent(warnings).map(|agent| Entrant::Agent(Box::new(agent))),
            Self::Team(troupe) => {
                let own = troupe.own.agent(warnings)?;
                let refused = |Refused(why)| {
                    Report::new(ErrorKind::Usage, format!("the team `{}` cannot be made", own.name)).cause(why)
                };
                let ceiling = own.delegable.clone();
                let team = troupe.team(own.clone(), &troupe.own.whole_coordinator(), &ceiling);
                team.map(|team| Entrant::Team(Box::new(team))).map_err(refused)
            }
        }
    }

    /// It under the ceiling of whoever starts it.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the line of config that would help.
    pub fn under(&self, ceiling: &Ceiling) -> Result<Arc<dyn Runner>, Refused> {
        Ok(match self {
            Self::Agent(outfit) => Entrant::Agent(Box::new(outfit.under(ceiling)?)),
            Self::Team(troupe) => {
                let own = troupe.own.under(ceiling)?;
                let plugin = troupe.own.coordinator_under(ceiling)?;
                let ceiling = own.delegable.meet(ceiling);
                Entrant::Team(Box::new(troupe.team(own, &plugin, &ceiling)?))
            }
        }
        .into_runner())
    }

    /// The models that it asks, those of its members included.
    fn models(&self) -> Vec<&Arc<dyn Completer>> {
        let (own, members) = match self {
            Self::Agent(outfit) => (&**outfit, &[][..]),
            Self::Team(troupe) => (&troupe.own, &*troupe.members),
        };
        let of_members = members.iter().flat_map(|(_, made)| made.models());
        own.agent.models.values().chain([&own.agent.completer]).chain(of_members).collect()
    }

    /// Whether what it costs can be counted, if `by` bounds that.
    pub fn is_priced_for(&self, by: &AgentConfig) -> Result<(), Report> {
        if by.bounds_usd().is_none() && by.delegable.budget.usd.is_none() {
            return Ok(());
        }
        match self.models().into_iter().find(|model| model.info().price.is_none()) {
            Some(model) => Err(no_price(by, &model.info().model)),
            None => Ok(()),
        }
    }
}

impl Troupe {
    /// The team around what it has as an agent has it, its members under this ceiling.
    fn team(&self, own: Agent, plugin: &Option<Arc<Plugin>>, ceiling: &Ceiling) -> Result<Team, Refused> {
        let (coordinator, meeting) = self.coordinator(plugin)?;
        let mut team = Team {
            name: own.name,
            description: own.description,
            prefix: own.prefix,
            members: Default::default(),
            coordinator,
            completer: Some(own.completer),
            models: own.models,
            middleware: own.middleware,
            budget: own.budget,
            delegable: own.delegable,
            crew: None,
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
            team = team.try_with(member).map_err(|error| Refused(error.to_string()))?;
        }
        Ok(team)
    }

    /// What decides, and in which conversations its members work.
    fn coordinator(&self, plugin: &Option<Arc<Plugin>>) -> Result<(Arc<dyn Coordinator>, Meeting), Refused> {
        let of_plugin = || {
            let plugin = plugin.as_ref().and_then(PluginCoordinator::new);
            plugin
                .ok_or_else(|| Refused(format!("the coordinator of the team `{}` is not there", self.config.own.name)))
        };
        let Some(own) = self.config.own_coordinator() else {
            return Ok((Arc::new(of_plugin()?), Meeting::Coordinated));
        };
        let coordinator: Arc<dyn Coordinator> = match own {
            OwnCoordinator::Sequence => Arc::new(Sequence),
            OwnCoordinator::Loop(params) => Arc::new(Loop { max_rounds: params.max_rounds, at_end: params.at_end }),
            OwnCoordinator::RoundRobin { max_rounds, until } => {
                let until = match until {
                    UntilUse::Text(pattern) => Until::text(&pattern).map_err(|fault| Refused(fault.to_string()))?,
                    UntilUse::Coordinator(_) => Until::Coordinator(Arc::new(of_plugin()?)),
                };
                Arc::new(RoundRobinUntil::new(max_rounds, until))
            }
            OwnCoordinator::Roles(RolesParams { roles, max_cycles, at_end }) => {
                Arc::new(RoleRoundRobin { at_end, ..RoleRoundRobin::new(max_cycles, roles) })
            }
            OwnCoordinator::Model(options) => Arc::new(ModelCoordinator::new(options)),
            OwnCoordinator::HandOff(params) => {
                let meeting = match params.chats {
                    Chats::Shared => Meeting::SharedHandOver,
                    Chats::Private => Meeting::HandOver,
                };
                return Ok((Arc::new(HandOff::new(params.max_hand_offs)), meeting));
            }
        };
        Ok((coordinator, Meeting::Coordinated))
    }
}

/// Makes whoever can run, each once.
pub(super) struct Makers<'a> {
    pub app: &'a App,
    /// The model that the command line names, for all of them.
    pub model: Option<&'a str>,
    pub models: &'a Models,
    pub shared: &'a Shared,
    made: HashMap<String, (Made, Model)>,
}

impl<'a> Makers<'a> {
    pub fn new(app: &'a App, model: Option<&'a str>, models: &'a Models, shared: &'a Shared) -> Self {
        Self { app, model, models, shared, made: HashMap::new() }
    }

    /// One who can run, with all whom it needs, and the model that it asks itself. What is wrong with any of them is found
    /// now, and not when it is started.
    pub async fn make(&mut self, who: Who<'_>, notices: &mut Notices) -> Result<(Made, Model), Report> {
        for inner in self.app.config.with_members(who) {
            let name = &inner.own().name;
            if !self.made.contains_key(name) {
                let made = match inner {
                    Who::Agent(agent) => self.agent(agent, notices).await?,
                    Who::Team(team) => self.team(team, notices).await?,
                };
                made.0.whole(&mut notices.warnings)?;
                self.made.insert(name.clone(), made);
            }
        }
        Ok(self.made[&who.own().name].clone())
    }

    async fn agent(&self, agent: &AgentConfig, notices: &mut Notices) -> Result<(Made, Model), Report> {
        let (outfit, model) = self.app.make(agent, self.model, self.models, self.shared, notices).await?;
        Ok((Made::Agent(Arc::new(outfit)), model))
    }

    /// A team whose members are made.
    async fn team(&self, config: &TeamConfig, notices: &mut Notices) -> Result<(Made, Model), Report> {
        let members = config.members.iter().map(|uses| (uses.clone(), self.made[&uses.agent].0.clone()));
        let members: Vec<_> = members.collect();
        let own = &config.own;
        let model = match config.asks() {
            true => self.app.model(own, self.model, self.models, notices).await?,
            // It is only told of.
            false => self.made[&config.members[0].agent].1.clone(),
        };
        let mut outfit = self.app.dress(own, Arc::clone(&model.completer), self.shared, notices).await?;
        outfit.agent.models = self.app.other_models(own, self.models, notices).await?;
        let made = Made::Team(Arc::new(Troupe { own: outfit, config: config.clone(), members }));
        made.is_priced_for(own)?;
        Ok((made, model))
    }
}

impl Outfit {
    /// The plugin that decides for a team, if one does.
    fn whole_coordinator(&self) -> Option<Arc<Plugin>> {
        let worn = self.plugins.iter().find(|worn| worn.listed == Listed::Coordinator)?;
        Some(Arc::clone(&worn.plugin))
    }

    /// The same under a ceiling.
    fn coordinator_under(&self, ceiling: &Ceiling) -> Result<Option<Arc<Plugin>>, Refused> {
        let whole = self.whole_coordinator();
        let narrowed = whole.map(|plugin| plugin.under(ceiling)).transpose();
        narrowed.map_err(|error| Refused(error.report().with_hint()))
    }
}
