//! The cost of calls over the Model Context Protocol: of our server beside a minimal one of the protocol's library and the
//! one of its authors, by the library's client; and of our client beside the library's.
//!
//! Each server is a process of its own. `-- latency`, `-- many`, `-- start`, `-- memory` measure one of these; without an
//! argument all are measured. `MCP_EVERYTHING` names the script of `@modelcontextprotocol/server-everything`
//! (`dist/index.js`), with `node` in the `PATH`; without it that server is left out.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::task::JoinSet;

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

#[path = "mcp/servers.rs"]
mod servers;
#[path = "mcp/web.rs"]
mod web;

use servers::{Failed, Ground, Kind, Over, Way};

/// The numbers of repetitions: calls one at a time, calls of one round at once, rounds, starts, calls before memory is
/// measured.
struct Size {
    calls: usize,
    at_once: usize,
    rounds: usize,
    starts: usize,
    before_memory: usize,
}

const WHOLE: Size = Size { calls: 3_000, at_once: 4_000, rounds: 5, starts: 15, before_memory: 10_000 };
/// `cargo test --benches` runs this too: there it only has to work.
const SMOKE: Size = Size { calls: 2, at_once: 4, rounds: 1, starts: 1, before_memory: 4 };

fn main() -> Result<(), Failed> {
    let given: Vec<_> = std::env::args().skip(1).collect();
    let size = if given.iter().any(|given| given == "--bench") { WHOLE } else { SMOKE };
    let words: Vec<_> = given.iter().filter(|given| !given.starts_with('-')).collect();
    let wants = |word: &str| words.is_empty() || words.iter().any(|given| *given == word);
    let place = tempfile::Builder::new().prefix("mcp").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let ground = Ground { place: place.path().into(), cache: place.path().join("cache") };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        if !Kind::all().contains(&Kind::Everything) {
            println!("server-everything is left out: MCP_EVERYTHING is not set");
        }
        if wants("latency") {
            latency(&ground, &size).await?;
        }
        if wants("many") {
            many(&ground, &size).await?;
        }
        if wants("start") {
            start(&ground, &size).await?;
        }
        if wants("memory") {
            memory(&ground, &size).await?;
        }
        Ok(())
    })
}

/// All servers by the library's client, and two of them by ours.
async fn ways(ground: &Ground, over: Over) -> Result<Vec<Arc<Way>>, Failed> {
    let mut ways = Vec::new();
    for kind in Kind::all() {
        ways.push(Arc::new(ground.plain(kind, over).await?));
    }
    for kind in [Kind::Echo, Kind::Ours] {
        ways.push(Arc::new(ground.ours(kind, over).await?));
    }
    Ok(ways)
}

/// One call at a time, each way in turn.
async fn latency(ground: &Ground, size: &Size) -> Result<(), Failed> {
    println!("one call at a time, {} calls, each way in turn, µs", size.calls);
    for over in [Over::Pipes, Over::Web] {
        let ways = ways(ground, over).await?;
        let mut times = vec![Histogram::<u64>::new(3)?; ways.len()];
        for round in 0..size.calls + size.calls / 10 {
            for (way, times) in ways.iter().zip(&mut times) {
                let started = Instant::now();
                way.call().await?;
                // The first ones warm up.
                if round >= size.calls / 10 {
                    times.record(nanos(started.elapsed()))?;
                }
            }
        }
        for (way, times) in ways.iter().zip(&times) {
            let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
            println!("  {:36} median {:8.1}  p99 {:8.1}", way.name, at(0.5), at(0.99));
        }
    }
    Ok(())
}

