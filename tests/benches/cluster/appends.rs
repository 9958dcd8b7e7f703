//! Records that are appended to a session and waited for, in files and on servers.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use shelly_host::{
    agent::journal::{JournalRecord, Recorder},
    chat::{ChatChange, ChatEntryRecord, Message},
    cluster::{Cluster, ClusterOptions},
    session::{DiskStorage, NewSession, SessionStore, SessionStoreOptions},
};

use super::{
    folder,
    harness::{BoxError, NatsServers},
};

/// The sessions that are written at once.
const SESSIONS: usize = 16;

/// The records of a step: the turn, the reply, the call that begins and its result. Only before the call is one waited for.
const RECORDS_OF_STEP: usize = 4;

/// Measures files, and servers with and without `sync_interval: always`.
pub fn measure(program: &Path, smoke: bool) -> Result<(), BoxError> {
    let count = if smoke { 5 } else { 2_000 };
    println!(
        "\n| a record of about 500 bytes, waited for | median | 99 % below | {SESSIONS} sessions, a second | step |"
    );
    println!("|---|---|---|---|---|");
    let place = folder()?;
    let files = SessionStore::new(Arc::new(DiskStorage), place.path().join("sessions"), SessionStoreOptions::default());
    measure_store("in files", &files, count)?;
    for (name, servers, syncs_always) in [
        ("on a server", 1, false),
        ("on a server with sync_interval: always", 1, true),
        ("on three servers, three replicas, with sync_interval: always", 3, true),
    ] {
        let place = folder()?;
        let servers = NatsServers::start(program, place.path(), servers, syncs_always)?;
        let store = store_on(&servers)?;
        measure_store(name, &store, count)?;
    }
    Ok(())
}

/// Returns the sessions on these servers.
pub fn store_on(servers: &NatsServers) -> Result<SessionStore, BoxError> {
    let options =
        ClusterOptions { servers: servers.urls(), replicas: servers.count(), ..ClusterOptions::new("", "figures") };
    let cluster = Cluster::new(options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let began = Instant::now();
    // Servers of a cluster elect their leaders first.
    while let Err(error) = runtime.block_on(cluster.connect()) {
        if began.elapsed() > Duration::from_secs(60) {
            return Err(error.into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(SessionStore::with_journals(Arc::new(cluster.journals()), "/none", SessionStoreOptions::default()))
}

/// Returns a record of about 500 bytes, as a short tool result is.
pub fn record() -> JournalRecord {
    let message = Arc::new(Message::user("0123456789abcdef".repeat(20)));
    let changes = vec![ChatChange::Added(ChatEntryRecord { id: 1, group: None, note: false, edited: false, message })];
    JournalRecord::Looked { changes, effects: Vec::new() }
}

fn measure_store(name: &str, store: &SessionStore, count: usize) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let alone = runtime.block_on(write_session(store, count, 1))?;
    let steps = runtime.block_on(write_session(store, count / RECORDS_OF_STEP + 1, RECORDS_OF_STEP))?;
    let began = Instant::now();
    let of_each = count / SESSIONS + 1;
    let writers: Vec<_> = (0..SESSIONS)
        .map(|_| {
            let store = store.clone();
            runtime.spawn(async move { write_session(&store, of_each, 1).await })
        })
        .collect();
    for writer in writers {
        runtime.block_on(writer)??;
    }
    let rate = (of_each * SESSIONS) as f64 / began.elapsed().as_secs_f64();
    let at = |times: &[Duration], share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("| {name} | {:.1?} | {:.1?} | {rate:.0} | {:.1?} |", at(&alone, 0.5), at(&alone, 0.99), at(&steps, 0.5));
    Ok(())
}

/// Writes a session of its own in steps of so many records, of which the last but one is waited for, or the only one.
/// Returns the times of the steps, the shortest first.
async fn write_session(store: &SessionStore, steps: usize, records: usize) -> Result<Vec<Duration>, BoxError> {
    let session = store.create(NewSession::default()).map_err(|error| error.report().to_string())?;
    let (record, mut times) = (record(), Vec::new());
    for _ in 0..steps {
        let began = Instant::now();
        for _ in 1..records.max(2) - 1 {
            session.write(1, &record);
        }
        session.kept(session.write(1, &record)).await?;
        if records > 1 {
            session.write(1, &record);
        }
        times.push(began.elapsed());
    }
    session.close().await?;
    times.sort_unstable();
    Ok(times)
}
