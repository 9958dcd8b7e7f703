//! A long conversation on its way into a guest.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use shelly_host::{
    capability::HttpGrant,
    chat::{Media, MediaData, Message, Part, Role},
    event::RunCx,
    model::{Completer, CompletionRequest, DeltaSink},
    net::{
        HttpClient,
        egress::{Egress, EgressLimits, EgressRequest, EgressRequestBody},
    },
    plugin::PluginEngine,
    provider::{AdapterConfig, ChatCompletions, ModelAdapter, WireProtocol},
};
use tokio::runtime::Builder;

use super::{Given, Times, model, told, watched};
use crate::{
    guest, plugin,
    wires::{
        Recorded, counted,
        requests::{chat_of, tool},
        server::Server,
        thread_cpu,
    },
};

const ROUNDS: usize = 40;
const IMAGES: usize = 20;
const IMAGE_BYTES: usize = 512 << 10;

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let server = Server::start()?;
    runtime.block_on(async {
        for messages in [10, 1_000, 10_000] {
            let chat = chat_of(messages);
            let request = CompletionRequest::new(chat.snapshot(), (0..20).map(tool).collect());
            crossing(&server, &request, messages, if smoke { 1 } else { ROUNDS }).await?;
        }
        let request = with_images();
        images(&request, if smoke { 1 } else { ROUNDS }).await
    })
}

/// A conversation of 1,000 messages with images.
fn with_images() -> CompletionRequest {
    let chat = chat_of(1_000);
    for n in 0..IMAGES {
        let source = MediaData::Bytes(vec![u8::try_from(n).expect("there are few"); IMAGE_BYTES].into());
        let parts = vec![Part::Media(Media { media_type: "image/png".into(), name: None, source })];
        chat.append(Message { parts, ..Message::text(Role::User, "", "") }).expect("it has no calls");
    }
    CompletionRequest::new(chat.snapshot(), [].into())
}

async fn crossing(
    server: &Server,
    request: &CompletionRequest,
    messages: usize,
    rounds: usize,
) -> Result<(), Box<dyn Error>> {
    let engine = Arc::new(PluginEngine::new(None)?);
    let url = |wire: &str| format!("{}/recorded/{wire}/1/", server.url);
    let reads_none = model(&engine, guest::PROBE_HOOKS, &json!({"provider": "empty"}), Given::default()).await?;
    let given = Given { server: Some(&server.url), key: false };
    let ollama = model(&engine, plugin::OLLAMA, &json!({"base_url": url("ollama")}), given).await?;
    let client = HttpClient::new()?;
    let native = ChatCompletions::model(&client, &url("chat"));
    let adapter = ModelAdapter::new(client, AdapterConfig::new("https://models.test/v1", "m-1"))?;
    let body = ChatCompletions::new().body(&adapter, request)?;
    let egress = Egress::new(HttpGrant::entry(&server.url, &["*".to_owned()], &[])?, vec![], EgressLimits::default());
    println!(
        "a request of {messages} messages and {} tools, {} bytes of texts, {} of a body, {rounds} rounds, µs: median / p99",
        request.tools.len(),
        request.messages.bytes(),
        body.len()
    );
    let models: [(&str, &dyn Completer); 3] =
        [("a guest that looks at none", &reads_none), ("ollama", &ollama), ("ChatCompletions", &native)];
    for (name, model) in models {
        let (cx, mut events) = watched();
        let is_guest = name != "ChatCompletions";
        let [mut whole, mut cpu, mut outside, mut inside] = [(); 4].map(|()| Times::new());
        let (mut asked, mut memory, mut host_calls) = (None, 0, 0);
        for round in 0..=rounds {
            let (began, started) = (thread_cpu(), Instant::now());
            if round == 0 {
                counted::begin();
                let before = counted::times();
                model.complete(&cx, request, &DeltaSink::none()).await?;
                asked = Some(counted::times() - before);
                counted::end();
            } else {
                model.complete(&cx, request, &DeltaSink::none()).await?;
            }
            let (took, worked) = (started.elapsed(), thread_cpu() - began);
            let call = if is_guest { Some(told(&mut events).await?) } else { None };
            if round == 0 {
                continue;
            }
            whole.add(took);
            cpu.add(worked);
            if let Some(call) = call {
                inside.add(call.duration);
                outside.add(took - call.duration);
                (memory, host_calls) = (call.memory, call.host_calls);
            }
        }
        println!("  {name:28} {whole}   CPU {cpu}   {} allocations", asked.unwrap_or_default());
        if is_guest {
            println!("    before the call {outside}, in it {inside}");
            println!("    linear memory {} KiB, calls of the host {host_calls}", memory / 1024);
        }
    }
    let mut sent = Times::new();
    for _ in 0..rounds {
        let started = Instant::now();
        let request = EgressRequest {
            method: "POST".into(),
            url: url("ollama"),
            body: EgressRequestBody::Bytes(body.clone().into()),
            ..EgressRequest::default()
        };
        let mut response = egress.send(request).await.map_err(|failure| failure.fault)?;
        while response.body.chunk().await?.is_some() {}
        sent.since(started);
    }
    println!("  {:28} {sent}", "the body alone, way out");
    Ok(())
}

async fn images(request: &CompletionRequest, rounds: usize) -> Result<(), Box<dyn Error>> {
    let engine = Arc::new(PluginEngine::new(None)?);
    let model = model(&engine, guest::PROBE_HOOKS, &json!({"provider": "empty"}), Given::default()).await?;
    let mut whole = Times::new();
    let mut least = Duration::MAX;
    for round in 0..=rounds {
        let started = Instant::now();
        model.complete(&RunCx::new("bench"), request, &DeltaSink::none()).await?;
        if round == 0 {
            println!("a request of 1,000 messages and {IMAGES} images of {} KiB", IMAGE_BYTES >> 10);
            println!("  the first time {:8.0} µs", started.elapsed().as_micros());
            continue;
        }
        least = least.min(started.elapsed());
        whole.since(started);
    }
    println!("  then           {whole} µs, least {} µs", least.as_micros());
    Ok(())
}
