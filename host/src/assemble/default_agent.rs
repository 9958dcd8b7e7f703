//! The agent of a config that has no agents.

use super::{App, app::shipped_wants};
use crate::{
    capability::Grant,
    config::{AgentConfig, DEFAULT_AGENT, ToolboxUse},
    plugin::PluginManifest,
};

impl App {
    /// Returns `true` if `name` selects the default agent of a config without agents.
    pub(crate) fn is_default(&self, name: Option<&str>) -> bool {
        self.config.agents.is_empty() && name.is_none_or(|name| name == DEFAULT_AGENT)
    }

    /// Builds the default agent: the toolboxes of the config, every other plugin with tools that needs no grant, with
    /// nothing granted, and the default effects.
    pub(crate) fn default_agent(&self, warnings: &mut Vec<String>) -> AgentConfig {
        let mut config = self.config.default_agent();
        let mut left_out = Vec::new();
        for (id, plugin) in self.catalog.iter() {
            if self.config.toolboxes.iter().filter_map(ToolboxUse::shipped).any(|uses| uses.plugins.contains_key(id)) {
                continue;
            }
            let manifest = match plugin.manifest() {
                Ok(manifest) => manifest,
                Err(error) => {
                    warnings.push(format!("ignoring plugin `{id}`: {}", error.report()));
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
            warnings.push(format!("ignoring plugins that need grants from a config: {plugins}"));
        }
        config.settle(self.config.may_know_window(&config), |id| shipped_wants(&self.catalog, id), |_| false);
        config
    }
}
