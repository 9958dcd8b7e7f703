use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::{open_requests::OpenRequestHandle, protocol::ContentBlock};

/// A prompt that waits to be answered.
pub(super) struct QueuedPrompt {
    /// The request that is answered. Its token is cancelled with everything that waits or runs when the person cancels.
    pub request: OpenRequestHandle,
    pub blocks: Vec<ContentBlock>,
}

/// The state that a conversation shares with its worker.
pub(super) struct ConversationControls {
    /// The agent or team of the next prompt; `None`: the entry agent.
    agent: Mutex<Option<String>>,
    /// The token of all prompts since the person has last cancelled.
    cancel: Mutex<CancellationToken>,
    /// Cancelled once the editor knows of the conversation.
    announced: CancellationToken,
    /// Cancelled when the host ends.
    ends: CancellationToken,
}

impl ConversationControls {
    pub fn new(agent: Option<String>) -> Self {
        let (announced, ends) = (CancellationToken::new(), CancellationToken::new());
        Self { agent: Mutex::new(agent), cancel: Mutex::default(), announced, ends }
    }

    /// Returns the agent or team of the next prompt.
    pub fn agent(&self) -> Option<String> {
        self.agent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Chooses the agent or team of the next prompt.
    pub fn set_agent(&self, name: &str) {
        *self.agent.lock().unwrap_or_else(PoisonError::into_inner) = Some(name.to_owned());
    }

    /// Takes note that the editor knows of the conversation.
    pub fn announce(&self) {
        self.announced.cancel();
    }

    /// Waits until the editor knows of the conversation: until then it takes no updates of it.
    pub async fn announced(&self) {
        self.announced.cancelled().await;
    }

    /// Takes note that the host ends: a run that is dropped from now on goes on when its session is resumed.
    pub fn note_end(&self) {
        self.ends.cancel();
    }

    /// Returns the token that is cancelled when the host ends.
    pub fn ends(&self) -> CancellationToken {
        self.ends.clone()
    }

    /// Returns the token of a new prompt.
    pub fn token(&self) -> CancellationToken {
        self.cancel.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Cancels all prompts so far.
    pub fn cancel(&self) {
        let cancelled = std::mem::take(&mut *self.cancel.lock().unwrap_or_else(PoisonError::into_inner));
        cancelled.cancel();
    }
}
