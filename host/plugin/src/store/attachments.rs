use std::{collections::HashMap, sync::Arc};

use crate::convert::GuestMediaIndex;
use shelly_core::chat::ChatSnapshot;

/// The media of the conversation of a call, by the ids under which the guest received them.
#[derive(Default)]
pub struct GuestAttachments {
    chat: ChatSnapshot,
    /// Built when the first one is read: most calls read none.
    by_id: Option<HashMap<String, Arc<[u8]>>>,
}

impl GuestAttachments {
    /// Creates the attachments of this conversation.
    pub fn of(chat: &ChatSnapshot) -> Self {
        Self { chat: chat.clone(), by_id: None }
    }

    /// Returns the medium with this id.
    pub fn get(&mut self, id: &str) -> Option<Arc<[u8]>> {
        self.by_id.get_or_insert_with(|| GuestMediaIndex::in_chat(&self.chat).all()).get(id).map(Arc::clone)
    }
}
