//! Plugins of agents: the package of each, and its grants and settings.

use std::{collections::BTreeSet, sync::Arc};

use indexmap::IndexMap;
use serde_json::Value;

use super::{
    App,
    plugin_grants::{given, own_ceiling},
    plugin_limits::plugin_limits,
};
use crate::{
    capability::Grant,
    config::{
        self, AgentConfig, HostCoordinator, OWN_MIDDLEWARE, PluginSection, PluginUse, RunnerSection, ShippedToolboxUse,
        ToolboxUse,
    },
    error::{ErrorKind, Report},
    kv::KvStores,
    plugin::{
        CatalogEntry, Plugin, PluginCatalog, PluginError, PluginKind, PluginPackage, PluginSettings, SHIPPED_PLUGINS,
    },
};

impl App {
    /// Loads a plugin of an agent.
    pub(crate) async fn load(
        &self,
        agent: &AgentConfig,
        named: (PluginSection, &str),
        uses: &PluginUse,
        stores: &KvStores,
        warnings: &mut Vec<String>,
    ) -> Result<Arc<Plugin>, Report> {
        let (settings, package) = self.plugin_of(agent, named, uses)?;
        warnings.extend(self.doubts_of_credentials(&settings, &package.manifest));
        let credentials = self.credentials(&settings, &package.manifest, warnings).await;
        let settings = PluginSettings { stores: stores.clone(), credentials, ..settings };
        let plugin = Plugin::load(self.engine().await?, package, &settings).await.map_err(|error| error.report())?;
        warnings.extend(settings.lacking(&package.manifest));
        warnings.extend(settings.in_vain(&package.manifest));
        Ok(Arc::new(plugin))
    }

    /// Warns if an entry of an agent's config has no effect, because more specific lists take all roles of its plugin.
    pub(crate) fn vain_entry(&self, agent: &AgentConfig, listed: PluginSection, id: &str) -> Option<String> {
        let kinds = &self.catalog.get(id)?.ok()?.manifest.kinds;
        let roles = agent.roles(listed, id);
        let has_any = kinds.iter().any(|kind| if kind.is_middleware() { roles.middleware } else { roles.effect });
        let others: Vec<_> =
            [("effects", roles.effect), ("middleware", roles.middleware)].into_iter().filter(|(_, has)| !has).collect();
        let others = others.iter().map(|(list, _)| format!("`{list}`")).collect::<Vec<_>>().join(" and ");
        (!has_any).then(|| {
            format!(
                "{}.{listed}.{id}: has no effect, because the entry under {others} applies; remove `{id}` from `{listed}`",
                agent.place()
            )
        })
    }

    /// Returns the package of an agent's plugin, and its settings.
    pub(crate) fn plugin_of(
        &self,
        agent: &AgentConfig,
        (listed, id): (PluginSection, &str),
        uses: &PluginUse,
    ) -> Result<(PluginSettings, &Arc<PluginPackage>), Report> {
        let (name, place) = (&agent.name, format!("{}.{listed}", agent.place()));
        let package = self.package(&place, id)?;
        let kinds = &package.manifest.kinds;
        let (fits, what) = match listed {
            PluginSection::Plugins | PluginSection::Toolboxes => {
                (*kinds != [PluginKind::Coordinator], "a plugin for agents")
            }
            PluginSection::Effects => (kinds.contains(&PluginKind::Effect), "an effect"),
            // A team asks no model except through its coordinator, and calls no tools.
            PluginSection::Middleware if agent.list == RunnerSection::Teams => {
                (kinds.contains(&PluginKind::RunMiddleware), "run middleware")
            }
            PluginSection::Middleware => (kinds.iter().any(|kind| kind.is_middleware()), "middleware"),
            PluginSection::Coordinator => (kinds.contains(&PluginKind::Coordinator), "a coordinator"),
        };
        if !fits {
            let leads = kinds.contains(&PluginKind::Coordinator);
            let kinds = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
            let report = Report::new(ErrorKind::Plugin, format!("plugin `{id}` is not {what}; its kinds are {kinds}"))
                .cause(format!("named by {place}"));
            return Err(match leads {
                true => report.hint(format!(
                    "name the plugin as the coordinator of a team: `teams: [{{name: …, members: […], coordinator: {id}}}]`"
                )),
                false => report,
            });
        }
        check_params(package, &uses.params, &format!("{place}.{id}.params in the config"))?;
        let (grant, mounts) = given(uses, &self.config);
        let toolbox =
            shipped_with(agent, id).filter(|_| listed == PluginSection::Toolboxes).map(|uses| uses.name.name());
        let settings = PluginSettings {
            grant,
            mounts,
            ask: uses.ask.iter().copied().collect(),
            programs: self.programs.clone(),
            ceiling: own_ceiling(agent, &self.config.root),
            params: config::params(&uses.params),
            limits: plugin_limits(&uses.limits.over(&self.config.limits)),
            on_failure: uses.on_failure,
            toolbox,
            ..PluginSettings::new(name.as_str(), format!("{place}.{}", toolbox.unwrap_or(id)))
        };
        Ok((settings, package))
    }

