use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use crate::{
    assemble::{
        App, RunResources, add_plugin_tools, as_size, check_only, extend, model_name, no_price, only_of, own_ceiling,
        remote_model,
    },
    capability::Budget,
    config::{
        AgentConfig, AgentRuntimeInfo, Config, ConfigEntryKind, ConfigRuntimeInfo, EffectiveConfig, PluginRuntimeInfo,
        PluginSection, ProviderConfig, ProviderKind, RunnerConfig, RunnerSection, StepOrder, ToolboxUse,
    },
    error::{ErrorKind, Report},
    plugin::{Certificate, CompileStep, MemorySource, Plugin, PluginEngine, PluginKind, PluginTool},
    tool::ToolBox,
};

/// The result of checking a config that can be used.
#[derive(Debug, Clone)]
pub struct AppCheck {
    /// The effective config.
    pub effective: EffectiveConfig,
    /// Problems that do not keep agents from running.
    pub warnings: Vec<String>,
}

/// The result of checking a config that cannot be used.
#[derive(Debug, Clone)]
pub struct AppCheckFailure {
    /// The mistakes that make it unusable; at least one.
    pub mistakes: Vec<Report>,
    /// Further problems.
    pub warnings: Vec<String>,
}

/// Collects mistakes and warnings.
#[derive(Default)]
struct FindingCollector {
    mistakes: Vec<Report>,
    warnings: Vec<String>,
}

impl FindingCollector {
    /// Returns the result of `look`. If that fails, records the mistake once and returns `None`.
    fn take<T>(&mut self, look: impl FnOnce(&mut Vec<String>) -> Result<T, Report>) -> Option<T> {
        match look(&mut self.warnings) {
            Ok(found) => Some(found),
            Err(report) => {
                if !self.mistakes.contains(&report) {
                    self.mistakes.push(report);
                }
                None
            }
        }
    }
}

/// Returns `true` unless a runner is a team whose coordinator asks no model.
fn asks(who: &RunnerConfig<'_>) -> bool {
    !matches!(who, RunnerConfig::Team(team) if !team.asks())
}

/// Returns the guest memory of all plugins together in bytes, and the words for its source.
fn guest_memory(config: &Config) -> (u64, &'static str) {
    let named = config.limits.total_memory_bytes.map(as_size);
    let (bytes, source) = PluginEngine::guest_memory_for(named, config.largest_memory_bytes());
    let from = match source {
        MemorySource::Config => "",
        MemorySource::AllThereIs => "all of the machine's memory; the config asks for more",
        MemorySource::Machine => "half of the machine's memory",
        MemorySource::ControlGroup => "half of the memory limit of this process's control group",
        MemorySource::Unknown => "default; the system does not report its memory",
        MemorySource::OneCall => {
            "the minimum for one call with its memory_bytes; more than half of the machine's memory"
        }
    };
    (bytes as u64, from)
}

impl App {
    /// Returns the guest memory of all plugins together in bytes, and the words for the source of that figure.
    pub fn guest_memory(&self) -> (u64, &'static str) {
        guest_memory(&self.config)
    }

