//! The contract of [`JournalStorage`]: checks that every implementation passes.
//!
//! An implementation has a test that runs all of them, each on a storage of its own:
//!
//! ```
//! use std::sync::Arc;
//! use shelly_session::{JournalStorage, MemoryJournals, storage_contract::{StorageFixture, failed_checks}};
//!
//! struct InMemory(MemoryJournals);
//!
//! impl StorageFixture for InMemory {
//!     fn storage(&self) -> Arc<dyn JournalStorage> {
//!         Arc::new(self.0.clone())
//!     }
//! }
//!
//! assert_eq!(failed_checks(|| Box::new(InMemory(MemoryJournals::new()))), []);
//! ```

use std::{
    future::Future,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread,
    time::SystemTime,
};

use super::{
    LaunchOptions, MemoryJournals, NewSession, SessionError, SessionHeader, SessionOpenOptions, SessionStore,
    SessionStoreOptions,
    journal_lease::{AttachmentError, EventLogEnd, JournalAttachment, JournalBatch, JournalLease},
    journal_source::JournalSource,
    journal_start::CHUNK,
    journal_status::SessionStatus,
    journal_storage::{JournalRemoval, JournalStorage},
    line_format::journal_line,
    session_header::header_line,
};
use shelly_core::{
    agent::journal::{JournalRecord, Recorder},
    digest::Sha256Digest,
    event::{Event, StreamEvent},
    limits,
};

/// A storage without sessions, and the faults that can be made in it.
pub trait StorageFixture {
    /// Returns the storage as another process would open it.
    fn storage(&self) -> Arc<dyn JournalStorage>;

    /// Ends the lease on a session, as if its holder had been unable to refresh it. Returns `false` if a lease cannot be
    /// lost while its holder lives.
    fn revoke_lease(&self, id: &str) -> bool {
        let _ = id;
        false
    }

    /// Makes all writes fail, or succeed again. Returns `false` if faults cannot be made.
    fn set_failing(&self, is_failing: bool) -> bool {
        let _ = is_failing;
        false
    }
}

/// A check of the contract.
#[derive(Clone, Copy)]
pub struct StorageCheck {
    /// The statement that is checked.
    pub name: &'static str,
    /// Checks it on a storage without sessions. An error is what is wrong.
    pub run: fn(&dyn StorageFixture) -> Result<(), String>,
}

/// All checks.
pub const CHECKS: [StorageCheck; 15] = [
    StorageCheck { name: "a published session is listed and read from any line", run: published_session_is_read },
    StorageCheck { name: "a dropped draft leaves nothing", run: dropped_draft_leaves_nothing },
    StorageCheck { name: "a taken name is refused, also when a draft is published", run: taken_name_is_refused },
    StorageCheck { name: "lines are appended after the expected one only", run: lines_follow_the_expected_one },
    StorageCheck { name: "one process holds the lease, until it releases it", run: lease_has_one_holder },
    StorageCheck { name: "a holder that lost its lease cannot write", run: lost_lease_refuses_writes },
    StorageCheck { name: "attachments are stored with their lines", run: attachments_are_stored },
    StorageCheck { name: "a mark is replaced", run: mark_is_replaced },
    StorageCheck { name: "a session is removed unless it is in use", run: removal_spares_sessions_in_use },
    StorageCheck { name: "long lines are kept", run: long_lines_are_kept },
    StorageCheck { name: "a failed write spoils nothing before it", run: failed_write_spoils_nothing },
    StorageCheck { name: "recorded events are read as far as they go", run: recorded_events_are_read },
    StorageCheck { name: "recorded events continue after a cut", run: recorded_events_are_continued },
    StorageCheck { name: "a session records its events, and a copy has them", run: session_records_its_events },
    StorageCheck { name: "a session is resumed, and ends with its lease", run: session_ends_with_its_lease },
];

/// Runs all checks, each with a new fixture, and returns the names of those that failed with the reasons.
pub fn failed_checks(new_fixture: impl Fn() -> Box<dyn StorageFixture>) -> Vec<(&'static str, String)> {
    CHECKS.iter().filter_map(|check| Some((check.name, (check.run)(&*new_fixture()).err()?))).collect()
}

/// The name of the session in most checks.
const ID: &str = "s";

