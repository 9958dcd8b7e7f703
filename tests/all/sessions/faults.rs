//! A failing disk under a whole run: the run ends with a clear error, and is resumed once the disk works. Also after a loss
//! of power, which leaves only what was synced.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use shelly_host::{
    agent::{RunError, journal::JournalState},
    chat::Chat,
    session::{
        DiskFault, MemoryDisk, NewSession, OpenedSession, SessionError, SessionOpenOptions, SessionStore,
        SessionStoreOptions,
    },
};

use super::{
    ends::{Calls, check_same},
    world::{Outside, World},
};

/// The end of a run on a disk that may fail.
enum End {
    Done {
        state: String,
    },
    /// The session could not be used.
    NoSession(SessionError),
    /// The run could not go on.
    Lost(String),
}

/// Begins the world in a session on this disk, or goes on with it.
async fn live(disk: &MemoryDisk, outside: &Outside, what: &str) -> End {
    let store = SessionStore::new(Arc::new(disk.clone()), "/sessions", SessionStoreOptions::default());
    let (session, past) = match store.open("s", SessionOpenOptions::default()) {
        Ok(OpenedSession { session, records, .. }) => (session, Some(JournalState::of(records).unwrap())),
        Err(SessionError::NotFound { .. }) => {
            match store.create(NewSession { id: Some("s".into()), ..NewSession::default() }) {
                Ok(session) => (session, None),
                Err(error) => return End::NoSession(error),
            }
        }
        Err(error) => return End::NoSession(error),
    };
    let chat = past.as_ref().map_or_else(Chat::recorded, |past| past.chat().unwrap());
    let is_over = past.as_ref().is_some_and(|past| past.ended().is_some());
    let session = Arc::new(session);
    let world = World::new(session.clone(), past.map(|past| (past, &chat)), outside.clone());
    if !is_over {
        match world.go_on(&chat).await {
            Ok(_) => {}
            Err(RunError::Unrecorded(lost)) => return End::Lost(lost.reason),
            Err(error) => panic!("{what}: {}", error.in_full()),
        }
    }
    // Nothing is left to be written.
    session.close().await.unwrap_or_else(|lost| panic!("{what}: {lost}"));
    assert_eq!(chat.snapshot().check(), Ok(()), "{what}");
    End::Done { state: world.state(&chat) }
}

/// Lets the nth operation fail, mends the disk and goes on; a device that was gone has lost its power. Whether that
/// operation was ever reached.
async fn check(nth: u64, fault: DiskFault, for_ever: bool, undisturbed: &str) -> bool {
    let what = format!("{fault:?} at operation {nth}, for ever: {for_ever}");
    let (disk, outside) = (MemoryDisk::new(), Outside::default());
    disk.fail(nth, fault, for_ever);
    let end = live(&disk, &outside, &what).await;
    let was_hit = disk.mend();
    match &end {
        End::Done { .. } => {}
        _ if !was_hit || fault == DiskFault::Short => panic!("{what}: it failed without a reason"),
        End::NoSession(error) => assert!(matches!(error, SessionError::Disk { .. }), "{what}: {error}"),
        End::Lost(reason) => {
            assert!(reason.contains("`shelly-host session resume s`"), "{what}: {reason}");
            let is_told = match fault {
                DiskFault::Full => {
                    reason.starts_with("the disk is full: ") && reason.contains("; free space, then run ")
                }
                _ => reason.contains("the device does not answer") && reason.contains("; fix that, then run "),
            };
            assert!(is_told && reason.contains("/sessions/s/"), "{what}: {reason}");
        }
    }
    let disk = match (fault, for_ever, &end) {
        (DiskFault::Broken, true, End::NoSession(_) | End::Lost(_)) => disk.after_power_loss(nth),
        _ => disk,
    };
    let state = match end {
        End::Done { state } => state,
        _ => match live(&disk, &outside, &what).await {
            End::Done { state } => state,
            End::NoSession(error) => panic!("{what}: {:?}", error.report()),
            End::Lost(reason) => panic!("{what}: {reason}"),
        },
    };
    let store = SessionStore::new(Arc::new(disk), "/sessions", SessionStoreOptions::default());
    let opened = store.open("s", SessionOpenOptions::default()).unwrap();
    assert_eq!(opened.warnings, [] as [&str; 0], "{what}");
    let calls = Calls::of(&opened.records, &what);
    calls.check_outside(outside.lock().unwrap().iter().map(String::as_str), &what);
    check_same(undisturbed, &state, &what);
    was_hit
}

#[test]
fn run_with_any_failed_disk_operation_resumes_to_the_same_end() {
    // Not a paused clock: it would run ahead while the thread that writes is at work.
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (disk, outside) = (MemoryDisk::new(), Outside::default());
    let End::Done { state } = runtime().block_on(live(&disk, &outside, "undisturbed")) else { panic!("it failed") };
    assert!(disk.operations() > 60, "a run has {} operations", disk.operations());
    let faults = [
        (DiskFault::Full, true),
        (DiskFault::Broken, false),
        (DiskFault::Full, false),
        (DiskFault::Broken, true),
        (DiskFault::Short, false),
        (DiskFault::Short, true),
    ];
    // A write and a sync, which take turns, fail in the same way; the next two in the next way.
    let fault = |nth: u64| faults[nth as usize / 2 % faults.len()];
    let (next, state) = (AtomicU64::new(1), &state);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let (fault, for_ever) = fault(nth);
                    if !runtime().block_on(check(nth, fault, for_ever, state)) {
                        return;
                    }
                }
            });
        }
    });
    assert!(next.into_inner() > 60);
}
