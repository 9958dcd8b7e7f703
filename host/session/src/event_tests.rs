//! Recorded events: what is written, what is left out, and what a crash leaves.

use std::{path::Path, sync::Arc, time::SystemTime};

use super::{
    event_log::PendingEvents,
    tests::{began, ended, named, said, store},
    *,
};
use shelly_core::{
    agent::journal::{JournalRecord, Recorder},
    chat::{ChatChange, Message, ReplyDelta, Role, ToolResult, Usage},
    event::{Event, StreamEvent},
    limits,
};

const PATH: &str = "/sessions/s/events.jsonl";

fn event(event: Event) -> StreamEvent {
    StreamEvent { sequence: 77, time: SystemTime::now(), run: Some("r".into()), parent: None, event }
}

fn warning(message: impl Into<String>) -> StreamEvent {
    event(Event::Warning { message: message.into() })
}

fn added(message: &Arc<Message>) -> StreamEvent {
    let message = Some(Arc::clone(message));
    event(Event::MessageAdded { agent: "ada".into(), role: Role::User, message })
}

fn finished() -> StreamEvent {
    let (usage, of_children) = (Usage::default(), Usage::default());
    let duration = limits::SESSION_EVENTS_DELAY;
    event(Event::RunFinished { agent: "ada".into(), error: None, iterations: 1, usage, of_children, duration })
}

/// Returns the message that a record adds.
fn message_of(record: &JournalRecord) -> Arc<Message> {
    let JournalRecord::Looked { changes, .. } = record else { panic!("{record:?}") };
    let [ChatChange::Added(added)] = &changes[..] else { panic!("{changes:?}") };
    Arc::clone(&added.message)
}

/// Returns all events of the session `s`.
fn events(disk: &MemoryDisk) -> Vec<RecordedEvent> {
    let mut events = store(disk).events("s").unwrap();
    std::iter::from_fn(|| events.next_event().unwrap()).collect()
}

fn kinds(events: &[RecordedEvent]) -> Vec<(u64, u64, &str)> {
    events.iter().map(|event| (event.sequence, event.journal_line, &*event.event)).collect()
}

fn content(disk: &MemoryDisk) -> Vec<u8> {
    let file = disk.open(Path::new(PATH)).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_full_at(&mut bytes, 0).unwrap();
    bytes
}

/// Creates the session `s` with one run and its events.
fn recorded(disk: &MemoryDisk) {
    let session = store(disk).create(named("s")).unwrap();
    session.record_event(&warning("before the recording begins"));
    session.begin_events();
    session.write(1, &began(None));
    session.record_event(&warning("one"));
    let hello = said("hello");
    session.write(1, &hello);
    session.record_event(&added(&message_of(&hello)));
    session.record_event(&event(Event::ModelDelta { agent: "ada".into(), delta: ReplyDelta::Text("x".into()) }));
    session.write(1, &ended(false));
    session.record_event(&finished());
}

#[test]
fn messages_are_recorded_by_their_place_in_the_journal() {
    let disk = MemoryDisk::new();
    recorded(&disk);
    let read = events(&disk);
    let expected = [(1, 1, "stream_started"), (2, 2, "warning"), (3, 3, "message_added"), (4, 4, "run_finished")];
    assert_eq!(kinds(&read), expected);
    assert!(!String::from_utf8(content(&disk)).unwrap().contains("hello"), "the journal has it");
    let mut session = store(&disk).events("s").unwrap();
    assert_eq!(session.message_of(&read[2]).unwrap().unwrap().text_content(), "hello");
    assert_eq!(session.message_of(&read[1]).unwrap(), None);
    assert!(read[1].members.starts_with("\"time\":\"") && read[1].members.ends_with("\"message\":\"one\""));
    assert_eq!((read[1].run.as_deref(), read[3].agent.as_deref()), (Some("r"), Some("ada")));
    assert!(read[0].is_stream_start() && session.is_recorded() && session.last_journal_line() == 4);
}

#[test]
fn message_outside_the_journal_is_recorded_if_short() {
    let disk = MemoryDisk::new();
    let session = store(&disk).create(named("s")).unwrap();
    session.begin_events();
    session.record_event(&added(&Arc::new(Message::user("short"))));
    session.record_event(&added(&Arc::new(Message::user("x".repeat(limits::SESSION_EVENT_MESSAGE_BYTES + 1)))));
    drop(session);
    let read = events(&disk);
    assert!(read[1].members.contains("short") && !read[1].has_message());
    assert!(read[2].members.contains("\"message\":null") && read[2].members.contains("\"omitted_bytes\":6554"));
}

