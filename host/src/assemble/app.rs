use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
};

use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;

use super::{
    allowed_programs::allowed_programs,
    app_telemetry::AppTelemetry,
    cluster_sessions::{ClusterBuckets, cluster_of},
    environment::Environment,
    locked_plugins::locked_plugins,
    mcp::McpClientPool,
    model_pool::ModelPool,
    plugin_limits::as_size,
    project_folder::ProjectFolder,
    rebuilt_tools::RebuiltTools,
};
use crate::{
    approval::ApprovalBroker,
    capability::{Budget, KvScope, RequestedCapabilities},
    change::EditorBuffers,
    cluster::{Cluster, ClusterJournals, QueuedRunContext},
    config::{self, AgentConfig, Config, ConfigEntryKind, ToolboxUse},
    error::Report,
    limits,
    mcp::TokenStore,
    model::{BatchedCompleter, PriceTable},
    net::Keyring,
    plugin::{
        CatalogEntry, CompileConfig, CompiledPlugin, ComponentCompiler, GuestMemoryUse, OutrankedPlugin, PluginCatalog,
        PluginDirs, PluginEngine, PluginLocation, PluginManifest, ShippedPlugins,
    },
    process::{AllowedPrograms, ProcessSlots},
    session::MeasuredUsage,
    trust::{TrustStore, UserKey},
};

/// Everything that agents are built from: the config, plugins, the engine that runs them, and access to the network. A clone
/// shares the engine, the connections and the models.
#[derive(Clone)]
pub struct App {
    pub(crate) config: Config,
    pub(crate) catalog: PluginCatalog,
    /// The code of the plugins that are built again while the app is used, by their ids. Their files may be replaced at any time.
    pub(super) rebuilt: BTreeMap<String, CompiledPlugin>,
    /// The tools that agents at work have of these plugins.
    pub(super) rebuilt_tools: RebuiltTools,
    /// The folders of the projects of these plugins.
    pub(super) built_projects: Vec<PathBuf>,
    pub(crate) plugin_dirs: Vec<PathBuf>,
    /// The plugin directories that the command line names; a part of `plugin_dirs`.
    pub(crate) named_dirs: Vec<PathBuf>,
    /// Directories that are searched for the ids of plugins without being named: the project's own, then those of the person.
    pub(super) searched_dirs: Vec<PathBuf>,
    /// The plugins that come with the host.
    pub(super) shipped: ShippedPlugins,
    /// The directories in which the person keeps plugins for all projects; a part of `searched_dirs`.
    pub(crate) personal_dirs: Vec<PathBuf>,
    /// The default toolboxes that the agent does not have, because their plugins are not those that come with the host.
    pub(super) unshipped_toolboxes: Vec<ToolboxUse>,
    /// The plugin that the command line names as a model, once it was looked for.
    pub(super) named_model: OnceLock<PluginCatalog>,
    pub(crate) project: ProjectFolder,
    pub(super) prices: PriceTable,
    /// The broker to which agents send their questions.
    pub(crate) broker: ApprovalBroker,
    /// Validates components before they are inspected, and compiles them for the engine.
    pub(super) compiler: Arc<ComponentCompiler>,
    /// Started for the first plugin: a run without plugins needs none of the memory that it reserves.
    pub(super) engine: Arc<OnceCell<Arc<PluginEngine>>>,
    pub(crate) environment: Environment,
    /// Keys of models that come from files and programs.
    pub(super) keys: Keyring,
    /// The models that all runs share.
    pub(super) model_pool: Arc<ModelPool>,
    /// Models whose requests are sent in batches.
    pub(super) batched: Arc<Mutex<Vec<Arc<BatchedCompleter>>>>,
    /// The key that marks the sessions of this person.
    pub(super) own: UserKey,
    /// The last measurement of the project's sessions.
    pub(super) measured_sessions: MeasuredUsage,
    /// The storage of sessions, if they are not files.
    pub(super) cluster: Option<ClusterJournals>,
    /// The cluster of the config, which connects at its first use.
    pub(super) cluster_connection: Option<Cluster>,
    /// The run of the queue that is prepared with this app; that of no run, if it is not in the queue.
    pub(super) queued: QueuedRunContext,
    /// The session of the run, which is set when it is recorded; `None` if no agent is left to workers.
    pub(super) recorded_session: Option<Arc<OnceLock<String>>>,
    /// The app with the whole config, if this one leaves some of its agents to workers.
    pub(super) whole: Option<Arc<App>>,
    /// The run tree on several hosts whose boards its runs use; `None`: the boards belong to the session alone.
    pub(super) board_sharing: Option<BoardSharing>,
    /// The programs that the config names.
    pub(super) programs: AllowedPrograms,
    /// The MCP servers in use.
    pub(super) clients: Arc<McpClientPool>,
    /// The person's approvals of MCP servers.
    pub(super) trust: TrustStore,
    /// Approves everything that MCP servers offer in this run.
    pub(super) approves_all: bool,
    /// The store of logins at MCP servers; `None`: nobody logs in.
    pub(super) logins: Option<TokenStore>,
    /// Further bounds on what the agent or team that runs may spend.
    pub(super) budget: Budget,
    /// The editor in which the person has files open.
    pub(super) editor: Option<Arc<dyn EditorBuffers>>,
    /// The cancellations of tasks at other hosts whose runs are gone.
    pub(super) cancellations: TaskTracker,
    /// Started for the first run.
    pub(super) telemetry: Arc<OnceLock<AppTelemetry>>,
}

