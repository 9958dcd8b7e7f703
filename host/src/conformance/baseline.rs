//! Baseline runs before and after the suite: the process must not have become worse.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::{task::JoinSet, time::sleep};

use super::{attack, attack_settings::settings};
use crate::{
    agent::Agent,
    capability::RequestedCapabilities,
    chat::{Chat, Message, ToolCall},
    error::{ErrorKind, Fault, Report},
    event::{Event, EventSink, RunCx},
    limits,
    model::ScriptedCompleter,
    plugin::{Plugin, PluginEngine, PluginError, PluginPackage, PluginTool},
    tool::{self, Tool, ToolCx},
};

/// The name of the check that counts concurrent calls; unlike the others, it fails if the number falls.
pub const CALLS_AT_ONCE: &str = "calls at once";
/// The name of the host's own tool that the agent has beside the tools of an attack.
pub const LOOKUP: &str = "lookup";

#[derive(Deserialize, JsonSchema)]
struct LookupArgs {}

/// The result of [`LOOKUP`].
pub const FOUND: &str = "found";

/// Returns the tool [`LOOKUP`].
pub fn lookup() -> impl Tool + 'static {
    tool::function(LOOKUP, "Looks it up.", |_cx, _: LookupArgs| async { Ok(FOUND.to_owned()) })
}

