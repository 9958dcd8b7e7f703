use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use wasmtime::{ResourceLimiter, ResourceLimiterAsync, bail, component::ResourceTable};
use wasmtime_wasi::filesystem::{WasiFilesystemCtxView, WasiFilesystemView};

use super::{
    attachments::GuestAttachments,
    chat_view::ChatView,
    filesystem::{GuestFilesystem, InstanceFileState},
    fixed_inputs::FixedSources,
    kv_binding::KvBinding,
    log_quota::PluginLogQuota,
    preopened_folders::PreopenedFolders,
    tool_progress::ToolProgressThrottle,
    wasi_base::WasiBaseState,
    wasi_http::WasiHttpState,
};
use crate::{
    contract::ImportedInterface,
    http_client::PluginHttpClient,
    metering::{CallMeter, GuestLimit, InstanceLimiter, Limits, MemoryRequester, MemoryShare},
};
use shelly_core::{
    capability::Powers,
    event::{Event, NondeterministicInputs, RunCx},
    limits,
    model::{CompletionRequest, DeltaSink},
    process::AllowedPrograms,
};

/// The state of one instance of a plugin: everything that it can reach, which is what the plugin was granted for its
/// agent.
pub struct PluginState {
    /// The context of the run that makes the call.
    pub cx: RunCx,
    /// The plugin's id.
    pub plugin: Arc<str>,
    /// The params of the plugin for this agent, as JSON.
    pub config: Arc<str>,
    /// The memory and tables of the instance, and their bounds.
    pub limiter: InstanceLimiter,
    /// The state of `wasi:http`. Declared before `table`, because it must be dropped first.
    pub wasi_http: WasiHttpState,
    /// The handles of the guest.
    pub table: ResourceTable,
    /// The folders that the plugin was granted.
    pub files: PreopenedFolders,
    /// The instance's state for its files.
    pub held: InstanceFileState,
    /// The state of the WASI base.
    pub base: WasiBaseState,
    /// The key-value store that the plugin was granted.
    pub kv: Option<Arc<KvBinding>>,
    /// The HTTP client, in calls that may send requests.
    pub http: Option<PluginHttpClient>,
    /// The programs that the plugin may run, in calls that may run programs.
    pub programs: Option<AllowedPrograms>,
    /// The limits of the call.
    pub limits: Arc<Limits>,
    /// The time and host calls that the call has consumed.
    pub meter: Arc<CallMeter>,
    /// Bytes passed to the guest.
    pub bytes_in: usize,
    /// Bytes returned by the guest.
    pub bytes_out: usize,
    /// The log quota of the call.
    pub logged: PluginLogQuota,
    /// The progress reports of a tool call.
    pub progress: Option<ToolProgressThrottle>,
    /// The sink for pieces of a completion.
    pub sink: DeltaSink,
    /// The media of the request that a completion answers.
    pub attachments: GuestAttachments,
    /// The conversation of the call; empty if it belongs to none.
    pub chat: ChatView,
    /// The request that a model middleware is called for, and the powers that decide what of it is visible.
    pub outgoing: Option<(CompletionRequest, Powers)>,
    /// The origin of the monotonic clock.
    pub started: Instant,
    /// The time and the random numbers in place of those of the system, if they are fixed.
    pub fixed: Option<FixedSources>,
    /// The readings of clocks and random sources, recorded if events have a listener.
    pub given: NondeterministicInputs,
    /// `true` if events have a listener; `None` until that is first asked.
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
            http: None,
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
            fixed: None,
            given: NondeterministicInputs::default(),
            is_heard: None,
        }
    }

    /// Begins the next call of a kept instance: resets what is counted per call, and keeps what the instance holds.
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

    /// Ends a call of a kept instance: until the next one it holds no reference to the run.
    pub fn rest(&mut self) {
        self.cx = self.cx.anew();
        self.base.begin(&self.cx, &self.logged, &self.meter);
        self.http = None;
    }

    /// Counts a call of a function of this interface and returns the state. Every imported function gets the state from
    /// here.
    pub fn called(&mut self, interface: ImportedInterface) -> &mut Self {
        self.meter.count_import_call(interface);
        self
    }

    /// Counts bytes that the guest is passed.
    pub fn hand(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.bytes_in = self.bytes_in.saturating_add(bytes);
        if self.bytes_in > self.limits.input_bytes {
            self.limiter.hit = Some(GuestLimit::Input);
            bail!("the plugin exceeded its limit of input");
        }
        Ok(())
    }

    /// Counts bytes that the guest returns.
    pub fn take(&mut self, bytes: usize) -> wasmtime::Result<()> {
        self.bytes_out = self.bytes_out.saturating_add(bytes);
        if self.bytes_out > self.limits.output_bytes {
            self.limiter.hit = Some(GuestLimit::Output);
            bail!("the plugin exceeded its limit of output");
        }
        Ok(())
    }

    /// Records a nondeterministic input of the guest, if events have a listener.
    pub fn give(&mut self, write: impl FnOnce(&mut NondeterministicInputs)) {
        let events = &self.cx.events;
        if *self.is_heard.get_or_insert_with(|| events.is_heard()) {
            write(&mut self.given);
        }
    }

    /// Emits an event. The time that a slow reader takes is not counted as the guest's.
    pub async fn emit(&mut self, event: Event) {
        let _waiting = self.meter.waits.begin();
        self.cx.events.emit(event).await;
    }
}

impl PluginState {
    /// Returns the file system as the guest reaches it.
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

#[async_trait]
impl ResourceLimiterAsync for PluginState {
    async fn memory_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let Self { limiter, meter, cx, plugin, .. } = self;
        limiter.grow_memory((current, desired, most), MemoryRequester { cx, plugin, meter }).await
    }

    async fn table_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let Self { limiter, meter, cx, plugin, .. } = self;
        limiter.grow_table((current, desired, most), MemoryRequester { cx, plugin, meter }).await
    }

    fn instances(&self) -> usize {
        ResourceLimiter::instances(&self.limiter)
    }

    fn memories(&self) -> usize {
        ResourceLimiter::memories(&self.limiter)
    }

    fn tables(&self) -> usize {
        ResourceLimiter::tables(&self.limiter)
    }
}
