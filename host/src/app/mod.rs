//! The composition root: from a config and plugin directories to an agent that can run. The only room that knows every
//! part: `models.rs` makes models, `servers.rs` those behind HTTP APIs, `credentials.rs` looks up what plugins are granted,
//! `plugins.rs` says what each plugin of an agent is given, `outfit.rs` makes agents of their plugins, `opening.rs` gives
//! these what they turn out to lack and a person opens, `teams.rs` makes teams of agents, `programs.rs` has programs run for them, `project.rs` reads the
//! project's folder, `shared.rs` makes what agents share,
//! `session.rs` has what they do written down, `mcp/` reaches MCP servers for them, at which `mcp_login.rs` logs people in,
//! `trust.rs` tells what a person has not said yes to, `check.rs` looks at all of it without running any, `probe.rs` asks a
//! model one question, `serving/` has all of it served to MCP clients, with what `archive.rs` finds in sessions.

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

/// Looks up a variable of the environment. The library does not read it itself.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Everything that agents are made of: config, plugins, the engine that runs them, the way to the network.
pub struct App {
    config: Config,
    catalog: PluginCatalog,
    plugin_dirs: Vec<PathBuf>,
    /// Of them those that the command line names.
    named_dirs: Vec<PathBuf>,
    /// Where those lie that need not be named.
    standard_dirs: Vec<PathBuf>,
    /// Of them those in which plugins lie that come with the host, there or not.
    shipped_dirs: Vec<PathBuf>,
    /// Of these all but the project's own.
    installed_dirs: Vec<PathBuf>,
    /// The one that the command line names as a model, once it was looked for.
    named_model: OnceLock<PluginCatalog>,
    project: ProjectFolder,
    prices: PriceTable,
    /// Where agents ask.
    desk: ApprovalBroker,
    /// Finds components valid before they are looked into, and compiles them for the engine.
    compiler: Arc<ComponentCompiler>,
    /// Started for the first plugin: a run without plugins needs none of what it reserves.
    engine: OnceCell<Arc<PluginEngine>>,
    environment: Environment,
    /// Keys of models from files and programs.
    keys: Keyring,
    /// Models whose requests become batches.
    batched: Mutex<Vec<Arc<BatchedCompleter>>>,
    /// By which sessions are known to be the person's.
    own: UserKey,
    /// Programs that the config names.
    programs: AllowedPrograms,
    /// MCP servers that are in use.
    clients: Arc<mcp::McpClientPool>,
    /// What the person has approved of MCP servers.
    trust: TrustStore,
    /// Whether in this run all of what they offer is.
    approves_all: bool,
    /// Where logins at them are kept; none: nobody logs in.
    logins: Option<TokenStore>,
}

/// An agent that can run, and what a person should know of how it came to be.
pub struct PreparedRun {
    /// Who runs: an agent, or a team.
    pub entrant: EntryRunner,
    /// Where it stands in the config, for hints: `agents.lead`.
    pub place: String,
    /// Those it works with, itself among them.
    pub crew: Arc<AgentGroup>,
    /// What was chosen without being told to.
    pub notes: Vec<String>,
    /// What is not as it should be, though the agent can run.
    pub warnings: Vec<String>,
    /// Where its model comes from, for hints: `providers.local in the config`, `OPENAI_API_KEY is set`.
    pub model_source: String,
    /// Its model: a team's is that of its coordinator, or, where that asks none, of its first member.
    pub model: ModelInfo,
    /// Whether its model is behind a plugin: hints are of what that may do then.
    pub model_is_plugin: bool,
    /// Where what it does is written down, if it is.
    pub session: Option<RunSession>,
}

/// What a person should know before a run.
#[derive(Default)]
struct StartupNotices {
    notes: Vec<String>,
    warnings: Vec<String>,
}

/// The name of the agent that runs where no config names one.
pub const DEFAULT_AGENT: &str = "assistant";