/// A well-behaved tool that writes to the log.
const POLITE: &str = r#"(import "shelly:plugin/log@0.1.0" "write" (func $log (param i32 i32 i32)))
    (func (export "shelly:plugin/tool@0.1.0#call") (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
      (call $log (i32.const 1) (i32.const 0x100) (i32.const 2))
      (call $ok))"#;
const MANIFEST: &str = "tries = \"nothing\"\nkind = \"tool\"\nexpect = \"held\"";

/// Loads a well-behaved plugin with these settings.
pub async fn load(engine: &Arc<PluginEngine>, params: &serde_json::Value) -> Result<Arc<Plugin>, PluginError> {
    load_as(engine, params, POLITE).await
}

async fn load_as(
    engine: &Arc<PluginEngine>,
    params: &serde_json::Value,
    fields: &str,
) -> Result<Arc<Plugin>, PluginError> {
    let unreadable = |path: &std::path::Path, source| PluginError::Unreadable { path: path.into(), source };
    let folder = TempDir::new().map_err(|error| unreadable(std::path::Path::new("the folder of a plugin"), error))?;
    let path = folder.path();
    let polite = attack::Attack::parse("polite", MANIFEST, attack::AttackSource::Fields(fields.into()))
        .map_err(|message| PluginError::NotRunnable { id: "polite".into(), message })?;
    let component = polite.component().map_err(|message| PluginError::NotRunnable { id: "polite".into(), message })?;
    let written = fs::write(path.join("plugin.toml"), polite.manifest())
        .and_then(|()| fs::write(path.join("component.wasm"), component));
    written.map_err(|error| unreadable(path, error))?;
    let package = Arc::new(PluginPackage::read(path)?);
    let settings = settings(&RequestedCapabilities::default(), path, params, limits::CONFORMANCE_CALL_TIME);
    Plugin::load(engine, &package, &settings).await.map(Arc::new)
}

/// Calls the plugin's tool once.
pub async fn call(plugin: &Arc<Plugin>, run: RunCx) -> Result<(), Fault> {
    let tool = PluginTool::all(plugin).next().ok_or_else(|| Fault::other("the plugin has no tool"))?;
    let cx = ToolCx::new(run);
    let call = ToolCall { id: "c".into(), name: "t".into(), arguments: "{}".into(), meta: vec![] };
    tool.call(&cx, &call).await.map(drop)
}

/// Runs an agent with the plugin: one call of its tool, and an answer.
pub async fn run(plugin: &Arc<Plugin>) -> Result<(), String> {
    let model = ScriptedCompleter::new([ScriptedCompleter::calls(&[("c", "t", "{}")]), ScriptedCompleter::text("ok")]);
    let mut agent = Agent::new("normal", "", Arc::new(model));
    PluginTool::all(plugin).for_each(|tool| drop(agent.tools.register(tool)));
    let chat = Chat::new();
    let answer = agent.run(&RunCx::new("normal"), &chat, vec![Message::user("go")]).await;
    let text = answer.map_err(|error| error.in_full())?.message.text_content();
    let result =
        chat.snapshot().iter().flat_map(|entry| entry.message.tool_results()).map(|one| one.text()).collect::<String>();
    if (text.as_str(), result.as_str()) == ("ok", "ok") {
        Ok(())
    } else {
        Err(format!("unexpected answer `{text}`, or result `{result}`"))
    }
}

/// The measurements of the process at one moment.
#[derive(Debug, Clone, Copy)]
pub struct ProcessMetrics {
    /// Resident memory in bytes; `None` if the system does not report it.
    memory: Option<u64>,
    /// Open files; `None` if the system does not report them.
    files: Option<u64>,
    /// Threads; `None` if the system does not report them.
    threads: Option<u64>,
    /// Plugin calls that run at once.
    concurrent_calls: u64,
    /// The median duration of a call.
    call: Duration,
    /// The median duration of an agent's run.
    run: Duration,
}

/// One measurement before and after the suite.
#[derive(Debug, Clone, Serialize)]
pub struct RecoveryCheck {
    /// The name of the measurement.
    pub what: &'static str,
    /// The unit; empty for a count.
    pub unit: &'static str,
    /// The value before; `None` if the system does not report it.
    pub before: Option<u64>,
    /// The value after.
    pub after: Option<u64>,
    /// The bound on the value after.
    pub bound: Option<u64>,
    /// `true` if the value is within the bound, or was not measured.
    pub ok: bool,
}

/// Well-behaved plugins in the engine of the attacks.
pub struct BaselinePlugin {
    plugin: Arc<Plugin>,
    /// A second plugin: one alone may not take all calls.
    other: Arc<Plugin>,
}

impl BaselinePlugin {
    pub async fn new(engine: &Arc<PluginEngine>) -> Result<Self, Report> {
        let params = serde_json::json!({});
        let other = format!("{POLITE} (func $other)");
        let plugin = load(engine, &params).await.map_err(|error| error.report())?;
        let other = load_as(engine, &params, &other).await.map_err(|error| error.report())?;
        Ok(Self { plugin, other })
    }

    /// Measures the process, after enough runs to warm up.
    pub async fn measure(&self) -> Result<ProcessMetrics, Report> {
        let failed = |cause: String| Report::new(ErrorKind::Run, "a normal run failed").cause(cause);
        let (mut calls, mut runs) = (Vec::new(), Vec::new());
        for _ in 0..limits::CONFORMANCE_ROUNDS {
            let started = Instant::now();
            call(&self.plugin, RunCx::new("normal")).await.map_err(|fault| failed(fault.to_string()))?;
            calls.push(started.elapsed());
            let started = Instant::now();
            run(&self.plugin).await.map_err(failed)?;
            runs.push(started.elapsed());
        }
        let concurrent_calls = self.calls_at_once().await;
        Ok(ProcessMetrics {
            memory: resident_bytes(),
            files: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            concurrent_calls,
            call: median(calls),
            run: median(runs),
        })
    }

    /// Measures until no value is worse than before, or the time to settle is over.
    pub async fn measure_after(&self, before: &ProcessMetrics) -> Result<Vec<RecoveryCheck>, Report> {
        let started = Instant::now();
        loop {
            let rows = before.compared_with(&self.measure().await?);
            if rows.iter().all(|row| row.ok) || started.elapsed() > limits::CONFORMANCE_SETTLING {
                return Ok(rows);
            }
            sleep(limits::CONFORMANCE_PAUSE).await;
        }
    }

    /// Counts the calls that run at once: each writes to the log, and no one reads it.
    async fn calls_at_once(&self) -> u64 {
        let (events, stream) = EventSink::channel();
        for _ in 0..limits::EVENT_QUEUE {
            events.emit(Event::Warning { message: String::new() }).await;
        }
        let begun = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&begun);
        events.tap(Arc::new(move |event| {
            count.fetch_add(usize::from(matches!(event.event, Event::PluginLog { .. })), Ordering::Relaxed);
        }));
        let mut calls = JoinSet::new();
        for plugin in [&self.plugin, &self.other].into_iter().cycle().take(limits::PLUGIN_CALLS as usize) {
            let (plugin, run) = (Arc::clone(plugin), RunCx::new("normal").with_events(events.clone()));
            calls.spawn(async move { call(&plugin, run).await });
        }
        // Waits until no further call begins.
        let mut last = usize::MAX;
        while last != begun.load(Ordering::Relaxed) {
            last = begun.load(Ordering::Relaxed);
            sleep(limits::CONFORMANCE_PAUSE).await;
        }
        drop(stream);
        while calls.join_next().await.is_some() {}
        last as u64
    }
}

