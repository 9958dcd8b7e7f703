//! The composition root: builds agents that can run from a config and plugin directories. No other module knows all parts.
//!
//! - `models.rs` resolves models; `http_models.rs` builds those behind HTTP APIs.
//! - `credentials.rs` looks up the credentials that plugins are granted; `plugins.rs` selects each plugin of an agent and
//!   its grants.
//! - `agent_blueprint.rs` builds agents from their plugins, and `runner_factory.rs` builds teams from agents.
//! - `runtime_grants.rs` asks a person for capabilities that a tool turns out to lack during a run.
//! - `programs.rs` provides programs to run, `project.rs` reads the project's folder, and `run_resources.rs` holds the
//!   resources that the agents of a run share.
//! - `run_session.rs` records runs as sessions.
//! - `mcp/` connects agents to MCP servers; `mcp_login.rs` logs a person in to one.
//! - `project_trust.rs` lists what a person has not consented to yet; `check.rs` checks everything without running it;
//!   `probe.rs` sends a model one question.
//! - `serving/` serves agents to MCP clients, and `archive.rs` serves the attachments of sessions.

mod agent_blueprint;
mod archive;
mod check;
mod credentials;
mod http_models;
mod mcp;
mod mcp_login;
mod models;
mod plugins;
mod probe;
mod programs;
mod project;
mod project_trust;
mod run_resources;
mod run_session;
mod runner_factory;
mod runtime_grants;
mod serving;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};

use agent_blueprint::{AgentBlueprint, AttachedPlugin};
use models::{ModelCache, ResolvedModel};
use plugins::{as_size, check_only, only_of};
use project::ProjectFolder;
use run_resources::RunResources;
use runner_factory::RunnerFactory;
use runtime_grants::EscalationContext;
use tokio::sync::OnceCell;

pub use crate::provider::{key_variables, key_variables_in_words, local_servers_in_words};
pub use check::{AppCheck, AppCheckFailure};
pub use mcp::ConnectedMcpServer;
pub use mcp_login::{mcp_login, mcp_logout, mcp_server_at};
pub use probe::ModelProbe;
pub(crate) use project::instruction_files;
pub use project_trust::ProjectTrustStatus;
pub use run_session::{Recording, RunSession, changed, sessions};
pub use runner_factory::EntryRunner;
pub use serving::{AppReloader, AppServer, ServeOptions};

use crate::{
    agent::{AgentEntry, AgentGroup, RUN_TOOLS},
    approval::ApprovalBroker,
    capability::Grant,
    capability::{KvScope, RequestedCapabilities},
    config::{self, AgentConfig, Config, PluginSection, RunnerConfig, StepUse, ToolboxUse},
    error::{ErrorKind, Report},
    limits,
    mcp::TokenStore,
    model::{BatchedCompleter, Completer, ModelInfo, PriceTable},
    net::Keyring,
    plugin::{
        CatalogEntry, CompileConfig, CompileStep, ComponentCompiler, PluginCatalog, PluginDirs, PluginEngine,
        PluginManifest,
    },
    process::{AllowedPrograms, ProcessSlots},
    tool::{Tool, ToolBox, looks_like},
    trust::{TrustStore, UserKey},
};

/// Looks up an environment variable. The library does not read the environment itself.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Everything that agents are built from: the config, plugins, the engine that runs them, and access to the network.
pub struct App {
    config: Config,
    catalog: PluginCatalog,
    plugin_dirs: Vec<PathBuf>,
    /// The plugin directories that the command line names; a part of `plugin_dirs`.
    named_dirs: Vec<PathBuf>,
    /// Directories that are searched for plugins without being named.
    standard_dirs: Vec<PathBuf>,
    /// The standard directories that hold the plugins that come with the host, whether or not they exist.
    shipped_dirs: Vec<PathBuf>,
    /// The standard directories without the project's own.
    installed_dirs: Vec<PathBuf>,
    /// The plugin that the command line names as a model, once it was looked for.
    named_model: OnceLock<PluginCatalog>,
    project: ProjectFolder,
    prices: PriceTable,
    /// The broker to which agents send their questions.
    broker: ApprovalBroker,
    /// Validates components before they are inspected, and compiles them for the engine.
    compiler: Arc<ComponentCompiler>,
    /// Started for the first plugin: a run without plugins needs none of the memory that it reserves.
    engine: OnceCell<Arc<PluginEngine>>,
    environment: Environment,
    /// Keys of models that come from files and programs.
    keys: Keyring,
    /// Models whose requests are sent in batches.
    batched: Mutex<Vec<Arc<BatchedCompleter>>>,
    /// The key that marks the sessions of this person.
    own: UserKey,
    /// The programs that the config names.
    programs: AllowedPrograms,
    /// The MCP servers in use.
    clients: Arc<mcp::McpClientPool>,
    /// The person's approvals of MCP servers.
    trust: TrustStore,
    /// Approves everything that MCP servers offer in this run.
    approves_all: bool,
    /// The store of logins at MCP servers; `None`: nobody logs in.
    logins: Option<TokenStore>,
}

