//! The pieces of a streamed reply: through a plugin that asks a server, through the host's own adapter, through a plugin
//! that generates its text itself, and the bytes alone.

use std::{
    error::Error,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use serde_json::json;
use shelly_host::{
    capability::HttpGrant,
    chat::Part,
    event::RunCx,
    model::{Completer, DeltaSink, DeltaTarget, ReplyDelta},
    net::{
        HttpClient,
        egress::{Egress, EgressLimits, EgressRequest, EgressRequestBody},
    },
    plugin::PluginEngine,
    provider::ChatCompletions,
};
use tokio::runtime::Builder;

use super::{Given, Times, model};
use crate::{
    guest, plugin, stage,
    wires::{Recorded, now, question, server::Server, thread_cpu},
};

const SIZES: [(usize, usize); 3] = [(1, 2_000), (100, 1_000), (2_000, 200)];
const PACED: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(1);

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let server = Server::start()?;
    runtime.block_on(async {
        let engine = Arc::new(PluginEngine::new(None)?);
        for (deltas, rounds) in SIZES {
            recorded(&engine, &server, deltas, if smoke { 2 } else { rounds }).await?;
        }
        paced(&engine, &server, if smoke { 10 } else { PACED }).await
    })
}

/// The way to the server.
enum Way {
    /// The bytes of Ollama's stream, through reqwest.
    Bare(reqwest::Client, String),
    /// The outgoing HTTP of plugins, from the host.
    Egress(Egress, String),
    Model(Box<dyn Completer>),
}

/// The pieces that arrived, and when.
#[derive(Default)]
struct Seen {
    first: Option<Instant>,
    last: Option<Instant>,
    pieces: usize,
    /// Of pieces that say when they were sent.
    late: Vec<Duration>,
}

impl Seen {
    fn piece(&mut self, text: &str) {
        let came = Instant::now();
        self.first.get_or_insert(came);
        self.last = Some(came);
        self.pieces += 1;
        if let Ok(sent) = text.trim().parse() {
            self.late.push(now().saturating_sub(Duration::from_nanos(sent)));
        }
    }
}

#[derive(Default)]
struct Watcher(Mutex<Seen>);

#[async_trait]
impl DeltaTarget for Watcher {
    async fn take(&self, delta: ReplyDelta) {
        if let ReplyDelta::Text(text) = delta {
            self.0.lock().expect("nobody panics").piece(&text);
        }
    }
}

impl Way {
    async fn once(&self, deltas: usize) -> Result<Seen, Box<dyn Error>> {
        let mut seen = Seen::default();
        match self {
            Self::Bare(client, url) => {
                let mut response = client.post(url).body("{}").send().await?;
                while response.chunk().await?.is_some() {
                    seen.piece("");
                }
            }
            Self::Egress(egress, url) => {
                let request = EgressRequest {
                    method: "POST".into(),
                    url: url.clone(),
                    body: EgressRequestBody::Bytes("{}".into()),
                    ..EgressRequest::default()
                };
                let mut response = egress.send(request).await.map_err(|failure| failure.fault)?;
                while response.body.chunk().await?.is_some() {
                    seen.piece("");
                }
            }
            Self::Model(model) => {
                let watcher = Arc::new(Watcher::default());
                let sink = DeltaSink::new(watcher.clone());
                let reply = model.complete(&RunCx::new("bench"), &question(), &sink).await?;
                seen = std::mem::take(&mut watcher.0.lock().expect("nobody panics"));
                let is_text = matches!(reply.parts.as_slice(), [Part::Text(text)] if !text.is_empty());
                if seen.pieces != deltas || !is_text {
                    return Err(format!("{} pieces of {deltas} came", seen.pieces).into());
                }
            }
        }
        Ok(seen)
    }
}

