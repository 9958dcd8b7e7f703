//! The cost of a plugin by the language that it is written in: its size, its first start, for which it is compiled, later
//! starts, its first call, later calls, and the memory of a call.
//!
//!     tests/languages/authors.py --kind tool && cargo bench --bench languages
//!
//! measures the tools that the script has built, and a tool in Rust that comes with the host. Folders of plugins on the command
//! line are measured in their place; the first tool of each is called with a text.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use shelly_host::{
    chat::ToolCall,
    event::{Event, EventSink, RunCx},
    limits,
    plugin::{
        CompileConfig, CompileSite, CompileStep, ComponentCompiler, Plugin, PluginEngine, PluginPackage,
        PluginSettings, PluginTool,
    },
    tool::{ToolBox, ToolCx},
};

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

/// The later calls of each plugin.
const CALLS: u32 = 200;

/// The program whose children compile.
const PROGRAM: &str = env!("CARGO_BIN_EXE_shelly-host-under-test");

/// The folder in which the script keeps its projects.
const PROJECTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/authors/projects");

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let shipped = PathBuf::from(plugin::COUNT_TEXT).parent().ok_or("a plugin has a folder")?.to_owned();
    let named: Vec<_> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).map(PathBuf::from).collect();
    let folders = match (smoke, named.is_empty()) {
        (true, _) => vec![shipped],
        (false, false) => named,
        (false, true) => [vec![shipped], built_tools()?].concat(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    println!("| plugin | size | first start | later starts | first call | later calls (median) | memory of a call |");
    println!("|---|---|---|---|---|---|---|");
    for folder in folders {
        let costs = runtime.block_on(PluginCosts::measure(&folder, if smoke { 1 } else { CALLS }));
        println!("{}", costs.map_err(|error| format!("{}: {error}", folder.display()))?.row());
    }
    Ok(())
}

/// Returns the folders of the tools that the script has built, in the order of their names.
fn built_tools() -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let Ok(projects) = fs::read_dir(PROJECTS) else {
        println!("no tools of other languages: tests/languages/authors.py --kind tool builds them");
        return Ok(Vec::new());
    };
    let mut tools = Vec::new();
    for project in projects {
        let project = project?;
        let name = project.file_name().into_string().unwrap_or_default();
        let built = project.path().join("build").join(&name);
        if name.ends_with("-tool") && built.join("plugin.toml").is_file() {
            tools.push(built);
        }
    }
    tools.sort();
    Ok(tools)
}

/// A plugin that was started.
struct StartedPlugin {
    plugin: Arc<Plugin>,
    engine: Arc<PluginEngine>,
    size: u64,
    took: Duration,
}

impl StartedPlugin {
    /// Starts a plugin as a process does that finds this cache.
    async fn start(folder: &Path, cache: &Path) -> Result<Self, Box<dyn Error>> {
        let started = Instant::now();
        let site = CompileSite::Program { path: PROGRAM.into() };
        let config = CompileConfig { cache: Some(cache.into()), site, ..CompileConfig::default() };
        let compiler = Arc::new(ComponentCompiler::from(config));
        let package = Arc::new(PluginPackage::open(folder, &compiler, CompileStep::Compile).await?);
        let engine = Arc::new(PluginEngine::with_stack(compiler, limits::PLUGIN_STACK_BYTES)?);
        let plugin = Plugin::load(&engine, &package, &PluginSettings::new("bench", "bench")).await?;
        Ok(Self { plugin: Arc::new(plugin), engine, size: package.size, took: started.elapsed() })
    }
}

/// The costs of one plugin.
struct PluginCosts {
    name: String,
    size: u64,
    first_start: Duration,
    later_start: Duration,
    first_call: Duration,
    later_call: Duration,
    memory: usize,
}

impl PluginCosts {
    async fn measure(folder: &Path, calls: u32) -> Result<Self, Box<dyn Error>> {
        let home = tempfile::tempdir()?;
        let cache = home.path().join("components");
        let first = StartedPlugin::start(folder, &cache).await?;
        let (size, first_start) = (first.size, first.took);
        // Compiled code is kept as long as somebody uses it.
        drop(first);
        let StartedPlugin { plugin, engine, took: later_start, .. } = StartedPlugin::start(folder, &cache).await?;
        let mut toolbox = ToolBox::new();
        for tool in PluginTool::all(&plugin) {
            toolbox.register(tool)?;
        }
        let spec = plugin.tools().first().ok_or("it has no tool")?;
        let arguments = format!(r#"{{"text":"{}"}}"#, "word ".repeat(48).trim_end());
        let call = ToolCall { id: "call-1".into(), name: spec.name.clone(), arguments, meta: vec![] };

        let (events, mut stream) = EventSink::channel();
        let watched = ToolCx::new(RunCx::new("bench").with_events(events));
        let started = Instant::now();
        let outcome = toolbox.dispatch(&watched, &call).await;
        let first_call = started.elapsed();
        if outcome.result.is_error {
            return Err(format!("its call failed: {}", outcome.result.text()).into());
        }
        drop(watched);
        let mut memory = 0;
        while let Some(event) = stream.next_event().await {
            if let Event::PluginCall { memory: of_call, .. } = event {
                memory = of_call;
            }
        }

        let quiet = ToolCx::new(RunCx::new("bench").with_events(EventSink::none()));
        let mut histogram = Histogram::<u64>::new(3)?;
        for _ in 0..calls {
            let started = Instant::now();
            drop(toolbox.dispatch(&quiet, &call).await);
            histogram.record(u64::try_from(started.elapsed().as_nanos())?)?;
        }
        drop(engine);
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let later_call = Duration::from_nanos(histogram.value_at_quantile(0.5));
        Ok(Self { name, size, first_start, later_start, first_call, later_call, memory })
    }

    /// Returns the row of the table.
    fn row(&self) -> String {
        let Self { name, size, first_start, later_start, first_call, later_call, memory } = self;
        let megabytes = |bytes: f64| format!("{:.2} MB", bytes / 1e6);
        let (size, memory) = (megabytes(*size as f64), megabytes(*memory as f64));
        let starts = [first_start, later_start].map(|time| format!("{:.2} s", time.as_secs_f64()));
        let calls = [first_call, later_call].map(|time| format!("{:.2} ms", time.as_secs_f64() * 1e3));
        format!("| {name} | {size} | {} | {} | {} | {} | {memory} |", starts[0], starts[1], calls[0], calls[1])
    }
}
