//! The plugins and tools that a project's files name.

use crate::{
    assemble::App,
    capability::Grant,
    config::{AgentConfig, ConfigEntryKind, PluginSection, ToolboxUse},
    plugin::{PluginKind, PluginLocation},
    trust::{RiskLevel, TrustFacts, TrustedTool, quoted, quoted_path},
};

/// Facts about plugins, by whose files they are.
#[derive(Debug, Default)]
pub(super) struct PluginFacts {
    /// Plugins of the project.
    pub of_project: TrustFacts,
    /// Plugins in the person's own folders, which are the same in every project.
    pub own: TrustFacts,
}

impl App {
    /// Returns the plugins that agents or models use and that are neither shipped nor named by the person, as far as they
    /// are known without opening a component, which needs consent first.
    pub(super) fn plugin_facts(&self) -> PluginFacts {
        let config = &self.config;
        // What the user-wide config uses is taken from the person's own directories.
        let user = &config.user;
        let runners = config.everyone().filter(|_| !user.has_runners);
        let mut used: Vec<_> = runners.flat_map(AgentConfig::all_plugins).map(|(_, id, _)| id).collect();
        let models = config.providers.iter().filter(|one| !user.contains(ConfigEntryKind::Model, &one.name));
        used.extend(models.filter_map(|provider| provider.plugin.as_deref()));
        let toolboxes = config.toolboxes.iter().filter(|one| !user.contains(ConfigEntryKind::Toolbox, one.name()));
        let toolboxes = toolboxes.filter_map(ToolboxUse::shipped);
        used.extend(toolboxes.flat_map(|uses| uses.plugins.keys().map(String::as_str)));
        // If the config names no models or no agents, any plugin in its directories can be used.
        used.extend(self.catalog.iter().filter_map(|(id, plugin)| {
            // The kinds of a component without a manifest are unknown.
            let kinds = plugin.written_manifest().map(|manifest| &manifest.kinds);
            let as_model =
                config.providers.is_empty() && kinds.is_none_or(|kinds| kinds.contains(&PluginKind::Provider));
            let as_other = config.agents.is_empty() && kinds.is_none_or(|kinds| *kinds != [PluginKind::Provider]);
            (as_model || as_other).then_some(id)
        }));
        let fact = |id: &str| {
            let plugin = self.catalog.entry(id).filter(|plugin| !self.catalog.is_shipped(plugin))?;
            // A plugin that is not shipped is on disk.
            let path = plugin.location().path()?;
            let folder = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            // A link to it may lie in a directory that the person named, or what it leads to.
            let locations = [plugin.location().clone(), PluginLocation::Folder(folder.clone())];
            if locations.iter().any(|it| it.lies_in(&self.named_dirs) || it.lies_in(&user.plugin_dirs)) {
                return None;
            }
            let (id, folder, digest) = (quoted(id), quoted_path(&folder), plugin.sealed()?.digest);
            // The requested capabilities are in the manifest beside the component, and decide which grants it receives.
            let wants = plugin.written_manifest().map(|manifest| {
                let lines = Grant::default().missing(&manifest.wants).into_iter().map(|wanted| quoted(&wanted.line));
                lines.collect::<Vec<_>>().join(", ")
            });
            let wants = match wants {
                None => "everything that the config grants".to_owned(),
                Some(wants) if wants.is_empty() => "nothing".to_owned(),
                Some(wants) => wants,
            };
            let is_own = plugin.is_installed_for_person() || locations.iter().any(|it| it.lies_in(&self.personal_dirs));
            Some((is_own, (RiskLevel::Reads, format!("the plugin {id} in {folder}: {digest}, asks for {wants}"))))
        };
        let (own, of_project): (Vec<_>, Vec<_>) = used.into_iter().filter_map(fact).partition(|(is_own, _)| *is_own);
        let lines = |facts: Vec<(bool, _)>| facts.into_iter().map(|(_, fact)| fact).collect();
        PluginFacts { of_project: lines(of_project), own: lines(own) }
    }

    /// Returns one fact for each agent and team of the project that has plugins: which of them watch over it.
    pub(super) fn watch_facts(&self) -> TrustFacts {
        let runners = self.config.everyone().filter(|_| !self.config.user.has_runners);
        runners.filter_map(|agent| Some((RiskLevel::Little, self.watched_over(agent)?))).collect()
    }

    /// Returns one line with all plugins that watch over an agent, so that removing one is a change to ask about.
    fn watched_over(&self, agent: &AgentConfig) -> Option<String> {
        // A component without a manifest under `plugins` is not opened: it may have only tools.
        let watches = |(listed, id): &(PluginSection, &str)| {
            let as_what_it_is = matches!(listed, PluginSection::Plugins | PluginSection::Toolboxes);
            self.catalog.entry(id).is_some_and(|plugin| match plugin.written_manifest() {
                Some(manifest) => !manifest.is_tools(),
                None => !as_what_it_is,
            })
        };
        let unnamed = |id: &str| agent.effects.iter().flatten().any(|step| step.is_default && step.kind == id);
        let named = || agent.all_plugins().map(|(listed, id, _)| (listed, id)).filter(|(_, id)| !unnamed(id));
        let by: Vec<_> = named().filter(watches).map(|(_, id)| quoted(id)).collect();
        let by = if by.is_empty() { "no plugin".to_owned() } else { by.join(", ") };
        (named().next().is_some()).then(|| format!("the {} {} is guarded by {by}", agent.word(), quoted(&agent.name)))
    }

    /// Returns the SHA-256 digest of a plugin as it is now.
    fn digest(&self, id: &str) -> Option<String> {
        Some(self.catalog.entry(id)?.sealed()?.digest.to_string())
    }

    /// Returns the tools that a line `ORIGIN/NAME` means at present, one for each agent that has the plugin. A name
    /// without an origin, as other programs write it, means none, since it could be any tool.
    pub(super) fn tools_of(&self, line: &str) -> Vec<TrustedTool> {
        let Some((origin, name)) = line.split_once('/') else { return Vec::new() };
        let Some(digest) = self.digest(origin).or_else(|| self.digest_of_tool(origin, name)) else { return Vec::new() };
        let has_server = |agent: &AgentConfig| {
            let mut servers = agent.toolboxes.iter().filter_map(ToolboxUse::server);
            origin.strip_prefix("mcp:").is_some_and(|name| servers.any(|uses| uses.name == name))
        };
        let has_api = |agent: &AgentConfig| {
            origin.strip_prefix("openapi:").is_some_and(|name| agent.openapi.iter().any(|uses| uses.name == name))
        };
        let has_it = |agent: &&AgentConfig| {
            has_server(agent) || has_api(agent) || agent.all_plugins().any(|(_, id, _)| id == origin)
        };
        let agents = self.config.agents.iter().filter(has_it);
        let tool = |agent: &str| TrustedTool {
            agent: agent.into(),
            origin: origin.into(),
            name: name.into(),
            digest: digest.clone(),
        };
        agents.map(|agent| tool(&agent.name)).collect()
    }
}
