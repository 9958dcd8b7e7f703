use std::{sync::Arc, time::Instant};

use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::{WasiFilesystemCtx, WasiFilesystemCtxView, WasiFilesystemView};

use super::Limiter;
use crate::{capability::Powers, chat::Snapshot, event::RunCx, limits, model::DeltaSink};

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
    /// The conversation that the call belongs to.
    pub chat: Option<ChatView>,
    /// Since when the monotonic clock runs.
    pub started: Instant,
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
            chat: None,
            started: Instant::now(),
        }
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
pub struct ChatView {
    /// The conversation; it stands still during the call.
    pub chat: Snapshot,
    /// The names of the agent's tools.
    pub tools: Arc<[String]>,
    /// Decide what is blank.
    pub powers: Powers,
}

impl WasiFilesystemView for PluginState {
    fn filesystem(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: &mut self.files, table: &mut self.table }
    }
}
