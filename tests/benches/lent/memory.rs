//! The memory of an open stream.

use std::{
    error::Error,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::json;
use shelly_host::{
    model::{Completer, DeltaSink, DeltaTarget, ReplyDelta},
    plugin::{PluginEngine, PluginModel},
};
use tokio::{runtime::Builder, task::JoinSet};

use super::{Given, Told, model, told, watched};
use crate::{
    plugin,
    wires::{counted, many::resident, question, server::Server},
};

/// The argument with which this program, started once more, tells what memory it takes.
pub const MEMORY: &str = "--memory-of-open-streams";

/// Streams at once. One component has 48 places for them.
const STREAMS: [usize; 3] = [1, 16, 48];
const DELTAS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    println!("streams of a plugin that are open, each in the middle of its reply");
    for streams in if smoke { &STREAMS[..1] } else { &STREAMS } {
        let output = Command::new(std::env::current_exe()?).args([MEMORY, &streams.to_string()]).output()?;
        println!("  {streams:3} at once: {}", String::from_utf8(output.stdout)?.trim());
    }
    Ok(())
}

/// Counts the pieces of all.
#[derive(Default)]
struct Watcher(AtomicUsize);

#[async_trait]
impl DeltaTarget for Watcher {
    async fn take(&self, delta: ReplyDelta) {
        if let ReplyDelta::Text(_) = delta {
            self.0.fetch_add(1, Relaxed);
        }
    }
}

/// Tells what the process holds more, and how much it grows, while replies are under way.
pub fn tell() -> Result<(), Box<dyn Error>> {
    counted::begin();
    let streams: usize = std::env::args().next_back().ok_or("how many?")?.parse()?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let server = Server::start()?;
    runtime.block_on(async {
        let engine = Arc::new(PluginEngine::new(None)?);
        let url = |pause: Duration| format!("{}/paced/ollama/{DELTAS}/{}", server.url, pause.as_micros());
        let load = async |pause| {
            let given = Given { server: Some(&server.url), key: false };
            model(&engine, plugin::OLLAMA, &json!({"base_url": url(pause)}), given).await.map(Arc::new)
        };
        let (first, model) = (load(Duration::from_micros(100)).await?, load(PAUSE).await?);
        // What is there once, however many are open. It keeps the memory of its instance, which the next one has again.
        let (_, told) = held(&first, 1).await?;
        let (before, resident_before) = (counted::held(), resident());
        let (under_way, _) = held(&model, streams).await?;
        let of_each = |bytes: f64| bytes / streams as f64;
        let all = (under_way.held - before) as f64 / 1024.0;
        print!("{:.0} KiB held, {:.1} for each", all, of_each(all));
        if let Some((before, now)) = resident_before.zip(under_way.resident) {
            let all = now.saturating_sub(before) as f64;
            print!("; {all:.0} KiB resident, {:.1} for each", of_each(all));
        }
        println!("; linear memory of an instance {} KiB", told.memory / 1024);
        Ok(())
    })
}

struct UnderWay {
    held: i64,
    resident: Option<usize>,
}

/// Returns the memory that is held when so many replies are half way; they are then read to their end.
async fn held(model: &Arc<PluginModel>, streams: usize) -> Result<(UnderWay, Told), Box<dyn Error>> {
    let (mut tasks, watcher) = (JoinSet::new(), Arc::new(Watcher::default()));
    let (cx, mut events) = watched();
    for _ in 0..streams {
        let (model, cx, sink) = (Arc::clone(model), cx.clone(), DeltaSink::new(watcher.clone()));
        tasks.spawn(async move { model.complete(&cx, &question(), &sink).await });
    }
    while watcher.0.load(Relaxed) < streams * DELTAS / 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let under_way = UnderWay { held: counted::held(), resident: resident() };
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok((under_way, told(&mut events).await?))
}
