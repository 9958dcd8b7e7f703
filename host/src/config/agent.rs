//! The config of an agent; what plugins are granted is in `grants`.

use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::IntoDeserializer};

use super::{
    AgentPackageOrigin, AgentToolUse, GrantConfig, OpenApiUse, PluginUse, RemoteAgentConfig, StepUse, ToolboxUse,
    values::OptionalDuration,
};
use crate::{
    agent::{CostTier, InteractionMode},
    capability::Budget,
    limits,
};

/// The name of the agent that runs if the config has no agents.
pub const DEFAULT_AGENT: &str = "assistant";

/// The config of an agent; a team uses the keys that it shares with agents.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// The agent's name.
    pub name: String,
    /// A description for other agents and for people.
    #[serde(default)]
    pub description: String,
    /// The agent's instructions, a part of its system prompt.
    #[serde(default)]
    pub instructions: String,
    /// The name of its model; `None`: the first provider of the config.
    pub provider: Option<String>,
    /// The agent of another host that it is; `None`: it runs here, on a model.
    pub remote: Option<RemoteAgentConfig>,
    /// The labels of the workers of the cluster that run it, whoever starts it; empty: any worker. `None`: it is run by the
    /// process that starts it.
    #[serde(rename = "place")]
    pub worker_labels: Option<Vec<String>>,
    /// The text shown before its name in a terminal.
    pub prefix: Option<String>,
    /// Toolboxes of the host and of MCP servers.
    #[serde(default)]
    pub toolboxes: Vec<ToolboxUse>,
    /// Operations of APIs from `openapi`, each a tool.
    #[serde(default)]
    pub openapi: Vec<OpenApiUse>,
    /// The names of its skills; `None`: all skills of the project.
    pub skills: Option<Vec<String>>,
    /// Keywords for its abilities, for agents that choose a delegate.
    #[serde(default)]
    pub skills_tags: Vec<String>,
    /// The cost class of a task for it, for agents that choose a delegate.
    pub estimated_cost: Option<CostTier>,
    /// The maximum number of its concurrent runs; 0: limited only by `runs`.
    #[serde(default)]
    pub max_concurrency: u32,
    /// The budget of one of its runs, including its delegations.
    #[serde(default)]
    pub budget: Budget,
    /// Its plugins by id, in order, each with what it is granted for this agent.
    #[serde(default)]
    pub plugins: IndexMap<String, Option<PluginUse>>,
    /// Agents that it calls as tools.
    #[serde(default)]
    pub agent_tools: Vec<AgentToolUse>,
    /// Effects on its conversation in every turn, in order; those that shorten the conversation always come first. `None`:
    /// default effects that keep the conversation within the model's context window, if that window may be known.
    pub effects: Option<Vec<StepUse>>,
    /// Middleware around its runs, its requests to models and its tool calls, outermost first.
    #[serde(default)]
    pub middleware: Vec<StepUse>,
    /// Ceiling of all its plugins, whatever each is granted; `None`: no ceiling besides the grants.
    #[serde(rename = "use")]
    pub ceiling: Option<GrantConfig>,
    /// Ceiling of the agents that it starts, and of those that they start.
    #[serde(default)]
    pub delegable: DelegableConfig,
    /// Options of its runs.
    #[serde(default)]
    pub options: AgentOptions,
    /// The coordinator of a team, if it is a plugin.
    #[serde(skip)]
    pub coordinator: Option<StepUse>,
    /// The list of the file in which it stands.
    #[serde(skip)]
    pub list: RunnerSection,
    /// The installed agent package that it comes from; `None`: it stands in the config itself.
    #[serde(skip)]
    pub package: Option<AgentPackageOrigin>,
}

/// The list of a config in which an agent or team stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunnerSection {
    /// `agents`.
    #[default]
    Agents,
    /// `teams`.
    Teams,
}

impl AgentConfig {
    /// Returns its position in the file, such as `agents.helper`.
    pub fn place(&self) -> String {
        let list = match self.list {
            RunnerSection::Agents => "agents",
            RunnerSection::Teams => "teams",
        };
        format!("{list}.{}", self.name)
    }

    /// Returns the word for it in messages: "agent" or "team".
    pub fn word(&self) -> &'static str {
        match self.list {
            RunnerSection::Agents => "agent",
            RunnerSection::Teams => "team",
        }
    }
}

/// Ceiling of the agents that an agent starts. A key that is left out sets no bound of its own.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelegableConfig {
    /// Grants for the plugins of the agents that it starts; `None`: all that it and the agents that it may start use
    /// themselves.
    pub grant: Option<GrantConfig>,
    /// The names of the agents that may be started; `None`: all.
    pub agents: Option<Vec<String>>,
    /// The budget of each of them.
    #[serde(default)]
    pub budget: Budget,
}

/// Options of an agent's runs.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentOptions {
    /// Turns of one run; 0: the ceiling, `None`: the default.
    #[schemars(range(max = limits::MAX_ITERATIONS_CEILING))]
    pub max_iterations: Option<u32>,
    /// The turn before which the agent is told to finish; 0: never.
    #[serde(default)]
    pub warn_iterations: u32,
    /// The largest depth to which it may delegate; 0: it does not delegate.
    #[serde(default)]
    #[schemars(range(max = limits::DELEGATION_DEPTH_CEILING))]
    pub max_delegation_depth: u32,
    /// For a delegate: whether it may hand its task over; 0: it may not. For a delegating agent: how often a task that it
    /// delegates may be handed on; 0: the default.
    #[serde(default)]
    pub max_handoffs: u32,
    /// The share of the model's context window, between 0 and 1, at which the conversation is compacted if the file names
    /// no effects; `None` or 0: 0.8.
    #[schemars(extend("minimum" = 0, "exclusiveMaximum" = 1))]
    pub context_threshold: Option<f64>,
    /// The party that answers the questions of its delegates.
    #[serde(default, deserialize_with = "interaction")]
    pub interaction_mode: InteractionMode,
    /// The longest wait for an answer to such a question; `None`: no limit of its own.
    #[serde(default, with = "OptionalDuration")]
    pub question_timeout: Option<Duration>,
    /// Leaves the hints on how to work out of its system prompt.
    #[serde(default)]
    pub disable_behavioral_hints: bool,
}

impl AgentOptions {
    /// Returns the number of turns of one run, with the ceiling in place of 0.
    pub fn iterations(&self) -> u32 {
        match self.max_iterations {
            None => limits::MAX_ITERATIONS,
            Some(0) => limits::MAX_ITERATIONS_CEILING,
            Some(most) => most,
        }
    }
}

/// Deserializes the mode; the empty text is the default.
fn interaction<'de, D: Deserializer<'de>>(from: D) -> Result<InteractionMode, D::Error> {
    let text = String::deserialize(from)?;
    match text.as_str() {
        "" => Ok(InteractionMode::default()),
        text => InteractionMode::deserialize(text.into_deserializer()),
    }
}
