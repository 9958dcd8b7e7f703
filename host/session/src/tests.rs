//! Sessions as a whole.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use proptest::prelude::*;

use super::*;
use shelly_core::{
    agent::journal::{DelegationKey, JournalRecord, RecordedRunEnd, Recorder},
    chat::{ChatChange, ChatEntryRecord, Message, ToolResult, Usage as Tokens},
    digest::Sha256Digest,
    limits,
};

pub(super) fn store(disk: &MemoryDisk) -> SessionStore {
    SessionStore::new(Arc::new(disk.clone()), "/sessions", SessionStoreOptions::default())
}

pub(super) fn named(id: &str) -> NewSession {
    NewSession {
        id: Some(id.into()),
        agent: "ada".into(),
        model: "m".into(),
        title: " Do it. ".into(),
        ..NewSession::default()
    }
}

pub(super) fn began(of: Option<u64>) -> JournalRecord {
    let errand = of.map(|run| DelegationKey { run, call: "c".into(), position: 0 });
    let prompt = "p".repeat(limits::SESSION_INLINE_PROMPT_BYTES + 1).into();
    let (agent, instance) = ("ada".into(), "ada".into());
    JournalRecord::Began {
        agent,
        instance,
        model: "m".into(),
        depth: 0,
        delegation_key: errand,
        continues: None,
        side_chat: None,
        input: Vec::new(),
        prompt,
        changes: Vec::new(),
    }
}

pub(super) fn said(text: impl Into<String>) -> JournalRecord {
    let message = Arc::new(Message::user(text));
    let changes = vec![ChatChange::Added(ChatEntryRecord { id: 1, group: None, note: false, edited: false, message })];
    JournalRecord::Looked { changes, effects: Vec::new() }
}

pub(super) fn ended(failed: bool) -> JournalRecord {
    let outcome = match failed {
        true => RecordedRunEnd::Failed { error: "no".into(), exhausted: false, cancelled: false, fault: None },
        false => RecordedRunEnd::Answered { message: Message::user("Done.") },
    };
    JournalRecord::Ended {
        changes: vec![],
        outcome,
        iterations: 1,
        usage: Tokens::default(),
        account: Default::default(),
    }
}

#[tokio::test]
async fn session_beyond_its_bound_ends_and_keeps_records() {
    let disk = MemoryDisk::new();
    let options = SessionStoreOptions { session_bytes: 2_000, ..SessionStoreOptions::default() };
    let small = SessionStore::new(Arc::new(disk.clone()), "/sessions", options);
    let session = small.create(named("s")).unwrap();
    let first = session.write(1, &said("a"));
    let second = session.write(1, &said("b".repeat(2_000)));
    let lost = session.kept(second).await.unwrap_err();
    assert!(lost.reason.starts_with("the session has reached its maximum of 2000 bytes"), "{lost}");
    assert_eq!(session.kept(first).await, Ok(()));
    assert_eq!(session.close().await, Err(lost));
    drop(session);
    assert_eq!(small.open("s", SessionOpenOptions::default()).unwrap().records.len(), 1);
}

#[test]
fn sessions_are_bounded_in_number_and_bytes() {
    let disk = MemoryDisk::new();
    let with = |sessions, sessions_bytes| {
        let options = SessionStoreOptions { sessions, sessions_bytes, ..SessionStoreOptions::default() };
        SessionStore::new(Arc::new(disk.clone()), "/sessions", options)
    };
    drop(with(1, 1_000).create(named("a")).unwrap());
    assert!(matches!(with(1, 1_000).create(named("b")), Err(SessionError::TooMany { there: 1, most: 1 })));
    assert!(matches!(with(1, 1_000).fork("a", None), Err(SessionError::TooMany { .. })));
    assert!(matches!(with(2, 10).create(named("b")), Err(SessionError::TooLarge { most: 10, .. })));
    assert_eq!(with(2, 10).usage().unwrap().sessions, 1);
    assert!(with(2, 1 << 20).check_room(1).is_ok());
    assert!(matches!(with(2, 1 << 20).check_room(2), Err(SessionError::TooMany { there: 1, most: 2 })));
    assert!(matches!(with(2, 10).check_room(1), Err(SessionError::TooLarge { most: 10, .. })));
}

