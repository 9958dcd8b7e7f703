use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

/// Which key-value store a plugin is given. None holds more than another: they are different stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvScope {
    /// Of one run of the agent: in memory, gone with the run, also if that is interrupted and goes on later.
    Run,
    /// Of this session, this agent and this plugin; of the process where no session is written down.
    Session,
    /// Of this agent and this plugin, in all runs.
    Agent,
    /// Of this plugin: shared by all agents that grant it this.
    Plugin,
}

/// Stores, sorted.
pub type KvScopes = BTreeSet<KvScope>;

impl KvScope {
    /// All there are.
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
