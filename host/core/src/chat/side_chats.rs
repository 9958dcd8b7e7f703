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
    chats: BTreeMap<Arc<str>, Chat>,
    active: Option<Arc<str>>,
    /// The id of the newest message of the main conversation that was put into this side conversation.
    heard: Option<u64>,
    /// The newest message of the main conversation that a run here has been given, if it has not heard it yet.
    given: Option<u64>,
}

impl Chat {
    /// Returns the side conversation of this name; an empty one if there is none.
    pub(crate) fn side_chat(&self, name: &Arc<str>) -> Chat {
        self.side_chats().chats.entry(Arc::clone(name)).or_default().clone()
    }

    /// Stores the side conversation, replacing one of the same name.
    pub(crate) fn put_side_chat(&self, name: Arc<str>, side_chat: Chat) {
        self.side_chats().chats.insert(name, side_chat);
    }

    /// Returns all side conversations by name.
    pub(crate) fn all_side_chats(&self) -> Vec<(Arc<str>, Chat)> {
        self.side_chats().chats.iter().map(|(name, side_chat)| (Arc::clone(name), side_chat.clone())).collect()
    }

    /// Returns the id of the newest message of the main conversation that was put into this side conversation.
    pub(crate) fn heard(&self) -> Option<u64> {
        self.side_chats().heard
    }

    /// Notes that a run in this side conversation is given the messages of the main one up to this one. They count as
    /// heard from [`hear_given`](Self::hear_given) on: a run that is cut off before has not heard them.
    pub(crate) fn give(&self, newest: Option<u64>) {
        self.side_chats().given = newest;
    }

    /// Notes that the given messages are in this side conversation, or that the run that was given them has ended.
    pub(crate) fn hear_given(&self) {
        let mut state = self.side_chats();
        state.heard = state.given.take().or(state.heard);
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
