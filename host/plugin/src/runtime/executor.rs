use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit},
    time::{error::Elapsed, timeout},
};
use wasmtime::{
    Store, Trap, UpdateDeadline,
    component::{Component, Instance, InstancePre},
};

use super::engine::PluginEngine;
use crate::{
    convert::{self, GuestPayload, WitError},
    metering::{
        ExceededTimeLimit, GuestLimit, Lane, Limits, LimitsPlace, MemoryRefusal, MemoryRefusalReason, MemoryShortage,
        PluginQuota,
    },
    store::{FixedInputs, GuestExit, KvBinding, PluginState, PreopenedFolders, ToolProgressThrottle},
};
use shelly_core::{
    error::{Fault, seconds},
    event::{CalledFunction, Event, LogLevel, PluginCallOutcome, RunCx},
    limits,
};

/// The parameters of one call of an exported function.
pub struct CallSetup {
    /// The function, for events.
    pub function: CalledFunction,
    /// Wall time of the call, instantiation included. Waiting for permits or for slow readers of events is not counted.
    pub time: Duration,
    /// The lane whose permits the call takes.
    pub lane: Lane,
    /// Bytes of the arguments.
    pub input: usize,
}

/// Calls the exported functions of one plugin of one agent, each within its limits.
pub struct GuestExecutor {
    /// The plugin's id.
    pub id: Arc<str>,
    pub engine: Arc<PluginEngine>,
    /// Keeps the code alive: the engine holds it weakly.
    pub component: Arc<Component>,
    /// The component, linked to what the plugin was granted.
    pub pre: InstancePre<PluginState>,
    /// The params of the plugin, as JSON.
    pub config: Arc<str>,
    pub limits: Arc<Limits>,
    /// The place where the limits are raised, for messages.
    pub limits_place: LimitsPlace,
    pub quota: Arc<PluginQuota>,
    /// The number of permits among all calls that one call takes.
    pub permits: u32,
    pub files: PreopenedFolders,
    pub kv: Option<Arc<KvBinding>>,
    /// The time and the random numbers in place of those of the system; `None`: those of the system.
    pub fixed_inputs: Option<FixedInputs>,
}

impl GuestExecutor {
    /// Creates a fresh instance, calls it and drops it. Always returns in time, whatever the guest does, and without
    /// effect on any other plugin.
    ///
    /// `prepare` sets what this call may see beyond the plugin's grant; `call` loads the kind and calls it.
    pub async fn call<R: GuestPayload>(
        &self,
        cx: &RunCx,
        setup: CallSetup,
        prepare: impl FnOnce(&mut PluginState),
        call: impl AsyncFnOnce(&mut Store<PluginState>, &Instance) -> wasmtime::Result<Result<R, WitError>>,
    ) -> Result<R, Fault> {
        self.call_on(&self.pre, cx, setup, prepare, call).await
    }

    /// Calls a fresh instance of another linking of the component: the loader probes with fewer imports.
    pub async fn call_on<R: GuestPayload>(
        &self,
        pre: &InstancePre<PluginState>,
        cx: &RunCx,
        setup: CallSetup,
        prepare: impl FnOnce(&mut PluginState),
        call: impl AsyncFnOnce(&mut Store<PluginState>, &Instance) -> wasmtime::Result<Result<R, WitError>>,
    ) -> Result<R, Fault> {
        let _permits = match self.permits(&setup).await {
            Ok(permits) => permits,
            Err(fault) => return self.refuse(cx, &setup, fault).await,
        };
        let mut store = self.store(cx);
        prepare(store.data_mut());
        let called = self.drive(&mut store, &setup, async |store| {
            let instance = pre.instantiate_async(&mut *store).await?;
            wait_for_growth(store);
            call(store, &instance).await
        });
        called.await.1
    }

