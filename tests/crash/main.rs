//! A process that is made to be killed: it begins the world of the tests in a session on the disk, or resumes it, and writes
//! down how it ended. Its arguments are `FOLDER CHANCE [OPERATION before|within|after]`: with an operation it kills itself
//! there.

// They hold more than is needed here.
#[allow(dead_code, reason = "shared with the benchmark")]
mod disk;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../all/script.rs"]
mod script;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../all/vendors.rs"]
mod vendors;
#[allow(dead_code, reason = "shared with the tests")]
#[path = "../all/sessions/world.rs"]
mod world;

use std::{
    error::Error,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use disk::{CountedDisk, Death};
use shelly_host::{
    agent::journal::JournalState,
    chat::Chat,
    session::{NewSession, OpenedSession, SessionError, SessionOpenOptions, SessionStore, SessionStoreOptions},
};
use world::{Doing, World};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (folder, chance, death) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder, chance] => (folder, chance, Death::never()),
        [folder, chance, operation, moment] => (folder, chance, Death::at(operation.parse()?, moment.parse()?)),
        _ => return Err("FOLDER CHANCE [OPERATION before|within|after]".into()),
    };
    let disk = CountedDisk::new(death);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(live(Path::new(folder), &disk, chance.parse()?))
}

async fn live(folder: &Path, disk: &CountedDisk, chance: u64) -> Result<(), Box<dyn Error>> {
    let store = SessionStore::new(Arc::new(disk.clone()), folder.join("sessions"), SessionStoreOptions::default());
    let (session, past) = match store.open("s", SessionOpenOptions::default()) {
        Ok(OpenedSession { session, records, warnings, .. }) => {
            warnings.iter().try_for_each(|warning| append(&folder.join("warnings"), warning))?;
            (session, Some(JournalState::of(records)?))
        }
        Err(SessionError::NotFound { .. }) => {
            (store.create(NewSession { id: Some("s".into()), ..NewSession::default() })?, None)
        }
        Err(error) => return Err(error.report().to_string().into()),
    };
    let chat = past.as_ref().map_or_else(|| Ok(Chat::recorded()), JournalState::chat)?;
    let is_over = past.as_ref().is_some_and(|past| past.ended().is_some());
    let session = Arc::new(session);
    let sends = sends(folder.join("outside.log"), chance);
    let world = World::that_sends(session.clone(), past.map(|past| (past, &chat)), sends);
    if !is_over {
        world.go_on(&chat).await.map_err(|error| error.in_full())?;
    }
    session.close().await?;
    fs::write(folder.join("operations"), disk.operations().to_string())?;
    // Whole or not there.
    fs::write(folder.join("state.new"), world.state(&chat))?;
    Ok(fs::rename(folder.join("state.new"), folder.join("state"))?)
}

/// Appends lines to a file, with time before and after to be killed in.
fn sends(path: PathBuf, chance: u64) -> Doing {
    let chance = AtomicU64::new(chance);
    let pause = move || {
        let random = chance.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        tokio::time::sleep(Duration::from_micros((random >> 32) % 2_000))
    };
    Arc::new(move |what| {
        let (path, before, after) = (path.clone(), pause(), pause());
        Box::pin(async move {
            before.await;
            append(&path, &what).expect("it can be written");
            after.await;
        })
    })
}

fn append(path: &Path, line: &str) -> std::io::Result<()> {
    fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}