fn header(id: &str) -> Vec<u8> {
    header_line(&SessionHeader {
        id: id.to_owned(),
        created: SystemTime::UNIX_EPOCH,
        host: "0".into(),
        agent: "ada".into(),
        model: "m".into(),
        title: "Do it.".into(),
        forked_from: None,
        follows: None,
        parts: Vec::new(),
        options: LaunchOptions::default(),
    })
}

/// Returns the line of this number.
fn line(n: u64) -> Vec<u8> {
    journal_line(&format!(r#""n":{n},"t":0,"run":1,"kind":"looked","changes":[],"effects":[]"#))
}

fn batch(after: u64, lines: &[u8]) -> JournalBatch<'_> {
    let last = after + memchr::memchr_iter(b'\n', lines).count() as u64;
    JournalBatch { after, last, lines, attachments: &[] }
}

fn said(error: SessionError) -> String {
    error.report().to_string()
}

fn ensure(is_so: bool, otherwise: &str) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// Creates a session of one line, and keeps the lease on it.
fn created(storage: &dyn JournalStorage, id: &str) -> Result<Box<dyn JournalLease>, String> {
    storage.prepare().map_err(said)?;
    let mut draft = storage.draft(id, true).map_err(said)?;
    draft.append(&batch(0, &header(id))).map_err(said)?;
    draft.publish().map_err(said)
}

fn read(storage: &dyn JournalStorage, id: &str, from: u64) -> Result<Vec<u8>, String> {
    rest_of(&mut *storage.read(id, from).map_err(said)?)
}

/// Reads the recorded events of a session.
fn events(storage: &dyn JournalStorage, id: &str) -> Result<Vec<u8>, String> {
    let mut source = storage.events(id).map_err(said)?.ok_or("there are no events")?;
    rest_of(&mut *source)
}

fn rest_of(source: &mut dyn JournalSource) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while source.read_more(&mut bytes, CHUNK).map_err(said)? > 0 {}
    Ok(bytes)
}

fn is_lost(result: Result<(), SessionError>) -> bool {
    matches!(result, Err(SessionError::LeaseLost { .. }))
}

fn published_session_is_read(fixture: &dyn StorageFixture) -> Result<(), String> {
    let (storage, other) = (fixture.storage(), fixture.storage());
    ensure(storage.names().map_err(said)?.is_empty(), "there are sessions")?;
    storage.prepare().map_err(said)?;
    let mut draft = storage.draft(ID, true).map_err(said)?;
    draft.append(&batch(0, &header(ID))).map_err(said)?;
    draft.append(&batch(1, &[line(2), line(3)].concat())).map_err(said)?;
    ensure(other.names().map_err(said)?.is_empty(), "a draft is listed")?;
    drop(draft.publish().map_err(said)?);
    ensure(other.names().map_err(said)? == [ID], "it is not listed")?;
    let is_there = |id: &str| other.contains(id).map_err(said);
    ensure(is_there(ID)? && !is_there("other")?, "it is not found by its name")?;
    let all = [header(ID), line(2), line(3)].concat();
    for (from, expected) in [(1, &all[..]), (2, &all[header(ID).len()..]), (3, &line(3)[..]), (4, &[]), (9, &[])] {
        ensure(read(&*other, ID, from)? == expected, &format!("read from line {from}, its lines are others"))?;
    }
    let bytes = all.len() as u64;
    ensure(other.journal_bytes(ID) == Some(bytes), "its journal has another size")?;
    ensure(other.bytes_of(ID) >= bytes, "it is smaller than its journal")?;
    let stats = other.stats().map_err(said)?;
    ensure(stats.len() == 1 && stats[0].id == ID && stats[0].journal_bytes == bytes, "its size is not listed")?;
    let usage = other.usage().map_err(said)?;
    ensure(usage.sessions == 1 && usage.bytes >= bytes, "it is not counted")?;
    let (described, status) = other.describe(ID).map_err(said)?;
    ensure(described.id == ID && described.agent == "ada" && status == SessionStatus::Empty, "its header is another")?;
    ensure(
        matches!(other.read("none", 1), Err(SessionError::NotFound { .. } | SessionError::Disk { .. })),
        "none is read",
    )
}