#[test]
fn result_of_a_call_is_joined_from_its_record() {
    let disk = MemoryDisk::new();
    let session = store(&disk).create(named("s")).unwrap();
    session.begin_events();
    session.write(1, &began(None));
    let result = ToolResult::error("c", "no such file");
    session
        .write(1, &JournalRecord::CallEnded { result: result.clone(), control: None, counted: true, full_text: None });
    session.record_event(&added(&Arc::new(Message::results(vec![result.clone()]))));
    drop(session);
    let read = events(&disk);
    let message = store(&disk).events("s").unwrap().message_of(&read[1]).unwrap().unwrap();
    assert_eq!(message.tool_results().collect::<Vec<_>>(), [&result]);
}

#[test]
fn numbers_continue_when_a_session_is_opened_again() {
    let disk = MemoryDisk::new();
    recorded(&disk);
    let opened = store(&disk).open("s", SessionOpenOptions::default()).unwrap();
    opened.session.begin_events();
    opened.session.record_event(&warning("two"));
    drop(opened);
    let read = events(&disk);
    assert_eq!(kinds(&read)[4..], [(5, 5, "stream_started"), (6, 5, "warning")]);
}

#[test]
fn torn_and_damaged_events_are_left_out() {
    let disk = MemoryDisk::new();
    recorded(&disk);
    let whole = content(&disk);
    let file = disk.open(Path::new(PATH)).unwrap();
    file.truncate(whole.len() as u64 - 5).unwrap();
    assert_eq!(events(&disk).len(), 3, "the last one is incomplete");
    let opened = store(&disk).open("s", SessionOpenOptions::default()).unwrap();
    opened.session.record_event(&warning("not begun"));
    opened.session.begin_events();
    drop(opened);
    assert_eq!(kinds(&events(&disk))[2..], [(3, 3, "message_added"), (4, 5, "stream_started")]);
    // Somebody writes into the middle.
    let first_end = content(&disk).iter().position(|byte| *byte == b'\n').unwrap() as u64;
    file.write_all_at(b"}", first_end + 3).unwrap();
    let mut session = store(&disk).events("s").unwrap();
    let read: Vec<_> = std::iter::from_fn(|| session.next_event().unwrap()).collect();
    assert_eq!((read.len(), session.damaged_lines()), (3, 1));
}

#[test]
fn events_of_lost_journal_lines_are_cut_off() {
    let disk = MemoryDisk::new();
    recorded(&disk);
    let journal = disk.open(Path::new("/sessions/s/journal.jsonl")).unwrap();
    let mut bytes = vec![0; usize::try_from(journal.len().unwrap()).unwrap()];
    journal.read_full_at(&mut bytes, 0).unwrap();
    let ends: Vec<_> = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    // The header and the beginning of the run are left.
    journal.truncate(ends[1] as u64).unwrap();
    let opened = store(&disk).open("s", SessionOpenOptions::default()).unwrap();
    opened.session.begin_events();
    drop(opened);
    let read = events(&disk);
    assert_eq!(kinds(&read), [(1, 1, "stream_started"), (2, 2, "warning"), (3, 3, "stream_started")]);
}

#[test]
fn full_file_of_events_says_so_once() {
    let disk = MemoryDisk::new();
    let small = || {
        let options = SessionStoreOptions { events_bytes: 4_000, ..SessionStoreOptions::default() };
        SessionStore::new(Arc::new(disk.clone()), "/sessions", options)
    };
    let fill = |session: &Session| {
        session.begin_events();
        (0..100).for_each(|_| session.record_event(&warning("x".repeat(100))));
    };
    let session = small().create(named("s")).unwrap();
    fill(&session);
    drop(session);
    let opened = small().open("s", SessionOpenOptions::default()).unwrap();
    fill(&opened.session);
    opened.session.write(1, &began(None));
    drop(opened);
    assert!(content(&disk).len() <= 4_000, "{}", content(&disk).len());
    let read = events(&disk);
    let full = read.iter().filter(|event| event.members.contains("reached their maximum of 4000 bytes"));
    assert_eq!(full.count(), 1);
    assert!(read.last().unwrap().members.contains("\"is_last\":true"), "{:?}", read.last());
    assert_eq!(store(&disk).open("s", SessionOpenOptions::default()).unwrap().records.len(), 1, "the journal goes on");
}