impl ProcessMetrics {
    fn compared_with(&self, after: &Self) -> Vec<RecoveryCheck> {
        let row = |what, unit, before: Option<u64>, after: Option<u64>, bound: Option<u64>, ok: bool| {
            let ok = ok || before.is_none() || after.is_none();
            RecoveryCheck { what, unit, before, after, bound: bound.filter(|_| before.is_some()), ok }
        };
        let at_most = |what, unit, before: Option<u64>, after: Option<u64>, more: u64| {
            let bound = before.map(|before| before.saturating_add(more));
            row(what, unit, before, after, bound, after <= bound)
        };
        let time = |what, before: Duration, after: Duration| {
            let bound = (before * limits::CONFORMANCE_SLOWER).max(limits::CONFORMANCE_QUICK);
            let micros = |time: Duration| u64::try_from(time.as_micros()).ok();
            row(what, "µs", micros(before), micros(after), micros(bound), after <= bound)
        };
        let at_least =
            |what, before: u64, after: u64| row(what, "", Some(before), Some(after), Some(before), after >= before);
        vec![
            at_most("memory", "bytes", self.memory, after.memory, limits::CONFORMANCE_GROWTH_BYTES),
            at_most("open files", "", self.files, after.files, 0),
            at_most("threads", "", self.threads, after.threads, 0),
            // Here a lower number is worse.
            at_least(CALLS_AT_ONCE, self.concurrent_calls, after.concurrent_calls),
            time("call of a tool", self.call, after.call),
            time("run of an agent", self.run, after.run),
        ]
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns the resident memory in bytes; `None` if the system does not report it.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

/// Returns the number of entries of a system folder; `None` if it does not exist.
fn entries(folder: &str) -> Option<u64> {
    Some(fs::read_dir(folder).ok()?.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baseline_regressions_are_reported() {
        let measures = |more: u64| ProcessMetrics {
            memory: Some((1 << 20) + more),
            files: Some(9 + more),
            threads: Some(4 + more),
            concurrent_calls: 192 - more.min(1),
            call: limits::CONFORMANCE_QUICK,
            run: limits::CONFORMANCE_QUICK * (1 + more.min(100) as u32),
        };
        let ok = |before: &ProcessMetrics, after: &ProcessMetrics| {
            before.compared_with(after).into_iter().filter(|row| !row.ok).map(|row| row.what).collect::<Vec<_>>()
        };
        assert_eq!(ok(&measures(0), &measures(0)), [""; 0]);
        assert_eq!(ok(&measures(1), &measures(0)), [""; 0], "less is fine");
        let few = ["open files", "threads", "calls at once"];
        assert_eq!(ok(&measures(0), &measures(1)), few);
        let all = ["memory", "open files", "threads", "calls at once", "run of an agent"];
        assert_eq!(ok(&measures(0), &measures(limits::CONFORMANCE_GROWTH_BYTES + 1)), all);
        let untold = ProcessMetrics { memory: None, files: None, threads: None, ..measures(0) };
        assert!(untold.compared_with(&untold).iter().all(|row| row.ok));
        assert_eq!(untold.compared_with(&untold)[0].bound, None);
    }
}
