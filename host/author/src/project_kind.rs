//! The kinds of plugins that a new project can be.

use std::{fmt, str::FromStr};

/// The kind of a new project: a kind of the contract, or a component with a world of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProjectKind {
    /// A tool that a model calls.
    Tool,
    /// A step that reads the chat in each turn and answers with edits.
    Effect,
    /// A step around a run.
    RunMiddleware,
    /// A step around a request to a model.
    ModelMiddleware,
    /// A step around a tool call.
    ToolMiddleware,
    /// A model.
    Provider,
    /// The lead of a team.
    Coordinator,
    /// A component that knows nothing of the host: each exported function is a tool.
    Plain,
}

impl ProjectKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Tool,
        Self::Effect,
        Self::RunMiddleware,
        Self::ModelMiddleware,
        Self::ToolMiddleware,
        Self::Provider,
        Self::Coordinator,
        Self::Plain,
    ];

    /// Returns the name on the command line, which is that of the exported interface; `plain` for a world of its own.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Effect => "effect",
            Self::RunMiddleware => "run-middleware",
            Self::ModelMiddleware => "model-middleware",
            Self::ToolMiddleware => "tool-middleware",
            Self::Provider => "provider",
            Self::Coordinator => "coordinator",
            Self::Plain => "plain",
        }
    }

    /// Returns the interfaces of the contract that the kind's world imports in a new project.
    pub const fn imports(self) -> &'static [&'static str] {
        match self {
            Self::Tool => &["log", "config", "progress"],
            Self::Effect | Self::Coordinator => &["log", "config", "chat"],
            Self::RunMiddleware | Self::ToolMiddleware => &["log", "config"],
            Self::ModelMiddleware => &["log", "config", "outgoing"],
            Self::Provider => &["log", "config", "sink"],
            Self::Plain => &[],
        }
    }
}

impl fmt::Display for ProjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProjectKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("unknown kind `{}`; use one of {}", name.escape_debug(), names.join(", "))
        })
    }
}
