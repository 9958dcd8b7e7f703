//! Middleware around a model request: plugins one by one, all four in a chain, and none.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shelly_host::{
    agent::Agent,
    chat::Message,
    event::RunCx,
    model::Completer,
    plugin::{PluginEngine, PluginModelMiddleware},
};
use tokio::runtime::Builder;

use super::{Given, Times, load};
use crate::{plugin, stage, wires::requests::chat_of, wires::thread_cpu};

/// Messages of a conversation, and how often it is asked about.
const SIZES: [(usize, usize); 3] = [(10, 1_000), (1_000, 100), (10_000, 30)];
/// Messages of a conversation that goes on.
const LONG: usize = 1_000;

pub fn measure(smoke: bool) -> Result<(), Box<dyn Error>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for (messages, rounds) in SIZES {
            if !smoke || messages <= 1_000 {
                around(messages, if smoke { 2 } else { rounds }).await?;
            }
        }
        Ok(())
    })
}

/// In the order of a config: what is first is asked first.
fn middlewares() -> [(&'static str, &'static str, Value); 4] {
    [
        ("cache, which misses", plugin::CACHE, json!({})),
        ("redact-requests", plugin::REDACT_REQUESTS, json!({})),
        ("retry", plugin::RETRY, json!({})),
        ("fallback", plugin::FALLBACK, json!({"models": ["other"]})),
    ]
}

fn model() -> Arc<dyn Completer> {
    stage::Model::completer(Duration::ZERO, |_| stage::Says::Answer("done"))
}

async fn around(messages: usize, rounds: usize) -> Result<(), Box<dyn Error>> {
    let engine = Arc::new(PluginEngine::new(None)?);
    let agent = || {
        let mut agent: Agent = stage::agent("worker", &model());
        agent.models = Arc::new([("other".to_owned(), model())].into());
        agent
    };
    let mut ways = vec![("nothing", agent())];
    let mut chain = agent();
    for (name, component, params) in middlewares() {
        let plugin = load(&engine, component, &params, Given::default()).await?;
        let middleware = || PluginModelMiddleware::new(&plugin).ok_or("it is a middleware");
        ways.push((name, agent().with_model_middleware(middleware()?)));
        chain = chain.with_model_middleware(middleware()?);
    }
    ways.push(("all four", chain));
    let mut columns: Vec<_> = ways.iter().map(|_| [(); 2].map(|()| Times::new())).collect();
    let mut chats: Vec<_> = ways.iter().map(|_| chat_of(messages)).collect();
    let warm_up = rounds / 10 + 1;
    for round in 0..rounds + warm_up {
        for (at, ((_, agent), (chat, [wall, cpu]))) in ways.iter().zip(chats.iter_mut().zip(&mut columns)).enumerate() {
            // A short conversation is a new one; a long one goes on.
            if messages < LONG {
                *chat = chat_of(messages);
            }
            // The cache has not heard of it.
            let asks = Message::user(format!("And what of number {round} at {at}?"));
            let cx = RunCx::new("worker").with_run("run");
            let (began, started) = (thread_cpu(), Instant::now());
            let answer = agent.run(&cx, chat, vec![asks]).await?;
            if round >= warm_up {
                wall.since(started);
                cpu.add(thread_cpu() - began);
            }
            if answer.message.text_content() != "done" {
                return Err("it is another answer".into());
            }
        }
    }
    println!(
        "a run of one request about {messages} messages, {rounds} rounds, µs: median / p99; CPU; more than nothing"
    );
    let nothing = columns[0][0].median();
    for ((name, _), [wall, cpu]) in ways.iter().zip(&columns) {
        println!("  {name:20} {wall}   {cpu}   {:8.0}", wall.median() - nothing);
    }
    Ok(())
}
