use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

use super::Message;

/// A message in a chat with attributes that are available without reading it.
#[derive(Debug, Clone)]
pub struct ChatEntry {
    /// The permanent id of the message in this chat; never reused.
    pub id: u64,
    /// The message.
    pub message: Arc<Message>,
    /// The estimated tokens.
    pub tokens: u32,
    /// The `id` of the assistant message whose calls opened the group that this one belongs to.
    pub group: Option<u64>,
    /// `true` if the host or an effect added it.
    pub note: bool,
    /// `true` if it differs from its first version.
    pub edited: bool,
    /// The digest of the message, computed on first use.
    pub(super) digest: OnceLock<Box<[u8; 32]>>,
}

impl ChatEntry {
    /// Returns the SHA-256 of the message as JSON. It is computed once: a conversation is long, and each request examines
    /// all of it.
    pub fn digest(&self) -> &[u8; 32] {
        self.digest.get_or_init(|| {
            let json = serde_json::to_vec(&self.message).expect("a message is JSON");
            Box::new(Sha256::digest(json).into())
        })
    }
}
