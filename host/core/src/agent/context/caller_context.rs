use super::AgentModels;
use crate::{chat::Chat, tool::ToolBox};

/// The parts of the calling agent that a tool may use, in addition to the [state of the run](super::RunState).
pub(crate) struct CallerContext {
    pub models: AgentModels,
    /// The tools of the agent alone.
    pub tools: ToolBox,
    /// Its conversation; `None` for a call outside of any conversation.
    pub chat: Option<Chat>,
}
