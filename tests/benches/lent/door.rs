//! Outgoing HTTP: a GET through both interfaces, from the host, and through plain reqwest.

use std::{error::Error, hint::black_box, sync::Arc, time::Instant};

use serde_json::{Value, json};
use shelly_host::{
    capability::HttpGrant,
    chat::{ToolCall, ToolResultContent},
    event::RunCx,
    net::{
        HttpClient,
        egress::{CredentialUse, Egress, EgressLimits, EgressRequest},
    },
    plugin::{PluginEngine, PluginTool},
    tool::{Tool, ToolCx, ToolOutput},
};
use tokio::runtime::Builder;

use super::{Given, Times, credential, load};
use crate::{
    guest,
    wires::{server::Server, thread_cpu},
};

const SIZES: [(usize, usize); 2] = [(1 << 10, 2_000), (64 << 20, 5)];

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let server = Server::start()?;
    runtime.block_on(async {
        for (bytes, rounds) in SIZES {
            let (bytes, rounds) = if smoke { (bytes.min(1 << 20), 1) } else { (bytes, rounds) };
            get(&server, bytes, rounds).await?;
        }
        Ok(())
    })
}

enum Way {
    Bare(reqwest::Client),
    Host(Egress),
    Guest(Arc<dyn Tool>),
}

async fn guest(engine: &Arc<PluginEngine>, server: &Server, component: &str, key: bool) -> Result<Way, Box<dyn Error>> {
    let plugin = load(engine, component, &json!({}), Given { server: Some(&server.url), key }).await?;
    let fetch = PluginTool::all(&plugin).find(|tool| tool.spec().name == "fetch");
    Ok(Way::Guest(fetch.ok_or("it fetches")?))
}

fn host(server: &Server, key: bool) -> Result<Way, Box<dyn Error>> {
    let credentials = if key { vec![credential(&server.url)?] } else { vec![] };
    let limits = EgressLimits { requests_per_minute: u32::MAX, ..EgressLimits::default() };
    Ok(Way::Host(Egress::new(HttpGrant::entry(&server.url, &["*".to_owned()], &[])?, credentials, limits)))
}

impl Way {
    /// Gets it, and says how many bytes came.
    async fn once(&self, url: &str, has_key: bool, cx: &ToolCx) -> Result<usize, Box<dyn Error>> {
        let mut came = 0;
        match self {
            Self::Bare(client) => {
                let mut response = client.get(url).send().await?;
                while let Some(chunk) = response.chunk().await? {
                    came += black_box(chunk).len();
                }
            }
            Self::Host(egress) => {
                let credential = if has_key { CredentialUse::Named("key".into()) } else { CredentialUse::None };
                let request = EgressRequest { method: "GET".into(), url: url.into(), credential, ..Default::default() };
                let mut response = egress.send(request).await.map_err(|failure| failure.fault)?;
                while let Some(chunk) = response.body.chunk().await? {
                    came += black_box(chunk).len();
                }
            }
            Self::Guest(tool) => {
                let arguments = json!({"url": url, "credential": has_key.then_some("key")}).to_string();
                let call = ToolCall { id: "c".into(), name: "fetch".into(), arguments, meta: vec![] };
                let ToolOutput::Reply(content) = tool.call(cx, &call).await? else { return Err("it replies".into()) };
                let [ToolResultContent::Text(text)] = content.as_slice() else { return Err("it is one text".into()) };
                let fetched: Value = serde_json::from_str(text)?;
                came = usize::try_from(fetched["bytes"].as_u64().ok_or("it counts")?)?;
            }
        }
        Ok(came)
    }
}

async fn get(server: &Server, bytes: usize, rounds: usize) -> Result<(), Box<dyn Error>> {
    let engine = Arc::new(PluginEngine::new(None)?);
    // It brings the crypto without which the library makes no client.
    let _host = HttpClient::new()?;
    let raw = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
    let (http, wasi) = (guest::PROBE_HTTP, guest::PROBE_WASI_HTTP);
    let ways = [
        ("reqwest", false, Way::Bare(raw)),
        ("the way out, from the host", false, host(server, false)?),
        ("… with a key", true, host(server, true)?),
        ("`http`", false, guest(&engine, server, http, false).await?),
        ("… with a key", true, guest(&engine, server, http, true).await?),
        ("`wasi:http`", false, guest(&engine, server, wasi, false).await?),
        ("… with a key", true, guest(&engine, server, wasi, true).await?),
    ];
    let run = RunCx::new("bench");
    let cx = ToolCx::new(run);
    let url = format!("{}/bytes/{bytes}/", server.url);
    let mut columns = [(); 7].map(|()| [(); 2].map(|()| Times::new()));
    let warm_up = rounds / 10 + 1;
    for round in 0..rounds + warm_up {
        for ((name, has_key, way), [wall, cpu]) in ways.iter().zip(&mut columns) {
            let (began, started) = (thread_cpu(), Instant::now());
            let came = way.once(&url, *has_key, &cx).await.map_err(|error| format!("{name}: {error}"))?;
            if round >= warm_up {
                wall.since(started);
                cpu.add(thread_cpu() - began);
            }
            if came != bytes {
                return Err(format!("{name}: {came} bytes of {bytes} came").into());
            }
        }
    }
    println!("a GET of {bytes} bytes, {rounds} rounds, µs: median / p99; CPU of the thread; MiB a second");
    for ((name, _, _), [wall, cpu]) in ways.iter().zip(&columns) {
        println!("  {name:28} {wall}   {cpu}   {:8.0}", bytes as f64 / 1048576.0 / wall.median() * 1e6);
    }
    Ok(())
}