/// A runner that is ready to run, with the notices for the person.
pub struct PreparedRun {
    /// The agent or team to run.
    pub entrant: EntryRunner,
    /// Its position in the config, for hints: `agents.lead`.
    pub place: String,
    /// The group of agents that it works with, including itself.
    pub agent_group: Arc<AgentGroup>,
    /// Choices that the host made without being told to.
    pub notes: Vec<String>,
    /// Problems that do not keep the agent from running.
    pub warnings: Vec<String>,
    /// The source of its model, for hints: `providers.local in the config`, `OPENAI_API_KEY is set`.
    pub model_source: String,
    /// Its model. For a team it is the model of its coordinator, or that of its first member if the coordinator asks none.
    pub model: ModelInfo,
    /// `true` if its model is a plugin; hints then name the plugin's grants.
    pub model_is_plugin: bool,
    /// The session in which the run is recorded, if it is.
    pub session: Option<RunSession>,
}

/// Notices for a person before a run.
#[derive(Default)]
struct StartupNotices {
    notes: Vec<String>,
    warnings: Vec<String>,
}

/// The name of the agent that runs if the config names none.
pub const DEFAULT_AGENT: &str = "assistant";

impl App {
    /// Builds an app with the plugins of its directories, and with those plugins of the project's `.shelly/plugins` and
    /// the standard directories that the config asks for. `compiling` selects where components are compiled; if it is
    /// `Some(directory)`, that is in this process, and the code is cached in the directory. Agents send their questions to
    /// `broker`.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a plugin directory does not exist, or the project's folder `.shelly` cannot be used.
    pub fn new(
        mut config: Config,
        plugins: impl Into<PluginDirs>,
        compiling: impl Into<CompileConfig>,
        environment: Environment,
        broker: ApprovalBroker,
    ) -> Result<Self, Report> {
        let compiler = Arc::new(ComponentCompiler::from(compiling.into()));
        let PluginDirs { named: named_dirs, standard, shipped, offers_standard } = plugins.into();
        let plugin_dirs = config.plugin_directories(&named_dirs);
        let mut catalog = PluginCatalog::scan(&plugin_dirs, &compiler)?;
        let installed_dirs = standard;
        let standard = [vec![config.root.join(".shelly/plugins")], installed_dirs.clone()].concat();
        catalog.add_by_id(&standard, asked_for(&config).iter().map(String::as_str));
        if config.agents.is_empty() && config.plugin_dirs.is_empty() && offers_standard {
            catalog.add_all(&installed_dirs);
        }
        catalog.mark_shipped(&shipped, &installed_dirs);
        let (standard_dirs, shipped_dirs) = (standard, shipped);
        config.settle(
            |id| shipped_wants(&catalog, id),
            |id| written_manifest(&catalog, id).is_some_and(|manifest| manifest.shortens),
        );
        let project = ProjectFolder::read(&config)?;
        config.approved = project.approved();
        let prices = project.prices()?;
        let programs = programs::programs(&config, &environment, ProcessSlots::default());
        let (engine, own, trust) = (OnceCell::new(), UserKey::default(), TrustStore::new(None));
        Ok(Self {
            config,
            catalog,
            plugin_dirs,
            named_dirs,
            standard_dirs,
            shipped_dirs,
            installed_dirs,
            named_model: OnceLock::new(),
            project,
            prices,
            broker,
            compiler,
            engine,
            environment,
            keys: Keyring::default(),
            batched: Mutex::default(),
            own,
            programs,
            clients: Arc::default(),
            trust,
            approves_all: false,
            logins: None,
        })
    }

