use std::sync::Arc;

use super::{serve_options::ServeOptions, served_agent_tool::ServedAgentTool};
use crate::{
    agent::Agent,
    app::App,
    assemble::{ModelCache, RunResources, StartupNotices, extend},
    config::RunnerConfig,
    error::Report,
    mcp::serve::{McpCatalog, McpPrompt},
    model::ScriptedCompleter,
    skill::Skill,
    tool::ToolBox,
};

/// An app at one point in time, with what is served of it.
pub(super) struct AppServerSnapshot {
    pub app: Arc<App>,
    /// The agent whose tools are served. It is never run.
    pub agent: Agent,
    /// The agents, as tools.
    pub agents: ToolBox,
    /// The tools of each of the agent's sources when this was built.
    of_sources: Vec<ToolBox>,
    /// The tools and prompts as clients are told of them.
    pub shelf: Arc<McpCatalog>,
}

impl AppServerSnapshot {
    /// Builds what is served of an app.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such agent, or a plugin that it needs cannot be loaded.
    pub async fn new(app: App, options: &ServeOptions, notices: &mut StartupNotices) -> Result<Self, Report> {
        notices.warnings.extend(app.project.warnings().iter().cloned());
        let (mut agent, skills) = toolbox(&app, options.agent.as_deref(), notices).await?;
        // A client has its own way to ask its person.
        agent.tools = agent.tools.without(&["ask_user".to_owned()]);
        let app = Arc::new(app);
        let agents = agents_as_tools(&app, options, notices).await;
        notices.warnings.extend(app.engine_warnings());
        // If names clash or look alike, the agent's own tool is kept.
        let own = agent.toolbox();
        let mut all = own.clone();
        extend(&mut all, agents.clone(), "agents", &mut notices.warnings);
        let left: Vec<_> = agents.names().filter(|name| own.contains(name)).map(str::to_owned).collect();
        let agents = agents.without(&left);
        let prompts = skills.iter().map(|skill| prompt(skill, &app)).collect();
        let (shelf, of_sources) = (Arc::new(McpCatalog { tools: all.specs(), prompts }), agent.of_sources());
        Ok(Self { app, agent, agents, of_sources, shelf })
    }

    /// Rebuilds the catalog with the present tools of the agent's sources; `None` if they have not changed.
    pub fn refreshed(&self) -> Option<Self> {
        if self.agent.has_same_tools(&self.of_sources) {
            return None;
        }
        let of_sources = self.agent.of_sources();
        let (app, agent, agents) = (Arc::clone(&self.app), self.agent.clone(), self.agents.clone());
        let mut all = agent.toolbox();
        // Clashes with the agents' names were reported before, and are dropped here in the same way.
        all.extend(agents.clone());
        let shelf = Arc::new(McpCatalog { tools: all.specs(), prompts: Arc::clone(&self.shelf.prompts) });
        Some(Self { app, agent, agents, of_sources, shelf })
    }
}

fn prompt(skill: &Skill, app: &App) -> McpPrompt {
    let (name, description) = (skill.name.clone(), skill.description.clone());
    McpPrompt { name, description, text: skill.document(&app.config.root) }
}

/// Builds an agent for its tools alone, which needs no model, and returns it with its skills.
async fn toolbox(app: &App, name: Option<&str>, notices: &mut StartupNotices) -> Result<(Agent, Vec<Skill>), Report> {
    app.open_plugins(name, None).await?;
    notices.warnings.extend(app.recover_changes());
    let default;
    let config = match app.is_default(name) {
        true => {
            default = app.default_agent(&mut notices.warnings);
            &default
        }
        // A team has no tools; only its skills are served.
        false => name.map_or_else(|| app.config.entry(), |name| app.config.who(name))?.own(),
    };
    let servers = app.reach_servers(&[config], notices).await;
    let apis = app.reach_apis(&[config], notices).await;
    let shared = RunResources::new(&app.project, &app.broker, app.changes()).with_sources(servers, apis);
    // The agent is never run.
    let none = Arc::new(ScriptedCompleter::new([]));
    let blueprint = app.blueprint_around(config, none, &shared, notices).await?;
    let agent = blueprint.agent(&mut notices.warnings)?;
    Ok((agent, blueprint.skills))
}

/// Returns the agents and teams of the config whose models can be resolved, as tools.
async fn agents_as_tools(app: &Arc<App>, options: &ServeOptions, notices: &mut StartupNotices) -> ToolBox {
    let shared = RunResources::new(&app.project, &app.broker, app.changes());
    let (models, mut tools) = (ModelCache::new(&shared.stores), ToolBox::new());
    let (model, record) = (options.model.as_deref(), options.record && app.config.sessions.is_recording());
    for who in app.config.runners() {
        let own = who.own();
        let has_models = have_models(app, who, model, &models, notices).await.map_err(|report| report.to_string());
        let made = has_models.and_then(|()| ServedAgentTool::new(app, own, (model, record), &options.ends));
        let named = made.and_then(|tool| tools.register(Arc::new(tool)).map_err(|clash| clash.to_string()));
        if let Err(why) = named {
            notices.notes.push(format!(
                "the {} `{}` is not offered as a tool: {why}",
                own.word(),
                own.name.escape_debug()
            ));
        }
    }
    tools
}

/// Checks that the models of a runner and of those that it needs can be resolved.
async fn have_models(
    app: &App,
    who: RunnerConfig<'_>,
    model: Option<&str>,
    models: &ModelCache,
    notices: &mut StartupNotices,
) -> Result<(), Report> {
    for inner in app.config.needed_by(who) {
        if !matches!(inner, RunnerConfig::Team(team) if !team.asks()) {
            app.model(inner.own(), model, models, notices).await?;
        }
    }
    Ok(())
}