fn dropped_draft_leaves_nothing(fixture: &dyn StorageFixture) -> Result<(), String> {
    let storage = fixture.storage();
    storage.prepare().map_err(said)?;
    let mut draft = storage.draft(ID, true).map_err(said)?;
    draft.append(&batch(0, &header(ID))).map_err(said)?;
    drop(draft);
    ensure(storage.names().map_err(said)?.is_empty(), "it is listed")?;
    drop(created(&*storage, ID)?);
    ensure(read(&*storage, ID, 1)? == header(ID), "the next session of this name has its lines")
}

fn taken_name_is_refused(fixture: &dyn StorageFixture) -> Result<(), String> {
    let (storage, other) = (fixture.storage(), fixture.storage());
    storage.prepare().map_err(said)?;
    let mut late = other.draft(ID, true).map_err(said)?;
    late.append(&batch(0, &[header(ID), line(2)].concat())).map_err(said)?;
    let lease = created(&*storage, ID)?;
    let refused = |refused: Option<SessionError>, in_use: bool| match refused {
        Some(SessionError::Exists { in_use: is, .. }) => ensure(is == in_use, "it is wrong whether it is in use"),
        _ => Err("a taken name is given again".into()),
    };
    refused(late.publish().err(), true)?;
    drop(lease);
    refused(storage.draft(ID, false).err(), false)?;
    ensure(read(&*storage, ID, 1)? == header(ID), "the session of that name was changed")
}

fn lines_follow_the_expected_one(fixture: &dyn StorageFixture) -> Result<(), String> {
    let storage = fixture.storage();
    let mut lease = created(&*storage, ID)?;
    lease.append(&batch(1, &line(2))).map_err(said)?;
    lease.append(&batch(2, &[line(3), line(4)].concat())).map_err(said)?;
    lease.sync().map_err(said)?;
    for after in [0, 2, 3, 5] {
        ensure(is_lost(lease.append(&batch(after, &line(after + 1)))), &format!("a line after line {after} is taken"))?;
    }
    lease.append(&batch(4, &line(5))).map_err(said)?;
    drop(lease);
    let mut lease = storage.take(ID).map_err(said)?.ok_or("a released lease is not given")?;
    let all = [header(ID), line(2), line(3), line(4), line(5)].concat();
    lease.continue_after(5, all.len() as u64).map_err(said)?;
    lease.append(&batch(5, &line(6))).map_err(said)?;
    lease.sync().map_err(said)?;
    ensure(read(&*fixture.storage(), ID, 1)? == [all, line(6)].concat(), "the lines are others")
}

fn lease_has_one_holder(fixture: &dyn StorageFixture) -> Result<(), String> {
    let (storage, other) = (fixture.storage(), fixture.storage());
    let mut lease = created(&*storage, ID)?;
    lease.refresh().map_err(said)?;
    ensure(other.is_taken(ID), "it is not in use")?;
    ensure(other.take(ID).map_err(said)?.is_none(), "its lease is given twice")?;
    drop(lease);
    ensure(!other.is_taken(ID), "it is still in use")?;
    let lease = other.take(ID).map_err(said)?.ok_or("a released lease is not given")?;
    ensure(storage.take(ID).map_err(said)?.is_none(), "its lease is given twice")?;
    drop(lease);
    ensure(matches!(storage.take("none"), Err(SessionError::NotFound { .. })), "a lease on no session is given")
}

fn lost_lease_refuses_writes(fixture: &dyn StorageFixture) -> Result<(), String> {
    let (storage, other) = (fixture.storage(), fixture.storage());
    let mut old = created(&*storage, ID)?;
    old.append(&batch(1, &line(2))).map_err(said)?;
    if !fixture.revoke_lease(ID) {
        return Ok(());
    }
    let mut new = other.take(ID).map_err(said)?.ok_or("a lost lease is not given")?;
    let end = header(ID).len() + line(2).len();
    new.continue_after(2, end as u64).map_err(said)?;
    new.append(&batch(2, &line(3))).map_err(said)?;
    ensure(is_lost(old.append(&batch(2, &line(3)))), "the old holder appends")?;
    ensure(is_lost(old.refresh()), "the old holder refreshes its lease")?;
    ensure(is_lost(old.set_mark("old")), "the old holder sets the mark")?;
    drop(old);
    ensure(storage.is_taken(ID), "the old holder releases the lease of the new one")?;
    new.append(&batch(3, &line(4))).map_err(said)?;
    new.sync().map_err(said)?;
    let all = [header(ID), line(2), line(3), line(4)].concat();
    ensure(read(&*storage, ID, 1)? == all, "the lines are others")
}

