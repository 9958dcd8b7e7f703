//! The thread that writes the records of an open session.
//!
//! Group commit: everything that was queued while the disk was busy goes into the next write, and everything written is
//! synced at once.

use std::{
    collections::HashSet,
    fmt, io,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::{sync::watch, time::timeout};

use super::{
    SessionError,
    attachments::JournalLineBody,
    event_log::{EventLogWriter, PendingEvents},
    journal_lease::{JournalAttachment, JournalBatch, JournalLease},
    line_chain::LineChain,
    line_format::append_line,
};
use shelly_core::{
    agent::journal::{JournalPosition, JournalWriteError},
    digest::Sha256Digest,
    error::without_number,
    limits,
};

/// An open session in its storage.
pub(super) struct JournalWriter {
    /// Held as long as the session is open.
    pub lease: Box<dyn JournalLease>,
    pub id: String,
    /// The number of the last line, which is durable.
    pub last: u64,
    /// The recorded events.
    pub events: EventLogWriter,
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
    /// `true` once the lease on the session was given back.
    is_released: bool,
}

impl JournalQueue {
    /// Creates the queue of a session that has `last` lines and `total` bytes of at most `most`; further lines continue
    /// `chain`.
    pub fn new(last: u64, total: u64, most: u64, chain: Option<LineChain>) -> Self {
        Self {
            pending: Mutex::new(PendingLines { last, total, chain, ..PendingLines::default() }),
            wake: Condvar::new(),
            progress: watch::Sender::new(WriterProgress { kept: last, lost: None, is_released: false }),
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

    /// Waits until the lease on the session was given back, after [`Self::close`]; not for longer than [the time for
    /// it](limits::SESSION_RELEASE_TIME).
    pub async fn released(&self) {
        let mut progress = self.progress.subscribe();
        let _ = timeout(limits::SESSION_RELEASE_TIME, progress.wait_for(|progress| progress.is_released)).await;
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

/// Writes until the queue is closed or an operation fails, and gives the lease back.
pub(super) fn write(queue: &JournalQueue, writer: JournalWriter) {
    let _at_end = LeaseEndGuard(queue);
    write_until_closed(queue, writer);
}

/// Writes until the queue is closed or an operation fails. Written data survives the end of the process; synced data also
/// survives power loss. Data is synced as soon as a caller waits for it, and otherwise [after a
/// delay](limits::SESSION_SYNC_DELAY).
fn write_until_closed(queue: &JournalQueue, mut writer: JournalWriter) {
    let _at_end = WriterEndGuard(queue);
    let mut lines = Vec::new();
    let (mut written, mut kept) = (writer.last, writer.last);
    // The time by which written data must be synced; `None` if all of it is.
    let mut due: Option<Instant> = None;
    // The time by which queued events must be written; `None` if there are none.
    let mut events_due: Option<Instant> = None;
    // The time at which the lease must be refreshed; `None` if it lasts as long as the process.
    let next_refresh = |lease: &dyn JournalLease| lease.refresh_interval().map(|interval| Instant::now() + interval);
    let mut refresh_at = next_refresh(&*writer.lease);
    loop {
        let mut pending = queue.lock();
        let (must_sync, must_write_events) = loop {
            let now = Instant::now();
            let must_sync = pending.wanted > kept || is_past(due, now) || pending.lost.is_some();
            if !pending.events.is_empty() {
                events_due.get_or_insert(now + limits::SESSION_EVENTS_DELAY);
            }
            let must_write_events = is_past(events_due, now) || pending.lost.is_some();
            let has_work = !pending.lines.is_empty() || (due.is_some() && must_sync);
            if has_work || (!pending.events.is_empty() && must_write_events) {
                break (must_sync, must_write_events);
            }
            if pending.lost.is_some() {
                return;
            }
            if is_past(refresh_at, now) {
                break (false, must_write_events);
            }
            pending.is_asleep = true;
            pending = match due.into_iter().chain(events_due).chain(refresh_at).min() {
                None => queue.wake.wait(pending).unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until.saturating_duration_since(now);
                    queue.wake.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            pending.is_asleep = false;
        };
        std::mem::swap(&mut lines, &mut pending.lines);
        let attachments = std::mem::take(&mut pending.attachments);
        let last = pending.last;
        let events = match must_write_events || !writer.lease.gathers_events() {
            true => {
                events_due = None;
                pending.events.take(last)
            }
            false => Vec::new(),
        };
        pending.bytes = 0;
        drop(pending);
        let mut done = match lines.is_empty() {
            true => Ok(()),
            false => {
                let batch = JournalBatch { after: written, last, lines: &lines, attachments: &attachments };
                writer.lease.append(&batch).inspect(|()| {
                    written = last;
                    due.get_or_insert_with(|| Instant::now() + limits::SESSION_SYNC_DELAY);
                })
            }
        };
        if done.is_ok() && is_past(refresh_at, Instant::now()) {
            done = writer.lease.refresh();
            refresh_at = next_refresh(&*writer.lease);
        }
        // Data written before a failure is synced, if the disk allows it.
        if (must_sync || done.is_err()) && due.is_some() {
            let synced = writer.lease.sync();
            if synced.is_ok() {
                (kept, due) = (written, None);
                queue.progress.send_modify(|progress| progress.kept = kept);
            }
            done = done.and(synced);
        }
        if let Err(error) = done {
            writer.lease.discard_unsynced();
            let mut pending = queue.lock();
            pending.lost = Some(JournalWriteError { reason: writer.why(&error) });
            pending.lines = Vec::new();
            pending.attachments = Vec::new();
            return;
        }
        // After the journal, whose lines they refer to, and after its sync, for which an agent may wait.
        writer.events.append(&mut *writer.lease, &events);
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

/// Notifies those who wait for the lease on the session, however the thread ends.
struct LeaseEndGuard<'a>(&'a JournalQueue);

impl Drop for LeaseEndGuard<'_> {
    fn drop(&mut self) {
        self.0.progress.send_modify(|progress| progress.is_released = true);
    }
}

impl JournalWriter {
    fn why(&self, error: &SessionError) -> String {
        let again = format!("`shelly-host session resume {}`", self.id);
        let cause = match error {
            SessionError::Disk { error: cause, .. } => cause,
            SessionError::Storage { reason, .. } => return format!("{error}: {reason}; mend that, then run {again}"),
            _ => return error.to_string(),
        };
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                format!("the disk is full: {error}; free space, then run {again}")
            }
            _ => format!("{error}: {}; fix that, then run {again}", without_number(&cause.to_string())),
        }
    }
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
