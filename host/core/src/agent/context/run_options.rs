use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;

/// Options of an agent's runs.
#[derive(Debug, Clone)]
pub struct AgentRunOptions {
    /// The maximum number of turns of one run.
    pub max_iterations: u32,
    /// The turn, counted from 0, before which the agent is told once to come to an end; 0: never.
    pub warn_iterations: u32,
    /// The depth below which the agent may delegate: it may if it runs at a smaller depth. 0: it may not delegate.
    pub max_delegation_depth: u32,
    /// For an agent that was delegated to: 0 forbids it to hand its task over, any other value allows it. For an agent that
    /// delegates: the number of times that a task may be handed over (if 0, [`limits::HANDOFFS`] times).
    pub max_handoffs: u32,
    /// The mode in which questions of the agents that it delegates to are answered.
    pub interaction: InteractionMode,
    /// The time that a question of such an agent waits for its answer; `None`: as long as the run lasts.
    pub question_timeout: Option<Duration>,
    /// Adds the hints on how to work to the system prompt.
    pub behavioral_hints: bool,
}

impl AgentRunOptions {
    /// Returns `true` if the agent may hand over a task that was delegated to it.
    pub(crate) fn may_hand_over(&self) -> bool {
        self.max_handoffs > 0
    }

    /// Returns the number of times that a task which the agent delegates may be handed over.
    pub(crate) fn handoffs_of_delegated_task(&self) -> u32 {
        match self.max_handoffs {
            0 => limits::HANDOFFS,
            most => most,
        }
    }
}

impl Default for AgentRunOptions {
    fn default() -> Self {
        Self {
            max_iterations: limits::MAX_ITERATIONS,
            warn_iterations: 0,
            max_delegation_depth: 0,
            max_handoffs: 0,
            interaction: InteractionMode::Blocking,
            question_timeout: None,
            behavioral_hints: true,
        }
    }
}

/// The mode in which questions of an agent that was delegated to are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InteractionMode {
    /// The question is answered at once, from the context that the agent was given.
    #[default]
    Blocking,
    /// The delegating agent chooses the mode for each task; blocking where it does not choose.
    Auto,
    /// The delegating agent answers, unless it chooses otherwise for a task.
    Interactive,
}
