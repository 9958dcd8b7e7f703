use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{DelegationKey, DelegationState, JournalState, RecordedRun, Recorder, journal_state::LiveConversation};
use crate::{
    capability::BudgetUsage,
    chat::{Chat, ChatEditError},
};

/// The journal of a session: the recorder for its runs, and the state of those that were interrupted.
pub struct Journal {
    recorder: Arc<dyn Recorder>,
    /// The number of the next run.
    next: AtomicU64,
    /// The state from before the session was resumed.
    recorded: Mutex<JournalState>,
    /// The conversations that may continue.
    conversations: Mutex<Vec<LiveConversation>>,
}

impl Journal {
    /// Creates the journal of a new session.
    pub fn new(recorder: Arc<dyn Recorder>) -> Self {
        Self::resumed(recorder, JournalState::default(), None)
    }

    /// Creates the journal of a resumed session, whose conversation is `chat`: see [`JournalState::chat`].
    pub fn resumed(recorder: Arc<dyn Recorder>, recorded: JournalState, chat: Option<&Chat>) -> Self {
        let next = recorded.runs.keys().next_back().map_or(1, |last| last.saturating_add(1));
        let mut conversations = Vec::new();
        if let Some((conversation, chat)) = recorded.main_conversation().zip(chat) {
            recorded.add_live(conversation, chat, &mut conversations);
        }
        Self { recorder, next: next.into(), recorded: Mutex::new(recorded), conversations: Mutex::new(conversations) }
    }

    /// Returns the recorder that stores the records.
    pub fn recorder(&self) -> &Arc<dyn Recorder> {
        &self.recorder
    }

    /// Takes the unfinished run that a person started, with its recorded state. Later calls return `None`.
    pub(crate) fn take_unfinished(&self) -> Option<(u64, Box<RecordedRun>)> {
        let mut recorded = self.recorded();
        let run = recorded.main_run().filter(|_| recorded.is_unfinished())?;
        recorded.take_run(run).map(|there| (run, there))
    }

    /// Takes the recorded state of a delegated task. Later calls return `None`.
    pub(crate) fn take_delegation(&self, key: &DelegationKey) -> Option<DelegationState> {
        self.recorded().delegations.remove(key)
    }

    /// Returns `true` if a delegated task has returned and its state was not taken yet.
    pub(crate) fn has_returned(&self, key: &DelegationKey) -> bool {
        self.recorded().delegations.get(key).is_some_and(|delegation| delegation.returned.is_some())
    }

    /// Returns `true` if a delegated task has returned as failed and its state was not taken yet.
    pub(crate) fn has_failed(&self, key: &DelegationKey) -> bool {
        let recorded = self.recorded();
        let returned = recorded.delegations.get(key).and_then(|delegation| delegation.returned.as_ref());
        returned.is_some_and(|(report, _)| report.has_failed())
    }

    /// Takes the recorded state of a run. Later calls return `None`.
    pub(crate) fn take_run(&self, run: u64) -> Option<Box<RecordedRun>> {
        self.recorded().take_run(run)
    }

    /// Takes what was spent on these delegations before the session was resumed, as far as they have not returned and their
    /// state was not taken. Later calls return nothing.
    pub(crate) fn take_spent(&self, keys: Vec<DelegationKey>) -> BudgetUsage {
        self.recorded().take_spent(keys)
    }

    /// Returns what was spent by an interrupted run whose state was taken and that nobody continues after all, and by those
    /// that worked for it.
    pub(crate) fn spent_by_abandoned(&self, run: u64, taken: &RecordedRun) -> BudgetUsage {
        self.recorded().spent_by_abandoned(run, taken)
    }

    /// Restores the conversation of an interrupted run, recorded from here on.
    ///
    /// # Errors
    ///
    /// [`ChatEditError`] if the recorded changes make no valid conversation.
    pub(crate) fn chat(&self, run: &RecordedRun) -> Result<Chat, ChatEditError> {
        let recorded = self.recorded();
        let chat = recorded.chat_of(run.conversation)?;
        recorded.add_live(run.conversation, &chat, &mut self.conversations());
        Ok(chat)
    }

    /// Returns the number of a new run in this conversation, with the run that began the conversation and the newest run
    /// before this one.
    pub(super) fn begin(&self, chat: &Chat) -> (u64, Option<(u64, u64)>) {
        let mut conversations = self.conversations();
        let run = self.next_run();
        conversations.retain(|there| !there.chat.is_gone());
        match conversations.iter_mut().find(|there| there.chat.is(chat)) {
            Some(there) => (run, Some((there.id, std::mem::replace(&mut there.last, run)))),
            None => {
                conversations.push(LiveConversation { id: run, last: run, chat: chat.downgrade() });
                (run, None)
            }
        }
    }

    /// Returns the number of a new run.
    pub(super) fn next_run(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns `true` if this is the conversation of the person, and was so before the session was resumed.
    pub(super) fn is_resumed_conversation(&self, conversation: u64) -> bool {
        self.recorded().main_conversation() == Some(conversation)
    }

    fn conversations(&self) -> MutexGuard<'_, Vec<LiveConversation>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recorded(&self) -> MutexGuard<'_, JournalState> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}
