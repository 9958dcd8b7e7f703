//! The cost that plugins cause each other: a small tool call of one, and a timer, alone and while another plugin has 64
//! endless loops under way, on as many threads as there are cores.
//!
//! On two cores of a shared machine, 3,000 calls each, in milliseconds, alone and beside the loops: a small call has a
//! median of 0.071 and 0.068, 99 % below 0.175 and 0.168, the slowest 2.1 and 4.8; a timer is late by 1.15 and 1.13, 99 %
//! below 1.4 and 2.0, the latest 4.6 and 5.0. Before calls that compute took turns, the 3,000 beside the loops were not done
//! in minutes.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use guest::Guest;
use hdrhistogram::Histogram;
use shelly_host::{
    chat::ToolCall,
    event::{EventSink, RunCx},
    plugin::{Limits, Plugin, PluginEngine, PluginPackage, PluginSettings, PluginTool},
    tool::{ToolBox, ToolCx},
};

#[allow(dead_code, reason = "shared with the tests of plugins that attack")]
#[path = "../all/hostile/guest.rs"]
mod guest;

/// Endless loops under way at once: as many as one plugin may have.
const LOOPS: usize = shelly_host::limits::PLUGIN_CONCURRENCY as usize;

/// The longest that one of the two is measured.
const LONGEST: Duration = Duration::from_secs(20);

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rounds = if smoke { 2 } else { 3_000 };
    runtime.block_on(async {
        tokio::spawn(async move { measure(rounds).await.map_err(|error| error.to_string()) }).await
    })??;
    Ok(())
}

async fn measure(rounds: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    let engine = Arc::new(PluginEngine::new(None)?);
    let small = toolbox(&engine, &Guest::tool()).await?;
    let endless = Arc::new(toolbox(&engine, &Guest::tool().on("call", "(loop $for-ever (br $for-ever))")).await?);
    let cores = std::thread::available_parallelism()?;
    println!("{cores} cores, a call every millisecond");
    report("alone", &small, rounds).await?;
    let loops: Vec<_> = (0..LOOPS)
        .map(|_| {
            let endless = Arc::clone(&endless);
            tokio::spawn(async move {
                loop {
                    call(&endless).await;
                }
            })
        })
        .collect();
    // Each has had its first slices.
    tokio::time::sleep(Duration::from_millis(500)).await;
    report(&format!("beside {LOOPS} endless loops of another plugin"), &small, rounds).await?;
    loops.iter().for_each(|one| one.abort());
    Ok(())
}

async fn report(when: &str, small: &ToolBox, rounds: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    const PAUSE: Duration = Duration::from_millis(1);
    let mut calls = Histogram::<u64>::new(3)?;
    let mut timers = Histogram::<u64>::new(3)?;
    let begun = Instant::now();
    while calls.len() < u64::from(rounds) && begun.elapsed() < LONGEST {
        let started = Instant::now();
        tokio::time::sleep(PAUSE).await;
        timers.record(u64::try_from(started.elapsed().saturating_sub(PAUSE).as_nanos())?)?;
        let started = Instant::now();
        call(small).await;
        calls.record(u64::try_from(started.elapsed().as_nanos())?)?;
    }
    println!("{when}: {} calls", calls.len());
    for (what, histogram) in [("a small tool call", &calls), ("a timer is late by", &timers)] {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
        println!("  {what:20} median {:8.3} ms  p99 {:8.3} ms  most {:8.3} ms", at(0.5), at(0.99), at(1.0));
    }
    Ok(())
}

async fn call(tools: &ToolBox) {
    let run = RunCx::new("bench").with_events(EventSink::none());
    let cx = ToolCx::new(run);
    let call = ToolCall { id: "c".into(), name: "t".into(), arguments: "{}".into(), meta: vec![] };
    tools.dispatch(&cx, &call).await;
}

async fn toolbox(engine: &Arc<PluginEngine>, guest: &Guest) -> Result<ToolBox, Box<dyn Error + Send + Sync>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("plugin.toml"), "id = \"bench\"\ncomponent = \"c.wasm\"\nkinds = [\"tool\"]\n")?;
    std::fs::write(folder.path().join("c.wasm"), guest.component())?;
    let package = Arc::new(PluginPackage::read(folder.path()).map_err(|error| error.report())?);
    // Nothing ends while it is measured.
    let long = Duration::from_secs(3_000);
    let limits = Limits { tool_time: long, cpu: long, ..Limits::default() };
    let settings = PluginSettings { limits, ..PluginSettings::new("bench", "bench") };
    let plugin = Arc::new(Plugin::load(engine, &package, &settings).await.map_err(|error| error.report())?);
    let mut toolbox = ToolBox::new();
    for tool in PluginTool::all(&plugin) {
        toolbox.register(tool)?;
    }
    Ok(toolbox)
}