#[test]
fn a_header_is_bounded() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    let title = "ü".repeat(limits::SESSION_TITLE_CHARS);
    let session = store.create(NewSession { title: format!("{title}ü"), ..named("a") }).unwrap();
    assert_eq!(session.header().title, format!("{title}…"));
    let part = SessionPart { kind: SessionPartKind::Plugin, name: "p".repeat(100), digest: Sha256Digest::of(b"p") };
    let parts = |bytes: usize| vec![part.clone(); bytes / (serde_json::to_vec(&part).unwrap().len() + 1)];
    let error = store.create(NewSession { parts: parts(limits::SESSION_HEADER_BYTES), ..named("b") }).unwrap_err();
    assert!(error.report().to_string().ends_with("would have more than 262144 bytes"), "{}", error.report());
    assert_eq!(store.usage().unwrap().sessions, 1, "nothing is left behind");
    for (bytes, is_kept) in [(limits::SESSION_OPTIONS_BYTES, true), (limits::SESSION_OPTIONS_BYTES + 1, false)] {
        let options = LaunchOptions { plugins: vec!["p".repeat(bytes - 1), "q".into()], ..LaunchOptions::default() };
        let id = format!("with-{bytes}");
        let made = store.create(NewSession { options, ..named(&id) }).unwrap();
        assert_eq!(!made.header().options.is_empty(), is_kept, "half of them would be other ones");
    }
    let parts = parts(limits::SESSION_HEADER_BYTES - 1_000);
    drop(store.create(NewSession { parts: parts.clone(), ..named("c") }).unwrap());
    assert_eq!(store.read("c").unwrap().header().parts, parts);
    let opened = store.open("c", SessionOpenOptions::default()).unwrap();
    assert_eq!(opened.parts, parts);
    drop(opened);
    assert_eq!(store.open("c", SessionOpenOptions::default()).unwrap().parts, [], "what it was opened with last");
    let endless = Path::new("/sessions/a/journal.jsonl");
    drop(session);
    disk.open(endless).unwrap().write_all_at(&vec![b'x'; 2 * limits::SESSION_HEADER_BYTES], 0).unwrap();
    assert!(matches!(store.read("a"), Err(SessionError::Damaged { line: 1, reason, .. }) if reason.contains("no end")));
}

#[test]
fn session_name_resolves_by_prefix_and_is_never_a_path() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    assert!(matches!(store.open("a", SessionOpenOptions::default()), Err(SessionError::NotFound { .. })));
    for id in ["aa-1", "aa-2", "aa", "b.c"] {
        drop(store.create(named(id)).unwrap());
    }
    let made = store.create(NewSession::default()).unwrap();
    let (day, rest) = made.id().split_at(8);
    assert!(day.bytes().all(|b| b.is_ascii_digit()) && rest.len() == 14 && rest.as_bytes()[7] == b'-', "{}", made.id());
    for (given, found) in [
        ("aa", Ok("aa")),
        ("aa-", Err("several sessions begin with `aa-`: such as aa-1, aa-2")),
        ("aa-2", Ok("aa-2")),
        ("b", Ok("b.c")),
        ("c", Err("there is no session `c`")),
        ("..", Err("invalid session name `..`")),
        ("b/", Err("invalid session name `b/`")),
        ("-b", Err("invalid session name `-b`")),
        ("", Err("invalid session name ``")),
        (&"a".repeat(65), Err("invalid session name")),
    ] {
        let resolved = store.resolve(given).map_err(|error| error.report().to_string());
        match found {
            Ok(found) => assert_eq!(resolved.as_deref(), Ok(found)),
            Err(why) => assert!(resolved.as_ref().is_err_and(|error| error.contains(why)), "{given}: {resolved:?}"),
        }
    }
    assert!(matches!(store.create(named("../x")), Err(SessionError::BadName { .. })));
    assert!(matches!(store.create(named("aa")), Err(SessionError::Exists { .. })));
}