/// Many calls at once, each way in turn.
async fn many(ground: &Ground, size: &Size) -> Result<(), Failed> {
    for over in [Over::Pipes, Over::Web] {
        let ways = ways(ground, over).await?;
        for at_once in [64, 1_000] {
            println!("{at_once} calls at once, {} rounds of {} calls, calls a second", size.rounds, size.at_once);
            let mut rates = vec![(Vec::new(), 0, None); ways.len()];
            for _ in 0..size.rounds {
                for (way, (rates, failed, why)) in ways.iter().zip(&mut rates) {
                    let (rate, wrong) = burst(way, at_once, size.at_once).await;
                    rates.push(rate);
                    *failed += wrong.len();
                    *why = why.take().or(wrong.into_iter().next());
                }
            }
            for (way, (rates, failed, why)) in ways.iter().zip(&mut rates) {
                rates.sort_by(f64::total_cmp);
                let (least, median) = (rates[0], rates[rates.len() / 2]);
                let why = why.take().map(|why| why.chars().take(200).collect::<String>()).unwrap_or_default();
                println!("  {:36} median {median:8.0}  least {least:8.0}  {failed} failed {why}", way.name);
            }
        }
    }
    Ok(())
}

/// So many calls, so many of them at once: how many a second, and why some of them failed.
async fn burst(way: &Arc<Way>, at_once: usize, calls: usize) -> (f64, Vec<String>) {
    let (started, mut working) = (Instant::now(), JoinSet::new());
    for _ in 0..at_once.min(calls) {
        let way = Arc::clone(way);
        working.spawn(async move {
            let mut failed = Vec::new();
            for _ in 0..calls.div_ceil(at_once) {
                failed.extend(way.call().await.err().map(|error| error.to_string()));
            }
            failed
        });
    }
    let failed: Vec<_> = working.join_all().await.into_iter().flatten().collect();
    let done = at_once.min(calls) * calls.div_ceil(at_once);
    (done as f64 / started.elapsed().as_secs_f64(), failed)
}

/// From starting the process to its first list of tools, each server in turn; ours also with nothing compiled before.
async fn start(ground: &Ground, size: &Size) -> Result<(), Failed> {
    println!("from the start of the process to its first list of tools, {} starts each, ms", size.starts);
    let mut all: Vec<_> = Kind::all().into_iter().map(|kind| (kind, true)).collect();
    all.push((Kind::Ours, false));
    // What is warm is so from the first start on.
    ground.plain(Kind::Ours, Over::Pipes).await?.list().await?;
    let mut times = vec![Histogram::<u64>::new(3)?; all.len()];
    for _ in 0..size.starts {
        for ((kind, is_warm), times) in all.iter().zip(&mut times) {
            let empty = tempfile::tempdir_in(&ground.place)?;
            let cache = if *is_warm { ground.cache.clone() } else { empty.path().into() };
            let ground = Ground { place: ground.place.clone(), cache };
            let started = Instant::now();
            let way = ground.plain(*kind, Over::Pipes).await?;
            assert!(way.list().await? > 0, "{} has no tools", way.name);
            times.record(nanos(started.elapsed()))?;
        }
    }
    for ((kind, is_warm), times) in all.iter().zip(&times) {
        let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e6;
        let cache = if *is_warm { "" } else { ", nothing in its cache" };
        let name = format!("{}{cache}", kind.name());
        println!("  {name:36} median {:8.1}  least {:8.1}  most {:8.1}", at(0.5), at(0.0), at(1.0));
    }
    Ok(())
}

/// Measures the memory of a server when it has listed its tools, and after many calls.
async fn memory(ground: &Ground, size: &Size) -> Result<(), Failed> {
    println!("resident memory: after the list of tools, after {} calls, after as many again, MiB", size.before_memory);
    for over in [Over::Pipes, Over::Web] {
        for kind in Kind::all() {
            let way = Arc::new(ground.plain(kind, over).await?);
            way.list().await?;
            let resident =
                || way.server.as_ref().and_then(|server| server.resident()).unwrap_or(0) as f64 / (1 << 20) as f64;
            let mut seen = vec![resident()];
            for _ in 0..2 {
                let (_, failed) = burst(&way, 16, size.before_memory).await;
                if let Some(why) = failed.into_iter().next() {
                    return Err(why.into());
                }
                seen.push(resident());
            }
            println!("  {:36} {:8.1} {:8.1} {:8.1}", way.name, seen[0], seen[1], seen[2]);
        }
    }
    Ok(())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("nothing takes so long")
}
