//! Sessions in memory.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use super::{
    SessionError,
    file_names::JOURNAL,
    journal_lease::{AttachmentError, EventLogEnd, JournalBatch, JournalDraft, JournalLease},
    journal_source::JournalSource,
    journal_storage::{JournalRemoval, JournalStat, JournalStorage},
};
use shelly_core::{digest::Sha256Digest, limits};

/// Sessions in memory, gone with the process. Clones share the sessions.
///
/// ```
/// use std::sync::Arc;
/// use shelly_session::{MemoryJournals, NewSession, SessionStore, SessionStoreOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = SessionStore::with_journals(Arc::new(MemoryJournals::new()), "/none", SessionStoreOptions::default());
/// let session = store.create(NewSession { agent: "ada".into(), ..NewSession::default() })?;
/// assert!(store.is_in_use(session.id()));
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct MemoryJournals(Arc<Mutex<MemoryJournalsState>>);

#[derive(Default)]
struct MemoryJournalsState {
    sessions: BTreeMap<String, MemorySession>,
    /// The number of the last lease.
    leases: u64,
    is_failing: bool,
}

struct MemorySession {
    journal: Vec<u8>,
    last: u64,
    /// The recorded events.
    events: Vec<u8>,
    attachments: HashMap<Sha256Digest, Vec<u8>>,
    mark: Option<String>,
    modified: SystemTime,
    /// The number of the lease that is held.
    holder: Option<u64>,
    /// Copies of the journal from before a part of it was discarded.
    set_aside: Vec<Vec<u8>>,
}

impl MemorySession {
    fn new() -> Self {
        Self {
            journal: Vec::new(),
            last: 0,
            events: Vec::new(),
            attachments: HashMap::new(),
            mark: None,
            modified: SystemTime::now(),
            holder: None,
            set_aside: Vec::new(),
        }
    }

    fn append(&mut self, batch: &JournalBatch<'_>) {
        for attachment in batch.attachments {
            self.attachments.insert(attachment.digest, attachment.bytes.clone());
        }
        self.journal.extend_from_slice(batch.lines);
        self.last = batch.last;
        self.modified = SystemTime::now();
    }

    fn bytes(&self) -> u64 {
        let attachments: usize = self.attachments.values().map(Vec::len).sum();
        (self.journal.len() + attachments + self.events.len()) as u64
    }
}

impl MemoryJournals {
    /// Creates a storage without sessions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes all writes fail, or succeed again, for tests.
    pub fn set_failing(&self, is_failing: bool) {
        self.state().is_failing = is_failing;
    }

    /// Ends the lease on a session, as if it had run out while its holder was not able to refresh it. Returns `true` if
    /// there was one.
    pub fn revoke_lease(&self, id: &str) -> bool {
        self.state().sessions.get_mut(id).and_then(|session| session.holder.take()).is_some()
    }

    fn state(&self) -> MutexGuard<'_, MemoryJournalsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies `read` to a session.
    fn with<T>(&self, id: &str, read: impl FnOnce(&MemorySession) -> T) -> Result<T, SessionError> {
        self.state().sessions.get(id).map(read).ok_or_else(|| not_found(id))
    }

    /// Fails if writes fail.
    fn check(&self, id: &str) -> Result<(), SessionError> {
        match self.state().is_failing {
            false => Ok(()),
            true => Err(SessionError::Storage {
                doing: "write",
                place: location(id).display().to_string(),
                reason: "the storage refuses writes".into(),
                mend: "let it write again".into(),
                is_unusable: false,
            }),
        }
    }
}

impl JournalStorage for MemoryJournals {
    fn location(&self, id: &str) -> PathBuf {
        location(id)
    }

    fn names(&self) -> Result<Vec<String>, SessionError> {
        Ok(self.state().sessions.keys().cloned().collect())
    }

    fn contains(&self, id: &str) -> Result<bool, SessionError> {
        Ok(self.state().sessions.contains_key(id))
    }

    fn stats(&self) -> Result<Vec<JournalStat>, SessionError> {
        let state = self.state();
        let stats = state.sessions.iter().map(|(id, session)| JournalStat {
            id: id.clone(),
            modified: session.modified,
            journal_bytes: session.journal.len() as u64,
        });
        Ok(stats.collect())
    }

    fn journal_bytes(&self, id: &str) -> Option<u64> {
        self.with(id, |session| session.journal.len() as u64).ok()
    }

    fn bytes_of(&self, id: &str) -> u64 {
        self.with(id, MemorySession::bytes).unwrap_or_default()
    }

