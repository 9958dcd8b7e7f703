use std::{
    collections::{HashMap, HashSet},
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

use super::{
    Secrets, SessionHeader, SessionPart,
    attachments::JournalLineBody,
    event_body::{event_members, stream_members},
    event_facts::EventFacts,
    known_runs::KnownRuns,
    line_chain::LineChain,
    session_record::SessionRecord,
    writer::{JournalQueue, JournalWriter, write},
};
use shelly_core::{
    agent::journal::{JournalPosition, JournalRecord, JournalWriteError, Recorder},
    event::StreamEvent,
};

/// A session that is open for writing; it is locked against other writers until it is dropped. Dropping it first writes
/// everything to disk.
#[derive(Debug)]
pub struct Session {
    header: SessionHeader,
    folder: PathBuf,
    queue: Arc<JournalQueue>,
    secrets: Secrets,
    /// The runs that a person started.
    top: Mutex<HashSet<u64>>,
    /// The runs that were interrupted, by instance.
    interrupted: HashMap<Arc<str>, u64>,
    /// Set once events are recorded.
    event_facts: OnceLock<Mutex<EventFacts>>,
    thread: Option<thread::JoinHandle<()>>,
    not_marked: Option<String>,
}

impl Session {
    /// Starts the writer thread. `folder` is that of the session on this machine, `total` the bytes of the session, `most`
    /// their limit. Further lines continue `chain`.
    pub(super) fn start(
        header: SessionHeader,
        folder: PathBuf,
        writer: JournalWriter,
        (total, most): (u64, u64),
        chain: Option<LineChain>,
        secrets: Secrets,
        KnownRuns { top, instances: interrupted }: KnownRuns,
    ) -> io::Result<Self> {
        let queue = Arc::new(JournalQueue::new(writer.last, total, most, chain));
        let for_thread = Arc::clone(&queue);
        let thread = thread::Builder::new().name("journal".into()).spawn(move || write(&for_thread, writer))?;
        let (top, event_facts) = (Mutex::new(top), OnceLock::new());
        Ok(Self {
            header,
            folder,
            queue,
            secrets,
            top,
            interrupted,
            event_facts,
            thread: Some(thread),
            not_marked: None,
        })
    }

    /// Returns the name of the session.
    pub fn id(&self) -> &str {
        &self.header.id
    }

    /// Returns the header of its journal.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Returns the reason for which the session could not be marked as this person's own when it was created, if so: see
    /// [`SessionStore::is_own`](super::SessionStore::is_own).
    pub fn not_marked(&self) -> Option<&str> {
        self.not_marked.as_deref()
    }

    pub(super) fn with_not_marked(mut self, why: Option<String>) -> Self {
        self.not_marked = why;
        self
    }

    /// Returns the folder of the session, or of what belongs to it and stays on this machine; it may not exist then.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Closes the session: waits until everything written is durable, and until others can open it. Later writes are refused.
    ///
    /// # Errors
    ///
    /// [`JournalWriteError`] if a record could not be written.
    pub async fn close(&self) -> Result<(), JournalWriteError> {
        // A record that was refused before is lost too.
        let lost = self.queue.lost().filter(|lost| lost.reason != CLOSED);
        self.queue.close(CLOSED);
        let kept = self.queue.kept(self.queue.last()).await;
        self.queue.released().await;
        kept?;
        lost.map_or(Ok(()), Err)
    }

    /// Notes that the events of one more sink are recorded from now on.
    pub fn begin_events(&self) {
        self.event_facts.get_or_init(|| Mutex::new(EventFacts::new(&self.interrupted)));
        self.queue.push_event(&stream_members());
    }

    /// Records an event after [`Session::begin_events`]. Never waits: an event for which there is no room is left out and
    /// counted. A piece of a reply is not recorded, and a message that the journal holds only by its place there.
    pub fn record_event(&self, event: &StreamEvent) {
        let Some(facts) = self.event_facts.get() else { return };
        let members = {
            let mut facts = facts.lock().unwrap_or_else(PoisonError::into_inner);
            event_members(event, &mut facts, &self.secrets)
        };
        if let Some(members) = members {
            self.queue.push_event(&members);
        }
    }

    pub(super) fn opened(&self, parts: Vec<SessionPart>) {
        let own = SessionRecord::Opened { pid: std::process::id(), host: env!("CARGO_PKG_VERSION").into(), parts };
        self.queue.push(0, false, JournalLineBody::own(&own));
    }

    /// Returns `true` if this record begins or ends a run that a person started.
    fn is_top(&self, run: u64, record: &JournalRecord) -> bool {
        let top = || self.top.lock().unwrap_or_else(PoisonError::into_inner);
        match record {
            JournalRecord::Began { delegation_key: None, .. } => {
                top().insert(run);
                true
            }
            JournalRecord::Ended { .. } => top().contains(&run),
            _ => false,
        }
    }
}

const CLOSED: &str = "the session is closed";

impl Recorder for Session {
    fn write(&self, run: u64, record: &JournalRecord) -> JournalPosition {
        let position = self.queue.push(run, self.is_top(run, record), JournalLineBody::of(record, &self.secrets));
        if let Some(facts) = self.event_facts.get() {
            facts.lock().unwrap_or_else(PoisonError::into_inner).note(run, record, position.0);
        }
        position
    }

    fn kept(&self, mark: JournalPosition) -> Pin<Box<dyn Future<Output = Result<(), JournalWriteError>> + Send + '_>> {
        Box::pin(self.queue.kept(mark))
    }

    fn lost(&self) -> Option<JournalWriteError> {
        self.queue.lost()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.queue.close(CLOSED);
        if let Some(thread) = self.thread.take() {
            // It has notified the waiting callers, even if it panicked.
            let _ = thread.join();
        }
    }
}
