//! The entries of a config that come from the user-wide config.

use std::{collections::BTreeSet, path::PathBuf};

/// The entries of a config that come from the user-wide config. They are a person's own: a project that uses or replaces one
/// of them is asked about.
#[derive(Debug, Clone, Default)]
pub struct UserEntries {
    /// The path of the user-wide config; `None`: there is none.
    pub file: Option<PathBuf>,
    /// The directories in which the person keeps plugins.
    pub plugin_dirs: Vec<PathBuf>,
    /// `true` if the agents and teams are those of the user-wide config.
    pub has_runners: bool,
    /// `true` if the default model is the one that the user-wide config names.
    pub has_default_provider: bool,
    names: BTreeSet<(ConfigEntryKind, String)>,
    replaced: BTreeSet<(ConfigEntryKind, String)>,
}

/// The kind of an entry that a config has under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigEntryKind {
    /// An entry of `providers`.
    Model,
    /// An entry of `credentials`.
    Credential,
    /// An entry of `mcp_servers`.
    McpServer,
    /// An entry of `programs`.
    Program,
    /// An entry of `toolboxes`.
    Toolbox,
}

impl ConfigEntryKind {
    /// Returns the word for it in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Credential => "credential",
            Self::McpServer => "MCP server",
            Self::Program => "program",
            Self::Toolbox => "toolbox",
        }
    }
}

impl UserEntries {
    /// Returns `true` if the entry comes from the user-wide config.
    pub fn contains(&self, kind: ConfigEntryKind, name: &str) -> bool {
        self.names.contains(&(kind, name.to_owned()))
    }

    /// Returns the entries of the user-wide config in whose place the project has entries of its own.
    pub fn replaced(&self) -> impl Iterator<Item = (ConfigEntryKind, &str)> {
        self.replaced.iter().map(|(kind, name)| (*kind, name.as_str()))
    }

    /// Adds the entries `more` to `list`, except those whose name is there already.
    pub(super) fn add<T>(&mut self, kind: ConfigEntryKind, list: &mut Vec<T>, more: Vec<T>, name: impl Fn(&T) -> &str) {
        for entry in more {
            if self.is_new(kind, name(&entry), list.iter().any(|own| name(own) == name(&entry))) {
                list.push(entry);
            }
        }
    }

    /// Notes an entry. Returns `false` if the project has one of this name, which takes its place.
    pub(super) fn is_new(&mut self, kind: ConfigEntryKind, name: &str, is_replaced: bool) -> bool {
        let names = if is_replaced { &mut self.replaced } else { &mut self.names };
        names.insert((kind, name.to_owned()));
        !is_replaced
    }
}