    /// Replaces the engine, the MCP connections and the slots for programs by those of another app.
    fn with_engine_of(mut self, other: &Self) -> Self {
        let places = other.programs.ground().places.clone();
        self.programs = programs::programs(&self.config, &self.environment, places);
        (self.engine, self.clients) = (other.engine.clone(), Arc::clone(&other.clients));
        // The compiler belongs to the engine that it compiles for.
        self.compiler = Arc::clone(&other.compiler);
        self.catalog.set_compiler(&self.compiler);
        self
    }

    /// Sets the key of the person: sessions that it marks are resumed without a question. Without a key every session is
    /// asked about.
    pub fn with_own_key(mut self, own: UserKey) -> Self {
        self.own = own;
        self
    }

    /// Sets the person's approvals of MCP servers; without them each server is met for the first time. With
    /// `approves_all`, everything that the servers offer is approved as long as this app lives.
    pub fn with_approvals(mut self, trust: TrustStore, approves_all: bool) -> Self {
        (self.trust, self.approves_all) = (trust, approves_all);
        self
    }

    /// Sets the store of logins at MCP servers.
    pub fn with_logins(mut self, logins: Option<TokenStore>) -> Self {
        self.logins = logins;
        self
    }

    /// Builds the agent or team `name` with the model `model`; each defaults to that of the config. A config without
    /// agents has one, [`DEFAULT_AGENT`], with every plugin that needs no grant; a config without models uses one that is
    /// discovered. If the runner or one of its members may delegate, the other agents of the config are built too. `model`
    /// applies to all of them. The run is recorded as `recording` says.
    ///
    /// # Errors
    ///
    /// A [`Report`]: no such agent or model, a required plugin cannot be loaded, or the session cannot be used.
    pub async fn agent(
        &self,
        name: Option<&str>,
        model: Option<&str>,
        recording: Recording,
    ) -> Result<PreparedRun, Report> {
        self.open_plugins(name, model).await?;
        let mut notices = StartupNotices { notes: Vec::new(), warnings: self.project.warnings().to_vec() };
        notices.warnings.extend(self.recover_changes());
        notices.warnings.extend(self.missing_programs());
        let default;
        let who = match self.is_default(name) {
            true => {
                default = self.default_agent(&mut notices.warnings);
                RunnerConfig::Agent(&default)
            }
            false => name.map_or_else(|| self.config.entry(), |name| self.config.who(name))?,
        };
        let (own, (mut all, others)) = (who.own(), self.runners_with(who));
        let starts_others = all.iter().any(|who| who.own().options.max_delegation_depth > 0);
        let called: Vec<_> = all.iter().flat_map(|who| &who.own().agent_tools).map(|uses| &*uses.agent).collect();
        let shared = RunResources::new(&self.project, &self.broker, self.changes());
        let served: Vec<_> = all.iter().chain(&others).map(|who| who.own()).collect();
        let servers = self.reach_servers(&served, &mut notices).await;
        let (models, shared) = (ModelCache::new(&shared.stores), shared.with_servers(servers));
        let mut makers = RunnerFactory::new(self, model, &models, &shared);
        let (made, made_model) = makers.make(who, &mut notices).await?;
        let entrant = made.whole(&mut Vec::new())?;
        let agent_group = shared.agent_group().with_limits(self.config.runs.limits());
        // A runner with a limit on concurrent runs is registered even if nobody can start it: its permits count for its
        // members.
        let is_known = |inner: &&RunnerConfig<'_>| {
            starts_others || called.contains(&inner.name()) || inner.own().max_concurrency > 0
        };
        for inner in all.iter().filter(is_known) {
            let made = makers.made(inner.name());
            agent_group.registry.register_under(entry(inner.own()), move |ceiling| made.under(ceiling));
        }
        for other in others {
            match makers.make_priced(other, own, &mut notices).await {
                Ok(made) => {
                    agent_group.registry.register_under(entry(other.own()), move |ceiling| made.under(ceiling));
                    all.push(other);
                }
                // The requested runner can work without this one.
                Err(report) => {
                    let (word, name) = (other.own().word(), other.name().escape_debug());
                    notices.warnings.push(format!("{word} `{name}` is left out: {report}"));
                }
            }
        }
        let ResolvedModel { completer, source: model_source, is_plugin: model_is_plugin } = made_model;
        let model = completer.info().clone();
        let (agent_group, session) = self.record(recording, (own, &model), agent_group, &all, &shared)?;
        let agent_group = Arc::new(agent_group);
        let entrant = entrant.with_agent_group(&agent_group);
        notices.warnings.extend(self.engine_warnings());
        let StartupNotices { notes, warnings } = notices;
        let place = own.place();
        Ok(PreparedRun { entrant, place, agent_group, notes, warnings, model, model_source, model_is_plugin, session })
    }

    /// Returns the runners that a run of `who` needs, including itself, and the others that it may start.
    fn runners_with<'a>(&'a self, who: RunnerConfig<'a>) -> (Vec<RunnerConfig<'a>>, Vec<RunnerConfig<'a>>) {
        let all = self.config.needed_by(who);
        let starts_others = all.iter().any(|who| who.own().options.max_delegation_depth > 0);
        let is_other = |other: &RunnerConfig<'_>| starts_others && all.iter().all(|had| had.name() != other.name());
        let others = self.config.runners().filter(is_other).collect();
        (all, others)
    }

    /// Validates and compiles the plugins of a run before they are used one by one. Several are compiled at once, and
    /// dropping the future ends the compiling processes. Mistakes in a plugin are reported where it is needed.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such agent.
    async fn open_plugins(&self, name: Option<&str>, model: Option<&str>) -> Result<(), Report> {
        let default;
        let who = match self.is_default(name) {
            true => {
                // The kinds of a plugin without a manifest are known only from its component.
                let lone = self.catalog.iter().filter(|(_, plugin)| plugin.written_manifest().is_none());
                self.catalog.open(lone.map(|(id, _)| id), CompileStep::Compile).await;
                default = self.default_agent(&mut Vec::new());
                RunnerConfig::Agent(&default)
            }
            false => name.map_or_else(|| self.config.entry(), |name| self.config.who(name))?,
        };
        let (all, others) = self.runners_with(who);
        let agents = || all.iter().chain(&others).map(|who| who.own());
        let models = agents().flat_map(|agent| {
            let of_plugins = agent.all_plugins().flat_map(|(_, _, uses)| &uses.models).map(|name| Some(name.as_str()));
            of_plugins.chain([model.or(agent.provider.as_deref())]).collect::<Vec<_>>()
        });
        let models = models.filter_map(|name| self.model_plugin(name));
        let ids: BTreeSet<_> =
            agents().flat_map(|agent| agent.all_plugins()).map(|(_, id, _)| id).chain(models).collect();
        self.catalog.open(ids, CompileStep::Compile).await;
        Ok(())
    }

    /// Returns the id of the plugin behind the model `name`, or behind the first model of the config.
    fn model_plugin<'a>(&'a self, name: Option<&'a str>) -> Option<&'a str> {
        match self.config.provider(name) {
            Ok(provider) => provider?.plugin.as_deref(),
            // A plugin that the config does not name can be named as a model.
            Err(_) => name,
        }
    }

    /// Validates all plugins that are loaded into the app, as [`App::check`] needs them. Time and memory are bounded, and
    /// dropping the future ends the validating processes.
    pub async fn validate_plugins(&self) {
        self.catalog.open(self.catalog.iter().map(|(id, _)| id), CompileStep::Validate).await;
    }

    /// Returns `true` if `name` selects the default agent of a config without agents.
    fn is_default(&self, name: Option<&str>) -> bool {
        self.config.agents.is_empty() && name.is_none_or(|name| name == DEFAULT_AGENT)
    }

    /// Builds the blueprint of an agent, and resolves its model.
    async fn make(
        &self,
        config: &AgentConfig,
        model: Option<&str>,
        models: &ModelCache,
        shared: &RunResources,
        notices: &mut StartupNotices,
    ) -> Result<(AgentBlueprint, ResolvedModel), Report> {
        let model = self.model(config, model, models, notices).await?;
        if config.bounds_usd().is_some() && model.completer.info().price.is_none() {
            return Err(no_price(config, &model.completer.info().model));
        }
        let mut blueprint = self.dress(config, Arc::clone(&model.completer), shared, notices).await?;
        blueprint.agent.models = self.other_models(config, models, notices).await?;
        self.add_agent_tools(config, &mut blueprint, notices);
        match model.completer.info().context_window.tokens() {
            None => notices.warnings.extend(self.sleepers(config, model.is_plugin)),
            Some(_) => notices.warnings.extend(self.missing_effects(config)),
        }
        Ok((blueprint, model))
    }

    /// Builds the blueprint of an agent around a resolved model.
    async fn dress(
        &self,
        config: &AgentConfig,
        completer: Arc<dyn Completer>,
        shared: &RunResources,
        notices: &mut StartupNotices,
    ) -> Result<AgentBlueprint, Report> {
        let mut blueprint = AgentBlueprint::new(config, completer, self.keeper(config), &shared.changes);
        blueprint.agent.context = self.project.context();
        blueprint.agent.delegable = agent_blueprint::delegable(config, &self.config);
        for toolbox in &config.toolboxes {
            let place = format!("{}.toolboxes", config.place());
            let toolbox = match toolbox {
                ToolboxUse::Own(toolbox) => toolbox,
                // Its plugins are among the agent's plugins.
                ToolboxUse::Shipped(_) => continue,
                ToolboxUse::Server(uses) => {
                    // An unreachable server was reported before.
                    blueprint.servers.extend(shared.servers.of(uses));
                    continue;
                }
            };
            if let Some(running) = self.running(toolbox) {
                blueprint.running.push(running);
                continue;
            }
            let tools = shared.tools(&config.name, toolbox)?;
            extend(&mut blueprint.agent.tools, tools, &place, &mut notices.warnings);
        }
        // The effects are either all the host's defaults or all from the config.
        let has_defaults = config.effects.iter().flatten().any(|step| step.is_default);
        for (listed, id, uses) in config.all_plugins() {
            if let Some(warning) = self.vain_entry(config, listed, id) {
                notices.warnings.push(warning);
                continue;
            }
            match self.load(config, (listed, id), uses, &shared.stores, &mut notices.warnings).await {
                Ok(plugin) => {
                    let is_default = listed == PluginSection::Effects && has_defaults;
                    let (confirm, changes, only) = (uses.confirm, uses.changes, only_of(config, listed, id));
                    let roles = config.roles(listed, id);
                    blueprint.plugins.push(AttachedPlugin {
                        plugin,
                        confirm,
                        changes,
                        only,
                        listed,
                        roles,
                        is_default,
                    });
                }
                // The config does not name the plugin; it was included because it is installed.
                Err(report) if self.config.agents.is_empty() => {
                    notices.warnings.push(format!("plugin `{id}` is left out: {report}"));
                }
                Err(report) => return Err(report),
            }
        }
        check_only(
            config,
            blueprint.plugins.iter().map(|attached_plugin| (attached_plugin.listed, &*attached_plugin.plugin)),
        )?;
        blueprint.middleware = config.middleware.iter().map(StepUse::own).map(|own| own.and_then(Result::ok)).collect();
        blueprint.ask = shared.ask();
        blueprint.skills = self.project.skills(config)?;
        Ok(blueprint)
    }

    /// Gives an agent its tools that run other agents.
    fn add_agent_tools(&self, config: &AgentConfig, blueprint: &mut AgentBlueprint, notices: &mut StartupNotices) {
        let place = format!("agents.{}.agent_tools", config.name);
        for uses in &config.agent_tools {
            let about = self.config.who(&uses.agent).map_or("", |who| &who.own().description);
            // An invalid entry was refused when the config was read.
            let Ok(tool) = uses.tool(about) else { continue };
            blueprint.calls.push((tool.name().to_owned(), uses.agent.clone()));
            extend(&mut blueprint.agent.tools, ToolBox::new().with(tool), &place, &mut notices.warnings);
        }
    }

    /// Returns the context in which tools of an agent ask for missing grants.
    fn keeper(&self, agent: &AgentConfig) -> EscalationContext {
        EscalationContext {
            broker: self.broker.clone(),
            agent: agent.name.as_str().into(),
            root: self.config.root.clone(),
            home: (self.environment)("HOME").map(PathBuf::from),
            roots: Arc::clone(&self.clients.roots),
            opened: Arc::default(),
        }
    }

    /// Warns of effects that shorten a conversation only at a share of the model's context window, if that window is not
    /// known. A plugin model never reports a window, so for one of those the host's default effects cause no warning.
    fn sleepers(&self, agent: &AgentConfig, model_is_plugin: bool) -> Option<String> {
        let is_sleeper = |id: &&str| self.catalog.get(id).and_then(Result::ok).is_some_and(|it| it.manifest.shortens);
        let steps = agent.effects.iter().flatten().filter(|step| !(step.is_default && model_is_plugin));
        let kinds = steps.map(|step| step.kind.as_str()).filter(is_sleeper);
        let kinds: Vec<_> = kinds.map(|kind| format!("`{kind}`")).collect();
        (!kinds.is_empty()).then(|| {
            let (name, kinds) = (&agent.name, kinds.join(", "));
            format!(
                "agents.{name}.effects: how much the model can take is not known, so {kinds} may do nothing before it refuses \
                 a request as too long: set `context_window` of the model"
            )
        })
    }

    /// Builds the default agent: every plugin with tools that needs no grant, with nothing granted, and the default
    /// effects.
    fn default_agent(&self, warnings: &mut Vec<String>) -> AgentConfig {
        let mut config = AgentConfig { name: DEFAULT_AGENT.into(), ..AgentConfig::default() };
        let mut left_out = Vec::new();
        for (id, plugin) in self.catalog.iter() {
            let manifest = match plugin.manifest() {
                Ok(manifest) => manifest,
                Err(error) => {
                    warnings.push(format!("plugin `{id}` is left out: {}", error.report()));
                    continue;
                }
            };
            // Models and middleware are used only if they are named.
            if !manifest.kinds.iter().any(|kind| kind.is_tools()) {
                continue;
            }
            let PluginManifest { wants, files_are_optional, .. } = manifest;
            let missing = Grant::default().missing(wants).into_iter();
            let missing = missing.filter(|missing| !(*files_are_optional && missing.capability == "files"));
            let lines: Vec<_> = missing.map(|missing| format!("`{}`", missing.line)).collect();
            match lines.is_empty() {
                true => drop(config.plugins.insert(id.into(), None)),
                false => left_out.push(format!("{id} ({})", lines.join(", "))),
            }
        }
        // A person who names a directory expects its plugins to be used.
        if !left_out.is_empty() && !self.plugin_dirs.is_empty() {
            let plugins = left_out.join(", ");
            warnings.push(format!("plugins are left out that want what a config must grant to an agent: {plugins}"));
        }
        config.settle(self.config.may_know_window(&config), |id| shipped_wants(&self.catalog, id), |_| false);
        config
    }

    /// Resolves the models to which plugins of an agent may send requests, besides its own.
    async fn other_models(
        &self,
        agent: &AgentConfig,
        models: &ModelCache,
        notices: &mut StartupNotices,
    ) -> Result<Arc<BTreeMap<String, Arc<dyn Completer>>>, Report> {
        let mut others = BTreeMap::new();
        for name in agent.all_plugins().flat_map(|(_, _, uses)| &uses.models) {
            if !others.contains_key(name) {
                let model = self.model(agent, Some(name), models, notices).await?;
                if agent.bounds_usd().is_some() && model.completer.info().price.is_none() {
                    return Err(no_price(agent, &model.completer.info().model));
                }
                others.insert(name.clone(), model.completer);
            }
        }
        Ok(Arc::new(others))
    }

    /// Takes the engine's warnings about compiled code; each is returned once.
    fn engine_warnings(&self) -> Vec<String> {
        self.engine.get().map(|engine| engine.take_warnings()).unwrap_or_default()
    }

    async fn engine(&self) -> Result<&Arc<PluginEngine>, Report> {
        self.engine.get_or_try_init(async || start_engine(&self.config, &self.compiler)).await
    }
}

