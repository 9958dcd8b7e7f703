use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::Chat;

/// Conversations that go with another one: those of the members that share it, and of agents that somebody in it calls as
/// tools.
#[derive(Debug, Default)]
pub(super) struct SideChats(Mutex<SideChatsState>);

#[derive(Debug, Default)]
struct SideChatsState {
    chats: BTreeMap<Arc<str>, SideChat>,
    active: Option<Arc<str>>,
}

/// A conversation that goes with another one.
#[derive(Debug, Clone, Default)]
pub(crate) struct SideChat {
    /// It.
    pub chat: Chat,
    /// The newest message of the other one that has been put into it.
    pub heard: Option<u64>,
}

impl Chat {
    /// The conversation of this name that goes with this one; an empty one if there was none.
    pub(crate) fn beside(&self, name: &Arc<str>) -> SideChat {
        self.besides().chats.entry(Arc::clone(name)).or_default().clone()
    }

    /// Puts it there, in place of what was there under this name.
    pub(crate) fn put_beside(&self, name: Arc<str>, beside: SideChat) {
        self.besides().chats.insert(name, beside);
    }

    /// All that go with this one, by name.
    pub(crate) fn all_beside(&self) -> Vec<(Arc<str>, SideChat)> {
        self.besides().chats.iter().map(|(name, beside)| (Arc::clone(name), beside.clone())).collect()
    }

    /// The member that worked last in it.
    pub(crate) fn active(&self) -> Option<Arc<str>> {
        self.besides().active.clone()
    }

    pub(crate) fn set_active(&self, name: Option<Arc<str>>) {
        self.besides().active = name;
    }

    fn besides(&self) -> MutexGuard<'_, SideChatsState> {
        self.shared.besides.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
