use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Chat;

/// The side conversations of a conversation: those of the members that share it, and of agents that a participant calls as
/// tools.
#[derive(Debug, Default)]
pub(super) struct SideChats(Mutex<SideChatsState>);

#[derive(Debug, Default)]
struct SideChatsState {
    chats: BTreeMap<Arc<str>, SideChat>,
    active: Option<Arc<str>>,
}

/// A side conversation of another one.
#[derive(Debug, Clone, Default)]
pub(crate) struct SideChat {
    /// The side conversation.
    pub chat: Chat,
    /// The id of the newest message of the main conversation that was copied into it.
    pub heard: Option<u64>,
}

impl Chat {
    /// Returns the side conversation of this name; an empty one if there is none.
    pub(crate) fn beside(&self, name: &Arc<str>) -> SideChat {
        self.side_chats().chats.entry(Arc::clone(name)).or_default().clone()
    }

    /// Stores the side conversation, replacing one of the same name.
    pub(crate) fn put_beside(&self, name: Arc<str>, beside: SideChat) {
        self.side_chats().chats.insert(name, beside);
    }

    /// Returns all side conversations by name.
    pub(crate) fn all_beside(&self) -> Vec<(Arc<str>, SideChat)> {
        self.side_chats().chats.iter().map(|(name, beside)| (Arc::clone(name), beside.clone())).collect()
    }

    /// Returns the member that worked last in this conversation.
    pub(crate) fn active(&self) -> Option<Arc<str>> {
        self.side_chats().active.clone()
    }

    pub(crate) fn set_active(&self, name: Option<Arc<str>>) {
        self.side_chats().active = name;
    }

    fn side_chats(&self) -> MutexGuard<'_, SideChatsState> {
        self.shared.side_chats.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
