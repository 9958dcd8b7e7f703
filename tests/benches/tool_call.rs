//! The cost of a sandboxed tool call: the whole path through the host (dispatch, slot in the pool, fresh instance, call,
//! result) beside the floor, the same component called straight through wasmtime with the same engine settings, limiter,
//! imports and pool. Both are run turn by turn in one process, so that other load of the machine affects both.
//!
//! It also measures the time of a warm `run` to its first model request.

use std::{
    error::Error,
    hint::black_box,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use shelly_host::{
    chat::ToolCall,
    event::{EventSink, RunCx},
    plugin::{Plugin, PluginEngine, PluginPackage, PluginSettings, PluginTool, engine_config},
    tool::{ToolBox, ToolCx},
};

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

mod floor;

const ROUNDS: u32 = 20_000;
const WARM_UP: u32 = 2_000;
const STARTS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(tool_calls(if smoke { 10 } else { ROUNDS }, if smoke { 0 } else { WARM_UP }))?;
    starts(if smoke { 1 } else { STARTS })
}

async fn tool_calls(rounds: u32, warm_up: u32) -> Result<(), Box<dyn Error>> {
    let component = std::fs::read(plugin::COUNT_TEXT)?;
    let arguments = format!(r#"{{"text":"{}"}}"#, "word ".repeat(48).trim_end());
    let call = ToolCall { id: "call-1".into(), name: "count_text".into(), arguments, meta: vec![] };
    let floor = floor::Floor::new(&engine_config(), &component)?;
    let (toolbox, engine) = toolbox().await?;
    let quiet = cx(EventSink::none());
    let (events, mut stream) = EventSink::channel();
    let watched = cx(events);

    let mut histograms = [(); 4].map(|()| Histogram::<u64>::new(3).expect("3 digits are allowed"));
    for round in 0..rounds + warm_up {
        for (way, histogram) in histograms.iter_mut().enumerate() {
            let started = Instant::now();
            match way {
                0 => black_box(floor.instantiate().await?),
                1 => black_box(floor.call(&call).await?),
                2 => drop(black_box(toolbox.dispatch(&quiet, &call).await)),
                _ => {
                    drop(black_box(toolbox.dispatch(&watched, &call).await));
                    for _ in 0..3 {
                        stream.next().await;
                    }
                }
            }
            if round >= warm_up {
                histogram.record(u64::try_from(started.elapsed().as_nanos())?)?;
            }
        }
    }
    drop(engine);
    let names =
        ["wasmtime: fresh instance", "wasmtime: fresh instance, call", "host: dispatch", "host: dispatch, watched"];
    println!("one tool call with {} bytes of arguments, {rounds} rounds, µs", call.arguments.len());
    for (name, histogram) in names.iter().zip(&histograms) {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
        println!("  {name:32} median {:6.1}  p99 {:6.1}", at(0.5), at(0.99));
    }
    let median = |way: usize| histograms[way].value_at_quantile(0.5) as f64;
    println!("  the host's whole path is {:.2} times the floor", median(2) / median(1));
    Ok(())
}

async fn toolbox() -> Result<(ToolBox, Arc<PluginEngine>), Box<dyn Error>> {
    let engine = Arc::new(PluginEngine::new(None)?);
    let folder = PathBuf::from(plugin::COUNT_TEXT).parent().ok_or("a plugin has a folder")?.to_owned();
    let package = Arc::new(PluginPackage::read(&folder)?);
    let plugin = Arc::new(Plugin::load(&engine, &package, &PluginSettings::new("bench", "bench")).await?);
    let mut toolbox = ToolBox::new();
    for tool in PluginTool::all(&plugin) {
        toolbox.register(tool)?;
    }
    Ok((toolbox, engine))
}

fn cx(events: EventSink) -> ToolCx {
    let run = RunCx::new("bench").with_events(events);
    ToolCx::new(run)
}

/// From starting the process to its first request to a model, with everything in the cache.
fn starts(starts: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("a.txt"), "one two three")?;
    std::fs::write(
        folder.path().join("shelly.yaml"),
        "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n\
         agents:\n  - name: reader\n    plugins:\n      read-files: {files: [{path: .}]}\n      count-text:\n      \
         loop-detect: {powers: [see-messages, see-arguments, note, stop]}\n      redact:\n",
    )?;
    let mut histogram = Histogram::<u64>::new(3)?;
    for round in 0..=starts {
        let started = Instant::now();
        let mut run = Command::new(env!("CARGO_BIN_EXE_shelly-host-under-test"))
            .args(["run", "--trust", "--plugins", PLUGIN_ROOT, "--output", "events", "How many words are in a.txt?"])
            .current_dir(folder.path())
            .env("SHELLY_CACHE_DIR", folder.path().join("cache"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut lines = BufReader::new(run.stdout.take().ok_or("it has a standard output")?).lines();
        let asked = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("\"model_started\"")));
        let time: Duration = started.elapsed();
        asked.ok_or("the run asked no model")??;
        lines.for_each(drop);
        run.wait()?;
        // The first one compiles.
        if round == 0 {
            println!("run to its first request to a model, four plugins and a provider, ms");
            println!("  nothing in the cache               {:8.1}", time.as_secs_f64() * 1e3);
        } else {
            histogram.record(u64::try_from(time.as_micros())?)?;
        }
    }
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1_000.0;
    println!("  everything in the cache     median {:8.1}  p99 {:6.1}", at(0.5), at(0.99));
    Ok(())
}
