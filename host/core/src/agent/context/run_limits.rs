use crate::limits;

/// Bounds on what the agents of one run, or of the runs of one session, take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// The number of agents that may work over the whole time, whichever agent starts them and at any depth.
    pub agents: usize,
    /// The number of agents that work at once; others wait for a permit. An agent that waits for others needs none.
    pub working_agents: usize,
    /// The number of bytes of all their conversations together.
    pub chat_bytes: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            agents: limits::AGENTS_PER_RUN,
            working_agents: limits::WORKING_AGENTS,
            chat_bytes: limits::CHATS_PER_RUN_BYTES,
        }
    }
}

impl RunLimits {
    /// Returns these limits, each clamped between 1 and the most that a config can name.
    pub(crate) fn within_ceilings(self) -> Self {
        Self {
            agents: self.agents.clamp(1, limits::AGENTS_PER_RUN_CEILING),
            working_agents: self.working_agents.clamp(1, limits::WORKING_AGENTS_CEILING),
            chat_bytes: self.chat_bytes.clamp(1, limits::CHATS_PER_RUN_CEILING),
        }
    }
}