#[tokio::test]
async fn closed_session_can_be_opened_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = SessionStoreOptions { root: Some(folder.path().into()), ..SessionStoreOptions::default() };
    let store = SessionStore::new(Arc::new(DiskStorage), folder.path().join("sessions"), options);
    let mut held = vec![store.create(named("s")).unwrap()];
    for _ in 0..50 {
        held.last().unwrap().close().await.unwrap();
        // The closed ones are still there.
        held.push(store.open("s", SessionOpenOptions::default()).unwrap().session);
    }
}

#[test]
fn open_session_locks_out_writers_but_not_readers() {
    let folder = tempfile::tempdir().unwrap();
    let options = SessionStoreOptions { root: Some(folder.path().into()), ..SessionStoreOptions::default() };
    let store = SessionStore::new(Arc::new(DiskStorage), folder.path().join("a/sessions"), options);
    assert_eq!(store.list(9).unwrap(), []);
    let session = store.create(named("s")).unwrap();
    assert!(matches!(store.open("s", SessionOpenOptions::default()), Err(SessionError::InUse { .. })));
    assert!(matches!(store.remove("s"), Err(SessionError::InUse { .. })));
    assert!(store.list(9).unwrap()[0].in_use);
    assert_eq!(store.read("s").unwrap().count(), 0);
    let everything = PrunePolicy { keep: Some(0), ..PrunePolicy::default() };
    assert_eq!(store.prune(&everything).unwrap().in_use, ["s"]);
    session.write(1, &began(None));
    drop(session);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |name: &str| fs::metadata(store.folder().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(""), mode("s"), mode("s/attachments")), (0o700, 0o700, 0o700));
        assert_eq!((mode("s/journal.jsonl") & !0o600, mode("s/lock") & !0o600), (0, 0));
    }
    assert!(!store.list(9).unwrap()[0].in_use);
    let opened = store.open("s", SessionOpenOptions::default()).unwrap();
    assert_eq!(opened.records, [(1, began(None))]);
    drop(opened);
    assert!(store.remove("s").unwrap().is_some());
    assert_eq!(fs::read_dir(store.folder()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
#[cfg(unix)]
fn links_are_refused() {
    use std::os::unix::fs::symlink;
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |root: &Path| {
        let options = SessionStoreOptions { root: Some(root.into()), ..SessionStoreOptions::default() };
        SessionStore::new(Arc::new(DiskStorage), root.join("local/sessions"), options)
    };
    let other = at(elsewhere.path());
    drop(other.create(named("s")).unwrap());
    symlink(elsewhere.path().join("local"), folder.path().join("local")).unwrap();
    let store = at(folder.path());
    assert!(matches!(store.list(9), Err(SessionError::NotOurs { .. })));
    assert!(matches!(store.resolve("s"), Err(SessionError::NotOurs { .. })));
    assert!(matches!(
        store.prune(&PrunePolicy { keep: Some(0), ..PrunePolicy::default() }),
        Err(SessionError::NotOurs { .. })
    ));
    assert!(matches!(store.create(named("t")), Err(SessionError::Disk { doing: "make", .. })));
    fs::remove_file(folder.path().join("local")).unwrap();
    drop(store.create(named("t")).unwrap());
    symlink(other.folder().join("s"), store.folder().join("s")).unwrap();
    assert!(matches!(store.open("s", SessionOpenOptions::default()), Err(SessionError::NotOurs { .. })));
    assert_eq!(store.names().unwrap(), ["t"]);
    let journal = store.folder().join("t/journal.jsonl");
    fs::remove_file(&journal).unwrap();
    symlink(other.folder().join("s/journal.jsonl"), &journal).unwrap();
    assert!(store.read("t").is_err());
    assert!(
        store.open("t", SessionOpenOptions::default()).unwrap_err().report().to_string().contains("the path is a link")
    );
}

#[test]
fn session_list_shows_status_with_few_reads() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    let long = said("x".repeat(limits::SESSION_INLINE_STRING_BYTES));
    for (id, records, status) in [
        ("empty", vec![], SessionStatus::Empty),
        ("begun", vec![(1, began(None)), (1, said("a"))], SessionStatus::Unfinished),
        ("child", vec![(1, began(None)), (2, began(Some(1))), (2, ended(false))], SessionStatus::Unfinished),
        ("done", vec![(1, began(None)), (1, ended(false))], SessionStatus::Finished),
        ("failed", vec![(1, began(None)), (1, ended(true)), (0, said("b"))], SessionStatus::Failed),
        ("again", vec![(1, began(None)), (1, ended(true)), (2, began(None))], SessionStatus::Unfinished),
        ("long", [vec![(1, began(None))], vec![(1, long.clone()); 500]].concat(), SessionStatus::Unfinished),
    ] {
        let session = store.create(named(id)).unwrap();
        records.iter().for_each(|(run, record)| {
            session.write(*run, record);
        });
        drop(session);
        let (summary, reads) = (store.list(1).unwrap().remove(0), disk.reads());
        assert_eq!(summary.id, id);
        let (header, seen) = summary.content.unwrap();
        assert_eq!((header.title.as_str(), seen), ("Do it.", status), "{id}");
        store.list(1).unwrap();
        assert!(disk.reads() - reads <= 8, "{id}: {} reads", disk.reads() - reads);
        // A process that opened it and has done nothing yet changes nothing.
        drop(store.open(id, SessionOpenOptions::default()).unwrap());
        assert_eq!(store.list(1).unwrap()[0].content.as_ref().unwrap().1, status, "{id}");
    }
}

#[test]
fn session_list_reads_only_the_shown_sessions() {
    const MANY: usize = 10_000;
    let disk = MemoryDisk::new();
    let store = store(&disk);
    drop(store.create(named("first")).unwrap());
    let journal = Path::new("/sessions/first/journal.jsonl");
    for n in 0..MANY {
        let folder = Path::new("/sessions").join(format!("s{n}"));
        disk.create_folder(&folder).unwrap();
        disk.link(journal, &folder.join("journal.jsonl")).unwrap();
    }
    let (reads, operations) = (disk.reads(), disk.operations());
    assert_eq!(store.list(20).unwrap().len(), 20);
    let (reads, operations) = (disk.reads() - reads, disk.operations() - operations);
    assert!(reads <= 4 * 20, "{reads} reads");
    assert!(operations <= MANY as u64 + 300, "{operations} operations");
}

/// Returns a session in a folder, its journal's bytes and its records.
fn on_disk() -> (tempfile::TempDir, SessionStore, Vec<u8>, Vec<(u64, JournalRecord)>) {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::new(Arc::new(DiskStorage), folder.path(), SessionStoreOptions::default());
    let session = store.create(named("s")).unwrap();
    let records = [(1, began(None)), (1, said("ä")), (2, began(Some(1))), (2, said("{\"n\":3}\n")), (1, ended(false))];
    records.iter().for_each(|(run, record)| {
        session.write(*run, record);
    });
    drop(session);
    let bytes = fs::read(folder.path().join("s/journal.jsonl")).unwrap();
    (folder, store, bytes, records.into())
}

#[test]
fn damaged_journal_reports_its_line_and_opens_up_to_it() {
    let (folder, store, bytes, records) = on_disk();
    let journal = folder.path().join("s/journal.jsonl");
    let text = String::from_utf8(bytes.clone()).unwrap();
    let third: usize = text.split_inclusive('\n').take(2).map(str::len).sum();
    fs::write(&journal, text.replacen('ä', "ö", 1)).unwrap();
    let error = store.open("s", SessionOpenOptions::default()).unwrap_err();
    assert_eq!(
        error.report().to_string(),
        format!("{} is damaged at line 3, byte {third}: the checksum does not match the content", journal.display())
    );
    assert!(matches!(store.fork("s", None), Err(SessionError::Damaged { line: 3, .. })));
    assert_eq!(store.read(&store.fork("s", Some(2)).unwrap()).unwrap().count(), 1);
    let up_to = || store.open("s", SessionOpenOptions { up_to_damage: true, ..SessionOpenOptions::default() }).unwrap();
    let opened = up_to();
    assert_eq!(opened.records, records[..1]);
    assert!(opened.warnings[0].contains("damaged at line 3"), "{:?}", opened.warnings);
    drop(opened);
    assert_eq!(
        fs::read_to_string(folder.path().join("s/journal.damaged-1.jsonl")).unwrap(),
        text.replacen('ä', "ö", 1)
    );
    let again = up_to();
    assert_eq!((again.records.len(), again.warnings.len()), (1, 0), "it is whole again");
    drop(again);

    // A missing or changed attachment is damage of the line that refers to it.
    let attachments = folder.path().join("s/attachments");
    let attachment = fs::read_dir(&attachments).unwrap().next().unwrap().unwrap().path();
    for change in [&b"x"[..], b""] {
        fs::write(&attachment, change).unwrap();
        let error = store.open("s", SessionOpenOptions::default()).unwrap_err();
        assert!(
            matches!(&error, SessionError::Damaged { line: 2, reason, .. } if reason.contains("does not match its digest"))
        );
    }
    fs::remove_file(&attachment).unwrap();
    let error = store.open("s", SessionOpenOptions::default()).unwrap_err();
    assert!(
        matches!(&error, SessionError::Damaged { line: 2, reason, .. } if reason.contains("is missing")),
        "{error}"
    );
    assert_eq!(up_to().records, []);

    // Objects in the wrong place, and sessions of other releases.
    let header = text.lines().next().unwrap();
    let swapped: String = [header, text.lines().nth(2).unwrap(), text.lines().nth(1).unwrap(), ""].join("\n");
    fs::write(&journal, swapped).unwrap();
    let error = store.open("s", SessionOpenOptions::default()).unwrap_err();
    assert!(
        matches!(&error, SessionError::Damaged { line: 2, reason, .. } if reason.contains("the line has the number 3")),
        "{error}"
    );
    let mut line = Vec::new();
    line_format::append_line(&mut line, format_args!("\"shelly_session\":2"), b"", None);
    fs::write(&journal, line).unwrap();
    let report = store.open("s", SessionOpenOptions::default()).unwrap_err().report();
    assert!(
        report
            .message
            .ends_with("needs a newer shelly-host: its format has version 2, this shelly-host reads up to version 1"),
        "{report}"
    );
    assert!(store.list(9).unwrap().iter().any(|summary| summary.content.is_err()), "the list shows it");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn no_damage_makes_a_wrong_record(cut in any::<prop::sample::Index>(), flip in any::<Option<(prop::sample::Index, u8)>>()) {
        let (folder, store, mut bytes, records) = on_disk();
        let journal = folder.path().join("s/journal.jsonl");
        match flip {
            Some((at, with)) => {
                let at = at.index(bytes.len());
                bytes[at] ^= with.max(1);
            }
            None => bytes.truncate(cut.index(bytes.len() + 1)),
        }
        fs::write(&journal, &bytes).unwrap();
        match store.open("s", SessionOpenOptions::default()) {
            Ok(opened) => {
                prop_assert!(records.starts_with(&opened.records));
                prop_assert!(!opened.warnings.is_empty() || opened.records.len() == records.len() || flip.is_none());
            }
            Err(SessionError::Damaged { .. }) => {}
            Err(error) => prop_assert!(false, "{error:?}"),
        }
    }
}

#[tokio::test]
async fn fork_copies_the_session_up_to_a_line() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    let session = store.create(named("s")).unwrap();
    let all = [(1, began(None)), (1, said("z".repeat(limits::SESSION_INLINE_LINE_BYTES + 1))), (1, said("b"))];
    for (run, record) in &all {
        session.write(*run, record);
    }
    // The original may be in use.
    session.kept(session.write(1, &said("last"))).await.unwrap();
    for (at, there) in [(Some(1), 0), (Some(2), 1), (Some(3), 2), (Some(4), 3), (None, 4)] {
        let id = store.fork("s", at).unwrap();
        let opened = store.open(&id, SessionOpenOptions::default()).unwrap();
        assert_eq!(opened.records.len(), there, "{at:?}");
        assert!(all.starts_with(&opened.records[..there.min(3)]));
        let from = opened.session.header().forked_from.clone().unwrap();
        assert_eq!((from.id.as_str(), from.at), ("s", at.unwrap_or(5)));
        drop(opened);
        drop(store.open(&id, SessionOpenOptions::default()).unwrap());
    }
    for at in [0, 6] {
        assert!(matches!(store.fork("s", Some(at)), Err(SessionError::NoLine { last: 5, .. })), "{at}");
    }
    drop(session);
    // The copy has its own attachments.
    let id = store.fork("s", None).unwrap();
    store.remove("s").unwrap();
    assert_eq!(store.open(&id, SessionOpenOptions::default()).unwrap().records.len(), 4);
}

