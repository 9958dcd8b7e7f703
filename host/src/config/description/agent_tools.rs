//! Agents that are tools of another one. Each of these agents is disclosed by itself.

use crate::config::{
    AgentToolUse, Config,
    effective_setting::{EffectiveSetting, is, map, set},
};

pub(super) fn agent_tool_setting(uses: &AgentToolUse, config: &Config) -> EffectiveSetting {
    let AgentToolUse { agent, name, description, conversation, input_schema, instruction } = uses;
    let made = uses.tool(config.who(agent).map_or("", |who| &who.own().description)).ok();
    let (called, about) = made.as_ref().map(|tool| (tool.name(), tool.description())).unzip();
    map([
        ("agent", is(agent)),
        ("name", is(&called).noted_if(name.is_none(), "the name of the agent")),
        ("description", is(&about).noted_if(description.is_none(), "the description of the agent")),
        ("conversation", is(conversation)),
        ("input_schema", is(input_schema).noted_if(input_schema.is_none(), "one string, `task`")),
        ("instruction", set(instruction)),
    ])
}
