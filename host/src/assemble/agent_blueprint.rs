//! The blueprint of an agent, from which it is built under the ceiling of the agent that starts it.

use std::{
    collections::{BTreeSet, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    apis::GrantedApi,
    mcp::{GrantedServer, ServerTools},
    plugin_grants::own_ceiling,
    plugin_tools::PluginToolMaker,
    program_toolbox::ProgramToolbox,
    rebuilt_tools::RebuiltTools,
    tool_conflicts::{add_plugin_tools, extend},
};
use crate::{
    agent::{
        Agent, AgentRefusal, AgentRunOptions, Effect, GrantDecisions, LoggingMiddleware, RecoveryMiddleware,
        RunMiddleware, TimeoutMiddleware,
    },
    approval::ApprovalBroker,
    builtin::{ApprovalMiddleware, EscalationContext},
    capability::{CapabilityDecision, Ceiling, Grant},
    change::ChangeApplier,
    config::{AgentConfig, ChangesUse, HostMiddleware, PluginRoles, PluginSection, RemoteAgentConfig},
    error::{ErrorKind, Report},
    limits,
    model::Completer,
    plugin::{Plugin, PluginEffect, PluginError, PluginModelMiddleware, PluginRunMiddleware, PluginToolMiddleware},
    skill::Skill,
    tool::Tool,
};

/// An agent without its plugins, and the plugins: enough to build it under any ceiling.
pub(crate) struct AgentBlueprint {
    /// The agent with the tools of its toolboxes.
    pub agent: Agent,
    /// Its plugins in order.
    pub plugins: Vec<AttachedPlugin>,
    /// The MCP servers that it uses.
    pub servers: Vec<GrantedServer>,
    /// The APIs of which it uses operations.
    pub apis: Vec<GrantedApi>,
    /// The requests and the credential that it needs if it is an agent of another host.
    remote: Option<Grant>,
    /// Its toolboxes that run programs.
    pub running: Vec<ProgramToolbox>,
    /// Its tools that run agents: the tool's name and the agent's name.
    pub calls: Vec<(String, String)>,
    /// The ceiling of its own config, which applies besides that of the agent that starts it.
    own_ceiling: Ceiling,
    /// Its middleware in the order of its config: one of the host, or `None` for the next plugin of that list.
    pub middleware: Vec<Option<HostMiddleware>>,
    /// The tool with which it asks a person, if there is a person who answers.
    pub ask: Option<Arc<dyn Tool>>,
    pub skills: Vec<Skill>,
    pub root: PathBuf,
    pub broker: ApprovalBroker,
    /// The context in which its tools ask for missing grants.
    escalation: EscalationContext,
    /// Applies the file changes that its tools propose.
    changes: ChangeApplier,
    /// Cache of built agents by the ceilings that they were built under, up to [`limits::OUTFITS_KEPT`]. There is one for
    /// each distinct chain of agents that start each other, which is a handful.
    made: Mutex<HashMap<Vec<Arc<str>>, Agent>>,
}

/// A plugin of an agent.
#[derive(Clone)]
pub(crate) struct AttachedPlugin {
    pub plugin: Arc<Plugin>,
    /// Asks a person before each call of its tools.
    pub confirm: bool,
    /// The names of the tools to use; `None`: all.
    pub only: Option<Vec<String>>,
    /// Handling of file changes that its tools propose.
    pub changes: ChangesUse,
    /// The list of the config in which it stands.
    pub listed: PluginSection,
    /// The roles that this entry gives it.
    pub roles: PluginRoles,
    /// `true` if the host added it by default.
    pub is_default: bool,
    /// The tools that follow the plugin when it is built again; `None` if it never is.
    pub rebuilt: Option<RebuiltTools>,
}

impl AgentBlueprint {
    /// Builds the blueprint from the parts of an agent's config other than its plugins.
    pub fn new(
        config: &AgentConfig,
        completer: Arc<dyn Completer>,
        escalation: EscalationContext,
        changes: &ChangeApplier,
    ) -> Self {
        let mut agent = Agent::new(config.name.as_str(), config.instructions.as_str(), completer)
            .with_description(config.description.as_str())
            .with_budget(config.budget);
        if let Some(prefix) = config.prefix.as_deref().filter(|prefix| !prefix.is_empty()) {
            agent.prefix = prefix.into();
        }
        agent.options = options(config);
        let own_ceiling = own_ceiling(config, &escalation.root);
        let (root, broker, changes) = (escalation.root.clone(), escalation.broker.clone(), changes.clone());
        let (plugins, servers, apis, running, calls, middleware, skills) = Default::default();
        let made = Mutex::default();
        let remote = config.remote.as_ref().map(RemoteAgentConfig::grant);
        Self {
            agent,
            plugins,
            servers,
            apis,
            remote,
            running,
            calls,
            own_ceiling,
            middleware,
            ask: None,
            skills,
            root,
            broker,
            escalation,
            changes,
            made,
        }
    }

    /// Builds the agent under its own ceiling only.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the tools of a plugin clash with each other.
    pub fn agent(&self, warnings: &mut Vec<String>) -> Result<Agent, Report> {
        self.equipped(self.plugins.clone(), &self.own_ceiling, Vec::new(), warnings)
    }

    /// Builds the agent under the ceiling of the agent that starts it. A plugin that only has tools is left out if its
    /// remaining grants do not suffice, and so is a default plugin. If a plugin that watches over the agent loses a grant,
    /// there is no agent.
    ///
    /// # Errors
    ///
    /// [`AgentRefusal`] with the line of config that would help.
    pub fn under(&self, ceiling: &Ceiling) -> Result<Agent, AgentRefusal> {
        let places = ceiling.paths();
        if let Some(agent) = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(&places) {
            return Ok(agent.clone());
        }
        let refused = |report: Report| AgentRefusal(report.with_hint());
        let name = &self.agent.name;
        let (mut plugins, mut notices) = (Vec::new(), Vec::new());
        for attached_plugin in &self.plugins {
            let plugin = &attached_plugin.plugin;
            let manifest = &plugin.package().manifest;
            match plugin.under(ceiling) {
                Ok(narrowed) => {
                    // With less than its grants it would silently stop watching.
                    let (less, before) = (narrowed.grant(), plugin.grant());
                    let is_less = less.powers != before.powers
                        || less.models != before.models
                        || less.http != before.http
                        || less.credentials != before.credentials;
                    if !manifest.is_tools() && is_less {
                        let refused = narrowed.settings().refused(manifest).into_iter();
                        let lines = refused.map(|(place, missing)| format!("`{}` under {place}", missing.line));
                        let lines = lines.collect::<Vec<_>>().join(", ");
                        let id = &manifest.id;
                        if attached_plugin.is_default {
                            notices.push(format!(
                                "agent `{name}` runs without `{id}`, which would have fewer grants; to keep it, grant {lines}"
                            ));
                            continue;
                        }
                        return Err(AgentRefusal(format!("its guard `{id}` would have fewer grants; grant {lines}")));
                    }
                    plugins.push(AttachedPlugin { plugin: narrowed, ..attached_plugin.clone() });
                }
                Err(error @ PluginError::NotGranted { .. }) if manifest.is_tools() => {
                    let AgentRefusal(why) = refused(error.report());
                    notices.push(format!("agent `{name}` runs without plugin `{}`: {why}", manifest.id));
                }
                Err(error) => return Err(refused(error.report())),
            }
        }
        let ceiling = self.own_ceiling.meet(ceiling);
        let agent = self.equipped(plugins, &ceiling, notices, &mut Vec::new()).map_err(refused)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.len() >= limits::OUTFITS_KEPT {
            made.clear();
        }
        made.insert(places, agent.clone());
        Ok(agent)
    }

    /// Builds the agent with these plugins, and with the servers, APIs and programs that `ceiling` allows.
    fn equipped(
        &self,
        plugins: Vec<AttachedPlugin>,
        ceiling: &Ceiling,
        mut notices: Vec<String>,
        warnings: &mut Vec<String>,
    ) -> Result<Agent, Report> {
        let mut agent = self.agent.clone();
        self.drop_barred(&mut agent, ceiling, &mut notices);
        let mut decisions = Vec::new();
        decisions.extend(self.decide_remote(ceiling)?);
        let mut own = self.middleware.iter();
        for attached_plugin in &plugins {
            let manifest = &attached_plugin.plugin.package().manifest;
            decisions.extend(attached_plugin.plugin.settings().decisions(manifest));
            if attached_plugin.listed == PluginSection::Middleware {
                // Middleware of the host that stands before this plugin.
                own.by_ref().map_while(Option::as_ref).for_each(|own| add_own(&mut agent, own));
            }
            self.equip(&mut agent, attached_plugin, warnings)?;
        }
        own.flatten().for_each(|own| add_own(&mut agent, own));
        for granted_server in &self.servers {
            let decided = granted_server.decisions(ceiling, &format!("agents.{}.toolboxes", agent.name));
            match decided.iter().find(|decision| !decision.allowed) {
                None => {
                    let tools = ServerTools::new(granted_server.clone(), &agent.name, &self.broker);
                    agent = agent.with_source(Arc::new(tools));
                }
                Some(decision) => notices.push(format!(
                    "agent `{}` runs without the MCP server `{}`; to keep it, grant `{}` under {}",
                    agent.name, granted_server.uses.name, decision.capability, decision.rule
                )),
            }
            decisions.extend(decided);
        }
        for api in &self.apis {
            let place = format!("agents.{}.openapi", agent.name);
            let (tools, decided) = api.under(&agent.name, ceiling, &self.broker, &place);
            for decision in decided.iter().filter(|decision| !decision.allowed) {
                notices.push(format!(
                    "agent `{}` runs without operations of the API `{}`; to keep them, grant `{}` under {}",
                    agent.name,
                    api.name(),
                    decision.capability,
                    decision.rule
                ));
            }
            extend(&mut agent.tools, tools, &place, warnings);
            decisions.extend(decided);
        }
        for running in &self.running {
            let place = format!("agents.{}.toolboxes", agent.name);
            let (tools, decided) = running.under(&agent.name, ceiling, &place)?;
            for decision in decided.iter().filter(|decision| !decision.allowed) {
                notices.push(format!(
                    "agent `{}` runs without programs of the toolbox `{}`; to keep them, grant `{}` under {}",
                    agent.name,
                    running.name(),
                    decision.capability,
                    decision.rule
                ));
            }
            extend(&mut agent.tools, tools, &place, warnings);
            decisions.extend(decided);
        }
        let shortens = |effect: &Arc<dyn Effect>| {
            let of_it = |attached_plugin: &&AttachedPlugin| *attached_plugin.plugin.id() == *effect.name();
            plugins.iter().find(of_it).is_some_and(|attached_plugin| attached_plugin.plugin.package().manifest.shortens)
        };
        // Effects that shorten the conversation run first, so the others see the shortened one.
        agent.effects.sort_by_key(|effect| !shortens(effect));
        agent.grants = Arc::new(GrantDecisions::new(decisions, notices));
        // Every agent can ask if there is a person. The toolbox `ask` has the same tool, so a clash is expected.
        if let Some(ask) = &self.ask {
            let _ = agent.tools.register(Arc::clone(ask));
        }
        Ok(agent.with_skills(self.skills.clone(), &self.root))
    }

    /// Returns the decision on the requests to another host, if this is an agent of one.
    ///
    /// # Errors
    ///
    /// A [`Report`] with the line of config that would help if `ceiling` allows less than they need.
    fn decide_remote(&self, ceiling: &Ceiling) -> Result<Option<CapabilityDecision>, Report> {
        let Some(needed) = &self.remote else { return Ok(None) };
        let name = &self.agent.name;
        if let Some((rule, missing)) = ceiling.withheld(needed).into_iter().next() {
            let message = format!("the agent `{name}` of another host may not be reached");
            let report = Report::new(ErrorKind::Usage, message);
            return Err(report.hint(format!("grant `{}` under {rule}", missing.line)));
        }
        let requests: BTreeSet<_> = needed.http.rules().map(ToString::to_string).collect();
        let requests = requests.into_iter().collect::<Vec<_>>().join(", ");
        Ok(Some(CapabilityDecision {
            plugin: format!("a2a:{name}").into(),
            capability: format!("http: [{requests}]"),
            allowed: true,
            rule: format!("agents.{name}.remote").into(),
        }))
    }

    /// Drops the tools that run agents which `ceiling` does not admit. A tool of the same name that runs no agent stays, and
    /// a plugin's tool of that name can take the place of a dropped one.
    fn drop_barred(&self, agent: &mut Agent, ceiling: &Ceiling, notices: &mut Vec<String>) {
        for (tool, other) in self.calls.iter().filter(|(_, other)| !ceiling.admits(other)) {
            let is_agent = |there: &Arc<dyn Tool>| there.spec().name == *tool && there.runs_agents();
            if agent.tools.iter().any(is_agent) {
                agent.tools = agent.tools.without(std::slice::from_ref(tool));
                notices.push(format!(
                    "agent `{}` runs without its tool `{tool}`, because it may not start `{other}`",
                    agent.name
                ));
            }
        }
    }

    /// Gives an agent the roles of a plugin: tools, effect, middleware.
    fn equip(
        &self,
        agent: &mut Agent,
        attached_plugin: &AttachedPlugin,
        warnings: &mut Vec<String>,
    ) -> Result<(), Report> {
        let AttachedPlugin { plugin, listed, roles, .. } = attached_plugin;
        let place = format!("agents.{}.{listed}", agent.name);
        if roles.effect {
            self.equip_tools(agent, attached_plugin, &place, warnings)?;
            agent.effects.extend(PluginEffect::new(plugin).map(|effect| Arc::new(effect) as _));
        }
        if roles.middleware {
            agent.middleware.extend(PluginRunMiddleware::new(plugin).map(|around| Arc::new(around) as _));
            agent.model_middleware.extend(PluginModelMiddleware::new(plugin).map(|around| Arc::new(around) as _));
            if let Some(around) = PluginToolMiddleware::new(plugin) {
                // Two entries of one plugin with different params ask about different things under one name.
                let digest = format!("{} {}", plugin.package().named_digest(), plugin.settings().params.get());
                let asking = ApprovalMiddleware::new(Arc::new(around), self.broker.clone(), &*agent.name, digest);
                *agent = agent.clone().with_tool_middleware(asking);
            }
        }
        Ok(())
    }

    fn equip_tools(
        &self,
        agent: &mut Agent,
        AttachedPlugin { plugin, confirm, changes, only, rebuilt, .. }: &AttachedPlugin,
        place: &str,
        warnings: &mut Vec<String>,
    ) -> Result<(), Report> {
        if !plugin.offers_tools() {
            return Ok(());
        }
        let maker = PluginToolMaker {
            agent: Arc::clone(&agent.name),
            escalation: self.escalation.clone(),
            broker: self.broker.clone(),
            applier: self.changes.clone(),
            confirm: *confirm,
            changes: *changes,
        };
        let tools = match rebuilt {
            Some(rebuilt) => rebuilt.follow(plugin, maker),
            None => maker.tools(plugin),
        };
        add_plugin_tools(&mut agent.tools, tools.into_iter(), only.as_deref(), place, warnings)
    }
}

/// Adds a middleware of the host around an agent's runs, inside the existing ones.
fn add_own(agent: &mut Agent, own: &HostMiddleware) {
    let around: Arc<dyn RunMiddleware> = match own {
        HostMiddleware::Timeout(limit) => Arc::new(TimeoutMiddleware(*limit)),
        HostMiddleware::Recovery => Arc::new(RecoveryMiddleware),
        HostMiddleware::Logger => Arc::new(LoggingMiddleware),
        HostMiddleware::Budget(budget) => {
            agent.budget = agent.budget.meet(budget);
            return;
        }
    };
    agent.middleware.push(around);
}

fn options(config: &AgentConfig) -> AgentRunOptions {
    let options = &config.options;
    AgentRunOptions {
        max_iterations: options.iterations(),
        warn_iterations: options.warn_iterations,
        max_delegation_depth: options.max_delegation_depth,
        max_handoffs: options.max_handoffs,
        interaction: options.interaction_mode,
        question_timeout: options.question_timeout,
        behavioral_hints: !options.disable_behavioral_hints,
    }
}
