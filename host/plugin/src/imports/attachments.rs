use std::{collections::HashMap, sync::Arc};

use crate::{
    bindings::{imports::attachments, types},
    convert::{self, GuestMediaIndex},
    runtime::PluginState,
};
use shelly_core::{chat::ChatSnapshot, error::Fault, limits};

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

    fn get(&mut self, id: &str) -> Option<Arc<[u8]>> {
        self.by_id.get_or_insert_with(|| GuestMediaIndex::in_chat(&self.chat).all()).get(id).map(Arc::clone)
    }
}

impl attachments::Host for PluginState {
    async fn read(&mut self, id: String, offset: u64, max: u32) -> wasmtime::Result<Result<Vec<u8>, types::Error>> {
        self.take(id.len())?;
        let Some(bytes) = self.attachments.get(&id) else {
            let message = format!("this call was handed no attachment `{}`", convert::bounded(id, 100));
            return Ok(Err(convert::fault_to_wit(&Fault::NotFound { message })));
        };
        let rest = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
        let read = &rest[..rest.len().min(max as usize).min(limits::ATTACHMENT_READ_BYTES)];
        self.hand(read.len())?;
        Ok(Ok(read.into()))
    }
}
