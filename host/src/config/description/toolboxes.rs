//! Toolboxes of an agent.

use super::{PluginRuntimeInfo, plugins::PluginDescriber, section::SectionDescription};
use crate::{
    config::{
        AgentConfig, Config, DEFAULT_NAMESPACE, HostToolbox, HostToolboxUse, McpServerUse, PluginSection,
        ShippedToolboxUse, ToolboxUse,
        effective_setting::{is, or, set},
    },
    files,
    trust::{RiskLevel, quoted, quoted_path},
};

/// Describes a toolbox of an agent. `tools` are the names of its tools, as far as they are known; plugins take their items
/// of `known`.
pub(super) fn toolbox_section<'a>(
    agent: &AgentConfig,
    toolbox: &ToolboxUse,
    tools: &[String],
    plugins: &PluginDescriber<'_>,
    known: &mut impl Iterator<Item = &'a PluginRuntimeInfo>,
    config: &Config,
) -> SectionDescription {
    let who = format!("the agent {}", quoted(&agent.name));
    match toolbox {
        ToolboxUse::Own(uses) => host_toolbox_section(&who, uses, tools, config),
        ToolboxUse::Shipped(ShippedToolboxUse { name, tools, plugins: listed }) => {
            let mut section = SectionDescription::default();
            section.show("name", is(name));
            section.show("tools", is(tools).noted_if(tools.is_none(), "all"));
            let listed = listed.iter().map(|(id, uses)| {
                let known = known.next().cloned().unwrap_or_default();
                (id.clone(), plugins.plugin(PluginSection::Toolboxes, id, uses, &known))
            });
            section.show_named("plugins", listed);
            section
        }
        ToolboxUse::Server(uses) => server_use_section(&who, uses),
    }
}

/// Describes tools of the host, and what an agent reaches with them.
fn host_toolbox_section(who: &str, uses: &HostToolboxUse, tools: &[String], config: &Config) -> SectionDescription {
    let HostToolboxUse {
        name,
        // The subset that a model is shown.
        tools: _,
        programs,
        ns,
    } = uses;
    let mut section = SectionDescription::default();
    section.show("name", is(name));
    match name {
        // These reach nothing but the project's notes, other agents and the person.
        HostToolbox::Ask | HostToolbox::Tasks | HostToolbox::Notes => {}
        HostToolbox::State => section.show("ns", or(ns.as_deref(), DEFAULT_NAMESPACE, "default")),
        HostToolbox::Exec => {
            section.show("programs", is(programs).noted_if(programs.is_none(), "any program, after asking a person"));
            match programs {
                None => section.disclose(
                    RiskLevel::Runs,
                    format!("{who} may run programs outside the sandbox, after asking you about each"),
                ),
                Some(names) => {
                    for program in names {
                        let program = quoted(program);
                        let line = format!("{who} may run the program {program} without asking you");
                        section.disclose(RiskLevel::Runs, line);
                    }
                }
            }
        }
        HostToolbox::Git => {
            let folder = quoted_path(&files::resolved(&config.root.join(&config.git.work_dir)));
            section.disclose(RiskLevel::Runs, format!("{who} may use git in {folder}, after asking you"));
        }
    }
    section.show("tools", is(tools));
    section
}

/// Describes how an agent uses an MCP server, and the requests that the server may make of the agent.
fn server_use_section(agent: &str, uses: &McpServerUse) -> SectionDescription {
    let McpServerUse { name, tools, confirm, sampling, elicitation } = uses;
    let who = format!("{agent}: the MCP server {}", quoted(name));
    let mut section = SectionDescription::default();
    section.show("name", is(name));
    // The subset that a model is shown.
    section.show("tools", is(tools).noted_if(tools.is_none(), "all approved tools"));
    section.show(
        "confirm",
        is(confirm).noted_if(confirm.is_none(), "before calls of tools that the server calls destructive"),
    );
    let unasked = format!("{who} is used, without asking you before each call");
    match confirm {
        Some(true) => section.disclose(RiskLevel::Little, format!("{who} is used")),
        Some(false) => section.disclose(RiskLevel::Changes, unasked),
        None => {
            let line = format!("{who} is used, asking you only before calls that the server calls destructive");
            section.disclose_spelled_anew(RiskLevel::Changes, line, vec![vec![unasked]]);
        }
    }
    section.show("sampling", set(sampling));
    if *sampling {
        section.disclose(RiskLevel::Sends, format!("{who} may request completions from the agent's model"));
    }
    section.show("elicitation", set(elicitation));
    if *elicitation {
        section.disclose(RiskLevel::Little, format!("{who} may ask you questions"));
    }
    section
}
