use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, LazyLock},
};

use super::{
    context::{AgentGroup, AgentModels, AgentRunOptions, GrantDecisions},
    effect::Effect,
    middleware::RunMiddleware,
};
use crate::{
    capability::{Budget, Ceiling},
    model::{Completer, ModelMiddleware},
    skill::{LoadSkill, Skill},
    tool::{Tool, ToolBox, ToolMiddleware, ToolSource},
};

/// A model with its own instructions and tools. Built once, run any number of times; clones are cheap.
///
/// ```
/// use std::sync::Arc;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use shelly_core::{agent::Agent, chat::{Chat, Message}, event::RunCx, model::ScriptedCompleter, tool};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Weather { city: String }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let weather = tool::function("get_weather", "The weather in a city.", |_cx, args: Weather| async move {
///     Ok(format!("22 degrees and sun in {}", args.city))
/// });
/// let model = ScriptedCompleter::new([
///     ScriptedCompleter::calls(&[("1", "get_weather", r#"{"city":"Paris"}"#)]),
///     ScriptedCompleter::text("It is warm in Paris."),
/// ]);
/// let agent = Agent::new("weather-bot", "Answer questions about the weather.", Arc::new(model)).with_tool(weather);
/// let answer = agent.run(&RunCx::new("weather-bot"), &Chat::new(), vec![Message::user("Paris?")]).await?;
/// assert_eq!(answer.message.text_content(), "It is warm in Paris.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Agent {
    /// The name by which other agents delegate to it.
    pub name: Arc<str>,
    /// The purpose of the agent, as shown to people and to other agents.
    pub description: Arc<str>,
    /// The instructions: its task and how to do it.
    pub instructions: Arc<str>,
    /// The text that is shown before its name.
    pub prefix: Arc<str>,
    /// The model.
    pub completer: Arc<dyn Completer>,
    /// The tools of this agent alone.
    pub tools: ToolBox,
    /// Sources of tools that come and go. The agent reads them before each turn.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// The effects that are called in every turn, in order.
    pub effects: Vec<Arc<dyn Effect>>,
    /// The middleware around its runs, outermost first.
    pub middleware: Vec<Arc<dyn RunMiddleware>>,
    /// The middleware around its requests to a model, outermost first. Requests that its effects make pass through it too.
    pub model_middleware: Vec<Arc<dyn ModelMiddleware>>,
    /// The middleware around its tool calls, outermost first.
    pub tool_middleware: Arc<[Arc<dyn ToolMiddleware>]>,
    /// Further models, by name, to which its effects and middleware may send requests.
    pub models: Arc<BTreeMap<String, Arc<dyn Completer>>>,
    /// The procedures that the agent knows. Those with a description are loaded on demand: see [`Agent::with_skills`].
    pub skills: Arc<[Skill]>,
    /// Facts about the project, for the system prompt.
    pub context: Arc<str>,
    /// The budget of one run, its delegations included.
    pub budget: Budget,
    /// The upper bound on what the agents that it starts may do, and the agents that those start.
    pub delegable: Ceiling,
    /// The capabilities that its plugins were granted or denied, reported when it runs.
    pub grants: Arc<GrantDecisions>,
    /// The agents that it works with; `None` if it works alone.
    pub agent_group: Option<Arc<AgentGroup>>,
    /// Options of its runs.
    pub options: AgentRunOptions,
    /// A JSON Schema that its replies must follow. It goes to the vendor with requests that have no tools, because some
    /// servers force every reply into it, so that the model could call none. Nothing checks the replies here.
    pub response_schema: Option<Arc<str>>,
}