    fn events_bytes(&self, id: &str) -> u64 {
        self.with(id, |session| session.events.len() as u64).unwrap_or_default()
    }

    fn read(&self, id: &str, from: u64) -> Result<Box<dyn JournalSource>, SessionError> {
        let at = self.with(id, |session| match from {
            0 | 1 => 0,
            from => {
                let skipped = usize::try_from(from - 2).unwrap_or(usize::MAX);
                let end = memchr::memchr_iter(b'\n', &session.journal).nth(skipped);
                end.map_or(session.journal.len(), |end| end + 1)
            }
        })?;
        let part = MemorySessionPart::Journal;
        Ok(Box::new(MemoryJournalSource {
            journals: self.clone(),
            id: id.to_owned(),
            part,
            begin: at,
            at,
            end: usize::MAX,
        }))
    }

    fn events(&self, id: &str) -> Result<Option<Box<dyn JournalSource>>, SessionError> {
        let end = self.with(id, |session| session.events.len())?;
        if end == 0 {
            return Ok(None);
        }
        let (journals, part) = (self.clone(), MemorySessionPart::Events);
        Ok(Some(Box::new(MemoryJournalSource { journals, id: id.to_owned(), part, begin: 0, at: 0, end })))
    }

    fn mark(&self, id: &str) -> Result<Option<String>, SessionError> {
        self.with(id, |session| session.mark.clone())
    }

    fn attachments(&self, id: &str, most: usize) -> Result<Vec<(Sha256Digest, u64)>, SessionError> {
        self.with(id, |session| {
            let attachments = session.attachments.iter().take(most);
            attachments.map(|(digest, bytes)| (*digest, bytes.len() as u64)).collect()
        })
    }

    fn attachment(&self, id: &str, digest: &Sha256Digest) -> Result<Vec<u8>, AttachmentError> {
        self.with(id, |session| session.attachments.get(digest).cloned())?.ok_or(AttachmentError::Missing)
    }

    fn draft(&self, id: &str, _is_first: bool) -> Result<Box<dyn JournalDraft>, SessionError> {
        self.check(id)?;
        if self.contains(id)? {
            return Err(SessionError::Exists { id: id.to_owned(), in_use: self.is_taken(id) });
        }
        Ok(Box::new(MemoryDraft { journals: self.clone(), id: id.to_owned(), session: MemorySession::new() }))
    }

    fn take(&self, id: &str) -> Result<Option<Box<dyn JournalLease>>, SessionError> {
        let mut state = self.state();
        let lease = state.leases + 1;
        let session = state.sessions.get_mut(id).ok_or_else(|| not_found(id))?;
        if session.holder.is_some() {
            return Ok(None);
        }
        session.holder = Some(lease);
        state.leases = lease;
        Ok(Some(Box::new(MemoryLease { journals: self.clone(), id: id.to_owned(), number: lease })))
    }

    fn is_taken(&self, id: &str) -> bool {
        self.with(id, |session| session.holder.is_some()).unwrap_or(false)
    }

    fn remove(&self, id: &str) -> Result<JournalRemoval, SessionError> {
        self.check(id)?;
        let mut state = self.state();
        match state.sessions.get(id) {
            None => Ok(JournalRemoval::Missing),
            Some(session) if session.holder.is_some() => Ok(JournalRemoval::InUse),
            Some(_) => {
                state.sessions.remove(id);
                Ok(JournalRemoval::Removed)
            }
        }
    }
}

/// The journal or the recorded events of a session that are read.
struct MemoryJournalSource {
    journals: MemoryJournals,
    id: String,
    part: MemorySessionPart,
    /// The offset at which reading began.
    begin: usize,
    /// The offset of the next byte.
    at: usize,
    /// The offset at which reading ends.
    end: usize,
}

#[derive(Clone, Copy)]
enum MemorySessionPart {
    Journal,
    Events,
}

impl JournalSource for MemoryJournalSource {
    fn read_more(&mut self, buffer: &mut Vec<u8>, most: usize) -> Result<usize, SessionError> {
        let read = self.journals.with(&self.id, |session| {
            let all = match self.part {
                MemorySessionPart::Journal => &session.journal,
                MemorySessionPart::Events => &session.events,
            };
            let rest = all.get(self.at..all.len().min(self.end)).unwrap_or_default();
            let part = &rest[..rest.len().min(most)];
            buffer.extend_from_slice(part);
            part.len()
        })?;
        self.at += read;
        Ok(read)
    }

    fn seek(&mut self, at: u64) -> Result<(), SessionError> {
        self.at = self.begin.saturating_add(usize::try_from(at).unwrap_or(usize::MAX));
        Ok(())
    }
}

