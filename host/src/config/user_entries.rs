//! The entries of a config that come from the user-wide config.

use std::{collections::BTreeSet, path::PathBuf};

use super::PluginSignaturesConfig;

/// The entries of a config that come from the user-wide config. They are a person's own: a project that uses or replaces one
/// of them is asked about.
#[derive(Debug, Clone, Default)]
pub struct UserEntries {
    /// The path of the user-wide config; `None`: there is none.
    pub file: Option<PathBuf>,
    /// The directories in which the person keeps plugins.
    pub plugin_dirs: Vec<PathBuf>,
    /// The folder in which the person keeps skills for all projects; `None`: none is known.
    pub skills: Option<PathBuf>,
    /// The person's rules for the signatures of installed plugins, which hold in addition to those of the project.
    pub plugin_signatures: PluginSignaturesConfig,
    /// `true` if the agents and teams are those of the user-wide config.
    pub has_runners: bool,
    /// `true` if the settings of telemetry are those of the user-wide config.
    pub has_telemetry: bool,
    /// `true` if the user-wide config has settings of telemetry in whose place the project has its own.
    pub has_replaced_telemetry: bool,
    /// `true` if the default model is the one that the user-wide config names.
    pub has_default_provider: bool,
    /// `true` if the cluster is the one that the user-wide config names.
    pub has_cluster: bool,
    /// `true` if the toolboxes are the default ones, which nobody has named.
    pub has_default_toolboxes: bool,
    /// The default toolboxes that are left out.
    pub left_out_toolboxes: Vec<LeftOutToolbox>,
    names: BTreeSet<(ConfigEntryKind, String)>,
    replaced: BTreeSet<(ConfigEntryKind, String)>,
}

/// A default toolbox that the agent does not have, because plugins of it are not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutToolbox {
    /// The name of the toolbox.
    pub name: String,
    /// The ids of the plugins that are not found.
    pub plugins: Vec<String>,
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
    /// An entry of `openapi`.
    Api,
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
            Self::Api => "API",
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

    /// Notes an entry of the user-wide config. `is_replaced` says that the project has one of this name, which takes its place.
    pub(super) fn note(&mut self, kind: ConfigEntryKind, name: &str, is_replaced: bool) {
        let names = if is_replaced { &mut self.replaced } else { &mut self.names };
        names.insert((kind, name.to_owned()));
    }
}