    /// Returns the plugin of this id, which `place` in the config names.
    pub(crate) fn package(&self, place: &str, id: &str) -> Result<&Arc<PluginPackage>, Report> {
        match self.catalog.get(id) {
            Some(package) => package.map_err(PluginError::report),
            None if SHIPPED_PLUGINS.contains(&id) => {
                Err(self.not_installed(id).cause(format!("named by {place} in the config")))
            }
            None => {
                let found = PluginCatalog::ids_in(&self.searched_dirs);
                let own: &[&str] = match place.rsplit('.').next() {
                    Some("middleware") => &OWN_MIDDLEWARE,
                    Some("coordinator") => &HostCoordinator::KINDS,
                    _ => &[],
                };
                let there = self.catalog.iter().map(|(id, _)| id).chain(found.iter().map(String::as_str));
                let there = there.chain(self.shipped.ids().collect::<Vec<_>>());
                let there: BTreeSet<_> = there.chain(own.iter().copied()).collect();
                let mut report = config::unknown("plugin", id, there.iter().copied());
                report.kind = ErrorKind::Plugin;
                if there.is_empty() {
                    let hint =
                        "name the directory that holds the plugin's folder with --plugins, or under `plugin_dirs`";
                    report.hint = Some(format!("{hint} in the config"));
                }
                Err(report.cause(format!("named by {place} in the config")))
            }
        }
    }
}

impl App {
    /// Reports that a plugin which comes with the host is not there.
    pub(crate) fn not_installed(&self, id: &str) -> Report {
        Report::new(ErrorKind::Plugin, format!("the plugin `{id}` is not installed"))
            .cause("the plugin comes with shelly-host")
            .hint(self.shipped.how_to_install())
    }

    /// Reports that an agent does not have a plugin.
    pub(crate) fn not_a_plugin_of(&self, agent: &AgentConfig, id: &str) -> Report {
        let Some(entry) = self.catalog.entry(id) else {
            if SHIPPED_PLUGINS.contains(&id) && !self.shipped.has(id) {
                return self.not_installed(id);
            }
            let found = PluginCatalog::ids_in(&self.searched_dirs);
            let known = agent.all_plugins().map(|(_, id, _)| id).chain(self.catalog.iter().map(|(id, _)| id));
            let known: BTreeSet<_> = known
                .chain(found.iter().map(String::as_str))
                .chain(self.shipped.ids().map(|id| -> &str { id }))
                .collect();
            if !known.contains(id) {
                let cause = "neither a config nor a plugin directory has it";
                return config::unknown("plugin", id, known.into_iter()).cause(cause);
            }
            return self.no_plugin_of(agent, id, "…");
        };
        let wants = entry.manifest().map(|manifest| Grant::default().missing(&manifest.wants)).unwrap_or_default();
        let lines: Vec<_> = wants.into_iter().map(|missing| missing.line).collect();
        self.no_plugin_of(
            agent,
            id,
            &if lines.is_empty() { String::new() } else { format!("{{{}}}", lines.join(", ")) },
        )
    }

    /// Reports that nothing gives this plugin to an agent. `grants` is what the plugin needs under its name.
    fn no_plugin_of(&self, agent: &AgentConfig, id: &str, grants: &str) -> Report {
        let (word, name) = (agent.word(), agent.name.escape_debug());
        let report = Report::new(ErrorKind::Usage, format!("the {word} `{name}` has no plugin `{id}`"));
        match self.config.agents.is_empty() {
            true => report
                .cause("no config names agents, and the default agent has only plugins with tools that need no grant")
                .hint(format!(
                    "write a config that gives the plugin to an agent: agents: [{{name: a, plugins: {{{id}: {grants}}}}}]"
                )),
            false => report
                .cause(format!("not listed in {}.plugins", agent.place()))
                .hint(format!("add it there, as `{id}: {grants}`, or name another agent with --agent")),
        }
    }

    /// Warns if an agent lacks the default effects because they are not installed.
    pub(crate) fn missing_effects(&self, agent: &AgentConfig) -> Option<String> {
        let package = |id: &String| self.catalog.get(id).and_then(Result::ok);
        let is_kept_short = agent.plugins.keys().filter_map(package).any(|package| package.manifest.shortens);
        if agent.effects.is_some() || is_kept_short || agent.list == RunnerSection::Teams {
            return None;
        }
        let defaults = config::default_effects(agent);
        let missing = defaults.iter().map(|step| &*step.kind).filter(|id| self.catalog.get(id).is_none());
        let missing: Vec<_> = missing.map(|id| format!("`{id}`")).collect();
        (!missing.is_empty()).then(|| {
            format!(
                "{}: no effect shortens the conversation, because the shipped plugins {} are not installed; {}, or write \
                 `effects: []` if none is needed",
                agent.place(),
                missing.join(", "),
                self.shipped.how_to_install()
            )
        })
    }

