use std::{collections::BTreeSet, fmt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The scope of a plugin's key-value store. Scopes do not contain each other: they are different stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KvScope {
    /// One run of the agent: in memory, dropped with the run, even if the run is interrupted and resumed later.
    Run,
    /// This session, agent and plugin; without a recorded session, the lifetime of the process.
    Session,
    /// This agent and plugin, in all runs.
    Agent,
    /// This plugin: shared by all agents that grant it this scope.
    Plugin,
}

/// A sorted set of scopes.
pub type KvScopes = BTreeSet<KvScope>;

impl KvScope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Run, Self::Session, Self::Agent, Self::Plugin];
}

impl fmt::Display for KvScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Plugin => "plugin",
        })
    }
}
