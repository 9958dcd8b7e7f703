//! The effective settings of agents that are tools.

use super::{
    super::{AgentToolUse, Config},
    EffectiveSetting, is, map, set,
};

pub(super) fn setting(uses: &AgentToolUse, config: &Config) -> EffectiveSetting {
    let AgentToolUse { agent, name, description, conversation, input_schema, instruction } = uses;
    let made = uses.tool(config.who(agent).map_or("", |who| &who.own().description)).ok();
    let (called, about) = made.as_ref().map(|tool| (tool.name(), tool.description())).unzip();
    map([
        ("agent", is(agent)),
        ("name", is(&called).noted_if(name.is_none(), "as the agent")),
        ("description", is(&about).noted_if(description.is_none(), "as the agent")),
        ("conversation", is(conversation)),
        ("input_schema", is(input_schema).noted_if(input_schema.is_none(), "a task, as a text")),
        ("instruction", set(instruction)),
    ])
}