    /// Checks every agent and model as far as possible without asking a model and without running plugin code.
    ///
    /// # Errors
    ///
    /// All mistakes, each as [`App::agent`] would report it.
    pub fn check(&self) -> Result<AppCheck, AppCheckFailure> {
        let mut told = FindingCollector::default();
        told.warnings.extend_from_slice(self.project.warnings());
        let mut config = self.config.clone();
        if config.agents.is_empty() {
            config.agents.push(self.default_agent(&mut told.warnings));
        } else if config.toolboxes.iter().any(|one| !config.user.contains(ConfigEntryKind::Toolbox, one.name())) {
            told.warnings.push(
                "toolboxes: has no effect beside `agents`; move the toolboxes to the agents that need them".into(),
            );
        }
        let missing = config.user.plugin_dirs.iter().filter(|directory| !directory.is_dir());
        told.warnings.extend(missing.map(|directory| {
            format!("plugin_dirs of your user-wide config: there is no folder {}", directory.display())
        }));
        for provider in &config.providers {
            told.take(|warnings| self.check_provider(provider, warnings));
        }
        for who in config.runners().filter(|who| !who.needs().is_empty()) {
            told.take(|_| self.check_prices(who, &config));
        }
        for who in self.config.runners() {
            told.warnings.extend(self.unpriced_others(who));
        }
        told.warnings.extend(self.missing_programs());
        let unusable = self.cluster_key_files().into_iter().filter_map(|file| file.id.err());
        told.warnings.extend(unusable.map(|report| report.with_hint()));
        // A mistake in the config itself is reported as one.
        if self.config.telemetry.as_ref().is_none_or(|telemetry| telemetry.check().is_ok()) {
            told.warnings.extend(self.telemetry_settings().1);
        }
        let shared = RunResources::new(&self.project, &self.broker, self.changes());
        let known = ConfigRuntimeInfo {
            plugin_dirs: self.plugin_dirs.clone(),
            guest_memory: Some(guest_memory(&config)),
            prices: config.providers.iter().map(|provider| self.price(provider)).collect(),
            agents: config.agents.iter().map(|agent| self.check_agent(agent, &config, &shared, &mut told)).collect(),
            // Only the keys that a team shares with agents; its members are checked by themselves.
            teams: config.teams.iter().map(|team| self.check_agent(&team.own, &config, &shared, &mut told)).collect(),
        };
        told.warnings.extend(self.stand_ins(config.everyone()));
        let FindingCollector { mistakes, mut warnings } = told;
        let mut seen = HashSet::new();
        warnings.retain(|warning| seen.insert(warning.clone()));
        match mistakes.is_empty() {
            true => Ok(AppCheck { effective: EffectiveConfig::new(&config, &known), warnings }),
            false => Err(AppCheckFailure { mistakes, warnings }),
        }
    }

    /// Loads the plugins of every agent, team and model in their sandboxes, as a run does but without credentials, and
    /// compares their tools with the config. Returns the mistakes and the warnings.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the plugin engine cannot be started. A plugin that cannot be loaded is among the mistakes.
    pub async fn check_plugins(&self) -> Result<(Vec<Report>, Vec<String>), Report> {
        let engine = self.engine().await?;
        let used = self.config.everyone().flat_map(AgentConfig::all_plugins).map(|(_, id, _)| id);
        let models = self.config.providers.iter().filter_map(|provider| provider.plugin.as_deref());
        self.catalog.open(used.chain(models).collect::<BTreeSet<_>>(), CompileStep::Compile).await;
        let mut told = FindingCollector::default();
        let default = self.config.agents.is_empty().then(|| self.default_agent(&mut Vec::new()));
        for agent in default.iter().chain(self.config.everyone()) {
            let (mut tools, mut plugins) = (ToolBox::new(), Vec::new());
            for (listed, id, uses) in agent.all_plugins() {
                if self.vain_entry(agent, listed, id).is_some() {
                    continue;
                }
                let Some((settings, package)) = told.take(|_| self.plugin_of(agent, (listed, id), uses)) else {
                    continue;
                };
                let loaded = Plugin::load(engine, package, &settings).await.map_err(|error| error.report());
                let Some(plugin) = told.take(|_| Ok(Arc::new(loaded?))) else { continue };
                if plugin.offers_tools() && agent.roles(listed, id).effect {
                    let (only, place) = (only_of(agent, listed, id), format!("{}.{listed}", agent.place()));
                    let of_plugin = PluginTool::all(&plugin);
                    told.take(|warnings| add_plugin_tools(&mut tools, of_plugin, only.as_deref(), &place, warnings));
                }
                plugins.push((listed, plugin));
            }
            told.take(|_| check_only(agent, plugins.iter().map(|(listed, plugin)| (*listed, &**plugin))));
        }
        for provider in self.config.providers.iter().filter(|provider| provider.kind == ProviderKind::Plugin) {
            let Some((settings, package)) = told.take(|_| self.provider_plugin(provider)) else { continue };
            let loaded = Plugin::load(engine, package, &settings).await.map_err(|error| error.report());
            told.take(|_| loaded.map(drop));
        }
        told.warnings.extend(self.engine_warnings());
        Ok((told.mistakes, told.warnings))
    }