/// The run tree whose task board and blackboards several hosts share. A task is claimed once among all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoardSharing {
    /// The session of the run that this one works for, whose boards are used; `None`: the boards belong to the own session,
    /// and runs that name it as their parent use them.
    pub parent: Option<String>,
}

impl App {
    /// Builds an app with the plugins of its directories, and with those plugins of the lock files, the project's
    /// `.shelly/plugins` and the person's directories that the config asks for. `compiling` selects where components are
    /// compiled; if it is `Some(directory)`, that is in this process, and the code is cached in the directory. Agents send
    /// their questions to `broker`.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a plugin directory does not exist, or a lock file or the project's folder `.shelly` cannot be used.
    pub fn new(
        mut config: Config,
        plugins: impl Into<PluginDirs>,
        compiling: impl Into<CompileConfig>,
        environment: Environment,
        broker: ApprovalBroker,
    ) -> Result<Self, Report> {
        let compiler = Arc::new(ComponentCompiler::from(compiling.into()));
        let PluginDirs { named: named_dirs, standard, shipped, installed, offers_standard } = plugins.into();
        let plugin_dirs = config.plugin_directories(&named_dirs);
        let personal_dirs = config.personal_plugin_directories(&standard);
        let catalog = PluginCatalog::scan(&plugin_dirs, &compiler)?;
        let locked = locked_plugins(&config, installed.as_deref())?.into_iter();
        let (own_locked, locked_in_project): (Vec<_>, Vec<_>) = locked.partition(|locked| locked.is_personal);
        let mut catalog = catalog.with_shipped(shipped.clone(), personal_dirs.clone()).with_locked(own_locked);
        let own = asked_for_by_user(&config);
        let displaced = keep_own_plugins(&mut catalog, &own, &named_dirs, &personal_dirs);
        // From here on the catalog may find what the project has installed.
        let mut catalog = catalog.with_locked(locked_in_project);
        let unshipped_toolboxes = remove_unshipped_toolboxes(&mut config, &catalog, &named_dirs);
        let searched_dirs = [vec![config.root.join(".shelly/plugins")], personal_dirs.clone()].concat();
        let of_project = asked_for(&config).into_iter().filter(|id| !own.contains(id)).collect::<Vec<_>>();
        catalog.add_by_id(&searched_dirs, of_project.iter().map(String::as_str));
        if config.agents.is_empty() && config.plugin_dirs.is_empty() && offers_standard {
            catalog.add_locked(|locked| locked.is_personal);
            catalog.add_all(&personal_dirs);
        }
        config.settle(
            |id| shipped_wants(&catalog, id),
            |id| written_manifest(&catalog, id).is_some_and(|manifest| manifest.shortens),
        );
        let outranked = catalog.outranked().iter().map(|OutrankedPlugin { id, path }| {
            format!(
                "the plugin `{id}` in {} is not used, since a plugin of this id comes with shelly-host; to use yours, name its \
                 directory with --plugins or under `plugin_dirs`, or give it another id",
                path.display()
            )
        });
        let left_out = left_out_toolboxes(&config, &shipped);
        let warnings = displaced.into_iter().chain(outranked).chain(left_out).collect();
        config.read_api_files();
        let cluster_connection = cluster_of(&config);
        let cluster = cluster_connection.as_ref().map(Cluster::journals);
        let buckets = cluster.as_ref().map(ClusterBuckets::beside);
        let project = ProjectFolder::read(&config)?.with_warnings(warnings).with_buckets(buckets);
        config.approved = project.approved();
        let prices = project.prices()?;
        let programs = allowed_programs(&config, &environment, ProcessSlots::default());
        let (engine, own, trust) = (Arc::default(), UserKey::default(), TrustStore::new(None));
        let app = Self {
            config,
            catalog,
            rebuilt: BTreeMap::new(),
            rebuilt_tools: RebuiltTools::default(),
            built_projects: Vec::new(),
            plugin_dirs,
            named_dirs,
            searched_dirs,
            shipped,
            personal_dirs,
            unshipped_toolboxes,
            named_model: OnceLock::new(),
            project,
            prices,
            broker,
            compiler,
            engine,
            environment,
            keys: Keyring::default(),
            model_pool: Arc::default(),
            batched: Arc::default(),
            own,
            measured_sessions: MeasuredUsage::default(),
            cluster,
            cluster_connection,
            queued: QueuedRunContext::default(),
            recorded_session: None,
            whole: None,
            board_sharing: None,
            programs,
            clients: Arc::default(),
            trust,
            approves_all: false,
            logins: None,
            budget: Budget::default(),
            editor: None,
            cancellations: TaskTracker::new(),
            telemetry: Arc::default(),
        };
        app.note_cluster_secrets();
        Ok(app)
    }