fn attachments_are_stored(fixture: &dyn StorageFixture) -> Result<(), String> {
    let (storage, other) = (fixture.storage(), fixture.storage());
    let attachment = |bytes: &[u8]| JournalAttachment { digest: Sha256Digest::of(bytes), bytes: bytes.to_vec() };
    let stored = [attachment(b"first"), attachment(&vec![7; 2 << 20])];
    let mut lease = created(&*storage, ID)?;
    lease.append(&JournalBatch { attachments: &stored, ..batch(1, &line(2)) }).map_err(said)?;
    // A resumed session does not know which attachments it has.
    lease.append(&JournalBatch { attachments: &stored[..1], ..batch(2, &line(3)) }).map_err(said)?;
    // Until then sizes may lag behind.
    lease.refresh().map_err(said)?;
    let mut listed = other.attachments(ID, 9).map_err(said)?;
    listed.sort_unstable_by_key(|(digest, _)| *digest);
    let mut expected = stored.each_ref().map(|stored| (stored.digest, stored.bytes.len() as u64));
    expected.sort_unstable_by_key(|(digest, _)| *digest);
    ensure(listed == expected, "other attachments are listed")?;
    ensure(other.attachments(ID, 1).map_err(said)?.len() <= 1, "more attachments are listed than was asked for")?;
    ensure(other.bytes_of(ID) > 2 << 20, "attachments are not counted")?;
    let mut draft = storage.draft("copy", false).map_err(said)?;
    draft.append(&batch(0, &header("copy"))).map_err(said)?;
    let shared = draft.share_attachment(ID, &stored[1].digest);
    ensure(shared.is_ok(), "an attachment is not taken over")?;
    let none = Sha256Digest::of(b"none");
    let missing = draft.share_attachment(ID, &none);
    ensure(matches!(missing, Err(AttachmentError::Missing)), "an attachment that is not there is taken over")?;
    drop(draft.publish().map_err(said)?);
    drop(lease);
    let bytes = |id: &str, digest: &Sha256Digest| {
        other.attachment(id, digest).map_err(|error| format!("an attachment {error}"))
    };
    for stored in &stored {
        ensure(bytes(ID, &stored.digest)? == stored.bytes, "an attachment is another")?;
    }
    ensure(matches!(other.attachment(ID, &none), Err(AttachmentError::Missing)), "an attachment of nothing is read")?;
    storage.remove(ID).map_err(said)?;
    ensure(bytes("copy", &stored[1].digest)? == stored[1].bytes, "an attachment was removed with another session")
}

fn mark_is_replaced(fixture: &dyn StorageFixture) -> Result<(), String> {
    let (storage, other) = (fixture.storage(), fixture.storage());
    storage.prepare().map_err(said)?;
    let mut draft = storage.draft(ID, true).map_err(said)?;
    draft.append(&batch(0, &header(ID))).map_err(said)?;
    draft.set_mark("first\n").map_err(said)?;
    let mut lease = draft.publish().map_err(said)?;
    ensure(other.mark(ID).map_err(said)?.as_deref() == Some("first\n"), "the mark of the draft is another")?;
    lease.set_mark("second\n").map_err(said)?;
    ensure(other.mark(ID).map_err(said)?.as_deref() == Some("second\n"), "the mark is not replaced")?;
    drop(created(&*storage, "other")?);
    ensure(other.mark("other").map_err(said)?.is_none(), "a session without a mark has one")
}