/// Returns the ids of plugins that a config asks for, including the default effects of agents that name none.
fn asked_for(config: &Config) -> Vec<String> {
    let mut ids: Vec<_> = config.providers.iter().filter_map(|provider| provider.plugin.clone()).collect();
    if config.agents.is_empty() {
        ids.extend(config::default_effects(&AgentConfig::default()).into_iter().map(|step| step.kind));
    }
    for agent in config.everyone() {
        ids.extend(agent.all_plugins().map(|(_, id, _)| id.to_owned()));
        if agent.effects.is_none() {
            ids.extend(config::default_effects(agent).into_iter().map(|step| step.kind));
        }
    }
    ids
}

/// Adds the tools of a plugin that `place` in the config lists, or only those named in `only`. A tool whose name could be
/// taken for a tool of the host is left out with a warning.
///
/// # Errors
///
/// A [`Report`] if two tools of the plugin have the same name.
fn add_plugin_tools(
    tools: &mut ToolBox,
    of_plugin: impl Iterator<Item = Arc<dyn Tool>>,
    only: Option<&[String]>,
    place: &str,
    warnings: &mut Vec<String>,
) -> Result<(), Report> {
    // `ask_user` exists only if there is a person, and `load_skill` only if there are skills.
    let own = || RUN_TOOLS.into_iter().chain(["ask_user", "load_skill"]);
    let taken = |name: &str| own().find(|own| *own == name || looks_like(own, name));
    let mut free = ToolBox::new();
    for tool in of_plugin.filter(|tool| only.is_none_or(|only| only.contains(&tool.spec().name))) {
        match taken(&tool.spec().name) {
            Some(own) => warnings.push(format!(
                "{place}: `{}` of `{}` is left out: it could be taken for `{own}` of the host",
                tool.spec().name,
                tool.origin()
            )),
            None => free.register(tool).map_err(|clash| Report::new(ErrorKind::Plugin, clash.to_string()))?,
        }
    }
    extend(tools, free, place, warnings);
    Ok(())
}