#[test]
fn pending_events_are_limited_and_counted() {
    let mut pending = PendingEvents::default();
    pending.add(1, &vec![b' '; limits::SESSION_EVENT_BYTES]);
    assert!(!pending.is_empty(), "a missed one is told of");
    let line = vec![b' '; limits::SESSION_EVENT_BYTES / 2];
    let fit = limits::SESSION_PENDING_EVENTS_BYTES / line.len() - 1;
    (0..fit + 5).for_each(|_| pending.add(2, &line));
    let lines = pending.take(9);
    let lines: Vec<_> = lines.split(|byte| *byte == b'\n').map(String::from_utf8_lossy).collect();
    assert!(lines[0].starts_with("\"n\":2,") && lines[0].contains("\"event\":\"missed\",\"count\":1"), "{}", lines[0]);
    let last = &lines[lines.len() - 2];
    assert!(last.starts_with("\"n\":9,") && last.contains("\"event\":\"missed\""), "{last}");
    assert!(lines.iter().map(|line| line.len()).sum::<usize>() <= limits::SESSION_PENDING_EVENTS_BYTES + 200);
    assert!(pending.is_empty() && pending.take(9).is_empty());
}

#[test]
fn events_hold_no_secrets() {
    let disk = MemoryDisk::new();
    let secrets = Secrets::new([("API_KEY", "sk-1234567890")]);
    let options = SessionStoreOptions { secrets, ..SessionStoreOptions::default() };
    let session = SessionStore::new(Arc::new(disk.clone()), "/sessions", options).create(named("s")).unwrap();
    session.begin_events();
    session.record_event(&warning("the key sk-1234567890 was refused"));
    drop(session);
    assert!(events(&disk)[1].members.contains("the key [secret API_KEY] was refused"));
}

#[test]
fn fork_takes_the_events_up_to_its_line() {
    let disk = MemoryDisk::new();
    recorded(&disk);
    for (at, expected) in [(Some(2), 2), (Some(3), 3), (None, 4)] {
        let fork = store(&disk).fork("s", at).unwrap();
        let mut events = store(&disk).events(&fork).unwrap();
        assert_eq!(std::iter::from_fn(|| events.next_event().unwrap()).count(), expected, "{at:?}");
        assert_eq!(events.header().id, fork);
    }
}

#[test]
fn events_count_for_the_disk_and_go_with_the_session() {
    let disk = MemoryDisk::new();
    let without = store(&disk).create(NewSession { id: Some("empty".into()), ..named("s") }).unwrap();
    without.write(1, &began(None));
    drop(without);
    assert!(disk.entry(Path::new("/sessions/empty/events.jsonl")).is_err(), "no event, no file");
    let before = store(&disk).usage().unwrap().bytes;
    recorded(&disk);
    let more = store(&disk).usage().unwrap().bytes - before;
    assert!(more > content(&disk).len() as u64, "{more}");
    assert!(store(&disk).remove("s").unwrap().is_some());
    assert!(disk.entry(Path::new(PATH)).is_err());
}

#[tokio::test]
async fn failed_event_write_ends_no_session() {
    for nth in 1..200 {
        let disk = MemoryDisk::new();
        let session = store(&disk).create(named("s")).unwrap();
        let mark = session.write(1, &began(None));
        session.kept(mark).await.unwrap();
        disk.fail(nth, DiskFault::Broken, false);
        session.begin_events();
        session.record_event(&warning("one"));
        let closed = session.close().await;
        drop(session);
        let was_hit = disk.mend();
        assert!(closed.is_ok(), "the journal has nothing to write: {closed:?}");
        let opened = store(&disk).open("s", SessionOpenOptions::default()).unwrap();
        assert_eq!((opened.records.len(), opened.warnings.len()), (1, 0));
        opened.session.begin_events();
        drop(opened);
        let started = events(&disk).into_iter().filter(RecordedEvent::is_stream_start).count();
        assert!(started >= 1, "{nth}");
        if !was_hit {
            assert!(nth > 2, "writing events has {nth} operations");
            return;
        }
    }
    panic!("the fault is always hit");
}