    /// Certifies the capabilities that a plugin has for an agent. The plugin is linked and tried.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such agent, or it has no such plugin.
    pub async fn certify(&self, agent: Option<&str>, id: &str) -> Result<Certificate, Report> {
        let has_it = |agent: &&AgentConfig| agent.all_plugins().any(|(_, has, _)| has == id);
        let default;
        let agent = match agent {
            name if self.is_default(name) => {
                self.open_lone_plugins().await;
                default = self.default_agent(&mut Vec::new());
                &default
            }
            Some(name) => self.config.who(name)?.own(),
            // No agent is named: any agent that has the plugin will do.
            None => {
                let entry = self.config.entry()?.own();
                if has_it(&entry) { entry } else { self.config.everyone().find(has_it).unwrap_or(entry) }
            }
        };
        let found = agent.all_plugins().find(|(_, has, _)| *has == id);
        let (listed, id, uses) = found.ok_or_else(|| self.not_a_plugin_of(agent, id))?;
        self.catalog.open([id], CompileStep::Compile).await;
        let (settings, package) = self.plugin_of(agent, (listed, id), uses)?;
        Ok(Certificate::issue(self.engine().await?, package, &settings).await)
    }

    /// Certifies a model that is a plugin, by its name in the config.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such model, or it is not a plugin.
    pub async fn certify_model(&self, name: &str) -> Result<Certificate, Report> {
        let is_plugin = |provider: &&ProviderConfig| provider.kind == ProviderKind::Plugin;
        let provider = self.config.provider(Some(name))?;
        let provider = provider.filter(is_plugin).ok_or_else(|| {
            Report::new(ErrorKind::Usage, format!("the model `{}` is not a plugin", name.escape_debug()))
                .hint("name a provider of kind `plugin`; only those run in a sandbox")
        })?;
        self.catalog.open(provider.plugin.as_deref(), CompileStep::Compile).await;
        let (settings, package) = self.provider_plugin(provider)?;
        Ok(Certificate::issue(self.engine().await?, package, &settings).await)
    }

    /// Returns warnings about ceilings that name missing folders or have no effect.
    fn ceilings_in_vain(&self, agent: &AgentConfig) -> Vec<String> {
        let (name, place) = (&agent.name, agent.place());
        let delegable = &agent.delegable;
        let ceilings = [("use", agent.ceiling.as_ref()), ("delegable.grant", delegable.grant.as_ref())];
        let folders = ceilings.into_iter().filter_map(|(key, grant)| Some((key, grant?)));
        let folders = folders.flat_map(|(key, grant)| grant.files.iter().map(move |folder| (key, &folder.path)));
        let missing = folders.filter(|(_, path)| !self.config.root.join(path).is_dir());
        let mut warnings: Vec<_> = missing
            .map(|(key, path)| format!("{place}.{key}.files: the folder {} does not exist", path.display()))
            .collect();
        let is_set = delegable.grant.is_some() || delegable.agents.is_some() || delegable.budget != Budget::default();
        // A team starts its members.
        let is_team = agent.list == RunnerSection::Teams;
        let starts_others = agent.options.max_delegation_depth > 0 || agent.options.max_handoffs > 0;
        let starts_others = starts_others || is_team || !agent.agent_tools.is_empty();
        if is_set && !starts_others {
            warnings.push(format!("{place}.delegable: has no effect, because the agent starts no other agents; see options.max_delegation_depth"));
        }
        let named = delegable.agents.as_ref().filter(|_| starts_others && !is_team);
        if named.is_some_and(|named| named.iter().all(|other| other == name)) {
            warnings.push(format!(
                "{place}.delegable.agents: names no other agent, so none can be started; name agents, or remove the key \
                 to allow all"
            ));
        }
        warnings
    }

