//! Facts about a config that are not in its file.

use std::path::PathBuf;

use crate::{agent::OnFailure, capability::Price};

/// Facts about a config that are not in its file.
#[derive(Debug, Clone, Default)]
pub struct ConfigRuntimeInfo {
    /// The directories that are searched for plugins.
    pub plugin_dirs: Vec<PathBuf>,
    /// The guest memory of all plugins together in bytes, and its source; `None` if it was not determined.
    pub guest_memory: Option<(u64, &'static str)>,
    /// The price of each provider, if it is known.
    pub prices: Vec<Option<Price>>,
    /// One entry for each agent.
    pub agents: Vec<AgentRuntimeInfo>,
    /// One entry for each team, for the keys that a team shares with agents.
    pub teams: Vec<AgentRuntimeInfo>,
}

/// Facts about an agent that are not in the config.
#[derive(Debug, Clone, Default)]
pub struct AgentRuntimeInfo {
    /// The tool names of each of its toolboxes.
    pub toolboxes: Vec<Vec<String>>,
    /// The names of its skills.
    pub skills: Vec<String>,
    /// Its plugins, in the order of `AgentConfig::all_plugins`.
    pub plugins: Vec<PluginRuntimeInfo>,
    /// The order in which its effects and middleware are called.
    pub order: StepOrder,
}

/// Facts about a plugin of an agent that are not in the config.
#[derive(Debug, Clone, Default)]
pub struct PluginRuntimeInfo {
    /// The names of its kinds.
    pub kinds: Vec<&'static str>,
    /// `true` if its manifest declares WASI's base interfaces, which give it no capability that is not granted.
    pub wasi: bool,
    /// The `on_failure` of its manifest, which applies if the config sets none.
    pub on_failure: OnFailure,
}

/// The names of effects and middleware in the order of their calls; the outermost middleware comes first.
#[derive(Debug, Clone, Default)]
pub struct StepOrder {
    /// Effects.
    pub effects: Vec<String>,
    /// Run middleware.
    pub runs: Vec<String>,
    /// Model middleware.
    pub requests: Vec<String>,
    /// Tool middleware.
    pub calls: Vec<String>,
}
