//! What is written down of runs, so that they go on when the process that ran them is gone.
//!
//! [`Record`] is all that can be written, [`Past`] what the records make. Whoever keeps them is a [`Recorder`].

mod past;
mod record;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

pub(super) use past::{CallPast, DelegatedPast, ErrandPast, Parking, Passed, RunPast, Where};
pub use past::{Past, PastError};
pub use record::{BoardTask, CallId, Delegated, EffectMemory, Ended, ErrandId, Lost, Mark, Record, Recorder};

use crate::chat::{Chat, WeakChat};

/// Where the runs of a session are written down, and what is known of those that were interrupted.
pub struct Journal {
    recorder: Arc<dyn Recorder>,
    /// The number of the next run.
    next: AtomicU64,
    past: Mutex<Past>,
    /// The newest run that a person started in each conversation that may go on.
    mains: Mutex<Vec<(u64, WeakChat)>>,
}

impl Journal {
    /// One of a session in which nothing has happened.
    pub fn new(recorder: Arc<dyn Recorder>) -> Self {
        Self::resumed(recorder, Past::default(), None)
    }

    /// One of a session that goes on, whose conversation is `chat`: see [`Past::chat`].
    pub fn resumed(recorder: Arc<dyn Recorder>, past: Past, chat: Option<&Chat>) -> Self {
        let next = past.runs.keys().next_back().map_or(1, |last| last.saturating_add(1));
        let main = past.main_run().zip(chat.map(Chat::downgrade));
        Self { recorder, next: next.into(), past: Mutex::new(past), mains: Mutex::new(main.into_iter().collect()) }
    }

    /// Where it is written down.
    pub fn recorder(&self) -> &Arc<dyn Recorder> {
        &self.recorder
    }

    /// The run that a person started and that has not ended, with its past; once.
    pub(super) fn unfinished(&self) -> Option<(u64, Box<RunPast>)> {
        let mut past = self.past();
        let run = past.main_run().filter(|_| past.is_unfinished())?;
        past.runs.remove(&run).map(|there| (run, Box::new(there)))
    }

    /// What is known of a task that was delegated, once.
    pub(super) fn errand(&self, id: &ErrandId) -> Option<ErrandPast> {
        self.past().errands.remove(id)
    }

    /// Whether a task that was delegated has returned as failed, of which nobody has asked yet.
    pub(super) fn has_failed(&self, id: &ErrandId) -> bool {
        let past = self.past();
        past.errands.get(id).and_then(|errand| errand.returned.as_ref()).is_some_and(|(entry, _)| entry.has_failed())
    }

    /// What is known of a run, once.
    pub(super) fn run(&self, run: u64) -> Option<Box<RunPast>> {
        self.past().runs.remove(&run).map(Box::new)
    }

    /// The number of a run that a person starts in this conversation, and of the one before it there. From now on nobody
    /// goes on with one that was interrupted.
    fn begin_main(&self, chat: &Chat) -> (u64, Option<u64>) {
        let mut mains = self.mains.lock().unwrap_or_else(PoisonError::into_inner);
        let run = self.next.fetch_add(1, Ordering::Relaxed);
        mains.retain(|(_, there)| !there.is_gone());
        let before = mains.iter().position(|(_, there)| there.is(chat)).map(|at| mains.swap_remove(at).0);
        mains.push((run, chat.downgrade()));
        let was_resumed = self.past().main_run();
        if before.is_some() && before == was_resumed {
            drop(self.unfinished());
        }
        (run, before)
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}

/// The part of a journal that is one run's.
#[derive(Debug, Clone)]
pub(super) struct Log {
    pub journal: Arc<Journal>,
    pub run: u64,
    /// The run before it in its conversation.
    pub continues: Option<u64>,
}

impl Log {
    /// Of a new run that a person starts.
    pub fn main(journal: &Arc<Journal>, chat: &Chat) -> Self {
        let (run, continues) = journal.begin_main(chat);
        Self { journal: Arc::clone(journal), run, continues }
    }

    /// Of a new run that works for another.
    pub fn below(journal: &Arc<Journal>) -> Self {
        Self { journal: Arc::clone(journal), run: journal.next.fetch_add(1, Ordering::Relaxed), continues: None }
    }

    /// Of a run that goes on.
    pub fn of(journal: &Arc<Journal>, run: u64) -> Self {
        Self { journal: Arc::clone(journal), run, continues: None }
    }

    /// Names a task that this run delegates.
    pub fn errand(&self, call: &str, task: usize) -> ErrandId {
        ErrandId { run: self.run, call: call.into(), task }
    }

    pub fn write(&self, record: &Record) -> Mark {
        self.journal.recorder.write(self.run, record)
    }
}
