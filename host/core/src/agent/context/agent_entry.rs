use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{agent::text::cut, limits};

/// The reason why an agent cannot be made under a ceiling, for the operator: the model that asked for it is not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AgentRefusal(pub String);

/// The description of an agent that other agents read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentEntry {
    /// The name of the agent.
    pub name: Arc<str>,
    /// The purpose of the agent.
    pub description: Arc<str>,
    /// Keywords for its abilities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// The approximate cost of asking it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_cost: Option<CostTier>,
    /// The maximum number of its instances that work at once, as team members too, at least 1; `None`: only the group
    /// bounds it.
    #[serde(skip)]
    pub max_concurrency: Option<u32>,
}

impl AgentEntry {
    /// Creates an entry with a name and a description.
    pub fn new(name: impl Into<Arc<str>>, description: impl Into<Arc<str>>) -> Self {
        let (name, description) = (name.into(), description.into());
        Self { name, description, skills: Vec::new(), estimated_cost: None, max_concurrency: None }
    }
}

/// The approximate cost of asking an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CostTier {
    /// Low cost.
    Cheap,
    /// Medium cost.
    Medium,
    /// High cost.
    Expensive,
}

impl CostTier {
    /// Returns the word for this tier.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cheap => "cheap",
            Self::Medium => "medium",
            Self::Expensive => "expensive",
        }
    }
}

/// Returns `true` if two names mean the same agent. Letter case does not matter, since models mix it up.
pub(crate) fn is_same_name(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

/// Returns the message that there is no agent of this name, with the agents that there are.
pub(crate) fn no_agent(name: &str, there: &[AgentEntry]) -> String {
    let mut name = name.to_owned();
    cut(&mut name, limits::NAME_SHOWN_CHARS);
    let there = match there {
        [] => "there are no other agents".to_owned(),
        there => format!("available agents: {}", there.iter().map(|entry| &*entry.name).collect::<Vec<_>>().join(", ")),
    };
    format!("unknown agent `{name}`; {there}")
}
