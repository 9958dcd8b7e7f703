use std::sync::Arc;

use shelly_core::{
    capability::Powers,
    chat::{ChatSnapshot, ToolSpec},
};

/// A conversation as a plugin may see it.
#[derive(Default)]
pub struct ChatView {
    /// The conversation, which does not change during the call.
    pub chat: ChatSnapshot,
    /// The agent's tools.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The powers that decide which parts are blank.
    pub powers: Powers,
}
