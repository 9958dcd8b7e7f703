use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, LazyLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{AgentGroup, Effect, GrantDecisions, RunMiddleware};
use crate::{
    capability::{Budget, Ceiling},
    limits,
    model::{Completer, ModelMiddleware},
    skill::{LoadSkill, Skill},
    tool::{Tool, ToolBox, ToolMiddleware, ToolSource},
};

/// A model with instructions and tools of its own. Made once, run as often as you like; clones are cheap.
///
/// ```
/// use std::sync::Arc;
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use shelly_host::{agent::Agent, chat::{Chat, Message}, event::RunCx, model::ScriptedCompleter, tool};
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
    /// Its name, by which others delegate to it.
    pub name: Arc<str>,
    /// What it is good for, for people and for other agents.
    pub description: Arc<str>,
    /// What it is told to do and how.
    pub instructions: Arc<str>,
    /// What to show before its name.
    pub prefix: Arc<str>,
    /// The model.
    pub completer: Arc<dyn Completer>,
    /// Its tools, and nobody else's.
    pub tools: ToolBox,
    /// Those of its tools that come and go: looked at before each turn.
    pub sources: Vec<Arc<dyn ToolSource>>,
    /// What looks at its chat in every turn, in order.
    pub effects: Vec<Arc<dyn Effect>>,
    /// What stands around its runs, outermost first.
    pub middleware: Vec<Arc<dyn RunMiddleware>>,
    /// What stands around its requests to a model, outermost first. Those that its effects make go through it as well.
    pub model_middleware: Vec<Arc<dyn ModelMiddleware>>,
    /// What stands around its tool calls, outermost first.
    pub tool_middleware: Arc<[Arc<dyn ToolMiddleware>]>,
    /// Models beside its own, by their names, for effects and middleware that may send requests to them.
    pub models: Arc<BTreeMap<String, Arc<dyn Completer>>>,
    /// Procedures that it knows. Those with a description are loaded on demand: see [`Agent::with_skills`].
    pub skills: Arc<[Skill]>,
    /// What is known of the project, for the system prompt.
    pub context: Arc<str>,
    /// What one run may spend, its delegations included.
    pub budget: Budget,
    /// What those that it starts may not exceed, nor those that they start.
    pub delegable: Ceiling,
    /// What its plugins have got, to be told when it runs.
    pub grants: Arc<GrantDecisions>,
    /// Those it works with; none: it works alone.
    pub crew: Option<Arc<AgentGroup>>,
    /// How it runs.
    pub options: AgentRunOptions,
}

/// How an agent runs.
#[derive(Debug, Clone)]
pub struct AgentRunOptions {
    /// Turns of one run.
    pub max_iterations: u32,
    /// The turn, counted from 0, before which the agent is told once that it must come to an end; 0: never.
    pub warn_iterations: u32,
    /// How deep it may delegate: it may if it runs at a smaller depth. 0: not at all.
    pub max_delegation_depth: u32,
    /// As one that was delegated to: whether it may hand its task over (not if 0). As one that delegates: how often a
    /// task may be handed on (if 0, [`limits::HAND_OVERS`] times).
    pub max_handoffs: u32,
    /// Who answers the questions of those that it delegates to.
    pub interaction: InteractionMode,
    /// How long a question of one that it delegated to waits for its answer; none: as long as the run goes on.
    pub question_timeout: Option<Duration>,
    /// Whether the system prompt has the hints on how to work.
    pub behavioral_hints: bool,
}

impl Default for AgentRunOptions {
    fn default() -> Self {
        Self {
            max_iterations: limits::MAX_ITERATIONS,
            warn_iterations: 0,
            max_delegation_depth: 0,
            max_handoffs: 0,
            interaction: InteractionMode::Blocking,
            question_timeout: None,
            behavioral_hints: true,
        }
    }
}

/// Who answers the questions of an agent that was delegated to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InteractionMode {
    /// The context that it was given, at once.
    #[default]
    Blocking,
    /// As the delegating agent says for each task; blocking where it does not say.
    Auto,
    /// The delegating agent, unless it says otherwise for a task.
    Interactive,
}

impl Agent {
    /// An agent that has only a model and instructions.
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
            crew: None,
            options: AgentRunOptions::default(),
        }
    }

    /// What it is good for.
    pub fn with_description(mut self, description: impl Into<Arc<str>>) -> Self {
        self.description = description.into();
        self
    }

    /// One more tool.
    ///
    /// # Panics
    ///
    /// If it has a tool of that name; [`ToolBox::register`] returns that as an error.
    pub fn with_tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools = self.tools.with(tool);
        self
    }

    /// More tools, that come and go.
    pub fn with_source(mut self, source: Arc<dyn ToolSource>) -> Self {
        self.sources.push(source);
        self
    }

    /// What each of its sources has now.
    pub fn of_sources(&self) -> Vec<ToolBox> {
        self.sources.iter().map(|source| source.tools()).collect()
    }

    /// Whether its sources have what they had [then](Agent::of_sources).
    pub fn has_same_tools(&self, then: &[ToolBox]) -> bool {
        self.of_sources().iter().zip(then).all(|(now, then)| now.is_same(then))
    }

    /// All its tools as they are now: of two whose names clash or look alike the first.
    pub fn toolbox(&self) -> ToolBox {
        self.sources.iter().fold(self.tools.clone(), |mut tools, source| {
            for clash in tools.extend(source.tools()) {
                tracing::warn!("agent `{}`: {clash}; the first one is used", self.name);
            }
            tools
        })
    }

    /// One more effect, after those that it has.
    pub fn with_effect(mut self, effect: impl Effect + 'static) -> Self {
        self.effects.push(Arc::new(effect));
        self
    }

    /// One more middleware, inside those that it has.
    pub fn with_middleware(mut self, middleware: impl RunMiddleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// One more middleware around its requests to a model, inside those that it has.
    pub fn with_model_middleware(mut self, middleware: impl ModelMiddleware + 'static) -> Self {
        self.model_middleware.push(Arc::new(middleware));
        self
    }

    /// One more middleware around its tool calls, inside those that it has.
    pub fn with_tool_middleware(mut self, middleware: impl ToolMiddleware + 'static) -> Self {
        let more: Arc<dyn ToolMiddleware> = Arc::new(middleware);
        self.tool_middleware = self.tool_middleware.iter().cloned().chain([more]).collect();
        self
    }

    /// These skills, and the tool `load_skill` if any of them is loaded on demand. Their folders are named to the model
    /// as they lie below `project_root`.
    pub fn with_skills(mut self, skills: Vec<Skill>, project_root: &Path) -> Self {
        self.skills = skills.into();
        if let Some(load) = LoadSkill::new(self.skills.iter(), project_root) {
            // A tool of that name that is there already is the user's own.
            let _ = self.tools.register(Arc::new(load));
        }
        self
    }

    /// What one run may spend.
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Those it works with, to whom it may delegate `depth` levels deep.
    pub fn with_crew(mut self, crew: Arc<AgentGroup>, depth: u32) -> Self {
        self.crew = Some(crew);
        self.options.max_delegation_depth = depth;
        self
    }
}

static PREFIX: LazyLock<Arc<str>> = LazyLock::new(|| DEFAULT_PREFIX.into());

/// What is shown before the name of an agent that has no prefix of its own.
pub const DEFAULT_PREFIX: &str = "🤖";