type Named = (&'static str, Way);

/// All ways to a reply: `path` is that of the server, but for the wire.
async fn ways(
    engine: &Arc<PluginEngine>,
    server: &Server,
    path: &str,
    rest: &str,
) -> Result<Vec<Named>, Box<dyn Error>> {
    let url = |wire: &str| format!("{}/{path}/{wire}/{rest}/", server.url);
    let ollama = json!({"base_url": url("ollama")});
    let given = |key| Given { server: Some(&server.url), key };
    let client = HttpClient::new()?;
    let http = HttpGrant::entry(&server.url, &["*".to_owned()], &[])?;
    let limits = EgressLimits { requests_per_minute: u32::MAX, ..EgressLimits::default() };
    let raw = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    Ok(vec![
        ("the bytes, reqwest", Way::Bare(raw, url("ollama"))),
        ("the bytes, way out", Way::Egress(Egress::new(http, vec![], limits), url("ollama"))),
        ("ChatCompletions", Way::Model(Box::new(ChatCompletions::model(&client, &url("chat"))))),
        ("ollama", Way::Model(Box::new(model(engine, plugin::OLLAMA, &ollama, given(false)).await?))),
        ("ollama with a key", Way::Model(Box::new(model(engine, plugin::OLLAMA, &ollama, given(true)).await?))),
    ])
}

async fn recorded(
    engine: &Arc<PluginEngine>,
    server: &Server,
    deltas: usize,
    rounds: usize,
) -> Result<(), Box<dyn Error>> {
    let mut ways = ways(engine, server, "recorded", &deltas.to_string()).await?;
    // As long as those of the server.
    let text = "word ".repeat(deltas);
    let params = json!({"provider": "text", "text": text.trim_end()});
    ways.push((
        "guest without HTTP",
        Way::Model(Box::new(model(engine, guest::PROBE_HOOKS, &params, Given::default()).await?)),
    ));
    let mut columns: Vec<_> = ways.iter().map(|_| [(); 4].map(|()| Times::new())).collect();
    // The first rounds make connections, and fill what is kept.
    let warm_up = rounds / 10 + 1;
    for round in 0..rounds + warm_up {
        for ((name, way), [first, each, whole, cpu]) in ways.iter().zip(&mut columns) {
            let (began, started) = (thread_cpu(), Instant::now());
            let seen = way.once(deltas).await.map_err(|error| format!("{name}: {error}"))?;
            let (took, worked) = (started.elapsed(), thread_cpu() - began);
            if round < warm_up {
                continue;
            }
            let (begun, ended) = seen.first.zip(seen.last).ok_or("nothing came")?;
            first.add(begun - started);
            whole.add(took);
            cpu.add(worked);
            each.add((ended - begun) / u32::try_from(deltas.max(2) - 1)?);
        }
    }
    println!("a reply of {deltas} pieces, all at once, {rounds} rounds, µs: median / p99");
    println!(
        "  {:20} {:>19}  {:>19}  {:>19}  {:>19}",
        "", "to the first", "each after it", "whole", "CPU of the thread"
    );
    for ((name, _), [first, each, whole, cpu]) in ways.iter().zip(&columns) {
        println!("  {name:20} {first}  {each}  {whole}  {cpu}");
    }
    Ok(())
}

/// Measures the delay of pieces that are sent one by one.
async fn paced(engine: &Arc<PluginEngine>, server: &Server, deltas: usize) -> Result<(), Box<dyn Error>> {
    let ways = ways(engine, server, "paced", &format!("{deltas}/{}", PAUSE.as_micros())).await?;
    println!(
        "{deltas} pieces, one every {PAUSE:?}, best of 3 by median; how late, µs: median / p99; CPU of the process for each"
    );
    let mut best: Vec<Option<(Times, f64)>> = ways.iter().map(|_| None).collect();
    for _ in 0..3 {
        for ((_, way), best) in ways.iter().zip(&mut best) {
            let before = stage::cpu();
            let seen = way.once(deltas).await?;
            let cpu = (stage::cpu() - before).as_nanos() as f64 / 1e3 / deltas as f64;
            let mut late = Times::new();
            seen.late.iter().for_each(|time| late.add(*time));
            if best.as_ref().is_none_or(|(before, _)| late.median() < before.median()) {
                *best = Some((late, cpu));
            }
        }
    }
    for ((name, _), best) in ways.iter().zip(best) {
        let (late, cpu) = best.ok_or("there were rounds")?;
        println!("  {name:20} {late}   {cpu:6.1}");
    }
    Ok(())
}
