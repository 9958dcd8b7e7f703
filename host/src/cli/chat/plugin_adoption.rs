use std::{path::Path, sync::Arc};

use super::{
    plugin_development::PluginRebuild,
    runner_facts::{RunnerFacts, facts_of},
};
use crate::{app::App, error::Report};

/// The outcome of trying plugins that were built again: each is used if the agent still works with it.
pub struct PluginAdoption {
    /// The app with the plugins that can be used.
    pub app: Arc<App>,
    /// The facts about the agent with these plugins; `None` if none can be used.
    pub facts: Option<RunnerFacts>,
    /// Each plugin that was tried, with the reason if it cannot be used.
    pub outcomes: Vec<(PluginRebuild, Result<(), Report>)>,
}

impl PluginAdoption {
    /// Tries each of these plugins in place of the one with its id in the app. Later ones are tried together with the
    /// accepted ones.
    pub async fn of(app: Arc<App>, rebuilds: Vec<PluginRebuild>, agent: Option<&str>, model: Option<&str>) -> Self {
        let mut adoption = Self { app, facts: None, outcomes: Vec::new() };
        for rebuild in rebuilds {
            let outcome = match with_plugin(&adoption.app, &rebuild.folder, agent, model).await {
                Ok((app, facts)) => {
                    (adoption.app, adoption.facts) = (app, Some(facts));
                    Ok(())
                }
                Err(report) => Err(report),
            };
            adoption.outcomes.push((rebuild, outcome));
        }
        adoption
    }
}

/// Returns the app with the plugin of a folder, and the facts about the agent with it.
async fn with_plugin(
    app: &App,
    folder: &Path,
    agent: Option<&str>,
    model: Option<&str>,
) -> Result<(Arc<App>, RunnerFacts), Report> {
    let app = Arc::new(app.with_rebuilt(folder).await?);
    let facts = facts_of(&app, agent, model).await?;
    Ok((app, facts))
}
