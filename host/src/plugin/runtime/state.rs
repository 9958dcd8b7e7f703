use std::{sync::Arc, time::Instant};

use wasmtime::{bail, component::ResourceTable};
use wasmtime_wasi::filesystem::{WasiFilesystemCtxView, WasiFilesystemView};

use super::{CallMeter, GuestLimit, InstanceLimiter, Limits, MemoryShare};
use crate::{
    capability::Powers,
    chat::{ChatSnapshot, ToolSpec},
    event::{Event, NondeterministicInputs, RunCx},
    limits,
    model::{CompletionRequest, DeltaSink},
    plugin::{
        folders::PreopenedFolders,
        imports::{
            GuestAttachments, GuestFilesystem, InstanceFileState, KvBinding, PluginHttpClient, PluginLogQuota,
            WasiBaseState, WasiHttpState,
        },
    },
    process::AllowedPrograms,
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
    pub limiter: InstanceLimiter,
    /// What it has of `wasi:http`: it goes before the table.
    pub wasi_http: WasiHttpState,
    /// Handles that it has been given.
    pub table: ResourceTable,
    /// The folders that it was granted.
    pub files: PreopenedFolders,
    /// What it has of them.
    pub held: InstanceFileState,
    /// What it has of WASI's base.
    pub base: WasiBaseState,
    /// The key-value store that it was granted.
    pub kv: Option<Arc<KvBinding>>,
    /// Who sends its requests, in calls that may send some.
    pub asker: Option<PluginHttpClient>,
    /// The programs that it may have run, in calls that may have some run.
    pub programs: Option<AllowedPrograms>,
    /// What it may take.
    pub limits: Arc<Limits>,
    /// What it takes.
    pub meter: Arc<CallMeter>,
    /// Bytes that it was handed.
    pub bytes_in: usize,
    /// Bytes that it handed over.
    pub bytes_out: usize,
    /// What it has logged.
    pub logged: PluginLogQuota,
    /// Who is told how far a tool call is.
    pub progress: Option<ToolProgressThrottle>,
    /// Where pieces of a completion go.
    pub sink: DeltaSink,
    /// The media of the request that a completion answers.
    pub attachments: GuestAttachments,
    /// The conversation that the call belongs to; empty where it belongs to none.
    pub chat: ChatView,
    /// The request that a call of a model middleware is about, and what of it may be seen.
    pub outgoing: Option<(CompletionRequest, Powers)>,
    /// Since when the monotonic clock runs.
    pub started: Instant,
    /// What clocks and chance have given it, if somebody is told of that.
    pub given: NondeterministicInputs,
    /// Whether somebody is, once that was asked.
    is_heard: Option<bool>,
}

impl PluginState {
    pub fn new(
        cx: RunCx,
        plugin: Arc<str>,
        config: Arc<str>,
        files: PreopenedFolders,
        limits: Arc<Limits>,
        memory: Arc<MemoryShare>,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits::PLUGIN_HANDLES);
        Self {
            cx,
            plugin,
            config,
            limiter: InstanceLimiter::new(Arc::clone(&limits), memory),
            table,
            files,
            held: InstanceFileState::default(),
            base: WasiBaseState::default(),
            kv: None,
            asker: None,
            programs: None,
            wasi_http: WasiHttpState::default(),
            limits,
            meter: Arc::default(),
            bytes_in: 0,
            bytes_out: 0,
            logged: PluginLogQuota::default(),
            progress: None,
            sink: DeltaSink::none(),
            attachments: GuestAttachments::default(),
            chat: ChatView::default(),
            outgoing: None,
            started: Instant::now(),
            given: NondeterministicInputs::default(),
            is_heard: None,
        }
    }

    /// The next call of an instance that is kept: what is counted a call begins anew, what the instance holds stays.
    pub fn begin(&mut self, cx: &RunCx) {
        self.cx = cx.clone();
        self.limiter.begin();
        self.meter = Arc::default();
        (self.bytes_in, self.bytes_out) = (0, 0);
        self.logged = PluginLogQuota::default();
        self.base.begin(&self.cx, &self.logged, &self.meter);
        self.given = NondeterministicInputs::default();
        self.is_heard = None;
    }

    /// Until then it holds nothing of the run that holds it.
    pub fn rest(&mut self) {
        self.cx = self.cx.anew();
        self.base.begin(&self.cx, &self.logged, &self.meter);
        self.asker = None;
    }

    /// The state of a call that is calling an imported function: every function gets it from here, so that each call is
    /// counted.
    pub fn called(&mut self) -> &mut Self {
        self.meter.count_host_calls(1);
        self
    }

    /// Counts bytes that the guest is handed.
    pub fn hand(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.bytes_in = self.bytes_in.saturating_add(bytes);
        if self.bytes_in > self.limits.input_bytes {
            self.limiter.hit = Some(GuestLimit::Input);
            bail!("it is handed too much");
        }
        Ok(())
    }

    /// Counts bytes that the guest hands over.
    pub fn take(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.bytes_out = self.bytes_out.saturating_add(bytes);
        if self.bytes_out > self.limits.output_bytes {
            self.limiter.hit = Some(GuestLimit::Output);
            bail!("it hands over too much");
        }
        Ok(())
    }

    /// Writes down what the guest is given, if somebody is told of it.
    pub fn give(&mut self, write: impl FnOnce(&mut NondeterministicInputs)) {
        let events = &self.cx.events;
        if *self.is_heard.get_or_insert_with(|| events.is_heard()) {
            write(&mut self.given);
        }
    }

    /// Tells of an event. While the reader is behind the guest's time stands still.
    pub async fn emit(&mut self, event: Event) {
        let _waiting = self.meter.waits.begin();
        self.cx.events.emit(event).await;
    }
}

/// How far a tool call is, told not too often.
pub struct ToolProgressThrottle {
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
    pub chat: ChatSnapshot,
    /// The agent's tools.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Decide what is blank.
    pub powers: Powers,
}

impl PluginState {
    /// The file system as the guest reaches it.
    pub fn opened_files(&mut self) -> GuestFilesystem<'_> {
        let Self { files: PreopenedFolders { context, at_once, opening }, held, meter, table, .. } = self;
        GuestFilesystem { at_once, opening, held, meter, view: WasiFilesystemCtxView { ctx: context, table } }
    }
}

impl WasiFilesystemView for PluginState {
    fn filesystem(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: &mut self.files.context, table: &mut self.table }
    }
}
