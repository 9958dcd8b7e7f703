//! Durability across disk faults and power loss.

use super::{
    tests::{began, ended, named, said, store},
    *,
};
use shelly_core::{
    agent::journal::{JournalRecord, JournalWriteError, Recorder},
    limits,
};

/// The lines that a scenario wrote, and how many of them were reported as durable.
#[derive(Default)]
struct ScenarioLog {
    written: Vec<(u64, JournalRecord)>,
    kept: usize,
    was_made: bool,
}

impl ScenarioLog {
    async fn write(&mut self, session: &Session, run: u64, record: JournalRecord) -> Result<(), JournalWriteError> {
        let mark = session.write(run, &record);
        self.written.push((run, record));
        session.kept(mark).await?;
        self.kept = self.written.len();
        Ok(())
    }
}

/// A session that is created, closed and resumed; some records have attachments, some are written together.
async fn scenario(disk: &MemoryDisk, told: &mut ScenarioLog) -> Result<(), Box<dyn std::error::Error>> {
    let store = store(disk);
    let session = store.create(named("s"))?;
    told.was_made = true;
    told.write(&session, 1, began(None)).await?;
    told.write(&session, 1, said("short")).await?;
    for text in ["a", "b", "c"] {
        let record = said(text);
        session.write(1, &record);
        told.written.push((1, record));
    }
    told.write(&session, 2, began(Some(1))).await?;
    told.write(&session, 2, said("x".repeat(limits::SESSION_INLINE_LINE_BYTES + 1))).await?;
    session.close().await?;
    drop(session);
    let opened = store.open("s", SessionOpenOptions::default())?;
    told.write(&opened.session, 2, said("y".repeat(limits::SESSION_INLINE_LINE_BYTES + 1))).await?;
    told.write(&opened.session, 1, ended(false)).await?;
    opened.session.close().await?;
    Ok(())
}

/// Checks that durable lines are present, that none is invented, and that the session can be resumed.
async fn check(disk: &MemoryDisk, told: &ScenarioLog, what: &str) {
    let store = store(disk);
    let opened = match store.open("s", SessionOpenOptions::default()) {
        Err(SessionError::NotFound { .. }) if !told.was_made => return,
        opened => opened.unwrap_or_else(|error| panic!("{what}: {:?}", error.report())),
    };
    let count = opened.records.len();
    assert!(count >= told.kept, "{what}: of {} kept records {count} are there", told.kept);
    assert!(told.written.starts_with(&opened.records), "{what}: they are not what was written");
    let more = said("more");
    let mark = opened.session.write(9, &more);
    opened.session.kept(mark).await.unwrap_or_else(|lost| panic!("{what}: {lost}"));
    drop(opened);
    let again = store.open("s", SessionOpenOptions::default()).unwrap();
    assert_eq!(again.records.len(), count + 1, "{what}");
    assert_eq!(again.records[count], (9, more), "{what}");
    assert_eq!(again.warnings, [] as [&str; 0], "{what}");
}

#[tokio::test]
async fn durable_records_survive_any_disk_fault() {
    for (fault, for_ever) in [
        (DiskFault::Full, false),
        (DiskFault::Full, true),
        (DiskFault::Broken, false),
        (DiskFault::Broken, true),
        (DiskFault::Short, false),
        (DiskFault::Short, true),
    ] {
        for nth in 1.. {
            let (disk, mut told) = (MemoryDisk::new(), ScenarioLog::default());
            disk.fail(nth, fault, for_ever);
            let done = scenario(&disk, &mut told).await;
            let was_hit = disk.mend();
            let what = format!("{fault:?} at {nth}, for ever: {for_ever}");
            assert!(was_hit || done.is_ok(), "{what}: {done:?}");
            assert!(fault != DiskFault::Short || done.is_ok(), "{what}: {done:?}");
            check(&disk, &told, &what).await;
            if !was_hit {
                assert!(nth > 50, "the scenario has {nth} operations");
                break;
            }
        }
    }
}

#[tokio::test]
async fn durable_records_survive_power_loss() {
    for nth in 1.. {
        let (disk, mut told) = (MemoryDisk::new(), ScenarioLog::default());
        disk.fail(nth, DiskFault::Broken, true);
        let _ = scenario(&disk, &mut told).await;
        for chance in 0..8 {
            let left = disk.after_power_loss(nth * 8 + chance);
            check(&left, &told, &format!("power lost at {nth}, {chance}")).await;
            // Power is lost once more while the session is opened.
            let left = disk.after_power_loss(nth * 8 + chance);
            left.fail(nth % 40 + 1, DiskFault::Broken, true);
            let _ = store(&left).open("s", SessionOpenOptions::default());
            check(&left.after_power_loss(chance), &told, &format!("power lost twice at {nth}, {chance}")).await;
        }
        if !disk.mend() {
            break;
        }
    }
}

#[tokio::test]
async fn full_disk_error_says_what_to_do() {
    let disk = MemoryDisk::new();
    let session = store(&disk).create(named("s")).unwrap();
    let kept = session.write(1, &said("a"));
    session.kept(kept).await.unwrap();
    disk.fail(1, DiskFault::Full, true);
    let mark = session.write(1, &said("b"));
    let lost = session.kept(mark).await.unwrap_err();
    assert_eq!(
        lost.reason,
        "the disk is full: cannot write /sessions/s/journal.jsonl; free space, then run `shelly-host session resume s`"
    );
    assert_eq!(session.lost(), Some(lost.clone()));
    disk.mend();
    let after = session.write(1, &said("c"));
    assert_eq!(session.kept(after).await, Err(lost.clone()), "nothing more is taken");
    assert_eq!(session.kept(kept).await, Ok(()), "the stored result is damaged");
    assert_eq!(session.close().await, Err(lost));
    drop(session);
    assert_eq!(store(&disk).open("s", SessionOpenOptions::default()).unwrap().records, [(1, said("a"))]);
}

#[tokio::test]
async fn faults_leave_no_half_copies() {
    for nth in 1.. {
        let disk = MemoryDisk::new();
        let mut told = ScenarioLog::default();
        scenario(&disk, &mut told).await.unwrap();
        let store = store(&disk);
        disk.fail(nth, DiskFault::Full, true);
        let forked = store.fork("s", None);
        let was_hit = disk.mend();
        match forked {
            Ok(id) => assert_eq!(store.open(&id, SessionOpenOptions::default()).unwrap().records, told.written),
            Err(_) => assert!(store.names().unwrap().len() <= 2),
        }
        for id in store.names().unwrap() {
            assert_eq!(store.open(&id, SessionOpenOptions::default()).unwrap().records, told.written, "{id} at {nth}");
        }
        if !was_hit {
            break;
        }
    }
}
