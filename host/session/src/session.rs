use std::{
    collections::HashSet,
    future::Future,
    io,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use super::{
    Secrets, SessionHeader, SessionPart,
    attachments::JournalLineBody,
    line_chain::LineChain,
    session_record::SessionRecord,
    writer::{JournalQueue, JournalWriter, write},
};
use shelly_core::agent::journal::{JournalPosition, JournalRecord, JournalWriteError, Recorder};

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
    thread: Option<thread::JoinHandle<()>>,
    not_marked: Option<String>,
}

impl Session {
    /// Starts the writer thread. `last` is the number of the last line, `total` the bytes of the session, `most` their
    /// limit. Further lines continue `chain`.
    pub(super) fn start(
        header: SessionHeader,
        writer: JournalWriter,
        (last, total, most): (u64, u64, u64),
        chain: Option<LineChain>,
        secrets: Secrets,
        top: HashSet<u64>,
    ) -> io::Result<Self> {
        let folder = writer.folder.clone();
        let queue = Arc::new(JournalQueue::new(last, total, most, chain));
        let for_thread = Arc::clone(&queue);
        let thread = thread::Builder::new().name("journal".into()).spawn(move || write(&for_thread, writer))?;
        Ok(Self { header, folder, queue, secrets, top: Mutex::new(top), thread: Some(thread), not_marked: None })
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

    /// Returns the folder of the session.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Closes the session: waits until everything written is durable. Later writes are refused.
    ///
    /// # Errors
    ///
    /// [`JournalWriteError`] if a record could not be written.
    pub async fn close(&self) -> Result<(), JournalWriteError> {
        // A record that was refused before is lost too.
        let lost = self.queue.lost().filter(|lost| lost.reason != CLOSED);
        self.queue.close(CLOSED);
        self.queue.kept(self.queue.last()).await?;
        lost.map_or(Ok(()), Err)
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
        self.queue.push(run, self.is_top(run, record), JournalLineBody::of(record, &self.secrets))
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