/// Returns the manifest file of a plugin without reading its component.
fn written_manifest<'a>(catalog: &'a PluginCatalog, id: &str) -> Option<&'a PluginManifest> {
    catalog.entry(id).and_then(CatalogEntry::written_manifest)
}

/// Returns the capabilities that a shipped plugin asks for; `None` for any other plugin.
fn shipped_wants(catalog: &PluginCatalog, id: &str) -> Option<(RequestedCapabilities, KvScope)> {
    let plugin = catalog.entry(id).filter(|plugin| catalog.is_shipped(plugin))?;
    plugin.written_manifest().map(|manifest| (manifest.wants.clone(), manifest.kv))
}

/// Adds tools that `place` in the config gives, and warns of name clashes.
fn extend(tools: &mut ToolBox, more: ToolBox, place: &str, warnings: &mut Vec<String>) {
    for clash in tools.extend(more) {
        warnings.push(format!("{place}: {clash}; the first one is used"));
    }
}

fn no_price(config: &AgentConfig, model: &str) -> Report {
    Report::new(ErrorKind::Usage, format!("no price of the model {} is known", model.escape_debug()))
        .cause({
            let key = config.bounds_usd().unwrap_or("delegable.budget.usd");
            format!("{}.{key} bounds what it may cost", config.place())
        })
        .hint("name its price: providers: [{…, price: {input: 0.25, output: 2}}], in dollars per million tokens")
}

/// Starts the engine with the stack size and the total guest memory of the config.
fn start_engine(config: &Config, compiler: &Arc<ComponentCompiler>) -> Result<Arc<PluginEngine>, Report> {
    let stack_bytes = config.limits.stack_bytes.map_or(limits::PLUGIN_STACK_BYTES, as_size);
    let named = config.limits.total_memory_bytes.map(as_size);
    let (memory, _) = PluginEngine::guest_memory_for(named, config.largest_memory_bytes());
    PluginEngine::with_stack(Arc::clone(compiler), stack_bytes).map(|engine| Arc::new(engine.with_guest_memory(memory)))
}

/// Returns the registry entry of an agent, as other agents see it.
fn entry(config: &AgentConfig) -> AgentEntry {
    AgentEntry {
        skills: config.skills_tags.clone(),
        estimated_cost: config.estimated_cost,
        max_concurrency: (config.max_concurrency > 0).then_some(config.max_concurrency),
        ..AgentEntry::new(config.name.as_str(), config.description.as_str())
    }
}
