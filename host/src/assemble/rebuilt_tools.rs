//! The tools that agents at work have of plugins that are built again: a call goes to the newest component that has the same
//! tool.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use async_trait::async_trait;

use super::plugin_tools::PluginToolMaker;
use crate::{
    chat::{ToolCall, ToolSpec},
    error::{Fault, Report},
    plugin::{Plugin, PluginEngine, PluginPackage},
    tool::{Tool, ToolCx, ToolOutput, WrappedTool},
};

/// The tools that agents at work have of plugins that are built again. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct RebuiltTools(Arc<Mutex<Vec<Weak<RebuiltToolset>>>>);

/// The tools that one agent has of one plugin.
struct RebuiltToolset {
    maker: PluginToolMaker,
    /// The plugin that the agent began with.
    plugin: Arc<Plugin>,
    /// By their names, the tools of later components that take the place of one of its tools.
    newest: Mutex<HashMap<String, Arc<dyn Tool>>>,
}

/// A tool of the plugin that an agent began with, whose calls go to the newest component.
struct RebuiltTool {
    tool: Arc<dyn Tool>,
    toolset: Arc<RebuiltToolset>,
}

impl RebuiltTools {
    /// Makes the tools of a plugin for an agent, whose calls follow the plugin when it is built again.
    pub(super) fn follow(&self, plugin: &Arc<Plugin>, maker: PluginToolMaker) -> Vec<Arc<dyn Tool>> {
        let tools = maker.tools(plugin);
        let toolset = Arc::new(RebuiltToolset { maker, plugin: Arc::clone(plugin), newest: Mutex::default() });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|toolset| toolset.strong_count() > 0);
        all.push(Arc::downgrade(&toolset));
        let follow = |tool| Arc::new(RebuiltTool { tool, toolset: Arc::clone(&toolset) }) as Arc<dyn Tool>;
        tools.into_iter().map(follow).collect()
    }

    /// Sends later calls of agents at work to this component of their plugin. A call that is under way ends where it is.
    /// Returns the number of tools that are called there.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the component cannot be used by one of the agents; then nothing changes.
    pub async fn replace(&self, engine: &Arc<PluginEngine>, package: &Arc<PluginPackage>) -> Result<usize, Report> {
        let mut replaced = Vec::new();
        for toolset in self.of_plugin(&package.manifest.id) {
            if toolset.can_follow(package) {
                let plugin = Plugin::load(engine, package, toolset.plugin.settings()).await;
                let plugin = plugin.map_err(|error| error.report())?;
                let tools = toolset.maker.tools(&Arc::new(plugin));
                replaced.push((toolset, tools));
            }
        }
        let names: BTreeSet<_> = replaced.into_iter().flat_map(|(toolset, tools)| toolset.replace(tools)).collect();
        Ok(names.len())
    }

    fn of_plugin(&self, id: &str) -> Vec<Arc<RebuiltToolset>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(Weak::upgrade).filter(|toolset| toolset.plugin.id() == id).collect()
    }
}

impl RebuiltToolset {
    /// Returns `true` if calls may go to a component in the middle of a run. It must ask for the same, since grants decide which
    /// calls run side by side. A plugin with other roles changes them all at once, and handles belong to their instance.
    fn can_follow(&self, package: &PluginPackage) -> bool {
        let before = self.plugin.package();
        let asks_the_same = before.manifest.wants == package.manifest.wants;
        let has_tools_alone = before.manifest.is_tools() && package.manifest.is_tools();
        asks_the_same && has_tools_alone && !before.offer.is_kept && !package.offer.is_kept
    }

    /// Takes those of these tools that are described as one that the agent has. Returns their names.
    fn replace(&self, tools: Vec<Arc<dyn Tool>>) -> Vec<String> {
        let had: Vec<_> = self.plugin.tools().iter().map(|spec| description(spec)).collect();
        let same: Vec<_> = tools.into_iter().filter(|tool| had.contains(&description(tool.spec()))).collect();
        let names = same.iter().map(|tool| tool.spec().name.clone()).collect();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.extend(same.into_iter().map(|tool| (tool.spec().name.clone(), tool)));
        names
    }

    /// Returns the newest tool of this name, if a later component has it.
    fn newest(&self, name: &str) -> Option<Arc<dyn Tool>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}

/// Returns everything that a model and the host are told of a tool.
fn description(spec: &ToolSpec) -> String {
    serde_json::to_string(spec).unwrap_or_default()
}

#[async_trait]
impl WrappedTool for RebuiltTool {
    fn inner(&self) -> &dyn Tool {
        &*self.tool
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        match self.toolset.newest(&self.spec().name) {
            Some(tool) => tool.call(cx, call).await,
            None => self.tool.call(cx, call).await,
        }
    }
}