    /// Returns the order in which effects and middleware of an agent are called.
    fn order(&self, agent: &AgentConfig) -> StepOrder {
        let mut order = StepOrder::default();
        let mut own = agent.middleware.iter().map(|step| (step.kind.clone(), step.own().is_some())).peekable();
        let mut shorten = Vec::new();
        for (listed, id, _) in agent.all_plugins() {
            let Some(Ok(package)) = self.catalog.get(id) else { continue };
            let (manifest, id) = (&package.manifest, || id.to_owned());
            let has = |kind| manifest.kinds.contains(&kind);
            let roles = agent.roles(listed, &manifest.id);
            if listed == PluginSection::Middleware {
                while let Some((kind, _)) = own.next_if(|(_, is_own)| *is_own) {
                    order.runs.push(kind);
                }
                own.next();
            }
            if roles.effect && has(PluginKind::Effect) {
                if manifest.shortens { &mut shorten } else { &mut order.effects }.push(id());
            }
            if roles.middleware {
                let around = [
                    (PluginKind::RunMiddleware, &mut order.runs),
                    (PluginKind::ModelMiddleware, &mut order.requests),
                    (PluginKind::ToolMiddleware, &mut order.calls),
                ];
                around.into_iter().filter(|(kind, _)| has(*kind)).for_each(|(_, list)| list.push(id()));
            }
        }
        order.runs.extend(own.filter(|(_, is_own)| *is_own).map(|(kind, _)| kind));
        order.effects.splice(0..0, shorten);
        order
    }

    /// Checks that the price of every model is known that a runner and those that it needs ask, if their cost is bounded.
    fn check_prices(&self, who: RunnerConfig<'_>, config: &Config) -> Result<(), Report> {
        let own = who.own();
        if own.bounds_usd().is_none() && own.delegable.budget.usd.is_none() {
            return Ok(());
        }
        let counts = |who: &RunnerConfig<'_>| own.bounds_usd().is_some() || who.name() != own.name;
        for inner in config.needed_by(who).into_iter().filter(asks).filter(counts) {
            if inner.own().remote.is_some() {
                return Err(no_price(own, &remote_model(inner.own())));
            }
            let provider = config.provider(inner.own().provider.as_deref())?;
            if let Some(provider) = provider.filter(|provider| self.price(provider).is_none()) {
                return Err(no_price(own, &model_name(provider)));
            }
        }
        Ok(())
    }

