//! The thread that writes the records of an open session.
//!
//! Group commit: everything that was queued while the disk was busy goes into the next write, and everything written is
//! synced at once.

use std::{
    collections::HashSet,
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::watch;

use super::{
    SessionError, SessionStorage, StorageEntryKind, StoredFile,
    attachments::{JournalAttachment, JournalLineBody},
    error::disk,
    event_log::{EventLogWriter, PendingEvents},
    file_names::{ATTACHMENTS, JOURNAL},
    line_chain::LineChain,
    line_format::append_line,
    storage::write_new,
};
use shelly_core::{
    agent::journal::{JournalPosition, JournalWriteError},
    digest::Sha256Digest,
    error::without_number,
    limits,
};

/// The files of an open session.
pub(super) struct JournalWriter {
    pub storage: Arc<dyn SessionStorage>,
    pub id: String,
    /// The session's folder.
    pub folder: PathBuf,
    /// The journal; its content is complete up to `end` and synced up to `kept`.
    pub journal: Box<dyn StoredFile>,
    pub end: u64,
    pub kept: u64,
    /// The recorded events.
    pub events: EventLogWriter,
    /// Held as long as the session is open.
    pub _lock: Box<dyn StoredFile>,
}

impl JournalWriter {
    pub fn journal_path(&self) -> PathBuf {
        self.folder.join(JOURNAL)
    }
}

/// The state shared by callers and the writer thread.
pub(super) struct JournalQueue {
    pending: Mutex<PendingLines>,
    wake: Condvar,
    progress: watch::Sender<WriterProgress>,
    /// The maximum bytes of the session.
    most: u64,
}

#[derive(Default)]
struct PendingLines {
    lines: Vec<u8>,
    attachments: Vec<JournalAttachment>,
    /// The bytes of lines and attachments.
    bytes: usize,
    /// The events that wait to be written.
    events: PendingEvents,
    /// The number of the last queued line.
    last: u64,
    /// The last line for which a caller waits.
    wanted: u64,
    /// The bytes of the whole session, including the queue.
    total: u64,
    /// The attachments that were queued before.
    known: HashSet<Sha256Digest>,
    /// The chain of authentication codes; `None` if the session has no mark.
    chain: Option<LineChain>,
    /// The reason for which further lines are refused.
    lost: Option<JournalWriteError>,
    is_asleep: bool,
}

/// The progress of the writer thread.
#[derive(Default)]
struct WriterProgress {
    /// The last durable line.
    kept: u64,
    /// The reason for which no further line will become durable.
    lost: Option<JournalWriteError>,
}

impl JournalQueue {
    /// Creates the queue of a session that has `last` lines and `total` bytes of at most `most`; further lines continue
    /// `chain`.
    pub fn new(last: u64, total: u64, most: u64, chain: Option<LineChain>) -> Self {
        Self {
            pending: Mutex::new(PendingLines { last, total, chain, ..PendingLines::default() }),
            wake: Condvar::new(),
            progress: watch::Sender::new(WriterProgress { kept: last, lost: None }),
            most,
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingLines> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line and returns its position; `u64::MAX` if lines are refused: see [`JournalQueue::lost`]. `is_top` becomes
    /// the member `top`.
    pub fn push(&self, run: u64, is_top: bool, body: Result<JournalLineBody, String>) -> JournalPosition {
        let mut pending = self.lock();
        if pending.lost.is_some() {
            return JournalPosition(u64::MAX);
        }
        let added = match body {
            Ok(body)
                if body.bytes() > limits::SESSION_RECORD_BYTES || body.members.len() > limits::SESSION_LINE_BYTES =>
            {
                Err(format!("a record of {} bytes is too long for the session", body.bytes()))
            }
            Ok(body) => pending.add(run, is_top, body, self.most),
            Err(why) => Err(format!("a record cannot be written: {why}")),
        };
        match added {
            Ok(()) => {}
            Err(reason) => pending.lost = Some(JournalWriteError { reason }),
        }
        let mark = if pending.lost.is_some() { JournalPosition(u64::MAX) } else { JournalPosition(pending.last) };
        if pending.is_asleep {
            self.wake.notify_one();
        }
        mark
    }

    /// Queues the members of an event. They are written with the next line, or [after a
    /// delay](limits::SESSION_EVENTS_DELAY); nobody waits for them.
    pub fn push_event(&self, members: &[u8]) {
        let mut pending = self.lock();
        if pending.lost.is_some() {
            return;
        }
        let (is_first, n) = (pending.events.is_empty(), pending.last);
        pending.events.add(n, members);
        if is_first && pending.is_asleep {
            self.wake.notify_one();
        }
    }

    /// Returns the number of the last queued line.
    pub fn last(&self) -> JournalPosition {
        JournalPosition(self.lock().last)
    }

    pub fn lost(&self) -> Option<JournalWriteError> {
        self.lock().lost.clone()
    }

    pub async fn kept(&self, mark: JournalPosition) -> Result<(), JournalWriteError> {
        let mut progress = self.progress.subscribe();
        self.want(mark);
        let done = progress.wait_for(|progress| progress.kept >= mark.0 || progress.lost.is_some()).await;
        match done {
            Ok(progress) if progress.kept >= mark.0 => Ok(()),
            Ok(progress) => Err(progress.lost.clone().unwrap_or_else(crashed)),
            // The sender belongs to the queue itself.
            Err(_) => Err(crashed()),
        }
    }

    /// Makes the thread sync up to `mark` without delay.
    fn want(&self, mark: JournalPosition) {
        let mut pending = self.lock();
        pending.wanted = pending.wanted.max(mark.0.min(pending.last));
        if pending.is_asleep {
            self.wake.notify_one();
        }
    }

    /// Refuses further lines; queued lines are still written.
    pub fn close(&self, reason: &str) {
        self.lock().lost.get_or_insert_with(|| JournalWriteError { reason: reason.into() });
        self.wake.notify_one();
    }
}

fn crashed() -> JournalWriteError {
    JournalWriteError {
        reason: "the writer of the session has crashed, which is a bug; everything written so far is kept".into(),
    }
}

impl PendingLines {
    fn add(&mut self, run: u64, is_top: bool, body: JournalLineBody, most: u64) -> Result<(), String> {
        let JournalLineBody { members, attachments } = body;
        let fresh: Vec<_> = attachments.into_iter().filter(|file| !self.known.contains(&file.digest)).collect();
        let files: usize = fresh.iter().map(|file| file.bytes.len()).sum();
        let (before, n) = (self.lines.len(), self.last + 1);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let top = if is_top { "\"top\":true," } else { "" };
        let mut chain = self.chain.clone();
        let envelope = format_args!("\"n\":{n},\"t\":{now},\"run\":{run},{top}");
        append_line(&mut self.lines, envelope, &members, chain.as_mut());
        let bytes = self.lines.len() - before + files;
        // A record that alone exceeds the bound is accepted: it has a bound of its own.
        let refused = if self.total + bytes as u64 > most {
            Some(format!(
                "the session has reached its maximum of {most} bytes on disk; raise sessions.max_bytes in the config, \
                 or start a new session"
            ))
        } else if self.bytes > 0 && self.bytes + bytes > limits::SESSION_PENDING_BYTES {
            Some(format!(
                "the disk is too slow: {} bytes wait to be written; everything written so far is kept",
                self.bytes
            ))
        } else {
            None
        };
        if let Some(reason) = refused {
            self.lines.truncate(before);
            return Err(reason);
        }
        self.chain = chain;
        self.known.extend(fresh.iter().map(|file| file.digest));
        self.attachments.extend(fresh);
        self.bytes += bytes;
        self.total += bytes as u64;
        self.last = n;
        Ok(())
    }
}

/// Writes until the queue is closed or an operation fails. Written data survives the end of the process; synced data also
/// survives power loss. Data is synced as soon as a caller waits for it, and otherwise [after a
/// delay](limits::SESSION_SYNC_DELAY).
pub(super) fn write(queue: &JournalQueue, mut writer: JournalWriter) {
    let _at_end = WriterEndGuard(queue);
    let mut lines = Vec::new();
    // A file name that an earlier process created may not be durable yet.
    let mut is_folder_synced = false;
    let (mut written, mut kept) = (queue.last().0, queue.last().0);
    // The time by which written data must be synced; `None` if all of it is.
    let mut due: Option<Instant> = None;
    // The time by which queued events must be written; `None` if there are none.
    let mut events_due: Option<Instant> = None;
    loop {
        let mut pending = queue.lock();
        let must_sync = loop {
            let now = Instant::now();
            let must_sync = pending.wanted > kept || is_past(due, now) || pending.lost.is_some();
            if !pending.lines.is_empty() || (due.is_some() && must_sync) {
                break must_sync;
            }
            if !pending.events.is_empty() {
                let events_due = events_due.get_or_insert(now + limits::SESSION_EVENTS_DELAY);
                if *events_due <= now || pending.lost.is_some() {
                    break must_sync;
                }
            }
            if pending.lost.is_some() {
                return;
            }
            pending.is_asleep = true;
            pending = match due.into_iter().chain(events_due).min() {
                None => queue.wake.wait(pending).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let left = due.saturating_duration_since(now);
                    queue.wake.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            pending.is_asleep = false;
        };
        std::mem::swap(&mut lines, &mut pending.lines);
        let attachments = std::mem::take(&mut pending.attachments);
        let last = pending.last;
        let events = pending.events.take(last);
        events_due = None;
        pending.bytes = 0;
        drop(pending);
        let mut done = match lines.is_empty() {
            true => Ok(()),
            false => writer.put(&lines, &attachments, &mut is_folder_synced).inspect(|()| {
                written = last;
                due.get_or_insert_with(|| Instant::now() + limits::SESSION_SYNC_DELAY);
            }),
        };
        // Data written before a failure is synced, if the disk allows it.
        if (must_sync || done.is_err()) && due.is_some() {
            let synced = writer.sync();
            if synced.is_ok() {
                (kept, due) = (written, None);
                queue.progress.send_modify(|progress| progress.kept = kept);
            }
            done = done.and(synced);
        }
        if let Err(error) = done {
            // Cuts off incomplete data, as far as the disk allows it; readers skip it in any case.
            let _ = writer.journal.truncate(if due.is_some() { writer.kept } else { writer.end });
            let mut pending = queue.lock();
            pending.lost = Some(JournalWriteError { reason: writer.why(&error) });
            pending.lines = Vec::new();
            pending.attachments = Vec::new();
            return;
        }
        // After the journal, whose lines they refer to, and after its sync, for which an agent may wait.
        writer.events.append(&events);
        lines.clear();
        lines.shrink_to(1 << 20);
    }
}

fn is_past(due: Option<Instant>, now: Instant) -> bool {
    due.is_some_and(|due| due <= now)
}

/// Notifies waiting callers that nothing more will be written, however the thread ends.
struct WriterEndGuard<'a>(&'a JournalQueue);

impl Drop for WriterEndGuard<'_> {
    fn drop(&mut self) {
        let lost = self.0.lock().lost.get_or_insert_with(crashed).clone();
        self.0.progress.send_modify(|progress| progress.lost = Some(lost));
    }
}

impl JournalWriter {
    fn put(&mut self, lines: &[u8], attachments: &[JournalAttachment], synced: &mut bool) -> Result<(), SessionError> {
        let folder = self.folder.join(ATTACHMENTS);
        for file in attachments {
            *synced &= !keep(&*self.storage, &folder, file)?;
        }
        if !attachments.is_empty() && !*synced {
            self.storage.sync_folder(&folder).map_err(disk("write", &folder))?;
            *synced = true;
        }
        let path = self.journal_path();
        self.journal.write_all_at(lines, self.end).map_err(disk("write", &path))?;
        self.end += lines.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SessionError> {
        self.journal.sync().map_err(|error| disk("write", &self.journal_path())(error))?;
        self.kept = self.end;
        Ok(())
    }

    fn why(&self, error: &SessionError) -> String {
        let SessionError::Disk { error: cause, .. } = error else { return error.to_string() };
        let again = format!("`shelly-host session resume {}`", self.id);
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("the disk is full: {error}; free space, then run {again}")
            }
            _ => format!("{error}: {}; fix that, then run {again}", without_number(&cause.to_string())),
        }
    }
}

/// Writes an attachment if it is missing; returns `true` if a file name was created.
fn keep(storage: &dyn SessionStorage, folder: &Path, file: &JournalAttachment) -> Result<bool, SessionError> {
    let path = folder.join(file.digest.hex());
    // A file gets its name only when its content is on disk.
    if storage
        .entry(&path)
        .is_ok_and(|there| there.kind == StorageEntryKind::File && there.len == file.bytes.len() as u64)
    {
        return Ok(false);
    }
    let beside = folder.join(format!(".{}", file.digest.hex()));
    write_new(storage, &beside, &file.bytes).map_err(disk("write", &beside))?;
    storage.rename(&beside, &path).map_err(disk("write", &path))?;
    Ok(true)
}

impl fmt::Debug for JournalQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(members: usize, attached: usize) -> Result<JournalLineBody, String> {
        let file = |bytes: Vec<u8>| JournalAttachment { digest: Sha256Digest([0; 32]), bytes };
        let attachments = if attached > 0 { vec![file(vec![0; attached])] } else { Vec::new() };
        Ok(JournalLineBody { members: vec![b' '; members], attachments })
    }

    #[test]
    fn pending_session_bytes_are_limited() {
        let (half, all) = (limits::SESSION_PENDING_BYTES / 2, limits::SESSION_PENDING_BYTES);
        for (pushed, taken, why) in [
            (vec![body(9, 0), body(half, 0), body(half, 0)], 2, "the disk is too slow"),
            (vec![body(9, half), body(9, half), body(half, 0)], 2, "the disk is too slow"),
            (vec![body(limits::SESSION_LINE_BYTES + 1, 0)], 0, "too long for the session"),
            (vec![body(9, limits::SESSION_RECORD_BYTES)], 0, "too long for the session"),
            (vec![body(9, 2 * all), body(9, 0)], 1, "the disk is too slow"),
            (vec![body(9, 0), Err("so".into()), body(9, 0)], 1, "cannot be written: so"),
        ] {
            let queue = JournalQueue::new(1, 0, u64::MAX, None);
            let marks: Vec<_> = pushed.into_iter().map(|body| queue.push(1, false, body)).collect();
            let expected =
                (0..marks.len()).map(|at| JournalPosition(if at < taken { at as u64 + 2 } else { u64::MAX }));
            assert_eq!(marks, expected.collect::<Vec<_>>(), "{why}");
            assert!(queue.lost().is_some_and(|lost| lost.reason.contains(why)), "{:?}", queue.lost());
        }
    }

    #[test]
    fn duplicate_attachment_is_queued_once() {
        let queue = JournalQueue::new(1, 0, u64::MAX, None);
        for _ in 0..3 {
            queue.push(1, false, body(9, limits::SESSION_PENDING_BYTES / 2));
        }
        assert_eq!((queue.lost(), queue.lock().attachments.len()), (None, 1));
    }
}