    /// Reports a call that got no permit, and returns its fault. It has consumed nothing.
    pub(super) async fn refuse<R>(&self, cx: &RunCx, setup: &CallSetup, fault: Fault) -> Result<R, Fault> {
        self.report(&mut self.state(cx), setup, PluginCallOutcome::Limit, Duration::ZERO).await;
        Err(fault)
    }

    /// Drives a call in its store to its end, or to a time limit, and emits its event.
    pub(super) async fn drive<R: GuestPayload>(
        &self,
        store: &mut Store<PluginState>,
        setup: &CallSetup,
        work: impl AsyncFnOnce(&mut Store<PluginState>) -> wasmtime::Result<Result<R, WitError>>,
    ) -> (PluginCallOutcome, Result<R, Fault>) {
        let started = Instant::now();
        let meter = Arc::clone(&store.data().meter);
        let called = meter.drive(&self.quota, self.engine.turns(), (setup.time, self.limits.cpu), async {
            store.data_mut().hand(setup.input)?;
            let answer = work(&mut *store).await?;
            store.data_mut().take(answer.as_ref().map_or_else(GuestPayload::bytes, GuestPayload::bytes))?;
            Ok(answer)
        });
        let called = called.await;
        let (end, outcome) = match called {
            Ok(Ok(Ok(value))) if value.state_bytes() > self.limits.state_bytes => {
                let (bytes, most) = (value.state_bytes(), self.limits.state_bytes);
                let what = format!("returned a state of {bytes} bytes, the maximum is {most}");
                self.beyond("state_bytes", most_of(most, limits::STATE_BYTES), what)
            }
            Ok(Ok(Ok(value))) => (PluginCallOutcome::Ok, Ok(value)),
            Ok(Ok(Err(error))) => (PluginCallOutcome::Error, Err(convert::fault(error))),
            Ok(Err(error)) => self.crashed(store, &error),
            Err(ExceededTimeLimit::Cpu) => {
                let what = format!("used more than {} of processor time", seconds(self.limits.cpu));
                self.beyond("cpu", most_time(self.limits.cpu, limits::PLUGIN_CPU_CEILING), what)
            }
            Err(ExceededTimeLimit::Time) => {
                let why = match meter.was_slowed() {
                    true => {
                        let (now, most) = (self.limits.host_calls_per_second, limits::HOST_CALLS_PER_SECOND_CEILING);
                        let limit = self.limit("host_calls_per_second", most_of(now as usize, most as usize));
                        format!(": it was throttled to {now} calls of imported functions per second {limit}")
                    }
                    // The time limit of the probe cannot be configured.
                    false if setup.function == CalledFunction::Probe => String::new(),
                    false => {
                        format!(" {}", self.limit("time", most_time(setup.time, limits::PLUGIN_TIME_CEILING)))
                    }
                };
                let message = format!("plugin `{}` timed out after {}{why}", self.id, seconds(setup.time));
                (PluginCallOutcome::Timeout, Err(Fault::Timeout { message }))
            }
        };
        let took = started.elapsed();
        store.data_mut().base.flush().await;
        self.report(store.data_mut(), setup, end, took).await;
        (end, outcome)
    }

    /// Takes a permit of this plugin, and those of its component and of all plugins. The wait is not counted as the
    /// guest's time, and is bounded.
    async fn permits(&self, setup: &CallSetup) -> Result<(SemaphorePermit<'_>, [OwnedSemaphorePermit; 2]), Fault> {
        Ok((self.own_permit().await?, self.shared_permits(setup.lane).await?))
    }