#[test]
fn prune_removes_what_the_policy_selects() {
    let made = || {
        let disk = MemoryDisk::new();
        let store = store(&disk);
        for id in ["a", "b", "c", "d"] {
            drop(store.create(named(id)).unwrap());
        }
        store
    };
    let one = made().bytes_of("a");
    let long_ago = Some(Duration::from_secs(3_600));
    for (keep, older_than, most_bytes, gone) in [
        (None, None, None, &[][..]),
        (Some(3), None, None, &["a"]),
        (Some(0), None, None, &["a", "b", "c", "d"]),
        (Some(1), long_ago, None, &["a", "b", "c"]),
        (None, Some(Duration::from_secs(u64::MAX / 4)), None, &[]),
        (None, None, Some(2 * one), &["a", "b"]),
        (None, None, Some(0), &["a", "b", "c", "d"]),
        (Some(3), None, Some(0), &["a"]),
    ] {
        let store = made();
        let policy = PrunePolicy { keep, older_than, most_bytes, dry_run: true, ..PrunePolicy::default() };
        let dry = store.prune(&policy).unwrap();
        assert_eq!(store.usage().unwrap().sessions, 4);
        assert_eq!(dry.removed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), gone, "{policy:?}");
        let before = store.usage().unwrap().bytes;
        assert_eq!(store.prune(&PrunePolicy { dry_run: false, ..policy }).unwrap(), dry);
        assert_eq!(before - store.usage().unwrap().bytes, dry.freed);
        assert_eq!(store.names().unwrap().len(), 4 - gone.len());
    }
}