    /// Replaces the engine, the MCP connections, telemetry and the slots for programs by those of another app.
    pub(crate) fn with_engine_of(self, other: &Self) -> Self {
        let mut app = self.with_sandbox_of(other);
        app.clients = Arc::clone(&other.clients);
        app.telemetry = Arc::clone(&other.telemetry);
        app.cancellations = other.cancellations.clone();
        app
    }

    /// Replaces the engine and the slots for programs by those of another app, which bound both apps together, and notes the
    /// credentials that the other one knows. Connections stay its own: the config may be another person's, and mean other
    /// servers by the same names.
    pub(crate) fn with_sandbox_of(mut self, other: &Self) -> Self {
        let slots = other.programs.ground().slots.clone();
        self.programs = allowed_programs(&self.config, &self.environment, slots);
        self.engine = Arc::clone(&other.engine);
        // The compiler belongs to the engine that it compiles for.
        self.compiler = Arc::clone(&other.compiler);
        self.catalog.set_compiler(&self.compiler);
        // What one app of this process keeps secret, such as the token of a server, no run of another one shows.
        other.keys.kept().for_each(|(name, secret)| self.keys.note(name, secret));
        self
    }

    /// Shares the engine, the slots for programs and telemetry with another app of this process, which has the same config
    /// but for the namespace of its cluster. Connections, models and everything that is stored stay its own.
    pub(crate) fn beside(self, other: &Self) -> Self {
        let mut app = self.with_sandbox_of(other);
        app.telemetry = Arc::clone(&other.telemetry);
        app
    }

