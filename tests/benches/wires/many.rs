//! Many replies at once on two cores: their completeness, the delay of their pieces, and the memory that they take.

use std::{
    error::Error,
    process::Command,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use shelly_host::{
    chat::Part,
    event::RunCx,
    model::{Completer, DeltaSink, DeltaTarget, ReplyDelta},
    net::HttpClient,
    provider::{Anthropic, ChatCompletions, Gemini, ResponsesApi},
};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinSet,
};

use super::{Recorded, counted, now, question, server::Server};
use crate::stage;

/// The argument with which this program, started once more, tells what memory it takes.
pub const MEMORY: &str = "--memory-of-replies";

const STREAMS: usize = 200;
const DELTAS: usize = 400;
const PAUSE: Duration = Duration::from_millis(5);
const ROUNDS: usize = 5;

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    let (streams, deltas, rounds) = if smoke { (5, 10, 1) } else { (STREAMS, DELTAS, ROUNDS) };
    let server = Server::start()?;
    let runtime = runtime()?;
    println!("{deltas} pieces, one every {PAUSE:?}: how late, median / p99 / most, ms");
    for _ in 0..rounds {
        for streams in [1, streams] {
            let path = format!("{}/paced/chat/{deltas}/{}/", server.url, PAUSE.as_micros());
            let (before, started) = (stage::cpu(), Instant::now());
            let mut late = runtime.block_on(read::<ChatCompletions>(&path, streams, deltas))?;
            let (cpu, wall) = (stage::cpu() - before, started.elapsed());
            late.sort_unstable();
            let ms = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1e6;
            println!(
                "  {streams:4} at once: {:6.2} / {:6.2} / {:6.2}; all {} came in {:.2} s; CPU of a piece {:.1} µs",
                ms(0.5),
                ms(0.99),
                ms(1.0),
                late.len(),
                wall.as_secs_f64(),
                cpu.as_secs_f64() * 1e6 / late.len() as f64
            );
        }
    }
    println!("{streams} at once without pauses, best of {rounds}");
    let deltas = deltas * 5;
    flood::<ChatCompletions>(&server, &runtime, (streams, deltas, rounds))?;
    flood::<ResponsesApi>(&server, &runtime, (streams, deltas, rounds))?;
    flood::<Anthropic>(&server, &runtime, (streams, deltas, rounds))?;
    flood::<Gemini>(&server, &runtime, (streams, deltas, rounds))?;
    let output = Command::new(std::env::current_exe()?).args([MEMORY, &streams.to_string()]).output()?;
    println!("memory of a reply under way, {streams} at once: {}", String::from_utf8(output.stdout)?.trim());
    Ok(())
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

fn flood<W: Recorded>(
    server: &Server,
    runtime: &Runtime,
    (streams, deltas, rounds): (usize, usize, usize),
) -> Result<(), Box<dyn Error>> {
    let path = format!("{}/recorded/{}/{deltas}/", server.url, W::RECORDING.name);
    let (mut wall, mut cpu) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        let (before, started) = (stage::cpu(), Instant::now());
        runtime.block_on(read::<W>(&path, streams, deltas))?;
        wall = wall.min(started.elapsed().as_secs_f64());
        cpu = cpu.min((stage::cpu() - before).as_secs_f64());
    }
    let pieces = (streams * deltas) as f64;
    let name = W::RECORDING.name;
    println!("  {name:10} {:8.0} pieces a second; CPU of a piece {:.2} µs", pieces / wall, cpu * 1e6 / pieces);
    Ok(())
}

/// Notes how late each piece is, in nanoseconds, if it says when it was sent.
struct Watcher(Mutex<Vec<u64>>);

#[async_trait]
impl DeltaTarget for Watcher {
    async fn take(&self, delta: ReplyDelta) {
        if let ReplyDelta::Text(text) = delta {
            let sent = text.trim().parse().unwrap_or(0);
            let late = (now().as_nanos() as u64).saturating_sub(sent);
            self.0.lock().expect("nobody panics").push(late);
        }
    }
}

/// Reads so many replies at once and returns how late their pieces were.
async fn read<W: Recorded>(path: &str, streams: usize, deltas: usize) -> Result<Vec<u64>, Box<dyn Error>> {
    let (mut tasks, watchers) = start::<W>(path, streams, deltas)?;
    while let Some(done) = tasks.join_next().await {
        done?.map_err(|error| error as Box<dyn Error>)?;
    }
    let late: Vec<_> = watchers.iter().flat_map(|watcher| watcher.0.lock().expect("nobody panics").clone()).collect();
    match late.len() {
        all if all == streams * deltas => Ok(late),
        some => Err(format!("{some} pieces of {} came", streams * deltas).into()),
    }
}

type Watchers = Vec<Arc<Watcher>>;
type Tasks = JoinSet<Result<(), Box<dyn Error + Send + Sync>>>;

fn start<W: Recorded>(path: &str, streams: usize, deltas: usize) -> Result<(Tasks, Watchers), Box<dyn Error>> {
    let model = Arc::new(W::model(&HttpClient::new()?, path));
    let (mut tasks, request) = (JoinSet::new(), Arc::new(question()));
    let watchers: Watchers = (0..streams).map(|_| Arc::new(Watcher(Mutex::new(Vec::with_capacity(deltas))))).collect();
    for watcher in &watchers {
        let (model, request, sink) = (Arc::clone(&model), Arc::clone(&request), DeltaSink::new(watcher.clone()));
        tasks.spawn(async move {
            let reply = model.complete(&RunCx::new("bench"), &request, &sink).await?;
            match reply.parts.as_slice() {
                [Part::Text(text)] if text.len() > deltas => Ok(()),
                _ => Err("the reply is not whole".into()),
            }
        });
    }
    Ok((tasks, watchers))
}

/// Tells what the process holds more, and how much it grows, while replies are under way: each has begun and waits.
pub fn memory() -> Result<(), Box<dyn Error>> {
    counted::begin();
    let streams = std::env::args().next_back().ok_or("how many?")?.parse()?;
    let (server, runtime) = (Server::start()?, runtime()?);
    let deltas = 20;
    let path = format!("{}/paced/chat/{deltas}/100000/", server.url);
    // What is there once, however many are read.
    runtime.block_on(read::<ChatCompletions>(&path, 2, deltas))?;
    let before = (counted::held(), resident());
    runtime.block_on(async {
        let (mut tasks, watchers) = start::<ChatCompletions>(&path, streams, deltas)?;
        let is_under_way = |watcher: &Arc<Watcher>| watcher.0.lock().expect("nobody panics").len() > deltas / 2;
        while !watchers.iter().all(is_under_way) {
            tokio::time::sleep(PAUSE).await;
        }
        let own = watchers.len() * (deltas * size_of::<u64>() + size_of::<Watcher>());
        let held = (counted::held() - before.0) as f64 - own as f64;
        print!("{:.1} KiB held", held / 1024.0 / streams as f64);
        if let Some((before, now)) = before.1.zip(resident()) {
            print!(", {:.1} KiB resident", now.saturating_sub(before) as f64 / streams as f64);
        }
        println!();
        tasks.shutdown().await;
        Ok(())
    })
}

/// KiB of memory, as the system reckons.
pub fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}