#[test]
fn prune_keeps_unfinished_sessions_by_default() {
    let made = || {
        let disk = MemoryDisk::new();
        let store = store(&disk);
        for id in ["a", "b", "c"] {
            let session = store.create(named(id)).unwrap();
            session.write(1, &began(None));
            if id != "b" {
                session.write(1, &ended(id == "a"));
            }
        }
        store
    };
    let all = made().usage().unwrap().bytes;
    let (everything, too_much) = (PrunePolicy { keep: Some(0), ..PrunePolicy::default() }, |bytes| PrunePolicy {
        most_bytes: Some(bytes),
        ..PrunePolicy::default()
    });
    for (policy, gone, stay) in [
        (everything.clone(), &["a", "c"][..], &["b"][..]),
        (PrunePolicy { unfinished: true, ..everything.clone() }, &["a", "b", "c"], &[]),
        (PrunePolicy { keep: Some(2), ..PrunePolicy::default() }, &["a"], &[]),
        (too_much(all - 1), &["a"], &[]),
        // The next one is removed in its place.
        (too_much(all / 2), &["a", "c"], &["b"]),
        (PrunePolicy { unfinished: true, ..too_much(all / 2) }, &["a", "b"], &[]),
    ] {
        let pruned = made().prune(&policy).unwrap();
        assert_eq!(pruned.removed.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), gone, "{policy:?}");
        assert_eq!(pruned.unfinished, stay, "{policy:?}");
    }
}

