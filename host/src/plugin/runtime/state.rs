use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::{WasiFilesystemCtx, WasiFilesystemCtxView, WasiFilesystemView};

use super::Limiter;
use crate::{
    capability::Powers,
    chat::{Snapshot, ToolSpec},
    event::{Event, Given, RunCx},
    limits,
    model::DeltaSink,
};

/// What one instance of a plugin can reach: what that plugin was granted for that agent, and nothing else.
pub struct PluginState {
    /// In whose name the call is made.
    pub cx: RunCx,
    /// The plugin's id.
    pub plugin: Arc<str>,
    /// Its settings for this agent.
    pub config: Arc<str>,
    /// What it holds.
    pub limiter: Limiter,
    /// Handles that it has been given.
    pub table: ResourceTable,
    /// The folders that it was granted.
    pub files: WasiFilesystemCtx,
    /// Log entries written, also those that were dropped.
    pub log_entries: u32,
    /// Who is told how far a tool call is.
    pub progress: Option<Progress>,
    /// Where pieces of a completion go.
    pub sink: DeltaSink,
    /// The conversation that the call belongs to; empty where it belongs to none.
    pub chat: ChatView,
    /// How long it has waited for whoever watches.
    pub waits: Arc<Waits>,
    /// Since when the monotonic clock runs.
    pub started: Instant,
    /// What clocks and chance have given it, if somebody is told of that.
    pub given: Given,
    /// Whether somebody is, once that was asked.
    is_heard: Option<bool>,
}

impl PluginState {
    pub fn new(cx: RunCx, plugin: Arc<str>, config: Arc<str>, files: WasiFilesystemCtx, memory: usize) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits::PLUGIN_HANDLES);
        Self {
            cx,
            plugin,
            config,
            limiter: Limiter::new(memory),
            table,
            files,
            log_entries: 0,
            progress: None,
            sink: DeltaSink::none(),
            chat: ChatView::default(),
            waits: Arc::default(),
            started: Instant::now(),
            given: Given::default(),
            is_heard: None,
        }
    }

    /// Writes down what the guest is given, if somebody is told of it.
    pub fn give(&mut self, write: impl FnOnce(&mut Given)) {
        let events = &self.cx.events;
        if *self.is_heard.get_or_insert_with(|| events.is_heard()) {
            write(&mut self.given);
        }
    }

    /// Tells of an event. While the reader is behind the guest's time stands still.
    pub async fn emit(&mut self, event: Event) {
        let _waiting = self.waits.begin();
        self.cx.events.emit(event).await;
    }
}

/// The time that a call has waited for a slow reader. It is not the guest's: a guest must not fail because somebody
/// reads slowly.
#[derive(Debug, Default)]
pub struct Waits(Mutex<WaitsSoFar>);

#[derive(Debug, Default)]
struct WaitsSoFar {
    over: Duration,
    since: Option<Instant>,
}

impl Waits {
    /// A wait that ends when the result is dropped. A guest does one thing at a time, so there is one at most.
    pub fn begin(&self) -> Waiting<'_> {
        self.change(|waits| waits.since = Some(Instant::now()));
        Waiting(self)
    }

    /// All waits together, the one under way included, up to [`limits::READER_WAIT`].
    pub fn total(&self) -> Duration {
        let total = self.change(|waits| waits.over + waits.since.map_or(Duration::ZERO, |since| since.elapsed()));
        total.min(limits::READER_WAIT)
    }

    fn change<R>(&self, change: impl FnOnce(&mut WaitsSoFar) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A wait under way.
pub struct Waiting<'a>(&'a Waits);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.change(|waits| waits.over += waits.since.take().map_or(Duration::ZERO, |since| since.elapsed()));
    }
}

/// How far a tool call is, told not too often.
pub struct Progress {
    /// The call's id.
    pub call: String,
    /// When it was told last.
    pub told: Option<Instant>,
    /// The newest report, if it has not been told yet.
    pub waiting: Option<(f64, Option<f64>, Option<String>)>,
}

/// A conversation as a plugin may see it.
#[derive(Default)]
pub struct ChatView {
    /// The conversation; it stands still during the call.
    pub chat: Snapshot,
    /// The agent's tools.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Decide what is blank.
    pub powers: Powers,
}

impl WasiFilesystemView for PluginState {
    fn filesystem(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: &mut self.files, table: &mut self.table }
    }
}