    /// Warns once of all plugins of these agents that are used in place of ones that come with the host, because those are
    /// not installed, and of the default toolboxes that are left out because of such plugins. A plugin in a directory that a
    /// person names is used on purpose.
    pub(crate) fn stand_ins<'a>(&self, agents: impl Iterator<Item = &'a AgentConfig>) -> Option<String> {
        let is_unshipped = |id: &str| self.catalog.entry(id).is_some_and(|plugin| !self.catalog.is_shipped(plugin));
        let named = [&self.named_dirs[..], &self.config.user.plugin_dirs].concat();
        let is_found = |id: &str| {
            let location = self.catalog.entry(id).map(CatalogEntry::location);
            location.is_some_and(|location| location.lies_in(&self.searched_dirs) && !location.lies_in(&named))
        };
        let used = agents.flat_map(AgentConfig::all_plugins).map(|(_, id, _)| id);
        let used =
            used.filter(|id| SHIPPED_PLUGINS.contains(id) && is_found(id) && is_unshipped(id)).map(str::to_owned);
        let left_out = self.unshipped_toolboxes.iter().filter_map(ToolboxUse::shipped);
        let of_left_out = left_out.flat_map(|uses| uses.plugins.keys()).filter(|id| is_unshipped(id)).cloned();
        let ids: BTreeSet<_> = used.chain(of_left_out).collect();
        (!ids.is_empty()).then(|| self.warning_of_stand_ins(&ids))
    }

    fn warning_of_stand_ins(&self, ids: &BTreeSet<String>) -> String {
        let folder = |id: &String| Some(self.catalog.entry(id)?.location().path()?.parent()?.display().to_string());
        let folders =
            ids.iter().filter_map(folder).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" and ");
        let (plugins, are_others) = match ids.len() {
            1 => ("the plugin", "does not count as the one that comes with shelly-host, so it gets"),
            _ => ("the plugins", "do not count as those that come with shelly-host, so they get"),
        };
        let toolboxes = match &self.unshipped_toolboxes[..] {
            [] => String::new(),
            left_out => format!(
                "; the default agent is without the toolboxes {}, whose grants they would get: to grant these, name the \
                 toolboxes in a config or the directory with --plugins",
                quoted_names(left_out.iter().map(ToolboxUse::name))
            ),
        };
        let mend = match self.shipped.package_folder() {
            Some(folder) => format!("copy its plugins to {}", folder.display()),
            None => self.shipped.how_to_install(),
        };
        format!(
            "{plugins} {} in {folders} {are_others} no default grants, only those of the config{toolboxes}; to use what comes \
             with shelly-host, {mend}",
            quoted_names(ids.iter().map(String::as_str))
        )
    }
}

/// Lists names for a sentence: `` `a`, `b` ``.
fn quoted_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the tools that a toolbox selects from its plugins; `None`: all.
pub(crate) fn only_of(agent: &AgentConfig, listed: PluginSection, id: &str) -> Option<Vec<String>> {
    shipped_with(agent, id).filter(|_| listed == PluginSection::Toolboxes)?.tools.clone()
}

/// Returns the toolbox of an agent that contains this plugin.
fn shipped_with<'a>(agent: &'a AgentConfig, id: &str) -> Option<&'a ShippedToolboxUse> {
    agent.toolboxes.iter().filter_map(ToolboxUse::shipped).find(|uses| uses.plugins.contains_key(id))
}

/// Refuses a tool name of a toolbox that none of its plugins has. `plugins` are those of the agent, each with the list in
/// which it stands.
pub(crate) fn check_only<'a>(
    agent: &AgentConfig,
    plugins: impl Iterator<Item = (PluginSection, &'a Plugin)> + Clone,
) -> Result<(), Report> {
    for uses in agent.toolboxes.iter().filter_map(ToolboxUse::shipped) {
        let of_it = plugins
            .clone()
            .filter(|(listed, plugin)| *listed == PluginSection::Toolboxes && uses.plugins.contains_key(plugin.id()));
        let tools: Vec<_> = of_it.flat_map(|(_, plugin)| plugin.tools().iter()).collect();
        let names = || tools.iter().map(|tool| tool.name.as_str());
        if let Some(name) = uses.tools.iter().flatten().find(|name| !names().any(|known| known == name.as_str())) {
            let place = format!("named by agents.{}.toolboxes under `{}`", agent.name, uses.name);
            return Err(config::unknown("tool", name, names()).cause(place));
        }
    }
    Ok(())
}

/// Refuses params that a plugin does not know, if its manifest lists the ones it knows. `place` is where they stand.
pub(crate) fn check_params(
    package: &PluginPackage,
    params: &IndexMap<String, Value>,
    place: &str,
) -> Result<(), Report> {
    let Some(known) = &package.manifest.params else { return Ok(()) };
    match params.keys().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let report = config::unknown("param", name, known.iter().map(String::as_str));
            Err(report.cause(format!("named by {place}")))
        }
    }
}
