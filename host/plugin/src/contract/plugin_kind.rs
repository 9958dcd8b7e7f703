use std::{fmt, str::FromStr};

use serde::Serialize;

/// A kind of plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PluginKind {
    /// Tools that a model can call.
    Tool,
    /// Reads the chat at certain phases of a turn, and edits it as far as its powers allow.
    Effect,
    /// Runs before and after a run.
    RunMiddleware,
    /// Runs before and after a request to a model.
    ModelMiddleware,
    /// Runs before and after a tool call.
    ToolMiddleware,
    /// Implements a model provider.
    Provider,
    /// Coordinates a team.
    Coordinator,
    /// Exports functions of its own and nothing of the contract: each function is a tool.
    Functions,
}

impl PluginKind {
    /// All kinds.
    pub const ALL: [PluginKind; 8] = [
        PluginKind::Tool,
        PluginKind::Effect,
        PluginKind::RunMiddleware,
        PluginKind::ModelMiddleware,
        PluginKind::ToolMiddleware,
        PluginKind::Provider,
        PluginKind::Coordinator,
        PluginKind::Functions,
    ];

    /// Returns the name of the kind in manifests, which is the name of its interface if it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Effect => "effect",
            Self::RunMiddleware => "run-middleware",
            Self::ModelMiddleware => "model-middleware",
            Self::ToolMiddleware => "tool-middleware",
            Self::Provider => "provider",
            Self::Coordinator => "coordinator",
            Self::Functions => "functions",
        }
    }

    /// Returns `true` if the kind is called around the agent's own work, so that a run can continue without it.
    pub fn is_step(self) -> bool {
        matches!(self, Self::Effect | Self::RunMiddleware | Self::ModelMiddleware | Self::ToolMiddleware)
    }

    /// Returns `true` if the kind provides tools for a model.
    pub fn is_tools(self) -> bool {
        matches!(self, Self::Tool | Self::Functions)
    }

    /// Returns `true` if the kind is a middleware.
    pub fn is_middleware(self) -> bool {
        self.is_step() && self != Self::Effect
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PluginKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown kind `{name}`; use one of {}", names.join(", "))
        })
    }
}
