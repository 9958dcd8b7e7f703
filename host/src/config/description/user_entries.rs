//! Entries of the user-wide config that a project uses, or that it replaces.

use std::collections::BTreeSet;

use super::section::SectionDescription;
use crate::{
    config::{AgentConfig, Config, ConfigEntryKind, ToolboxUse},
    trust::{RiskLevel, quoted},
};

/// Discloses which entries of the user-wide config the project names, and in whose place it has entries of its own. The
/// entries themselves are the person's, and may change without a question.
pub(super) fn disclose_user_entries(section: &mut SectionDescription, config: &Config) {
    let subject = |kind: ConfigEntryKind, name: &str| format!("the {} {}", kind.word(), quoted(name));
    for (kind, name) in used_user_entries(config) {
        section.disclose(risk(kind), format!("{} is that of your user-wide config", subject(kind, name)));
    }
    for (kind, name) in config.user.replaced() {
        let line = format!("{} takes the place of the one in your user-wide config", subject(kind, name));
        section.disclose(risk(kind), line);
    }
    if config.user.has_replaced_telemetry {
        let line = "the settings of telemetry take the place of those in your user-wide config";
        section.disclose(RiskLevel::Sends, line.to_owned());
    }
}

fn risk(kind: ConfigEntryKind) -> RiskLevel {
    match kind {
        ConfigEntryKind::Model | ConfigEntryKind::Credential | ConfigEntryKind::Api => RiskLevel::Sends,
        ConfigEntryKind::McpServer | ConfigEntryKind::Program => RiskLevel::Runs,
        ConfigEntryKind::Toolbox => RiskLevel::Little,
    }
}

/// Returns the entries of the user-wide config that entries of the project name. The default model of the person is not
/// among them if the project names none: a project without a word about models has what any other folder has.
fn used_user_entries(config: &Config) -> BTreeSet<(ConfigEntryKind, &str)> {
    let user = &config.user;
    let mut named: Vec<(ConfigEntryKind, &str)> = Vec::new();
    if !user.has_default_provider {
        named.extend(config.default_provider.as_deref().map(|name| (ConfigEntryKind::Model, name)));
    }
    let of_project = config.providers.iter().filter(|one| !user.contains(ConfigEntryKind::Model, &one.name));
    named.extend(of_project.flat_map(|one| &one.credentials).map(|name| (ConfigEntryKind::Credential, name.as_str())));
    let apis = config.openapi.iter().filter(|one| !user.contains(ConfigEntryKind::Api, &one.name));
    named.extend(apis.filter_map(|one| Some((ConfigEntryKind::Credential, one.credential.as_deref()?))));
    let toolboxes = config.toolboxes.iter().filter(|one| !user.contains(ConfigEntryKind::Toolbox, one.name()));
    let toolboxes = toolboxes.filter(|_| config.agents.is_empty());
    named.extend(toolboxes.flat_map(named_by_toolbox));
    let runners = config.everyone().filter(|_| !user.has_runners);
    named.extend(runners.flat_map(named_by_runner));
    named.into_iter().filter(|(kind, name)| user.contains(*kind, name)).collect()
}

fn named_by_runner(agent: &AgentConfig) -> Vec<(ConfigEntryKind, &str)> {
    let mut named: Vec<_> = agent.provider.iter().map(|name| (ConfigEntryKind::Model, name.as_str())).collect();
    let of_remote = agent.remote.iter().filter_map(|remote| remote.credential.as_deref());
    named.extend(of_remote.map(|name| (ConfigEntryKind::Credential, name)));
    named.extend(agent.toolboxes.iter().flat_map(named_by_toolbox));
    named.extend(agent.openapi.iter().map(|uses| (ConfigEntryKind::Api, uses.name.as_str())));
    for (_, _, uses) in agent.all_plugins() {
        for (kind, names) in [
            (ConfigEntryKind::Model, &uses.models),
            (ConfigEntryKind::Credential, &uses.credentials),
            (ConfigEntryKind::Program, &uses.programs),
        ] {
            named.extend(names.iter().map(|name| (kind, name.as_str())));
        }
    }
    named
}

fn named_by_toolbox(toolbox: &ToolboxUse) -> Vec<(ConfigEntryKind, &str)> {
    match toolbox {
        ToolboxUse::Server(uses) => vec![(ConfigEntryKind::McpServer, uses.name.as_str())],
        ToolboxUse::Own(uses) => {
            uses.programs.iter().flatten().map(|name| (ConfigEntryKind::Program, name.as_str())).collect()
        }
        ToolboxUse::Shipped(_) => Vec::new(),
    }
}
