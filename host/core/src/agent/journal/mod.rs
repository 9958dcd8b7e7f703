//! The journal of runs, from which they are resumed after the process that ran them is gone.
//!
//! A [`JournalRecord`] is one entry, [`JournalState`] the state that the records add up to. A [`Recorder`] stores them.

mod journal_record;
mod journal_state;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

pub use journal_record::{
    BoardTaskOutcome, ChosenMember, DelegatedTask, DelegationId, EffectMemory, JournalPosition, JournalRecord,
    JournalWriteError, RecordedRunEnd, Recorder, SideChatRef, ToolCallId,
};
pub(crate) use journal_state::{
    DelegationState, PassedMiddleware, RecordedDelegateCall, RecordedQuestion, RecordedRun, RecordedToolCall,
    RecordedTurnState,
};
pub use journal_state::{JournalReplayError, JournalState};

use crate::chat::{Chat, ChatEditError, WeakChat};

/// The journal of a session: the recorder for its runs, and the state of those that were interrupted.
pub struct Journal {
    recorder: Arc<dyn Recorder>,
    /// The number of the next run.
    next: AtomicU64,
    past: Mutex<JournalState>,
    /// The conversations that may continue.
    lines: Mutex<Vec<LiveConversation>>,
}

/// A conversation that may continue.
struct LiveConversation {
    /// The run that began it.
    line: u64,
    /// The newest run in it.
    last: u64,
    chat: WeakChat,
}

impl Journal {
    /// Creates the journal of a new session.
    pub fn new(recorder: Arc<dyn Recorder>) -> Self {
        Self::resumed(recorder, JournalState::default(), None)
    }

    /// Creates the journal of a resumed session, whose conversation is `chat`: see [`JournalState::chat`].
    pub fn resumed(recorder: Arc<dyn Recorder>, past: JournalState, chat: Option<&Chat>) -> Self {
        let next = past.runs.keys().next_back().map_or(1, |last| last.saturating_add(1));
        let mut lines = Vec::new();
        if let Some((line, chat)) = past.main_line().zip(chat) {
            past.lines_of(line, chat, &mut lines);
        }
        Self { recorder, next: next.into(), past: Mutex::new(past), lines: Mutex::new(lines) }
    }

    /// Returns the recorder that stores the records.
    pub fn recorder(&self) -> &Arc<dyn Recorder> {
        &self.recorder
    }

    /// Takes the unfinished run that a person started, with its recorded state. Later calls return `None`.
    pub(crate) fn unfinished(&self) -> Option<(u64, Box<RecordedRun>)> {
        let mut past = self.past();
        let run = past.main_run().filter(|_| past.is_unfinished())?;
        past.runs.remove(&run).map(|there| (run, Box::new(there)))
    }

    /// Takes the recorded state of a delegated task. Later calls return `None`.
    pub(crate) fn errand(&self, id: &DelegationId) -> Option<DelegationState> {
        self.past().errands.remove(id)
    }

    /// Returns `true` if a delegated task has returned as failed and its state was not taken yet.
    pub(crate) fn has_failed(&self, id: &DelegationId) -> bool {
        let past = self.past();
        past.errands.get(id).and_then(|errand| errand.returned.as_ref()).is_some_and(|(entry, _)| entry.has_failed())
    }

    /// Takes the recorded state of a run. Later calls return `None`.
    pub(crate) fn run(&self, run: u64) -> Option<Box<RecordedRun>> {
        self.past().runs.remove(&run).map(Box::new)
    }

    /// Restores the conversation of an interrupted run, recorded from here on.
    ///
    /// # Errors
    ///
    /// [`ChatEditError`] if the recorded changes make no valid conversation.
    pub(crate) fn chat(&self, run: &RecordedRun) -> Result<Chat, ChatEditError> {
        let past = self.past();
        let chat = past.chat_of(run.line)?;
        past.lines_of(run.line, &chat, &mut self.lines());
        Ok(chat)
    }

    /// Returns the number of a new run in this conversation, with the run that began the conversation and the newest run
    /// before this one.
    fn begin(&self, chat: &Chat) -> (u64, Option<(u64, u64)>) {
        let mut lines = self.lines();
        let run = self.next.fetch_add(1, Ordering::Relaxed);
        lines.retain(|there| !there.chat.is_gone());
        match lines.iter_mut().find(|there| there.chat.is(chat)) {
            Some(there) => (run, Some((there.line, std::mem::replace(&mut there.last, run)))),
            None => {
                lines.push(LiveConversation { line: run, last: run, chat: chat.downgrade() });
                (run, None)
            }
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<LiveConversation>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn past(&self) -> MutexGuard<'_, JournalState> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}

/// The part of a journal that belongs to one run.
#[derive(Debug, Clone)]
pub(crate) struct RunJournal {
    pub journal: Arc<Journal>,
    pub run: u64,
    /// The previous run in its conversation.
    pub continues: Option<u64>,
    /// The relation of its conversation to the parent's.
    pub beside: Option<SideChatRef>,
}

impl RunJournal {
    /// Starts the journal of a new run that a person starts. An interrupted run in this conversation can no longer be
    /// resumed.
    pub fn main(journal: &Arc<Journal>, chat: &Chat) -> Self {
        let (run, before) = journal.begin(chat);
        let was_resumed = journal.past().main_line();
        if before.is_some_and(|(line, _)| Some(line) == was_resumed) {
            drop(journal.unfinished());
        }
        Self { journal: Arc::clone(journal), run, continues: before.map(|(_, last)| last), beside: None }
    }

    /// Starts the journal of a new sub-run in a conversation that no later run continues.
    pub fn below(journal: &Arc<Journal>) -> Self {
        Self::of(journal, journal.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Starts the journal of a new sub-run in a conversation that may have had earlier runs.
    pub fn beside(journal: &Arc<Journal>, chat: &Chat, beside: Option<SideChatRef>) -> Self {
        let (run, before) = journal.begin(chat);
        Self { journal: Arc::clone(journal), run, continues: before.map(|(_, last)| last), beside }
    }

    /// Continues the journal of a resumed run.
    pub fn of(journal: &Arc<Journal>, run: u64) -> Self {
        Self { journal: Arc::clone(journal), run, continues: None, beside: None }
    }

    /// Returns the id of a task that this run delegates.
    pub fn errand(&self, call: &str, task: usize) -> DelegationId {
        DelegationId { run: self.run, call: call.into(), task }
    }

    pub fn write(&self, record: &JournalRecord) -> JournalPosition {
        self.journal.recorder.write(self.run, record)
    }
}
