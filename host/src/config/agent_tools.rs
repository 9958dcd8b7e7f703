//! The key `agent_tools`: agents that another agent calls as tools.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, value::MapAccessDeserializer},
};
use serde_json::Value;

use super::{AgentConfig, Config};
use crate::{
    agent::{AgentTool, AgentToolError, AgentToolOptions, ConversationMode, RUN_TOOLS},
    error::{ErrorKind, Report},
};

/// An agent or team that another agent calls as a tool: a name, or a mapping with options.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentToolUse {
    /// The name of the agent or team.
    pub agent: String,
    /// The name of the tool; `None`: the agent's name, reduced to the characters that a tool name may have.
    pub name: Option<String>,
    /// The description that the model sees; `None`: the agent's description.
    pub description: Option<String>,
    /// The conversation in which the agent works.
    pub conversation: ConversationMode,
    /// JSON Schema of the arguments; `None`: one text `task`.
    pub input_schema: Option<Value>,
    /// Instruction that the agent is given before the arguments of the call.
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

impl Config {
    /// Checks the agents that `agent` has as tools: each exists, may be started, and gets a free tool name.
    pub(super) fn check_tools_of(&self, agent: &AgentConfig) -> Result<(), Report> {
        let place = format!("agents.{}.agent_tools", agent.name);
        let wrong = |what: String| Report::new(ErrorKind::Usage, format!("{place}: {what}"));
        let mut had: Vec<String> = Vec::new();
        for uses in &agent.agent_tools {
            let whom = &uses.agent;
            if *whom == agent.name {
                return Err(wrong(format!("`{whom}` is the agent itself")).hint("name another agent, or remove it"));
            }
            let who = self.who(whom).map_err(|report| report.cause(format!("{place} names it")))?;
            if agent.delegable.agents.as_ref().is_some_and(|agents| !agents.contains(whom)) {
                return Err(wrong(format!("`{whom}` is none that the agent may start"))
                    .hint(format!("add it to agents.{}.delegable.agents", agent.name)));
            }
            let tool = uses.tool(&who.own().description).map_err(|AgentToolError(why)| wrong(why))?;
            let name = tool.name();
            if RUN_TOOLS.iter().chain(&["ask_user", "load_skill"]).any(|own| *own == name) {
                return Err(wrong(format!("`{name}` is a tool of the host")).hint("give it another `name`"));
            }
            if had.iter().any(|before| before == name) {
                return Err(wrong(format!("two tools are called `{name}`")).hint("give one of them another `name`"));
            }
            had.push(name.to_owned());
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for AgentToolUse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct AgentToolMapping {
            agent: String,
            name: Option<String>,
            description: Option<String>,
            #[serde(default)]
            conversation: ConversationMode,
            input_schema: Option<Value>,
            #[serde(default)]
            instruction: String,
        }
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
                let full = AgentToolMapping::deserialize(MapAccessDeserializer::new(map))?;
                let AgentToolMapping { agent, name, description, conversation, input_schema, instruction } = full;
                Ok(AgentToolUse { agent, name, description, conversation, input_schema, instruction })
            }
        }
        from.deserialize_any(AgentToolVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (tools("[bbo]"), "there is no agent `bbo`: agents.a.agent_tools names it (did you mean `bob`?)"),
            (tools("[a]"), "agents.a.agent_tools: `a` is the agent itself"),
            (tools("[bob, {agent: eve, name: bob}]"), "agents.a.agent_tools: two tools are called `bob`"),
            (tools("[{agent: bob, name: delegate}]"), "agents.a.agent_tools: `delegate` is a tool of the host"),
            (tools("[{agent: bob, name: load_skill}]"), "agents.a.agent_tools: `load_skill` is a tool of the host"),
            (tools("[{agent: bob, name: 'a b'}]"), "agents.a.agent_tools: `a b` is not a tool's name"),
            (
                tools("[{agent: bob, input_schema: {type: array}}]"),
                "agents.a.agent_tools: the schema of `bob` is not that of an object",
            ),
            (
                tools("[{agent: bob, input_schema: {type: object, properties: {a: {pattern: x}}}}]"),
                "agents.a.agent_tools: the schema of `bob`: a: the host holds nobody to `pattern`: leave it out",
            ),
            (tools("[{agent: bob, kept: true}]"), "there is no key `kept`"),
            (tools("[{agent: bob, conversation: long}]"), "cannot be `long`"),
            (tools("[{name: bob}]"), "the key `agent` is missing"),
            (
                "  - {name: a, agent_tools: [bob], delegable: {agents: [eve]}}\n  - {name: bob}\n  - {name: eve}\n"
                    .into(),
                "agents.a.agent_tools: `bob` is none that the agent may start",
            ),
            (circle("e"), ""),
            (circle("a"), "agents and teams need each other in a circle: a → b → c → a"),
            (circle("b"), "agents and teams need each other in a circle: b → c → b"),
        ] {
            let told = parse(&agents).err().map(|report| report.with_hint()).unwrap_or_default();
            assert!(
                told.contains(says) && told.is_empty() == says.is_empty(),
                "{agents}\nwanted: {says}\ntold: {told}"
            );
        }
    }
}