    /// Uses the connection of another app to the same namespace.
    pub(crate) fn with_cluster_of(mut self, other: &Self) -> Self {
        self.cluster.clone_from(&other.cluster);
        self.cluster_connection.clone_from(&other.cluster_connection);
        self.project = self.project.with_buckets(self.cluster.as_ref().map(ClusterBuckets::beside));
        self
    }

    /// Returns the cluster of the config, on the connection that its runs use; `None` if the config names none.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster_connection.as_ref()
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

    /// Makes the boards of recorded runs those of a run tree on several hosts, in the cluster that the config names. A parent
    /// whose session does not exist has none: then they are those of the own session.
    pub fn with_shared_boards(mut self, of: BoardSharing) -> Self {
        self.board_sharing = Some(of);
        self
    }

    /// Sets further bounds on what the agent or team that runs may spend, with all that work for it. The bounds of the config
    /// hold too.
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the editor in which the person has files open: agents read and change the texts that the person sees.
    pub fn with_editor(mut self, editor: Option<Arc<dyn EditorBuffers>>) -> Self {
        self.editor = editor;
        self
    }

    /// Returns the memory that plugins hold; `None` if no plugin was used yet.
    pub fn guest_memory_use(&self) -> Option<GuestMemoryUse> {
        self.engine.get().map(|engine| engine.guest_memory())
    }

    /// Takes the engine's warnings about compiled code; each is returned once.
    pub(crate) fn engine_warnings(&self) -> Vec<String> {
        self.engine.get().map(|engine| engine.take_warnings()).unwrap_or_default()
    }

    /// Returns the engine, which is started for the first plugin.
    pub(crate) async fn engine(&self) -> Result<&Arc<PluginEngine>, Report> {
        self.engine.get_or_try_init(async || start_engine(&self.config, &self.compiler)).await
    }
}

/// Returns the ids of plugins that a config asks for, including the default effects of agents that name none.
fn asked_for(config: &Config) -> Vec<String> {
    let default = config.agents.is_empty().then(|| config.default_agent());
    let models = config.providers.iter().filter_map(|provider| provider.plugin.clone());
    models.chain(asked_for_by_agents(default.iter().chain(config.everyone()))).collect()
}

/// Returns the ids of plugins that the user-wide config asks for.
fn asked_for_by_user(config: &Config) -> Vec<String> {
    let user = &config.user;
    let models = config.providers.iter().filter(|provider| user.contains(ConfigEntryKind::Model, &provider.name));
    let models = models.filter_map(|provider| provider.plugin.clone());
    let toolboxes = config.toolboxes.iter().filter(|toolbox| user.contains(ConfigEntryKind::Toolbox, toolbox.name()));
    // Nobody has them beside agents.
    let toolboxes = toolboxes.filter(|_| config.agents.is_empty());
    let toolboxes = toolboxes.filter_map(ToolboxUse::shipped).flat_map(|uses| uses.plugins.keys().cloned());
    models.chain(toolboxes).chain(asked_for_by_agents(config.everyone().filter(|_| user.has_runners))).collect()
}

fn asked_for_by_agents<'a>(agents: impl Iterator<Item = &'a AgentConfig>) -> Vec<String> {
    let mut ids = Vec::new();
    for agent in agents {
        ids.extend(agent.all_plugins().map(|(_, id, _)| id.to_owned()));
        if agent.effects.is_none() {
            ids.extend(config::default_effects(agent).into_iter().map(|step| step.kind));
        }
    }
    ids
}

