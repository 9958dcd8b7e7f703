//! Lookup of the agent of a run, for tools that work in its name.

use std::sync::{Arc, OnceLock, Weak};

use super::{Agent, delegate::RunState};
use crate::{chat::Chat, event::RunCx};

/// The agent that works in a run.
#[derive(Clone)]
pub(super) struct CallerContext {
    pub me: Arc<RunState>,
    pub agent: Agent,
    /// Its conversation; `None` for a call outside of any conversation.
    pub chat: Option<Chat>,
}

/// The slot for the agent in the state of a run. Weak, because the `RunState` holds this slot.
#[derive(Default)]
struct CallerSlot(OnceLock<(Weak<RunState>, Agent, Option<Chat>)>);

/// Registers the agent of a run, so that its tools can find it.
pub(super) fn begin(agent: &Agent, me: &Arc<RunState>, chat: Option<&Chat>) {
    // A run begins once.
    let _ = me.cx.extensions.get::<CallerSlot>().0.set((Arc::downgrade(me), agent.clone(), chat.cloned()));
}

/// Returns the agent that works in this run; `None` if no agent does, or none does any more.
pub(super) fn of(cx: &RunCx) -> Option<CallerContext> {
    let known = cx.extensions.get::<CallerSlot>();
    let (me, agent, chat) = known.0.get()?;
    Some(CallerContext { me: me.upgrade()?, agent: agent.clone(), chat: chat.clone() })
}
