//! The key `agent_tools`: agents that another agent calls as tools.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{self, value::MapAccessDeserializer},
};
use serde_json::Value;

use super::values::or_text;
use crate::agent::{AgentTool, AgentToolError, AgentToolOptions, ConversationMode};

/// An agent or team that another agent calls as a tool: a name, or a mapping with options.
// The derived `deserialize` reads the mapping.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(inline, transform = or_text)]
pub struct AgentToolUse {
    /// The name of the agent or team.
    pub agent: String,
    /// The name of the tool; `None`: the agent's name, reduced to the characters that a tool name may have.
    pub name: Option<String>,
    /// The description that the model sees; `None`: the agent's description.
    pub description: Option<String>,
    /// The conversation in which the agent works.
    #[serde(default)]
    pub conversation: ConversationMode,
    /// JSON Schema of the arguments; `None`: one text `task`.
    pub input_schema: Option<Value>,
    /// Instruction that the agent is given before the arguments of the call.
    #[serde(default)]
    pub instruction: String,
}

impl AgentToolUse {
    /// Returns the options of the tool.
    pub fn as_tool(&self) -> AgentToolOptions {
        let Self { agent: _, name, description, conversation, input_schema, instruction } = self.clone();
        AgentToolOptions { name, description, conversation, input_schema, instruction }
    }

    /// Builds the tool for an agent with the description `about`.
    ///
    /// # Errors
    ///
    /// [`AgentToolError`] if the options cannot make a tool.
    pub fn tool(&self, about: &str) -> Result<AgentTool, AgentToolError> {
        AgentTool::registered(self.agent.as_str(), about, self.as_tool())
    }
}

impl<'de> Deserialize<'de> for AgentToolUse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct AgentToolVisitor;
        impl<'de> de::Visitor<'de> for AgentToolVisitor {
            type Value = AgentToolUse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an agent, or a mapping with `agent`")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<AgentToolUse, E> {
                let (name, description, input_schema) = (name.to_owned(), None, None);
                let (conversation, instruction) = Default::default();
                Ok(AgentToolUse { agent: name, name: None, description, conversation, input_schema, instruction })
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<AgentToolUse, M::Error> {
                AgentToolUse::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_any(AgentToolVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Config, error::Report};

    fn parse(agents: &str) -> Result<Config, Report> {
        Config::parse(&format!("agents:\n{agents}"), "/project".into())
    }

    #[test]
    fn agent_tools_are_parsed() {
        let config = parse(
            "  - name: lead
    agent_tools:
      - bob the bird
      - agent: eve
        name: look_up
        description: Looks something up.
        conversation: kept
        input_schema: {type: object, properties: {city: {type: string}}, required: [city]}
        instruction: Say how many live there.
  - {name: bob the bird, description: Knows birds.}
  - {name: eve}
",
        );
        let config = config.unwrap_or_else(|report| panic!("{report}"));
        let [short, full] = &config.agents[0].agent_tools[..] else { panic!("there are two") };
        let tool = short.tool("Knows birds.").unwrap();
        assert_eq!((tool.name(), tool.description()), ("bob-the-bird", "Knows birds."));
        assert_eq!((short.conversation, &short.input_schema), (ConversationMode::Fresh, &None));
        let tool = full.tool("").unwrap();
        assert_eq!((tool.name(), tool.description()), ("look_up", "Looks something up."));
        assert_eq!(
            (full.conversation, full.instruction.as_str()),
            (ConversationMode::Kept, "Say how many live there.")
        );
        assert_eq!(full.input_schema.as_ref().unwrap()["required"], serde_json::json!(["city"]));
    }

    #[test]
    fn invalid_agent_tool_is_refused_with_position() {
        let tools =
            |tools: &str| format!("  - {{name: a, agent_tools: {tools}}}\n  - {{name: bob}}\n  - {{name: eve}}\n");
        let circle = |of_c: &str| {
            format!(
                "  - {{name: a, agent_tools: [b]}}\n  - {{name: b, agent_tools: [d, c]}}\n  \
                 - {{name: c, agent_tools: [d, {of_c}]}}\n  - {{name: d}}\n  - {{name: e}}\n"
            )
        };
        for (agents, says) in [
            (tools("[bob, eve]"), ""),
            (tools("[bbo]"), "there is no agent `bbo`: named by agents.a.agent_tools (did you mean `bob`?)"),
            (tools("[a]"), "agents.a.agent_tools: `a` is the agent itself"),
            (tools("[bob, {agent: eve, name: bob}]"), "agents.a.agent_tools: two tools have the name `bob`"),
            (
                tools("[{agent: bob, name: delegate}]"),
                "agents.a.agent_tools: `delegate` is the name of a tool of the host",
            ),
            (
                tools("[{agent: bob, name: load_skill}]"),
                "agents.a.agent_tools: `load_skill` is the name of a tool of the host",
            ),
            (tools("[{agent: bob, name: 'a b'}]"), "agents.a.agent_tools: invalid tool name `a b`"),
            (
                tools("[{agent: bob, input_schema: {type: array}}]"),
                "agents.a.agent_tools: the schema of `bob` does not describe an object",
            ),
            (
                tools("[{agent: bob, input_schema: {type: object, properties: {a: {pattern: x}}}}]"),
                "agents.a.agent_tools: the schema of `bob`: a: unsupported JSON Schema keyword `pattern`; remove it",
            ),
            (tools("[{agent: bob, kept: true}]"), "there is no key `kept`"),
            (tools("[{agent: bob, conversation: long}]"), "cannot be `long`"),
            (tools("[{name: bob}]"), "the key `agent` is missing"),
            (
                "  - {name: a, agent_tools: [bob], delegable: {agents: [eve]}}\n  - {name: bob}\n  - {name: eve}\n"
                    .into(),
                "agents.a.agent_tools: the agent may not start `bob`",
            ),
            (circle("e"), ""),
            (circle("a"), "agents and teams depend on each other in a cycle: a → b → c → a"),
            (circle("b"), "agents and teams depend on each other in a cycle: b → c → b"),
        ] {
            let told = parse(&agents).err().map(|report| report.with_hint()).unwrap_or_default();
            assert!(
                told.contains(says) && told.is_empty() == says.is_empty(),
                "{agents}\nwanted: {says}\ntold: {told}"
            );
        }
    }
}
