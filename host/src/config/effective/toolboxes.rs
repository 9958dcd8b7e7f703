//! The effective settings of an agent's toolboxes.

use super::{AgentRuntimeInfo, plugin_keys};
use crate::config::{
    AgentConfig, Config, DEFAULT_NAMESPACE, HostToolbox, HostToolboxUse, McpServerUse, PluginSection,
    ShippedToolboxUse, ToolboxUse,
    effective_setting::{EffectiveSetting, SettingValue, is, list, map, or, set},
};

pub(super) fn settings(agent: &AgentConfig, known: &AgentRuntimeInfo, config: &Config) -> EffectiveSetting {
    let shipped =
        agent.all_plugins().zip(&known.plugins).filter(|((listed, ..), _)| *listed == PluginSection::Toolboxes);
    let mut shipped = shipped.map(|((_, id, uses), known)| (id.to_owned(), map(plugin_keys(uses, known, config))));
    list(agent.toolboxes.iter().zip(&known.toolboxes).map(|(uses, of_it)| match uses {
        ToolboxUse::Own(HostToolboxUse { name, tools: _, programs, ns }) => {
            let mut keys = vec![("name", is(name))];
            if *name == HostToolbox::State {
                keys.push(("ns", or(ns.as_deref(), DEFAULT_NAMESPACE, "default")));
            }
            if *name == HostToolbox::Exec {
                keys.push(("programs", is(programs).noted_if(programs.is_none(), "any, and a person is asked")));
            }
            keys.push(("tools", is(of_it)));
            map(keys)
        }
        ToolboxUse::Shipped(ShippedToolboxUse { name, tools, plugins }) => map([
            ("name", is(name)),
            ("tools", is(tools).noted_if(tools.is_none(), "all")),
            ("plugins", EffectiveSetting::new(SettingValue::Map(shipped.by_ref().take(plugins.len()).collect()))),
        ]),
        ToolboxUse::Server(McpServerUse { name, tools, confirm, sampling, elicitation }) => map([
            ("name", is(name)),
            ("tools", is(tools).noted_if(tools.is_none(), "all that are approved")),
            (
                "confirm",
                is(confirm).noted_if(confirm.is_none(), "before calls of tools that it says may destroy something"),
            ),
            ("sampling", set(sampling)),
            ("elicitation", set(elicitation)),
        ]),
    }))
}