impl App {
    /// An app of this config, with the plugins of its directories, of those that are named, and of the project's
    /// `.shelly/plugins` and the standard ones those that the config asks for. Components are compiled as `compiling` says:
    /// where that is `Some(directory)`, in this process, and the code is kept there. Agents ask at `desk`.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a plugin directory is none, or what lies in the project's folder `.shelly` cannot be used.
    pub fn new(
        mut config: Config,
        plugins: impl Into<PluginDirs>,
        compiling: impl Into<CompileConfig>,
        environment: Environment,
        desk: ApprovalBroker,
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
            desk,
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

    /// The same on the engine, with the servers and in the places for programs that another one has.
    fn with_engine_of(mut self, other: &Self) -> Self {
        let places = other.programs.ground().places.clone();
        self.programs = programs::programs(&self.config, &self.environment, places);
        (self.engine, self.clients) = (other.engine.clone(), Arc::clone(&other.clients));
        // What it compiles is for that engine.
        self.compiler = Arc::clone(&other.compiler);
        self.catalog.set_compiler(&self.compiler);
        self
    }

    /// The same for the person who has this key: sessions that it marks are gone on with unasked. Without it none is.
    pub fn with_own_key(mut self, own: UserKey) -> Self {
        self.own = own;
        self
    }

    /// The same with what this person has approved of MCP servers; without it each is met for the first time. `approves_all`:
    /// whatever they offer now is approved as long as this lives.
    pub fn with_approvals(mut self, trust: TrustStore, approves_all: bool) -> Self {
        (self.trust, self.approves_all) = (trust, approves_all);
        self
    }

    /// The same with logins at MCP servers that are kept there.
    pub fn with_logins(mut self, logins: Option<TokenStore>) -> Self {
        self.logins = logins;
        self
    }

    /// The agent or team of this name with the model of this name; without names those of the config. A config without
    /// agents has one, [`DEFAULT_AGENT`], with every plugin that needs no grant; one without models uses one that is found.
    /// If it, or a member of it, may delegate, the others of the config are made too; `model` holds for all of them. What
    /// they do is written down as `recording` says.
    ///
    /// # Errors
    ///
    /// A [`Report`]: no such agent or model, a plugin that it needs cannot be loaded, the session cannot be used.
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
        let shared = RunResources::new(&self.project, &self.desk, self.changes());
        let served: Vec<_> = all.iter().chain(&others).map(|who| who.own()).collect();
        let servers = self.reach_servers(&served, &mut notices).await;
        let (models, shared) = (ModelCache::new(&shared.stores), shared.with_servers(servers));
        let mut makers = RunnerFactory::new(self, model, &models, &shared);
        let (made, made_model) = makers.make(who, &mut notices).await?;
        let entrant = made.whole(&mut Vec::new())?;
        let crew = shared.crew().with_limits(self.config.runs.limits());
        // One that may work only so often at once is known also where nobody starts it: its places are those of its members.
        let is_known = |inner: &&RunnerConfig<'_>| {
            starts_others || called.contains(&inner.name()) || inner.own().max_concurrency > 0
        };
        for inner in all.iter().filter(is_known) {
            let made = makers.made(inner.name());
            crew.registry.register_under(entry(inner.own()), move |ceiling| made.under(ceiling));
        }
        for other in others {
            match makers.make_priced(other, own, &mut notices).await {
                Ok(made) => {
                    crew.registry.register_under(entry(other.own()), move |ceiling| made.under(ceiling));
                    all.push(other);
                }
                // The one that was asked for can work without it.
                Err(report) => {
                    let (word, name) = (other.own().word(), other.name().escape_debug());
                    notices.warnings.push(format!("{word} `{name}` is left out: {report}"));
                }
            }
        }
        let ResolvedModel { completer, source: model_source, is_plugin: model_is_plugin } = made_model;
        let model = completer.info().clone();
        let (crew, session) = self.record(recording, (own, &model), crew, &all, &shared)?;
        let crew = Arc::new(crew);
        let entrant = entrant.with_crew(&crew);
        notices.warnings.extend(self.engine_warnings());
        let StartupNotices { notes, warnings } = notices;
        let place = own.place();
        Ok(PreparedRun { entrant, place, crew, notes, warnings, model, model_source, model_is_plugin, session })
    }

    /// Those whom a run of this one needs, itself among them, and the others whom it may start.
    fn runners_with<'a>(&'a self, who: RunnerConfig<'a>) -> (Vec<RunnerConfig<'a>>, Vec<RunnerConfig<'a>>) {
        let all = self.config.needed_by(who);
        let starts_others = all.iter().any(|who| who.own().options.max_delegation_depth > 0);
        let is_other = |other: &RunnerConfig<'_>| starts_others && all.iter().all(|had| had.name() != other.name());
        let others = self.config.runners().filter(is_other).collect();
        (all, others)
    }

    /// Has the plugins of a run validated and compiled before they are asked for one by one: several at once, and such that
    /// dropping the future ends the processes that do it. What is wrong with a plugin is told where it is needed.
    ///
    /// # Errors
    ///
    /// A [`Report`]: there is no such agent.
    async fn open_plugins(&self, name: Option<&str>, model: Option<&str>) -> Result<(), Report> {
        let default;
        let who = match self.is_default(name) {
            true => {
                // Nothing but its component says what one without a manifest is.
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

    /// The id of the plugin that the model of this name is, or the first model of the config.
    fn model_plugin<'a>(&'a self, name: Option<&'a str>) -> Option<&'a str> {
        match self.config.provider(name) {
            Ok(provider) => provider?.plugin.as_deref(),
            // A plugin that no config names can be named as a model.
            Err(_) => name,
        }
    }

    /// Has all plugins validated that are loaded into the app, as [`App::check`] needs them: in time and memory that are
    /// bounded, and such that dropping the future ends the processes that do it.
    pub async fn validate_plugins(&self) {
        self.catalog.open(self.catalog.iter().map(|(id, _)| id), CompileStep::Validate).await;
    }

    /// Whether the one of this name is the one that a config without agents has.
    fn is_default(&self, name: Option<&str>) -> bool {
        self.config.agents.is_empty() && name.is_none_or(|name| name == DEFAULT_AGENT)
    }

    /// What an agent is made of, and its model.
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
        let mut outfit = self.dress(config, Arc::clone(&model.completer), shared, notices).await?;
        outfit.agent.models = self.other_models(config, models, notices).await?;
        self.add_agent_tools(config, &mut outfit, notices);
        match model.completer.info().context_window.tokens() {
            None => notices.warnings.extend(self.sleepers(config, model.is_plugin)),
            Some(_) => notices.warnings.extend(self.missing_effects(config)),
        }
        Ok((outfit, model))
    }

    /// What an agent is made of, around a model that is there.
    async fn dress(
        &self,
        config: &AgentConfig,
        completer: Arc<dyn Completer>,
        shared: &RunResources,
        notices: &mut StartupNotices,
    ) -> Result<AgentBlueprint, Report> {
        let mut outfit = AgentBlueprint::new(config, completer, self.keeper(config), &shared.changes);
        outfit.agent.context = self.project.context();
        outfit.agent.delegable = agent_blueprint::delegable(config, &self.config);
        for toolbox in &config.toolboxes {
            let place = format!("{}.toolboxes", config.place());
            let toolbox = match toolbox {
                ToolboxUse::Own(toolbox) => toolbox,
                // They are among its plugins.
                ToolboxUse::Shipped(_) => continue,
                ToolboxUse::Server(uses) => {
                    // One that was not reached was told of.
                    outfit.servers.extend(shared.servers.of(uses));
                    continue;
                }
            };
            if let Some(running) = self.running(toolbox) {
                outfit.running.push(running);
                continue;
            }
            let tools = shared.tools(&config.name, toolbox)?;
            extend(&mut outfit.agent.tools, tools, &place, &mut notices.warnings);
        }
        // Either all of its effects are the host's choice or none is.
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
                    outfit.plugins.push(AttachedPlugin { plugin, confirm, changes, only, listed, roles, is_default });
                }
                // Nobody named it: it was taken because it is there.
                Err(report) if self.config.agents.is_empty() => {
                    notices.warnings.push(format!("plugin `{id}` is left out: {report}"));
                }
                Err(report) => return Err(report),
            }
        }
        check_only(config, outfit.plugins.iter().map(|worn| (worn.listed, &*worn.plugin)))?;
        outfit.middleware = config.middleware.iter().map(StepUse::own).map(|own| own.and_then(Result::ok)).collect();
        outfit.ask = shared.ask();
        outfit.skills = self.project.skills(config)?;
        Ok(outfit)
    }

    /// Gives an agent those that it has as tools.
    fn add_agent_tools(&self, config: &AgentConfig, outfit: &mut AgentBlueprint, notices: &mut StartupNotices) {
        let place = format!("agents.{}.agent_tools", config.name);
        for uses in &config.agent_tools {
            let about = self.config.who(&uses.agent).map_or("", |who| &who.own().description);
            // What cannot be one was refused when the config was read.
            let Ok(tool) = uses.tool(about) else { continue };
            outfit.calls.push((tool.name().to_owned(), uses.agent.clone()));
            extend(&mut outfit.agent.tools, ToolBox::new().with(tool), &place, &mut notices.warnings);
        }
    }

    /// By whom the tools of an agent are opened what they lack.
    fn keeper(&self, agent: &AgentConfig) -> EscalationContext {
        EscalationContext {
            desk: self.desk.clone(),
            agent: agent.name.as_str().into(),
            root: self.config.root.clone(),
            home: (self.environment)("HOME").map(PathBuf::from),
            roots: Arc::clone(&self.clients.roots),
            opened: Arc::default(),
        }
    }

    /// Of the effects that a config names, those that shorten a conversation, in words for whom its model's window is not
    /// known: those that come with the host wait for a share of it. Of a plugin's model nothing is ever known that the config
    /// does not say, and nobody has asked for effects that no file names.
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

    /// Every plugin with tools that needs nothing, with nothing granted, and the effects that any agent has.
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
            // A model, and what stands around an agent's work, are there for who names them.
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
        // Whoever names a directory wants what lies there.
        if !left_out.is_empty() && !self.plugin_dirs.is_empty() {
            let plugins = left_out.join(", ");
            warnings.push(format!("plugins are left out that want what a config must grant to an agent: {plugins}"));
        }
        config.settle(self.config.may_know_window(&config), |id| shipped_wants(&self.catalog, id), |_| false);
        config
    }

    /// The models to which plugins of an agent may send requests, beside its own.
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

    /// Returns what a person should know of compiled code, each thing once.
    fn engine_warnings(&self) -> Vec<String> {
        self.engine.get().map(|engine| engine.take_warnings()).unwrap_or_default()
    }

    async fn engine(&self) -> Result<&Arc<PluginEngine>, Report> {
        self.engine.get_or_try_init(async || start_engine(&self.config, &self.compiler)).await
    }
}

