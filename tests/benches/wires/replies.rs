//! The cost of a piece of a streamed reply: time of the one thread that reads it, the system's share included.

use std::{
    error::Error,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use shelly_host::{
    chat::Part,
    event::RunCx,
    model::{Completer, DeltaSink, DeltaTarget, ReplyDelta},
    net::{HttpClient, HttpRequest},
    provider::{Anthropic, ChatCompletions, Gemini, IncomingReply, ReplySource, ResponsesApi, ToolNames},
};

use super::{Recorded, counted, question, server::Server, spread, thread_cpu};

const DELTAS: usize = 10_000;
const ROUNDS: usize = 15;

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    let (deltas, rounds) = if smoke { (100, 1) } else { (DELTAS, ROUNDS) };
    println!("a piece of a reply of {deltas}, CPU of the thread that reads it, {rounds} rounds, ns: least / median");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = Server::start()?;
    runtime.block_on(async {
        wire::<ChatCompletions>(&server, deltas, rounds).await?;
        wire::<ResponsesApi>(&server, deltas, rounds).await?;
        wire::<Anthropic>(&server, deltas, rounds).await?;
        wire::<Gemini>(&server, deltas, rounds).await
    })
}

/// Counts the pieces of text.
#[derive(Default)]
struct Watcher(AtomicUsize);

#[async_trait]
impl DeltaTarget for Watcher {
    async fn take(&self, delta: ReplyDelta) {
        if let ReplyDelta::Text(text) = delta {
            black_box(text);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Time of one round, for each piece.
struct Column {
    name: &'static str,
    times: Vec<f64>,
    allocations: f64,
}

async fn wire<W: Recorded>(server: &Server, deltas: usize, rounds: usize) -> Result<(), Box<dyn Error>> {
    let client = HttpClient::new()?;
    let raw = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    let name = W::RECORDING.name;
    let path = format!("{}/recorded/{name}/{deltas}/", server.url);
    let model = W::model(&client, &path);
    let (cx, request, names) = (RunCx::new("bench"), question(), ToolNames::default());
    let events = W::RECORDING.events(deltas);
    let bytes = events.iter().map(String::len).sum::<usize>();
    let pieces = || stream::iter(events.iter().map(|event| Ok(event.clone().into_bytes())).collect::<Vec<_>>()).boxed();
    let source = ReplySource { origin: "server", model: "m-1", secrets: &[] };
    let columns =
        ["the bare client", "the host's client", "events alone", "the wire alone", "whole, unwatched", "whole"];
    let mut columns = columns.map(|name| Column { name, times: Vec::new(), allocations: 0.0 });
    // The first round makes the connections.
    for round in 0..=rounds {
        for (at, column) in columns.iter_mut().enumerate() {
            let (stream, watcher) = (pieces(), Arc::new(Watcher::default()));
            let sink = if at == 5 { DeltaSink::new(watcher.clone()) } else { DeltaSink::none() };
            let work = async {
                let mut seen = 0;
                match at {
                    0 => {
                        let mut stream = raw.post(&path).body("{}").send().await?.bytes_stream();
                        while let Some(chunk) = stream.next().await {
                            seen += chunk?.len();
                        }
                    }
                    1 => {
                        let request = HttpRequest::new(path.parse()?);
                        let mut stream = client.post(&request, b"{}".to_vec()).await?.into_stream();
                        while let Some(chunk) = stream.next().await {
                            seen += chunk?.len();
                        }
                    }
                    2 => {
                        let IncomingReply::Events(mut read) = IncomingReply::of(stream, &source).await? else {
                            return Err("it is no stream of events".into());
                        };
                        while let Some(event) = read.next().await? {
                            seen += usize::from(!event.data.is_empty());
                        }
                        seen = if seen == events.len() { bytes } else { seen };
                    }
                    _ => {
                        let reply = if at == 3 {
                            W::new().read(IncomingReply::of(stream, &source).await?, &source, &names, &sink).await?
                        } else {
                            model.complete(&cx, &request, &sink).await?
                        };
                        let is_all = reply.usage.output_tokens == deltas as u64
                            && matches!(reply.parts.as_slice(), [Part::Text(text)] if text.len() > deltas);
                        seen = if is_all { bytes } else { 0 };
                    }
                }
                let is_all = seen == bytes;
                if is_all { Ok::<_, Box<dyn Error>>(()) } else { Err(format!("{seen} of {bytes} bytes").into()) }
            };
            if round == 0 {
                counted::begin();
                let before = counted::times();
                work.await?;
                column.allocations = (counted::times() - before) as f64 / deltas as f64;
                counted::end();
            } else {
                let before = thread_cpu();
                work.await?;
                column.times.push((thread_cpu() - before).as_nanos() as f64 / deltas as f64);
            }
            if at == 5 && watcher.0.load(Ordering::Relaxed) != deltas {
                return Err("the watcher was not told of all pieces".into());
            }
        }
    }
    println!("  {name}, {} bytes each", bytes / deltas);
    for Column { name, times, allocations } in columns {
        let (least, median) = spread(times);
        println!("    {name:18} {least:6.0} / {median:6.0}   {allocations:.2} allocations");
    }
    Ok(())
}
