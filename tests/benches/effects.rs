//! The cost of sandboxed effects: five whose triggers fire, on short and long conversations, beside five fresh calls of a
//! small component straight through wasmtime; and an effect that sleeps, in the loop of an agent.

use std::{
    error::Error,
    fmt,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use serde_json::json;
use shelly_host::{
    agent::{Agent, Effect, EffectAction},
    chat::{Chat, ToolCall},
    event::RunCx,
    plugin::{PluginEngine, engine_config},
};

mod acting;
#[expect(dead_code, reason = "other benchmarks use more of it")]
mod floor;
#[expect(dead_code, reason = "other benchmarks use more of it")]
mod stage;
#[path = "floor/effect.rs"]
mod straight;

use acting::plugin;
use straight::EffectFloor;

const ROUNDS: u32 = 2_000;
const TURNS: usize = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        fired(if smoke { 5 } else { ROUNDS }).await?;
        asleep(if smoke { 20 } else { TURNS }).await
    })
}

async fn fired(rounds: u32) -> Result<(), Box<dyn Error>> {
    let engine = Arc::new(PluginEngine::new(None)?);
    let component = std::fs::read(plugin::COUNT_TEXT)?;
    let call =
        ToolCall { id: "c".into(), name: "count_text".into(), arguments: r#"{"text":"a"}"#.into(), meta: vec![] };
    let floor = floor::Floor::new(&engine_config(), &component)?;
    let bare = floor::ticking(&engine_config())?;
    let mut effects = Vec::new();
    for (component, params) in acting::effects() {
        effects.push(acting::load(&engine, component, &params).await?);
    }
    println!("five effects that act, each once, {rounds} rounds, µs");
    for messages in [100, 1_000, 10_000] {
        let chat = acting::chat_of(messages).snapshot();
        let moment = acting::moment(&chat);
        let mut alone = Vec::new();
        for (component, params) in acting::effects() {
            let component = std::fs::read(component)?;
            alone.push(EffectFloor::new(&bare, &component, &params.to_string(), &chat, (9, 600_000))?);
        }
        let (cx, tools) = (RunCx::new("bench"), [].into());
        let [mut fresh, mut through, mut straight] = [(); 3].map(|()| Times::new());
        let mut each = effects.iter().map(|_| [(); 2].map(|()| Times::new())).collect::<Vec<_>>();
        for _ in 0..rounds {
            let started = Instant::now();
            for _ in &effects {
                black_box(floor.call(&call).await?);
            }
            fresh.record(started);
            let (started, mut acted) = (Instant::now(), 0);
            for (effect, [through, _]) in effects.iter().zip(&mut each) {
                let begun = Instant::now();
                let step = effect.eval(&cx, &moment, &chat, &tools, Vec::new()).await?;
                through.record(begun);
                acted += usize::from(matches!(step.action, EffectAction::Edits(edits) if !edits.is_empty()));
            }
            through.record(started);
            if acted != effects.len() {
                return Err(format!("only {acted} of them did something").into());
            }
        }
        // By itself: what five more components leave in the caches is nobody's cost.
        for _ in 0..rounds {
            let (started, mut acted) = (Instant::now(), 0);
            for (effect, [_, straight]) in alone.iter().zip(&mut each) {
                let begun = Instant::now();
                acted += usize::from(effect.call().await?);
                straight.record(begun);
            }
            straight.record(started);
            if acted != effects.len() {
                return Err(format!("only {acted} of them did something").into());
            }
        }
        println!(
            "  {messages:6} messages: median {through}; five fresh calls of a small component {fresh}: {:.2} times; the same \
             components straight through wasmtime {straight}: {:.2} times",
            through.median() / fresh.median(),
            through.median() / straight.median()
        );
        for (effect, [through, straight]) in effects.iter().zip(&each) {
            println!("    {:16} {through}, straight {straight}", effect.name());
        }
    }
    Ok(())
}

struct Times(Histogram<u64>);

impl Times {
    fn new() -> Self {
        Self(Histogram::new(3).expect("3 digits are allowed"))
    }

    fn record(&mut self, started: Instant) {
        let nanos = started.elapsed().as_nanos();
        self.0.record(u64::try_from(nanos).expect("nothing takes so long")).expect("it grows");
    }

    fn median(&self) -> f64 {
        self.0.value_at_quantile(0.5) as f64 / 1_000.0
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} (p99 {:.1})", self.median(), self.0.value_at_quantile(0.99) as f64 / 1_000.0)
    }
}

/// An agent's turns with five effects that sleep for ever, and without: CPU of the process.
async fn asleep(turns: usize) -> Result<(), Box<dyn Error>> {
    let engine = Arc::new(PluginEngine::new(None)?);
    let mut spent = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        for (with, spent) in spent.iter_mut().enumerate() {
            let asked = std::sync::atomic::AtomicUsize::new(0);
            let model = stage::Model::completer(Duration::ZERO, move |_| {
                match asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % (turns + 1) {
                    last if last == turns => stage::Says::Answer("done"),
                    _ => stage::say_hello(),
                }
            });
            let mut agent: Agent = stage::agent("worker", &model);
            agent.options.max_iterations = u32::try_from(turns)? + 1;
            for _ in 0..5 * with {
                agent = agent.with_effect(acting::load(&engine, plugin::TOKEN_BUDGET, &json!({})).await?);
            }
            let chat = Chat::new();
            let before = stage::cpu();
            agent.run(&RunCx::new("worker"), &chat, stage::task()).await?;
            spent.push((stage::cpu() - before).as_nanos() as f64 / turns as f64);
        }
    }
    let least = |way: usize| spent[way].iter().copied().fold(f64::INFINITY, f64::min);
    println!("a turn of an agent, {turns} turns, least of 5 runs, ns of CPU");
    println!("  without effects      {:8.0}", least(0));
    println!("  five that sleep      {:8.0}: {:.0} for each", least(1), (least(1) - least(0)) / 5.0);
    Ok(())
}