/// The ids of plugins that a config asks for, or that are added where it names no effects.
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

/// Adds the tools of a plugin that `place` in the config lists: those of `only`, if it says so, but for those that could be
/// taken for one of the host.
///
/// # Errors
///
/// A [`Report`] if two of them have the same name.
fn add_plugin_tools(
    tools: &mut ToolBox,
    of_plugin: impl Iterator<Item = Arc<dyn Tool>>,
    only: Option<&[String]>,
    place: &str,
    warnings: &mut Vec<String>,
) -> Result<(), Report> {
    // The last two are there where there is somebody to ask, and skills to load.
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

/// Returns the plugin.toml of a plugin; nothing of its component is read.
fn written_manifest<'a>(catalog: &'a PluginCatalog, id: &str) -> Option<&'a PluginManifest> {
    catalog.entry(id).and_then(CatalogEntry::written_manifest)
}

/// Returns what a plugin that comes with the host asks for; `None` for any other.
fn shipped_wants(catalog: &PluginCatalog, id: &str) -> Option<(RequestedCapabilities, KvScope)> {
    let plugin = catalog.entry(id).filter(|plugin| catalog.is_shipped(plugin))?;
    plugin.written_manifest().map(|manifest| (manifest.wants.clone(), manifest.kv))
}

/// Adds the tools that `place` in the config gives.
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

/// The engine with the stack that the config gives every plugin, and the memory that it gives all of them.
fn start_engine(config: &Config, compiler: &Arc<ComponentCompiler>) -> Result<Arc<PluginEngine>, Report> {
    let stack_bytes = config.limits.stack_bytes.map_or(limits::PLUGIN_STACK_BYTES, as_size);
    let named = config.limits.total_memory_bytes.map(as_size);
    let (memory, _) = PluginEngine::guest_memory_for(named, config.largest_memory_bytes());
    PluginEngine::with_stack(Arc::clone(compiler), stack_bytes).map(|engine| Arc::new(engine.with_guest_memory(memory)))
}

/// What others are told of an agent.
fn entry(config: &AgentConfig) -> AgentEntry {
    AgentEntry {
        skills: config.skills_tags.clone(),
        estimated_cost: config.estimated_cost,
        max_concurrency: (config.max_concurrency > 0).then_some(config.max_concurrency),
        ..AgentEntry::new(config.name.as_str(), config.description.as_str())
    }
}