fn removal_spares_sessions_in_use(fixture: &dyn StorageFixture) -> Result<(), String> {
    let (storage, other) = (fixture.storage(), fixture.storage());
    let mut lease = created(&*storage, ID)?;
    lease.open_events().and_then(|_| lease.continue_events(0)).map_err(said)?;
    lease.append_events(b"one\n").map_err(said)?;
    ensure(other.remove(ID).map_err(said)? == JournalRemoval::InUse, "a session in use is removed")?;
    drop(lease);
    ensure(other.remove(ID).map_err(said)? == JournalRemoval::Removed, "it is not removed")?;
    ensure(other.remove(ID).map_err(said)? == JournalRemoval::Missing, "it is removed twice")?;
    other.sync_removals();
    ensure(storage.names().map_err(said)?.is_empty() && !storage.contains(ID).map_err(said)?, "it is still there")?;
    ensure(storage.remove_leftovers().map_err(said)?.is_empty(), "leftovers cannot be removed")?;
    drop(created(&*storage, ID)?);
    ensure(storage.events(ID).map_err(said)?.is_none(), "the next session of this name has its events")?;
    ensure(read(&*storage, ID, 1)? == header(ID), "the next session of this name has its lines")
}

fn long_lines_are_kept(fixture: &dyn StorageFixture) -> Result<(), String> {
    let storage = fixture.storage();
    let mut lease = created(&*storage, ID)?;
    let long = journal_line(&format!(r#""n":2,"long":"{}""#, "x".repeat(3 << 20)));
    let many: Vec<u8> = (3..20_003).flat_map(line).collect();
    lease.append(&batch(1, &long)).map_err(said)?;
    lease.append(&batch(2, &many)).map_err(said)?;
    lease.append(&batch(20_002, &[&line(20_003)[..], &long].concat())).map_err(said)?;
    lease.sync().map_err(said)?;
    let all = [&header(ID)[..], &long, &many, &line(20_003), &long].concat();
    ensure(read(&*storage, ID, 1)? == all, "the lines are others")?;
    let from = all.len() - long.len() - line(20_003).len();
    ensure(read(&*storage, ID, 20_003)? == all[from..], "read from a line behind a long one, the lines are others")
}

fn failed_write_spoils_nothing(fixture: &dyn StorageFixture) -> Result<(), String> {
    let storage = fixture.storage();
    let mut lease = created(&*storage, ID)?;
    lease.append(&batch(1, &line(2))).map_err(said)?;
    lease.sync().map_err(said)?;
    lease.open_events().and_then(|_| lease.continue_events(0)).map_err(said)?;
    lease.append_events(b"one\n").map_err(said)?;
    if !fixture.set_failing(true) {
        return Ok(());
    }
    ensure(lease.append_events(b"two\n").is_err(), "a write of events that fails is reported as done")?;
    ensure(lease.append(&batch(2, &line(3))).is_err(), "a write that fails is reported as done")?;
    ensure(storage.draft("other", false).is_err(), "a session is created without a write")?;
    fixture.set_failing(false);
    lease.discard_unsynced();
    drop(lease);
    ensure(events(&*storage, ID)?.starts_with(b"one\n"), "an event before the failure is gone")?;
    let all = [header(ID), line(2)].concat();
    let mut lease = storage.take(ID).map_err(said)?.ok_or("a released lease is not given")?;
    let there = read(&*storage, ID, 1)?;
    ensure(there.starts_with(&all), "a line before the failure is gone")?;
    // The line that was refused may be there, whole or in part.
    let end = memchr::memrchr(b'\n', &there).map_or(0, |end| end + 1);
    let last = memchr::memchr_iter(b'\n', &there).count() as u64;
    lease.continue_after(last, end as u64).map_err(said)?;
    lease.append(&batch(last, &line(last + 1))).map_err(said)?;
    ensure(read(&*storage, ID, 1)? == [&there[..end], &line(last + 1)].concat(), "the lines are others")
}

fn recorded_events_are_read(fixture: &dyn StorageFixture) -> Result<(), String> {
    let (storage, other) = (fixture.storage(), fixture.storage());
    storage.prepare().map_err(said)?;
    let mut draft = storage.draft(ID, true).map_err(said)?;
    draft.append(&batch(0, &header(ID))).map_err(said)?;
    draft.append_events(b"one\n").map_err(said)?;
    let mut lease = draft.publish().map_err(said)?;
    ensure(events(&*other, ID)? == b"one\n", "the events of the draft are others")?;
    let end = lease.open_events().map_err(said)?;
    ensure(end == EventLogEnd { bytes: 4, tail: b"one\n".to_vec() }, "their end is another")?;
    lease.continue_events(4).map_err(said)?;
    lease.append_events(b"two\nthree\n").map_err(said)?;
    let mut source = other.events(ID).map_err(said)?.ok_or("there are no events")?;
    lease.append_events(b"four\n").map_err(said)?;
    ensure(rest_of(&mut *source)? == b"one\ntwo\nthree\n", "they are not those of the time of opening")?;
    for (at, expected) in [(4, &b"two\nthree\n"[..]), (9, b"hree\n"), (0, b"one\ntwo\nthree\n"), (14, b"")] {
        source.seek(at).map_err(said)?;
        ensure(rest_of(&mut *source)? == expected, &format!("read from byte {at}, they are others"))?;
    }
    lease.append(&batch(1, &line(2))).map_err(said)?;
    ensure(read(&*other, ID, 1)? == [header(ID), line(2)].concat(), "they are in the journal")?;
    // Until then sizes may lag behind.
    lease.refresh().map_err(said)?;
    ensure(other.events_bytes(ID) == 19, "their size is another")?;
    let journal_bytes = other.journal_bytes(ID).unwrap_or_default();
    ensure(other.bytes_of(ID) >= journal_bytes + 19, "they are not counted")?;
    drop(created(&*storage, "other")?);
    let none = other.events("other").map_err(said)?;
    ensure(none.is_none() && other.events_bytes("other") == 0, "a session without events has some")
}

fn recorded_events_are_continued(fixture: &dyn StorageFixture) -> Result<(), String> {
    let storage = fixture.storage();
    let mut lease = created(&*storage, ID)?;
    ensure(lease.open_events().map_err(said)? == EventLogEnd::default(), "a new session has events")?;
    lease.continue_events(0).map_err(said)?;
    let long = [&vec![b'x'; limits::SESSION_EVENT_BYTES][..], b"\n"].concat();
    let mut all = [&b"first\n"[..], &long, &long, &long, &long, &long, b"last\n"].concat();
    lease.append_events(&all).map_err(said)?;
    // More than what a reader is given at once.
    for n in 0..300 {
        let event = format!("{n}\n");
        lease.append_events(event.as_bytes()).map_err(said)?;
        all.extend_from_slice(event.as_bytes());
    }
    drop(lease);
    ensure(events(&*storage, ID)? == all, "they are others")?;
    let mut lease = storage.take(ID).map_err(said)?.ok_or("a released lease is not given")?;
    let EventLogEnd { bytes, tail } = lease.open_events().map_err(said)?;
    ensure(bytes == all.len() as u64 && all.ends_with(&tail) && tail.ends_with(b"299\n"), "their end is another")?;
    let end = b"first\n".len() + 2 * long.len();
    lease.continue_events(end as u64).map_err(said)?;
    lease.append_events(b"again\n").map_err(said)?;
    drop(lease);
    ensure(events(&*fixture.storage(), ID)? == [&all[..end], b"again\n"].concat(), "they continue at another place")
}

fn session_records_its_events(fixture: &dyn StorageFixture) -> Result<(), String> {
    let store = |storage| SessionStore::with_journals(storage, PathBuf::new(), SessionStoreOptions::default());
    let (here, there) = (store(fixture.storage()), store(fixture.storage()));
    let kinds = |store: &SessionStore, id: &str| {
        let mut events = store.events(id).map_err(said)?;
        let mut kinds = Vec::new();
        while let Some(event) = events.next_event().map_err(said)? {
            kinds.push((event.sequence, event.event));
        }
        Ok::<_, String>(kinds)
    };
    let session = here.create(NewSession { id: Some(ID.into()), ..NewSession::default() }).map_err(said)?;
    session.begin_events();
    let event = Event::Warning { message: "slow".into() };
    session.record_event(&StreamEvent { sequence: 1, time: SystemTime::UNIX_EPOCH, run: None, parent: None, event });
    drop(session);
    let opened = there.open(ID, SessionOpenOptions::default()).map_err(said)?;
    opened.session.begin_events();
    drop(opened);
    let expected = [(1_u64, "stream_started"), (2, "warning"), (3, "stream_started")];
    let expected = expected.map(|(sequence, kind)| (sequence, kind.to_owned()));
    ensure(kinds(&there, ID)? == expected, "its events are others")?;
    let fork = there.fork(ID, None).map_err(said)?;
    ensure(kinds(&here, &fork)? == expected, "a copy has other events")?;
    let elsewhere = store(Arc::new(MemoryJournals::new()));
    here.copy_to(ID, &elsewhere).map_err(said)?;
    ensure(kinds(&elsewhere, ID)? == expected, "a copy in another storage has other events")
}

fn session_ends_with_its_lease(fixture: &dyn StorageFixture) -> Result<(), String> {
    let store = |storage| SessionStore::with_journals(storage, PathBuf::new(), SessionStoreOptions::default());
    let (here, there) = (store(fixture.storage()), store(fixture.storage()));
    let record = JournalRecord::Looked { changes: Vec::new(), effects: Vec::new() };
    let session = here.create(NewSession { id: Some(ID.into()), ..NewSession::default() }).map_err(said)?;
    let kept = block_on(session.kept(session.write(1, &record)));
    ensure(kept.is_ok(), "a record is not kept")?;
    ensure(
        matches!(there.open(ID, SessionOpenOptions::default()), Err(SessionError::InUse { .. })),
        "it is opened twice",
    )?;
    if fixture.revoke_lease(ID) {
        let opened = there.open(ID, SessionOpenOptions::default()).map_err(said)?;
        ensure(opened.records == [(1, record.clone())], "its records are others")?;
        ensure(block_on(opened.session.kept(opened.session.write(1, &record))).is_ok(), "a new holder cannot write")?;
        ensure(block_on(session.kept(session.write(1, &record))).is_err(), "the old holder writes")?;
        let lost = session.lost().map(|lost| lost.reason).unwrap_or_default();
        ensure(lost.contains("written by another process"), &format!("the old holder is told: {lost}"))?;
        drop(opened);
    }
    drop(session);
    let opened = there.open(ID, SessionOpenOptions::default()).map_err(said)?;
    ensure(opened.records.iter().all(|(run, read)| *run == 1 && *read == record), "its records are others")?;
    drop(opened);
    let fork = there.fork(ID, Some(2)).map_err(said)?;
    ensure(here.read(&fork).map_err(said)?.count() == 1, "a copy has other lines")?;
    ensure(here.list(9).map_err(said)?.len() == 2, "a copy is not listed")
}

/// Runs a future that needs no runtime on this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct ThreadWaker(thread::Thread);
    impl Wake for ThreadWaker {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DiskFault, DiskStorage, FileJournals, MemoryDisk, MemoryJournals};

    struct FilesOnDisk(tempfile::TempDir);

    impl StorageFixture for FilesOnDisk {
        fn storage(&self) -> Arc<dyn JournalStorage> {
            let root = Some(self.0.path().to_owned());
            Arc::new(FileJournals::new(Arc::new(DiskStorage), self.0.path().join("sessions"), root))
        }
    }

    struct FilesInMemory(MemoryDisk);

    impl StorageFixture for FilesInMemory {
        fn storage(&self) -> Arc<dyn JournalStorage> {
            Arc::new(FileJournals::new(Arc::new(self.0.clone()), "/sessions", None))
        }

        fn set_failing(&self, is_failing: bool) -> bool {
            match is_failing {
                true => self.0.fail(1, DiskFault::Full, true),
                false => drop(self.0.mend()),
            }
            true
        }
    }

    struct InMemory(MemoryJournals);

    impl StorageFixture for InMemory {
        fn storage(&self) -> Arc<dyn JournalStorage> {
            Arc::new(self.0.clone())
        }

        fn revoke_lease(&self, id: &str) -> bool {
            self.0.revoke_lease(id)
        }

        fn set_failing(&self, is_failing: bool) -> bool {
            self.0.set_failing(is_failing);
            true
        }
    }

    type NewFixture = fn() -> Box<dyn StorageFixture>;

    #[test]
    fn every_storage_of_the_host_passes_all_checks() {
        let fixtures: [(&str, NewFixture); 3] = [
            ("files on a disk", || Box::new(FilesOnDisk(tempfile::tempdir().unwrap()))),
            ("files in memory", || Box::new(FilesInMemory(MemoryDisk::new()))),
            ("memory", || Box::new(InMemory(MemoryJournals::new()))),
        ];
        for (storage, new_fixture) in fixtures {
            assert_eq!(failed_checks(new_fixture), [], "{storage}");
        }
    }
}