#[test]
fn prune_removes_leftovers_of_a_crash() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    drop(store.create(named("a")).unwrap());
    for name in [".new-1", ".gone-1"] {
        let folder = store.folder().join(name);
        disk.create_folder(&folder).unwrap();
        disk.open_or_create(&folder.join("lock")).unwrap();
    }
    assert_eq!(store.usage().unwrap().sessions, 1);
    store.prune(&PrunePolicy { dry_run: true, ..PrunePolicy::default() }).unwrap();
    assert_eq!(disk.entries(store.folder(), 9).unwrap().len(), 3);
    store.prune(&PrunePolicy::default()).unwrap();
    assert_eq!(disk.entries(store.folder(), 9).unwrap()[..].iter().map(|entry| &entry.name).collect::<Vec<_>>(), ["a"]);
}

#[test]
fn search_finds_messages_and_titles() {
    let disk = MemoryDisk::new();
    let store = store(&disk);
    let session = store.create(NewSession { title: "A Needle".into(), ..named("s") }).unwrap();
    session.write(1, &said("nothing"));
    session.write(1, &said(format!("{}needle", "x".repeat(limits::SESSION_INLINE_LINE_BYTES))));
    session.write(2, &said("NEEDLE needle"));
    let result = ToolResult::error("c", "no needle");
    session.write(2, &JournalRecord::CallEnded { result, control: None, counted: true, full_text: None });
    drop(session);
    let SessionSearchResults { found, left_out } = store.search("nEEdle", 9).unwrap();
    assert_eq!(left_out, []);
    let places: Vec<_> = found.iter().map(|found| (found.n, found.run, found.role.is_some())).collect();
    assert_eq!(places, [(1, 0, false), (3, 1, true), (4, 2, true), (5, 2, true)]);
    assert!(found[1].excerpt.starts_with("…xx") && found[1].excerpt.ends_with("needle"), "{}", found[1].excerpt);
    assert_eq!(store.search("needle", 2).unwrap().found.len(), 2);
    assert_eq!(store.search("", 2).unwrap(), SessionSearchResults::default());
    let long = "x".repeat(limits::SESSION_SEARCH_CHARS);
    assert_eq!(
        store.search(&format!("{long}y"), 2).unwrap().found.len(),
        1,
        "what is beyond the bound is not looked for"
    );
    assert_eq!(store.search("haystack", 2).unwrap(), SessionSearchResults::default());
}

