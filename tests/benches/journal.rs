//! The cost of recording runs: appending to a session without waiting, and waiting until it is synced, alone and with
//! others, beside a bare append and `fdatasync` on the same file system; an iteration of the agent's loop with and without a
//! session; and resuming a long one.

use std::{
    error::Error,
    fs,
    io::Write,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput};
use shelly_host::{
    agent::journal::{JournalRecord, Recorder},
    chat::{ChatChange, ChatEntryRecord, Message},
    session::{DiskStorage, NewSession, Session, SessionStore, SessionStoreOptions},
};

#[allow(dead_code, reason = "shared with the crash test")]
#[path = "../crash/disk.rs"]
mod disk;
mod recorded;
#[allow(dead_code, reason = "shared with the benchmark of the agent")]
mod stage;

/// Those who write and wait at once.
const WRITERS: [usize; 3] = [1, 16, 256];

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let folder = tempfile::Builder::new().prefix("journal").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let mut criterion = Criterion::default()
        .output_directory(Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/criterion")))
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    let store =
        SessionStore::new(Arc::new(DiskStorage), folder.path().join("sessions"), SessionStoreOptions::default());
    told(&mut criterion, &store)?;
    criterion.final_summary();
    bare(folder.path(), if smoke { 5 } else { 500 })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for writers in WRITERS {
        let each = if smoke { 2 } else { 4_000 / writers + 10 };
        runtime.block_on(kept(&store, writers, each))?;
    }
    runtime.block_on(stream(&store, if smoke { 100 } else { 200_000 }))?;
    runtime.block_on(recorded::iterations(folder.path(), smoke))?;
    runtime.block_on(recorded::gone_on_with(folder.path(), if smoke { 100 } else { 10_000 }))
}

/// A record of about 500 bytes, as a short tool result is.
fn record() -> JournalRecord {
    let message = Arc::new(Message::user("0123456789abcdef".repeat(20)));
    let changes = vec![ChatChange::Added(ChatEntryRecord { id: 1, group: None, note: false, edited: false, message })];
    JournalRecord::Looked { changes, effects: Vec::new() }
}

fn told(criterion: &mut Criterion, store: &SessionStore) -> Result<(), Box<dyn Error>> {
    let record = record();
    let mut group = criterion.benchmark_group("told");
    group.throughput(Throughput::Elements(1));
    // What waits is bounded: a session that is told faster than the disk takes it would be lost, so it is left time.
    group.bench_function("one record", |bencher| {
        bencher.iter_custom(|iterations| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let mut took = Duration::ZERO;
            let mut left = iterations;
            while left > 0 {
                let session = store.create(NewSession::default()).expect("a session");
                let count = left.min(50_000);
                left -= count;
                let start = Instant::now();
                for _ in 0..count {
                    std::hint::black_box(session.write(1, &record));
                }
                took += start.elapsed();
                runtime.block_on(session.close()).expect("kept");
                let id = session.id().to_owned();
                drop(session);
                store.remove(&id).expect("removed");
            }
            took
        });
    });
    group.finish();
    Ok(())
}

/// Appends as many bytes as a record has, each kept before the next one.
fn bare(folder: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    let mut file = fs::File::create(folder.join("bare"))?;
    let line = vec![b'x'; serde_json::to_vec(&record())?.len() + 60];
    let mut times = Vec::new();
    for _ in 0..count {
        let start = Instant::now();
        file.write_all(&line)?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    report("append and fdatasync", times, None);
    Ok(())
}

async fn kept(store: &SessionStore, writers: usize, each: usize) -> Result<(), Box<dyn Error>> {
    let session: Arc<Session> = Arc::new(store.create(NewSession::default())?);
    let start = Instant::now();
    let tasks: Vec<_> = (0..writers)
        .map(|_| {
            let (session, record) = (Arc::clone(&session), record());
            tokio::spawn(async move {
                let mut times = Vec::new();
                for _ in 0..each {
                    let start = Instant::now();
                    let mark = session.write(1, &record);
                    session.kept(mark).await?;
                    times.push(start.elapsed());
                }
                Ok::<_, shelly_host::agent::journal::JournalWriteError>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    report(&format!("write and kept, {writers} at once"), times, Some(start.elapsed()));
    Ok(())
}

/// Many records, of which only the last one is waited for.
async fn stream(store: &SessionStore, count: usize) -> Result<(), Box<dyn Error>> {
    let session = store.create(NewSession::default())?;
    let record = record();
    let start = Instant::now();
    for n in 0..count {
        let mark = session.write(1, &record);
        // Far less than may wait.
        if n % 10_000 == 0 {
            session.kept(mark).await?;
        }
    }
    session.close().await?;
    let took = start.elapsed().as_secs_f64();
    let bytes = fs::metadata(session.folder().join("journal.jsonl"))?.len() as f64;
    let (records, megabytes) = (count as f64 / took, bytes / took / 1e6);
    println!("a stream of records: {records:.0} records and {megabytes:.0} MB a second");
    Ok(())
}

fn report(what: &str, mut times: Vec<Duration>, all: Option<Duration>) {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let rate = all.map(|all| format!(", {:.0} a second", times.len() as f64 / all.as_secs_f64())).unwrap_or_default();
    println!("{what}: median {:.1?}, 99 % below {:.1?}{rate}", at(0.5), at(0.99));
}