struct MemoryLease {
    journals: MemoryJournals,
    id: String,
    number: u64,
}

impl MemoryLease {
    /// Applies `write` to the session if the lease is still held.
    fn write<T>(&self, write: impl FnOnce(&mut MemorySession) -> Option<T>) -> Result<T, SessionError> {
        self.journals.check(&self.id)?;
        let mut state = self.journals.state();
        let session = state.sessions.get_mut(&self.id).filter(|session| session.holder == Some(self.number));
        session.and_then(write).ok_or_else(|| SessionError::LeaseLost { id: self.id.clone() })
    }
}

impl JournalLease for MemoryLease {
    fn continue_after(&mut self, last: u64, end: u64) -> Result<(), SessionError> {
        self.write(|session| {
            session.journal.truncate(usize::try_from(end).unwrap_or(usize::MAX));
            session.last = last;
            Some(())
        })
    }

    fn set_aside(&mut self) -> Result<PathBuf, SessionError> {
        self.write(|session| {
            session.set_aside.push(session.journal.clone());
            Some(location(&self.id).with_file_name(format!("journal.damaged-{}.jsonl", session.set_aside.len())))
        })
    }

    fn set_mark(&mut self, mark: &str) -> Result<(), SessionError> {
        self.write(|session| {
            session.mark = Some(mark.to_owned());
            Some(())
        })
    }

    fn append(&mut self, batch: &JournalBatch<'_>) -> Result<(), SessionError> {
        self.write(|session| (session.last == batch.after).then(|| session.append(batch)))
    }

    fn sync(&mut self) -> Result<(), SessionError> {
        Ok(())
    }

    fn open_events(&mut self) -> Result<EventLogEnd, SessionError> {
        self.write(|session| {
            let from = session.events.len().saturating_sub(limits::SESSION_EVENT_BYTES + 2);
            Some(EventLogEnd { bytes: session.events.len() as u64, tail: session.events[from..].to_vec() })
        })
    }

    fn continue_events(&mut self, end: u64) -> Result<(), SessionError> {
        self.write(|session| {
            session.events.truncate(usize::try_from(end).unwrap_or(usize::MAX));
            Some(())
        })
    }

    fn append_events(&mut self, lines: &[u8]) -> Result<(), SessionError> {
        self.write(|session| {
            session.events.extend_from_slice(lines);
            Some(())
        })
    }

    fn refresh(&mut self) -> Result<(), SessionError> {
        self.write(|_| Some(()))
    }
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        if let Some(session) = self.journals.state().sessions.get_mut(&self.id)
            && session.holder == Some(self.number)
        {
            session.holder = None;
        }
    }
}

struct MemoryDraft {
    journals: MemoryJournals,
    id: String,
    session: MemorySession,
}

impl JournalDraft for MemoryDraft {
    fn append(&mut self, batch: &JournalBatch<'_>) -> Result<(), SessionError> {
        self.journals.check(&self.id)?;
        self.session.append(batch);
        Ok(())
    }

    fn share_attachment(&mut self, from: &str, digest: &Sha256Digest) -> Result<(), AttachmentError> {
        let bytes = self.journals.attachment(from, digest)?;
        self.session.attachments.insert(*digest, bytes);
        Ok(())
    }

    fn append_events(&mut self, lines: &[u8]) -> Result<(), SessionError> {
        self.journals.check(&self.id)?;
        self.session.events.extend_from_slice(lines);
        Ok(())
    }

    fn set_mark(&mut self, mark: &str) -> Result<(), SessionError> {
        self.journals.check(&self.id)?;
        self.session.mark = Some(mark.to_owned());
        Ok(())
    }

    fn publish(self: Box<Self>) -> Result<Box<dyn JournalLease>, SessionError> {
        let Self { journals, id, mut session } = *self;
        journals.check(&id)?;
        let mut state = journals.state();
        if let Some(there) = state.sessions.get(&id) {
            return Err(SessionError::Exists { in_use: there.holder.is_some(), id });
        }
        state.leases += 1;
        let number = state.leases;
        session.holder = Some(number);
        state.sessions.insert(id.clone(), session);
        drop(state);
        Ok(Box::new(MemoryLease { journals, id, number }))
    }
}

fn location(id: &str) -> PathBuf {
    Path::new("memory").join(id).join(JOURNAL)
}

fn not_found(id: &str) -> SessionError {
    SessionError::NotFound { given: id.to_owned() }
}

impl fmt::Debug for MemoryJournals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryJournals").field("sessions", &self.state().sessions.len()).finish_non_exhaustive()
    }
}
