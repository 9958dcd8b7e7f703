use crate::limits;

/// Bounds on what the agents of one run, or of the runs of one session, take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Agents that may work from the beginning to the end, whoever starts them and however deep.
    pub agents: usize,
    /// Agents that work at once; others wait for a place. One that waits for others needs none.
    pub working_agents: usize,
    /// Bytes of all their conversations together.
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
    /// The same, none of them more than a config can name, or so little that nothing would go on.
    pub(super) fn within_ceilings(self) -> Self {
        Self {
            agents: self.agents.clamp(1, limits::AGENTS_PER_RUN_CEILING),
            working_agents: self.working_agents.clamp(1, limits::WORKING_AGENTS_CEILING),
            chat_bytes: self.chat_bytes.clamp(1, limits::CHATS_PER_RUN_CEILING),
        }
    }
}
