//! Whose run it is, for tools that work in its name.

use std::sync::{Arc, OnceLock, Weak};

use super::{Agent, delegate::RunState};
use crate::{chat::Chat, event::RunCx};

/// Who works in a run.
#[derive(Clone)]
pub(super) struct CallerContext {
    pub me: Arc<RunState>,
    pub agent: Agent,
    /// Its conversation; none for a call outside of any.
    pub chat: Option<Chat>,
}

/// Kept of a run. Weak, because whoever it is holds this.
#[derive(Default)]
struct CallerSlot(OnceLock<(Weak<RunState>, Agent, Option<Chat>)>);

/// Lets the tools of this run find who works in it.
pub(super) fn begin(agent: &Agent, me: &Arc<RunState>, chat: Option<&Chat>) {
    // A run begins once.
    let _ = me.cx.kept.get::<CallerSlot>().0.set((Arc::downgrade(me), agent.clone(), chat.cloned()));
}

/// Who works in this run; none where no agent does, or not any more.
pub(super) fn of(cx: &RunCx) -> Option<CallerContext> {
    let known = cx.kept.get::<CallerSlot>();
    let (me, agent, chat) = known.0.get()?;
    Some(CallerContext { me: me.upgrade()?, agent: agent.clone(), chat: chat.clone() })
}