    /// Takes a permit among the calls of this plugin.
    pub(super) async fn own_permit(&self) -> Result<SemaphorePermit<'_>, Fault> {
        if let Some(own) = self.quota.try_acquire() {
            return Ok(own);
        }
        let own = timeout(limits::PLUGIN_PERMIT_WAIT, self.quota.acquire()).await;
        let own = own.map_err(|_| {
            let (calls, id) = (self.limits.concurrency, &self.id);
            let raised = self.raised("concurrency", most_of(calls as usize, limits::PLUGIN_CALLS as usize));
            busy(&format!("{calls} calls of plugin `{id}` (limit `concurrency`)"), &raised)
        })?;
        own.ok_or_else(closed)
    }

    /// Takes the permits among the calls of the component, and among all calls.
    pub(super) async fn shared_permits(&self, lane: Lane) -> Result<[OwnedSemaphorePermit; 2], Fault> {
        let what = if lane == Lane::Kept { "instances kept for runs" } else { "calls" };
        let waited = limits::PLUGIN_PERMIT_WAIT.as_secs();
        let of_component = acquire_many(self.quota.pool().permits(lane), self.permits).await.map_err(|_| {
            let (id, quarters) = (&self.id, limits::PLUGIN_QUARTERS_OF_ONE);
            let message = format!(
                "the {what} of plugin `{id}` by all agents take {quarters} quarters of all permits, and none ended \
                 within {waited} seconds; retry later"
            );
            Fault::Unavailable { message, after: None }
        })?;
        let of_all = acquire_many(self.engine.permits(lane), self.permits).await.map_err(|_| match lane {
            Lane::Kept => busy(&format!("{} instances kept for runs", limits::KEPT_INSTANCES), ""),
            Lane::Step | Lane::Stream => busy(&format!("{} calls of plugins", limits::PLUGIN_CALLS), ""),
        })?;
        Ok([of_component.map_err(|_| closed())?, of_all.map_err(|_| closed())?])
    }

    fn state(&self, cx: &RunCx) -> PluginState {
        PluginState::new(
            cx.clone(),
            Arc::clone(&self.id),
            Arc::clone(&self.config),
            self.files.clone(),
            Arc::clone(&self.limits),
            Arc::clone(self.quota.memory()),
        )
    }

    pub(super) fn store(&self, cx: &RunCx) -> Store<PluginState> {
        let mut state = self.state(cx);
        state.kv.clone_from(&self.kv);
        state.fixed = self.fixed_inputs.map(Into::into);
        let mut store = Store::new(self.component.engine(), state);
        // Tasks, waitable sets and ends of streams lie in the host's memory. Only components with the async ABI have any.
        if let Some(table) = store.concurrent_resource_table() {
            table.set_max_capacity(limits::ASYNC_TABLE_ENTRIES);
        }
        // The synchronous limiter allocates nothing, so use it for a call that need not wait.
        match store.data().limiter.may_wait() {
            true => store.limiter_async(|state| state),
            false => store.limiter(|state| &mut state.limiter),
        }
        // A busy guest yields at every tick, so that its limits are checked and other tasks can run. The yield reaches
        // the runtime, which polls timers and sockets before it resumes the guest.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|store| {
            store.data().meter.give_way();
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        store.set_hostcall_fuel(limits::HOSTCALL_BYTES);
        store
    }

    /// Returns the outcome of a call that exceeded `limit`, as the config names it. `most` is the value to which a
    /// config can raise it.
    fn beyond<R>(
        &self,
        limit: &str,
        most: Option<String>,
        what: impl std::fmt::Display,
    ) -> (PluginCallOutcome, Result<R, Fault>) {
        let message = format!("plugin `{}` {what} {}", self.id, self.limit(limit, most));
        (PluginCallOutcome::Limit, Err(Fault::Exhausted { message }))
    }

    /// Describes a limit of this plugin, and the place of the config that raises it.
    fn limit(&self, limit: &str, most: Option<String>) -> String {
        format!("(limit `{limit}`){}", self.raised(limit, most))
    }

    fn raised(&self, limit: &str, most: Option<String>) -> String {
        let Some(most) = most else { return ", which cannot be raised".into() };
        let how = match limit {
            // All stacks have one size.
            "stack_bytes" => LimitsPlace::Config("at the top of the config".into()).raised_by(limit),
            _ => self.limits_place.raised_by(limit),
        };
        format!("; raise it with {how}, up to {most}")
    }

    fn crashed<R>(&self, store: &Store<PluginState>, error: &wasmtime::Error) -> (PluginCallOutcome, Result<R, Fault>) {
        let (id, own) = (&self.id, &self.limits);
        let more = |what: String| format!("needs more than {what}");
        let trap = error.downcast_ref::<Trap>();
        // After a refused memory growth the guest may have continued without the memory, then overflowed its stack.
        let hit = store.data().limiter.hit.filter(|_| trap != Some(&Trap::StackOverflow));
        match (hit, trap) {
            (Some(GuestLimit::Memory), _) => {
                let most = most_of(own.memory_bytes, limits::PLUGIN_MEMORY_CEILING);
                self.beyond("memory_bytes", most, more(format!("{} of memory", shown(own.memory_bytes))))
            }
            (Some(GuestLimit::Tables), _) => {
                let most = most_of(own.table_elements, limits::PLUGIN_TABLE_ELEMENTS_CEILING);
                let what = format!("needs tables of more than {} elements", own.table_elements);
                self.beyond("table_elements", most, what)
            }
            (Some(GuestLimit::Input), _) => {
                let most = most_of(own.input_bytes, limits::PLUGIN_CROSSING_CEILING);
                self.beyond("input_bytes", most, format!("received more than {}", shown(own.input_bytes)))
            }
            (Some(GuestLimit::Output), _) => {
                let most = most_of(own.output_bytes, limits::PLUGIN_CROSSING_CEILING);
                self.beyond("output_bytes", most, format!("returned more than {}", shown(own.output_bytes)))
            }
            (Some(GuestLimit::ProcessMemory(refusal)), _) => {
                (PluginCallOutcome::Limit, Err(self.too_little_memory(refusal)))
            }
            (None, Some(Trap::StackOverflow)) => {
                let stack = self.engine.stack_bytes();
                let most = most_of(stack, limits::PLUGIN_STACK_CEILING);
                self.beyond("stack_bytes", most, more(format!("{} of stack", shown(stack))))
            }
            (None, Some(trap)) => {
                (PluginCallOutcome::Trap, Err(Fault::other(format!("plugin `{id}` crashed: {trap}"))))
            }
            (None, None) if let Some(GuestExit { code }) = error.downcast_ref() => {
                let message = format!("plugin `{id}` exited with code {code} before it answered");
                (PluginCallOutcome::Trap, Err(Fault::other(message)))
            }
            // The engine has no error type for this.
            (None, None) if error.to_string().contains(TOO_MANY_INSTANCES) => {
                let most = most_of(own.instances, limits::PLUGIN_CORE_INSTANCES_CEILING);
                self.beyond("instances", most, more(format!("{} core instances", own.instances)))
            }
            (None, None) => {
                let reason = convert::bounded(format!("{:#}", error), limits::ERROR_BYTES);
                (PluginCallOutcome::Trap, Err(Fault::other(format!("plugin `{id}` crashed: {reason}"))))
            }
        }
    }

    /// Returns the fault of a call that got no memory from the budget of all plugins.
    fn too_little_memory(&self, refusal: MemoryRefusal) -> Fault {
        let (id, memory) = (&self.id, self.quota.memory().budget());
        let (total, of_one, bytes) = (shown(memory.usage().total), shown(memory.most_of_one()), shown(refusal.bytes));
        let limit = format!("(limit `{TOTAL_MEMORY}`)");
        let raised = format!("write a larger `limits: {{{TOTAL_MEMORY}: …}}` at the top of the config");
        let who = match refusal.shortage {
            MemoryShortage::Process => format!("all plugins together can use {total}"),
            MemoryShortage::Component => format!("one plugin can use {of_one} of the {total} of all plugins"),
            MemoryShortage::Agent => {
                format!("the plugins of one agent can use {of_one} of the {total} of all plugins")
            }
        };
        let what = match refusal.reason {
            MemoryRefusalReason::BeyondShare => {
                let message = format!("plugin `{id}` needs {bytes} more memory, but {who} {limit}; {raised}");
                return Fault::Exhausted { message };
            }
            MemoryRefusalReason::WaitedTooLong => "waited too long for",
            MemoryRefusalReason::Deadlock => {
                "was stopped, because all calls that hold memory wait for more: it requested"
            }
            MemoryRefusalReason::CannotWait => "did not get",
        };
        let message = format!("plugin `{id}` {what} {bytes} more memory: {who} {limit}; retry later, or {raised}");
        Fault::Unavailable { message, after: None }
    }

    async fn report(&self, state: &mut PluginState, setup: &CallSetup, end: PluginCallOutcome, duration: Duration) {
        let (given, events) = (std::mem::take(&mut state.given), &state.cx.events);
        if !events.is_heard() {
            return;
        }
        let agent = || Arc::clone(&state.cx.agent);
        if let Some(ToolProgressThrottle { call, waiting: Some((done, total, message)), .. }) = state.progress.take() {
            events.emit(Event::ToolProgress { agent: agent(), call, done, total, message }).await;
        }
        let dropped = state.logged.dropped();
        if dropped > 0 {
            let message = format!("{dropped} more log entries were dropped");
            let (plugin, level) = (Arc::clone(&self.id), LogLevel::Warn);
            events.emit(Event::PluginLog { agent: agent(), plugin, level, message }).await;
        }
        let event = Event::PluginCall {
            agent: agent(),
            plugin: Arc::clone(&self.id),
            function: setup.function,
            outcome: end,
            duration,
            cpu: state.meter.cpu(),
            memory: state.limiter.memory(),
            host_calls: state.meter.host_calls(),
            imports: state.meter.import_calls(),
            bytes_in: state.bytes_in,
            bytes_out: state.bytes_out,
            given,
        };
        events.emit(event).await;
    }
}