    /// Returns a warning for each runner that `who` could start and cannot, because a price is not known: a run leaves it
    /// out.
    fn unpriced_others(&self, who: RunnerConfig<'_>) -> Vec<String> {
        let own = who.own();
        if own.bounds_usd().is_none() && own.delegable.budget.usd.is_none() {
            return Vec::new();
        }
        let (_, others) = self.runners_with(who);
        let may_start = |other: &RunnerConfig<'_>| {
            own.delegable.agents.as_ref().is_none_or(|named| named.iter().any(|name| name == other.name()))
        };
        let warning = |other: RunnerConfig<'_>| {
            let model =
                self.config.needed_by(other).into_iter().filter(asks).find_map(|inner| self.unpriced(inner.own()))?;
            let (word, name, report) = (other.own().word(), other.name().escape_debug(), no_price(own, &model));
            Some(format!("{}: cannot start the {word} `{name}`: {}", own.place(), report.with_hint()))
        };
        others.into_iter().filter(may_start).filter_map(warning).collect()
    }

    /// Returns the vendor's name for a model whose price is not known, of an agent and its plugins.
    fn unpriced(&self, agent: &AgentConfig) -> Option<String> {
        let of_plugins = agent.all_plugins().flat_map(|(_, _, uses)| &uses.models).map(|name| Some(name.as_str()));
        if agent.remote.is_some() {
            return Some(remote_model(agent));
        }
        let mut named = of_plugins.chain([agent.provider.as_deref()]);
        named.find_map(|name| {
            let provider = self.config.provider(name).ok().flatten()?;
            self.price(provider).is_none().then(|| model_name(provider))
        })
    }

    /// Checks that the prices of an agent's own models are known if its cost is bounded.
    fn check_own_prices(&self, agent: &AgentConfig, config: &Config, warnings: &mut Vec<String>) -> Result<(), Report> {
        let Some(key) = agent.bounds_usd() else { return Ok(()) };
        if agent.remote.is_some() {
            return Err(no_price(agent, &remote_model(agent)));
        }
        let of_plugins = agent.all_plugins().flat_map(|(_, _, uses)| &uses.models);
        let own = config.provider(agent.provider.as_deref())?;
        if own.is_none() {
            warnings.push(format!("{}.{key}: applies only to a model whose price is known", agent.place()));
        }
        // A team asks no model by itself.
        let own = own.filter(|_| agent.list == RunnerSection::Agents).map(Ok);
        let others = of_plugins.filter_map(|name| config.provider(Some(name)).transpose());
        for provider in own.into_iter().chain(others) {
            let provider = provider?;
            if self.price(provider).is_none() {
                return Err(no_price(agent, &model_name(provider)));
            }
        }
        Ok(())
    }

    fn check_agent(
        &self,
        agent: &AgentConfig,
        config: &Config,
        shared: &RunResources,
        told: &mut FindingCollector,
    ) -> AgentRuntimeInfo {
        let at = |key: &str| format!("{}.{key}", agent.place());
        told.take(|warnings| self.check_own_prices(agent, config, warnings));
        if agent.options.max_delegation_depth > 0 && config.everyone().count() == 1 {
            let place = at("options.max_delegation_depth");
            told.warnings.push(format!("{place}: has no effect, because there is no other agent to delegate to"));
        }
        let provider = config.provider(agent.provider.as_deref()).ok().flatten();
        // An agent of another host has no model here.
        if let Some(provider) = provider.filter(|_| agent.remote.is_none()) {
            if config.context_window(provider).is_some() {
                told.warnings.extend(self.missing_effects(agent));
            } else if !config.asks_server_for_window(provider) {
                told.warnings.extend(self.sleepers(agent));
                let notice = self.unknown_window(agent, None, &model_name(provider), provider.kind);
                told.warnings.extend(notice.filter(|notice| !told.warnings.contains(notice)));
            }
        }
        told.warnings.extend(self.ceilings_in_vain(agent));
        let mut known = AgentRuntimeInfo::default();
        let mut tools = ToolBox::new();
        for toolbox in &agent.toolboxes {
            // The tools of a server are known only once it is connected.
            let toolbox = match toolbox {
                ToolboxUse::Own(toolbox) => toolbox,
                // The tools of its plugins are known only once they are loaded.
                ToolboxUse::Shipped(_) => {
                    known.toolboxes.push(Vec::new());
                    continue;
                }
                ToolboxUse::Server(uses) => {
                    told.warnings.extend(self.doubt_of_server(&uses.name));
                    known.toolboxes.push(Vec::new());
                    continue;
                }
            };
            let of_it = told.take(|_| match self.running(toolbox) {
                Some(running) => Ok(running.under(&agent.name, &own_ceiling(agent, &self.config.root), "")?.0),
                None => shared.tools(&agent.name, toolbox),
            });
            let of_it = of_it.unwrap_or_default();
            known.toolboxes.push(of_it.names().map(str::to_owned).collect());
            extend(&mut tools, of_it, &at("toolboxes"), &mut told.warnings);
        }
        for uses in &agent.openapi {
            told.take(|warnings| self.check_api_use(agent, uses, warnings));
        }
        for (listed, id, uses) in agent.all_plugins() {
            let found = told.take(|_| {
                let (settings, package) = self.plugin_of(agent, (listed, id), uses)?;
                let vain = self.vain_entry(agent, listed, id);
                if vain.is_none() {
                    settings.check(package).map_err(|error| error.report())?;
                }
                Ok((settings, package, vain))
            });
            let Some((settings, package, vain)) = found else { continue };
            let warnings = &mut told.warnings;
            match vain {
                Some(warning) => warnings.push(warning),
                None => {
                    warnings.extend(settings.lacking(&package.manifest));
                    warnings.extend(settings.in_vain(&package.manifest));
                    warnings.extend(self.doubts_of_credentials(&settings, &package.manifest));
                    warnings.extend(self.unset_credentials(&settings, &package.manifest));
                }
            }
            let kinds = package.manifest.kinds.iter().map(|kind| kind.name()).collect();
            let (wasi, on_failure) = (package.manifest.wasi, package.manifest.on_failure);
            known.plugins.push(PluginRuntimeInfo { kinds, wasi, on_failure });
        }
        known.order = self.order(agent);
        if agent.options.context_threshold.is_some() && agent.effects.iter().flatten().any(|step| !step.is_default) {
            told.warnings.push(format!(
                "{}: has no effect if `effects` is set; set the threshold of `compact` under `effects`",
                at("options.context_threshold")
            ));
        }
        let skills = told.take(|_| self.project.skills(agent)).into_iter().flatten();
        known.skills = skills.map(|skill| skill.name).collect();
        known
    }
}
