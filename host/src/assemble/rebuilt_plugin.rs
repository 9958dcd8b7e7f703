//! Plugins that are built again while an app is used.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{App, rebuilt_tools::RebuiltTools};
use crate::{
    config::AgentConfig,
    error::Report,
    plugin::{CatalogEntry, CompileStep, CompiledPlugin, PluginError, PluginPackage},
};

impl App {
    /// Sets the folders of projects that are built again after each change: a person is asked before a tool changes a file in
    /// them, because a build runs what the files say.
    pub fn with_built_projects(mut self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        self.built_projects = folders.into_iter().collect();
        self
    }

    /// Returns this app with the plugin that was built into `folder`, in place of the one of its id. The plugin is read and
    /// compiled now, so its files may be replaced while the app is used. What runs already keeps the plugin that it began with.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the plugin cannot be used, or the config does not grant it what it needs.
    pub async fn with_rebuilt(&self, folder: &Path) -> Result<Self, Report> {
        let (entry, package) = self.read_rebuilt(folder).await?;
        let compiled = CompiledPlugin::of(self.engine().await?, &package).await.map_err(|error| error.report())?;
        let mut app = Self { catalog: self.catalog.with_rebuilt(entry), ..self.clone() };
        let id = &package.manifest.id;
        app.check_grants_of(id)?;
        // The default agent has what needs no grant. It must not lose a plugin in silence.
        if self.default_agent_has(id) && !app.default_agent_has(id) {
            return Err(app.not_a_plugin_of(&app.default_agent(&mut Vec::new()), id));
        }
        app.rebuilt.insert(id.clone(), compiled);
        Ok(app)
    }

    /// Sends later calls of agents at work to the plugin that was built into `folder`, as far as its tools are described as
    /// before and it asks for the same. A call that is under way ends where it is. Returns the number of tools that are called
    /// there.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the plugin cannot be used; then nothing changes.
    pub async fn replace_tools(&self, folder: &Path) -> Result<usize, Report> {
        let (_, package) = self.read_rebuilt(folder).await?;
        self.rebuilt_tools.replace(self.engine().await?, &package).await
    }

    /// Returns the tools that follow the plugin of this id when it is built again; `None` if it never is.
    pub(super) fn rebuilt_tools_of(&self, id: &str) -> Option<RebuiltTools> {
        self.rebuilt.contains_key(id).then(|| self.rebuilt_tools.clone())
    }

    /// Reads and compiles the plugin that was built into `folder`.
    async fn read_rebuilt(&self, folder: &Path) -> Result<(CatalogEntry, Arc<PluginPackage>), Report> {
        let entry = self.catalog.read_rebuilt(folder);
        entry.open(CompileStep::Compile).await;
        let package = Arc::clone(entry.package().map_err(PluginError::report)?);
        Ok((entry, package))
    }

    /// Returns `true` if an agent, a team or a model has the plugin of this id.
    pub fn has_user_of(&self, id: &str) -> bool {
        let is_model = self.config.providers.iter().any(|provider| provider.plugin.as_deref() == Some(id));
        is_model || self.config.everyone().any(|agent| has(agent, id)) || self.default_agent_has(id)
    }

    /// Returns `true` if no config names agents, and the agent that then runs has the plugin of this id.
    fn default_agent_has(&self, id: &str) -> bool {
        self.config.agents.is_empty() && has(&self.default_agent(&mut Vec::new()), id)
    }

    /// Checks that everybody who has the plugin of this id grants it what it needs.
    fn check_grants_of(&self, id: &str) -> Result<(), Report> {
        for agent in self.config.everyone() {
            for (listed, _, uses) in agent.all_plugins().filter(|(_, of, _)| *of == id) {
                let (settings, package) = self.plugin_of(agent, (listed, id), uses)?;
                if self.vain_entry(agent, listed, id).is_none() {
                    settings.check(package).map_err(|error| error.report())?;
                }
            }
        }
        for provider in self.config.providers.iter().filter(|provider| provider.plugin.as_deref() == Some(id)) {
            let (settings, package) = self.provider_plugin(provider)?;
            settings.check(package).map_err(|error| error.report())?;
        }
        Ok(())
    }
}

fn has(agent: &AgentConfig, id: &str) -> bool {
    agent.all_plugins().any(|(_, of, _)| of == id)
}