/// The key in `limits` of the memory bound of all plugins together.
const TOTAL_MEMORY: &str = "total_memory_bytes";

/// Switches an instance that has been created to the asynchronous limiter, which waits for memory when there is too
/// little.
pub(super) fn wait_for_growth(store: &mut Store<PluginState>) {
    store.data_mut().limiter.end_instantiation();
    store.limiter_async(|state| state);
}

/// Takes `count` permits. There usually are some free, so a timeout is set up only if there are none.
async fn acquire_many(
    permits: &Arc<Semaphore>,
    count: u32,
) -> Result<Result<OwnedSemaphorePermit, AcquireError>, Elapsed> {
    match Arc::clone(permits).try_acquire_many_owned(count) {
        Ok(taken) => Ok(Ok(taken)),
        Err(_) => timeout(limits::PLUGIN_PERMIT_WAIT, Arc::clone(permits).acquire_many_owned(count)).await,
    }
}

/// Returns the fault for a call that waited in vain for a permit.
fn busy(taken: &str, raised: &str) -> Fault {
    let waited = limits::PLUGIN_PERMIT_WAIT.as_secs();
    let message = format!("{taken} are running, and none ended within {waited} seconds; retry later{raised}");
    Fault::Unavailable { message, after: None }
}

fn closed() -> Fault {
    Fault::other("the plugin engine is closed")
}

/// The beginning of the engine's message for too many core instances.
const TOO_MANY_INSTANCES: &str = "instance count too high";

/// Returns the value to which a limit can be raised from `now`; `None` if it is at its ceiling.
fn most_of(now: usize, ceiling: usize) -> Option<String> {
    (now < ceiling).then(|| ceiling.to_string())
}

/// Returns the time to which a limit can be raised from `now`; `None` if it is at its ceiling.
fn most_time(now: Duration, ceiling: Duration) -> Option<String> {
    (now < ceiling).then(|| humantime::format_duration(ceiling).to_string())
}

/// Formats bytes in the largest unit in which they are a whole number.
fn shown(bytes: usize) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}