#[test]
fn secrets_are_never_written_to_a_session() {
    let disk = MemoryDisk::new();
    let secret = "sk-\"very\\secret\"";
    let options =
        SessionStoreOptions { secrets: Secrets::new([("API_KEY", secret)]), ..SessionStoreOptions::default() };
    let store = SessionStore::new(Arc::new(disk.clone()), "/sessions", options);
    let session = store.create(NewSession { title: format!("Use {secret}."), ..named("s") }).unwrap();
    let padding = "x".repeat(limits::SESSION_INLINE_LINE_BYTES);
    let json = serde_json::to_string(secret).unwrap();
    for text in [secret.to_owned(), format!("{padding}{secret}"), json] {
        session.write(1, &said(text));
    }
    drop(session);
    let mut files = BTreeMap::new();
    for folder in ["/sessions/s", "/sessions/s/attachments"] {
        for entry in
            disk.entries(Path::new(folder), 99).unwrap().iter().filter(|entry| entry.kind == StorageEntryKind::File)
        {
            let file = disk.open(&Path::new(folder).join(&entry.name)).unwrap();
            let mut bytes = vec![0; entry.len as usize];
            file.read_full_at(&mut bytes, 0).unwrap();
            files.insert(entry.name.clone(), String::from_utf8(bytes).unwrap());
        }
    }
    assert_eq!(files.len(), 3, "the journal, the lock and one attachment");
    assert!(files.values().all(|text| !text.contains("secret\\") && !text.contains("very")), "{files:?}");
    assert_eq!(files.values().map(|text| text.matches("[secret API_KEY]").count()).sum::<usize>(), 4);
    assert_eq!(store.open("s", SessionOpenOptions::default()).unwrap().session.header().title, "Use [secret API_KEY].");
}