impl Agent {
    /// Creates an agent that has only a model and instructions.
    pub fn new(name: impl Into<Arc<str>>, instructions: impl Into<Arc<str>>, completer: Arc<dyn Completer>) -> Self {
        Self {
            name: name.into(),
            description: Arc::default(),
            instructions: instructions.into(),
            prefix: Arc::clone(&PREFIX),
            completer,
            tools: ToolBox::new(),
            sources: Vec::new(),
            effects: Vec::new(),
            middleware: Vec::new(),
            model_middleware: Vec::new(),
            tool_middleware: [].into(),
            models: Arc::default(),
            skills: Arc::default(),
            context: Arc::default(),
            budget: Budget::default(),
            delegable: Ceiling::default(),
            grants: Arc::default(),
            agent_group: None,
            options: AgentRunOptions::default(),
            response_schema: None,
        }
    }

    /// Sets the description of its purpose.
    pub fn with_description(mut self, description: impl Into<Arc<str>>) -> Self {
        self.description = description.into();
        self
    }

    /// Adds a tool.
    ///
    /// # Panics
    ///
    /// Panics if the agent has a tool of that name; [`ToolBox::register`] returns that as an error.
    pub fn with_tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools = self.tools.with(tool);
        self
    }

    /// Adds a source of tools that come and go.
    pub fn with_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// Returns the models that it may ask, with the middleware around its requests.
    pub(crate) fn model_access(&self) -> AgentModels {
        AgentModels {
            own: Arc::clone(&self.completer),
            others: Arc::clone(&self.models),
            middleware: self.model_middleware.clone(),
        }
    }

    /// Returns the tools that each of its sources has now.
    pub fn of_sources(&self) -> Vec<ToolBox> {
        self.sources.iter().map(|source| source.tools()).collect()
    }

    /// Returns `true` if its sources still have the tools `then`, which [`Agent::of_sources`] returned earlier.
    pub fn has_same_tools(&self, then: &[ToolBox]) -> bool {
        self.of_sources().iter().zip(then).all(|(now, then)| now.is_same(then))
    }

    /// Returns all its tools as they are now. Of two whose names are equal or look alike, the first one is used.
    pub fn toolbox(&self) -> ToolBox {
        self.sources.iter().fold(self.tools.clone(), |mut tools, source| {
            for clash in tools.extend(source.tools()) {
                tracing::warn!("agent `{}`: {clash}; using the first one", self.name);
            }
            tools
        })
    }

    /// Adds an effect after the existing ones.
    pub fn with_effect(mut self, effect: impl Effect + 'static) -> Self {
        self.effects.push(Arc::new(effect));
        self
    }

    /// Adds a middleware inside the existing ones.
    pub fn with_middleware(mut self, middleware: impl RunMiddleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Adds a middleware around its requests to a model, inside the existing ones.
    pub fn with_model_middleware(mut self, middleware: impl ModelMiddleware + 'static) -> Self {
        self.model_middleware.push(Arc::new(middleware));
        self
    }

    /// Adds a middleware around its tool calls, inside the existing ones.
    pub fn with_tool_middleware(mut self, middleware: impl ToolMiddleware + 'static) -> Self {
        let more: Arc<dyn ToolMiddleware> = Arc::new(middleware);
        self.tool_middleware = self.tool_middleware.iter().cloned().chain([more]).collect();
        self
    }

    /// Sets its skills, and adds the tool `load_skill` if any of them is loaded on demand. The model reads their folders as
    /// paths below `project_root`.
    pub fn with_skills(mut self, skills: Vec<Skill>, project_root: &Path) -> Self {
        self.skills = skills.into();
        if let Some(load) = LoadSkill::new(self.skills.iter(), project_root) {
            // An existing tool of that name is the user's own and wins.
            let _ = self.tools.register(Arc::new(load));
        }
        self
    }

    /// Sets the budget of one run.
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the group of agents that it works with, and lets it delegate `depth` levels deep.
    pub fn with_agent_group(mut self, agent_group: Arc<AgentGroup>, depth: u32) -> Self {
        self.agent_group = Some(agent_group);
        self.options.max_delegation_depth = depth;
        self
    }
}

static PREFIX: LazyLock<Arc<str>> = LazyLock::new(|| DEFAULT_PREFIX.into());

/// The prefix of an agent that sets none.
pub const DEFAULT_PREFIX: &str = "🤖";
