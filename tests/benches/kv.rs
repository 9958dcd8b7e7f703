//! The cost of a key-value store: each operation in memory and on disk, beside a bare append and `fdatasync` on the same
//! file system; eight concurrent counters in one store; and opening one that is full.

use std::{
    error::Error,
    fs,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

use shelly_host::kv::{KvError, KvPrecondition, KvStore, KvStoreOwner, KvStores};

/// Keys that are written and read.
const KEYS: usize = 100;
/// Those who count at once.
const WRITERS: usize = 8;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let (many, some) = if smoke { (5, 2) } else { (20_000, 500) };
    let folder = tempfile::Builder::new().prefix("kv").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    bare(folder.path(), some)?;
    let disk = on_disk(folder.path(), "ada");
    for (name, store, sets) in [("run", KvStores::default().in_memory(), many), ("agent", disk, some)] {
        for bytes in [100, 64 << 10] {
            let mut times = Vec::new();
            for at in 0..sets {
                let started = Instant::now();
                set(&store, at, bytes).await?;
                times.push(started.elapsed());
            }
            told(&format!("{name}: set {bytes} bytes"), times);
            let mut times = Vec::new();
            for at in 0..many {
                let started = Instant::now();
                store.get(key(at % sets.min(KEYS))).await?.ok_or("it was written")?;
                times.push(started.elapsed());
            }
            told(&format!("{name}: get {bytes} bytes"), times);
        }
    }
    counting(on_disk(folder.path(), "bob"), some / 5 + 1).await?;
    opening(folder.path(), if smoke { 2 } else { 63 }).await
}

fn on_disk(folder: &Path, user: &str) -> KvStore {
    let folder = folder.to_owned();
    let stores = KvStores::on_disk(move || Ok(folder.clone()));
    stores.get(KvStoreOwner::User { user: format!("agents.{user}"), plugin: "bench".into() })
}

fn key(at: usize) -> String {
    format!("key/{:03}", at % KEYS)
}

async fn set(store: &KvStore, at: usize, bytes: usize) -> Result<bool, KvError> {
    store.write(key(at), KvPrecondition::Anything, Some(vec![7; bytes])).await
}

/// Appending and waiting for the disk, and nothing else.
fn bare(folder: &Path, rounds: usize) -> Result<(), Box<dyn Error>> {
    let mut file = fs::File::create(folder.join("bare"))?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        let started = Instant::now();
        file.write_all(&[7; 130])?;
        file.sync_data()?;
        times.push(started.elapsed());
    }
    told("append of 130 bytes and fdatasync", times);
    Ok(())
}

/// Counts with compare-and-swap.
async fn counting(store: KvStore, each: usize) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let count = |store: KvStore| async move {
        let mut left = each;
        while left > 0 {
            let there = store.get(key(0)).await?;
            let expected = there.map_or(KvPrecondition::Nothing, |entry| KvPrecondition::Revision(entry.revision));
            left -= usize::from(store.write(key(0), expected, Some(vec![7; 20])).await?);
        }
        Ok::<_, KvError>(())
    };
    let writers: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(count(store.clone()))).collect();
    for writer in writers {
        writer.await??;
    }
    let one = started.elapsed() / u32::try_from(WRITERS * each)?;
    println!("  {:40} {:9.1} µs", format!("agent: an increment, {WRITERS} at once"), micros(one));
    Ok(())
}

/// Reading through the file of a store with so many values of 1 MiB.
async fn opening(folder: &Path, values: usize) -> Result<(), Box<dyn Error>> {
    let store = on_disk(folder, "cy");
    for at in 0..values {
        set(&store, at, 1 << 20).await?;
    }
    let started = Instant::now();
    on_disk(folder, "cy").keys(String::new(), None).await?;
    println!("  {:40} {:9.1} µs", format!("agent: opening {values} MiB"), micros(started.elapsed()));
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn told(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| micros(times[(times.len() - 1) * part / 100]);
    println!("  {what:40} {:9.1} µs, p99 {:9.1} µs", at(50), at(99));
}