/// Takes the plugins that the user-wide config asks for from the directories of the person, whatever the project has under
/// these ids: they have grants that the project was not asked about. Returns a warning for each plugin of the project whose
/// place is taken.
fn keep_own_plugins(
    catalog: &mut PluginCatalog,
    own: &[String],
    named_dirs: &[PathBuf],
    personal_dirs: &[PathBuf],
) -> Vec<String> {
    let mut displaced = Vec::new();
    for id in own {
        let is_of_project = |plugin: &CatalogEntry| !plugin.location().lies_in(named_dirs);
        if catalog.entry(id).is_some_and(is_of_project)
            && let Some(location) = catalog.remove(id)
        {
            displaced.push(format!(
                "the plugin `{id}` in {location} is not used: your user-wide config names a plugin of this id, which is taken \
                 from your own directories alone"
            ));
        }
    }
    catalog.add_by_id(personal_dirs, own.iter().map(String::as_str));
    displaced
}

/// Returns a warning about the default toolboxes that the default agent does not have.
fn left_out_toolboxes(config: &Config, shipped: &ShippedPlugins) -> Option<String> {
    let quoted = |id: &String| format!("`{id}`");
    let left_out = config.user.left_out_toolboxes.iter().map(|toolbox| {
        let plugins: Vec<_> = toolbox.plugins.iter().map(quoted).collect();
        format!("`{}` (needs {})", toolbox.name, plugins.join(", "))
    });
    let left_out: Vec<_> = left_out.collect();
    (!left_out.is_empty()).then(|| {
        format!(
            "the default agent is without these toolboxes, because plugins of them are not found: {}; {}",
            left_out.join(", "),
            shipped.how_to_install()
        )
    })
}

/// Removes the default toolboxes whose plugins neither come with the host nor lie in a directory that the person names, and
/// returns them. Nobody has written what these toolboxes grant, so no plugin may have it by its id alone.
fn remove_unshipped_toolboxes(config: &mut Config, catalog: &PluginCatalog, named_dirs: &[PathBuf]) -> Vec<ToolboxUse> {
    if !config.user.has_default_toolboxes {
        return Vec::new();
    }
    let is_named =
        |location: &PluginLocation| location.lies_in(named_dirs) || location.lies_in(&config.user.plugin_dirs);
    let is_unshipped = |id: &String| {
        catalog.entry(id).is_some_and(|plugin| !catalog.is_shipped(plugin) && !is_named(plugin.location()))
    };
    let is_removed = |toolbox: &ToolboxUse| toolbox.shipped().is_some_and(|uses| uses.plugins.keys().any(is_unshipped));
    let (removed, kept) = std::mem::take(&mut config.toolboxes).into_iter().partition(is_removed);
    config.toolboxes = kept;
    removed
}

/// Returns the manifest file of a plugin without reading its component.
fn written_manifest<'a>(catalog: &'a PluginCatalog, id: &str) -> Option<&'a PluginManifest> {
    catalog.entry(id).and_then(CatalogEntry::written_manifest)
}

/// Returns the capabilities that a shipped plugin asks for; `None` for any other plugin.
pub(crate) fn shipped_wants(catalog: &PluginCatalog, id: &str) -> Option<(RequestedCapabilities, KvScope)> {
    let plugin = catalog.entry(id).filter(|plugin| catalog.is_shipped(plugin))?;
    plugin.written_manifest().map(|manifest| (manifest.wants.clone(), manifest.kv))
}

/// Starts the engine with the stack size and the total guest memory of the config.
fn start_engine(config: &Config, compiler: &Arc<ComponentCompiler>) -> Result<Arc<PluginEngine>, Report> {
    let stack_bytes = config.limits.stack_bytes.map_or(limits::PLUGIN_STACK_BYTES, as_size);
    let named = config.limits.total_memory_bytes.map(as_size);
    let (memory, _) = PluginEngine::guest_memory_for(named, config.largest_memory_bytes());
    PluginEngine::with_stack(Arc::clone(compiler), stack_bytes).map(|engine| Arc::new(engine.with_guest_memory(memory)))
}
