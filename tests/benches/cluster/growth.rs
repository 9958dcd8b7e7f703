//! Sessions that become many: the time of a list and of a continuation, and what the server takes.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use shelly_host::{
    agent::journal::Recorder,
    session::{NewSession, SessionOpenOptions, SessionStore},
};

use super::{
    appends::{record, store_on},
    folder,
    harness::{BoxError, NatsServers},
    kib, memory_of,
};

/// The sessions after which is measured.
const SIZES: [usize; 3] = [10, 1_000, 100_000];

/// The sessions that are created at once.
const WRITERS: usize = 16;

/// The records of each session.
const RECORDS: usize = 8;

/// The sessions on a list.
const LISTED: usize = 20;

/// Measures after each number of sessions.
pub fn measure(program: &Path, smoke: bool) -> Result<(), BoxError> {
    let place = folder()?;
    let servers = NatsServers::start(program, place.path(), 1, false)?;
    let store = store_on(&servers)?;
    println!("\n| sessions of {RECORDS} records | created a second | list of {LISTED} | continued | memory | disk |");
    println!("|---|---|---|---|---|---|");
    let mut there = 0;
    for size in if smoke { [2, 4, 8] } else { SIZES } {
        let began = Instant::now();
        create(&store, there..size)?;
        let rate = (size - there) as f64 / began.elapsed().as_secs_f64();
        there = size;
        let listing = timed(|| store.list(LISTED).map(drop))?;
        let continuing = timed(|| store.open("s-1", SessionOpenOptions::default()).map(drop))?;
        let memory = servers.process_ids().first().and_then(|id| memory_of(*id));
        let disk = disk_usage(&servers.store(0))?;
        println!("| {size} | {rate:.0} | {listing:.1?} | {continuing:.1?} | {} | {} |", kib(memory), kib(Some(disk)));
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<(), shelly_host::session::SessionError>) -> Result<Duration, BoxError> {
    let began = Instant::now();
    work().map_err(|error| error.report().to_string())?;
    Ok(began.elapsed())
}

/// Creates the sessions with these numbers.
fn create(store: &SessionStore, numbers: std::ops::Range<usize>) -> Result<(), BoxError> {
    let next = AtomicUsize::new(numbers.start);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(|| create_next(store, &next, numbers.end))).collect();
        writers.into_iter().try_for_each(|writer| writer.join().map_err(|_| "a writer has panicked")?)
    })
}

fn create_next(store: &SessionStore, next: &AtomicUsize, end: usize) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let record = record();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return Ok(());
        }
        let new = NewSession { id: Some(format!("s-{number}")), ..NewSession::default() };
        let session = store.create(new).map_err(|error| error.report().to_string())?;
        for _ in 0..RECORDS {
            session.write(1, &record);
        }
        runtime.block_on(session.close())?;
    }
}

/// Returns the bytes of all files below a folder.
fn disk_usage(folder: &Path) -> Result<u64, BoxError> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += match entry.file_type()?.is_dir() {
            true => disk_usage(&entry.path())?,
            // A file that the server has replaced meanwhile counts for nothing.
            false => entry.metadata().map_or(0, |metadata| metadata.len()),
        };
    }
    Ok(bytes)
}
