use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::SemaphorePermit, time::timeout};
use wasmtime::{
    Store, Trap, UpdateDeadline,
    component::{Instance, InstancePre},
};

use super::{Bound, PluginState, Progress, meter::Cut};
use crate::{
    error::Fault,
    event::{Event, LogLevel, RunCx},
    limits,
    plugin::{
        convert::{self, Weigh, WitError},
        loader::Plugin,
    },
};

/// Which places a call takes one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// It computes and ends.
    Step,
    /// It may wait for a model.
    Stream,
}

/// How one exported function is called.
pub struct CallSetup {
    /// Its name, for events.
    pub function: &'static str,
    /// Wall time that it may take, instantiating included; waiting for a place, or for whoever watches, not.
    pub time: Duration,
    /// Which places it takes one of.
    pub lane: Lane,
    /// Bytes of what it is called with.
    pub input: usize,
}

/// How a call ended, seen from outside.
enum End {
    Ok,
    Fault,
    Trap,
    Limit,
    Timeout,
}

impl Plugin {
    /// Makes a fresh instance, calls it and drops it. Whatever happens in there, this returns: in time, and without
    /// touching any other plugin.
    ///
    /// `prepare` gives the store what this call may see beside the plugin's grant; `call` loads the kind and calls it.
    /// Its value comes back with what is left of the store's data.
    pub(in crate::plugin) async fn call<R: Weigh>(
        &self,
        cx: &RunCx,
        setup: CallSetup,
        prepare: impl FnOnce(&mut PluginState),
        call: impl AsyncFnOnce(&mut Store<PluginState>, &Instance) -> wasmtime::Result<Result<R, WitError>>,
    ) -> Result<R, Fault> {
        self.call_on(&self.pre, cx, setup, prepare, call).await
    }

    /// The same on another linking of the component: the loader tries it with less.
    pub(in crate::plugin) async fn call_on<R: Weigh>(
        &self,
        pre: &InstancePre<PluginState>,
        cx: &RunCx,
        setup: CallSetup,
        prepare: impl FnOnce(&mut PluginState),
        call: impl AsyncFnOnce(&mut Store<PluginState>, &Instance) -> wasmtime::Result<Result<R, WitError>>,
    ) -> Result<R, Fault> {
        let _places = match self.places(&setup).await {
            Ok(places) => places,
            Err(fault) => {
                // It has taken nothing.
                self.tell(&mut self.state(cx), &setup, End::Limit, Duration::ZERO).await;
                return Err(fault);
            }
        };
        let started = Instant::now();
        let mut store = self.store(cx);
        prepare(store.data_mut());

        let meter = Arc::clone(&store.data().meter);
        let called = meter.drive(&self.share, self.engine.turns(), (setup.time, self.limits.cpu), async {
            store.data_mut().hand(setup.input)?;
            let instance = pre.instantiate_async(&mut store).await?;
            let answer = call(&mut store, &instance).await?;
            store.data_mut().take(answer.as_ref().map_or_else(Weigh::bytes, Weigh::bytes))?;
            Ok(answer)
        });
        let called = called.await;
        let (end, outcome) = match called {
            Ok(Ok(Ok(value))) if value.state_bytes() > self.limits.state_bytes => {
                let (bytes, most) = (value.state_bytes(), self.limits.state_bytes);
                self.beyond(
                    "state_bytes",
                    format!("wants more kept than it may: its state has {bytes} bytes, at most {most} are kept"),
                )
            }
            Ok(Ok(Ok(value))) => (End::Ok, Ok(value)),
            Ok(Ok(Err(error))) => (End::Fault, Err(convert::fault(error))),
            Ok(Err(error)) => self.crashed(&store, &error),
            Err(Cut::Cpu) => {
                self.beyond("cpu", format!("computed for more than {} seconds", self.limits.cpu.as_secs_f32()))
            }
            Err(Cut::Time) => {
                let why = match meter.was_slowed() {
                    true => format!(
                        ": it was slowed down to {} calls of imported functions a second (its limit `host_calls_per_second`)",
                        self.limits.host_calls_per_second
                    ),
                    false => String::new(),
                };
                let message =
                    format!("plugin `{}` took longer than {} seconds{why}", self.id, setup.time.as_secs_f32());
                (End::Timeout, Err(Fault::Timeout { message }))
            }
        };
        self.tell(store.data_mut(), &setup, end, started.elapsed()).await;
        outcome
    }

    /// A place among the calls of this plugin, and those that it takes among the calls of its component and among all calls.
    /// Waiting for them is not the guest's time, and comes to an end.
    async fn places(&self, setup: &CallSetup) -> Result<[SemaphorePermit<'_>; 3], Fault> {
        let closed = || Fault::other("the plugin engine is closed");
        let (id, waited) = (&self.id, limits::PLUGIN_PLACE_WAIT.as_secs());
        let busy = |calls: u32, limit: &str| {
            let message = format!(
                "{calls} calls of {limit} are under way, and none came to an end in {waited} seconds: try it later"
            );
            Fault::Unavailable { message, after: None }
        };
        let own = timeout(limits::PLUGIN_PLACE_WAIT, self.share.place()).await;
        let own =
            own.map_err(|_| busy(self.limits.concurrency, &format!("plugin `{id}` (its limit `concurrency`)")))?;
        let of_crowd = self.share.crowd().places(setup.lane).acquire_many(self.places);
        let of_crowd = timeout(limits::PLUGIN_PLACE_WAIT, of_crowd).await.map_err(|_| {
            let message = format!(
                "the calls of plugin `{id}` of all agents take {} quarters of the places that there are, and none came to an \
                 end in {waited} seconds: try it later",
                limits::PLUGIN_QUARTERS_OF_ONE
            );
            Fault::Unavailable { message, after: None }
        })?;
        let of_all = self.engine.places(setup.lane).acquire_many(self.places);
        let of_all =
            timeout(limits::PLUGIN_PLACE_WAIT, of_all).await.map_err(|_| busy(limits::PLUGIN_CALLS, "plugins"))?;
        Ok([own.ok_or_else(closed)?, of_crowd.map_err(|_| closed())?, of_all.map_err(|_| closed())?])
    }

    fn state(&self, cx: &RunCx) -> PluginState {
        PluginState::new(
            cx.clone(),
            Arc::clone(&self.id),
            Arc::clone(&self.config),
            self.files.clone(),
            Arc::clone(&self.limits),
        )
    }

    fn store(&self, cx: &RunCx) -> Store<PluginState> {
        let mut state = self.state(cx);
        state.kv.clone_from(&self.kv);
        let mut store = Store::new(self.engine.engine(), state);
        store.limiter(|state| &mut state.limiter);
        // A busy guest gives way at every tick, so that the bounds around it are seen, to all that can go on: what it waits
        // for, the runtime wakes after it has looked at timers and sockets.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|store| {
            store.data().meter.give_way();
            Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
        });
        store.set_hostcall_fuel(limits::HOSTCALL_BYTES);
        store
    }

    /// The end of a call at a limit, which is named as a config names it.
    fn beyond<R>(&self, limit: &str, what: impl std::fmt::Display) -> (End, Result<R, Fault>) {
        (End::Limit, Err(Fault::Exhausted { message: format!("plugin `{}` {what} (its limit `{limit}`)", self.id) }))
    }

    fn crashed<R>(&self, store: &Store<PluginState>, error: &wasmtime::Error) -> (End, Result<R, Fault>) {
        let (id, limits) = (&self.id, &self.limits);
        let more = |what: String| format!("needs more than its {what}");
        match (store.data().limiter.hit, error.downcast_ref::<Trap>()) {
            (Some(Bound::Memory), _) => {
                self.beyond("memory_bytes", more(format!("{} of memory", shown(limits.memory_bytes))))
            }
            (Some(Bound::Tables), _) => {
                self.beyond("table_elements", format!("needs tables of more than {} elements", limits.table_elements))
            }
            (Some(Bound::Input), _) => {
                self.beyond("input_bytes", format!("is handed more than its {}", shown(limits.input_bytes)))
            }
            (Some(Bound::Output), _) => {
                self.beyond("output_bytes", format!("hands over more than its {}", shown(limits.output_bytes)))
            }
            (None, Some(Trap::StackOverflow)) => {
                self.beyond("stack_bytes", more(format!("{} of stack", shown(self.engine.stack_bytes()))))
            }
            (None, Some(trap)) => (End::Trap, Err(Fault::other(format!("plugin `{id}` crashed: {trap}")))),
            // The engine has no word of its own for it.
            (None, None) if error.to_string().contains(TOO_MANY_INSTANCES) => {
                self.beyond("instances", more(format!("{} core instances", limits.instances)))
            }
            (None, None) => {
                let reason = convert::bounded(format!("{:#}", error), limits::ERROR_BYTES);
                (End::Trap, Err(Fault::other(format!("plugin `{id}` crashed: {reason}"))))
            }
        }
    }

    async fn tell(&self, state: &mut PluginState, setup: &CallSetup, end: End, duration: Duration) {
        let (given, events) = (std::mem::take(&mut state.given), &state.cx.events);
        if !events.is_heard() {
            return;
        }
        let agent = || Arc::clone(&state.cx.agent);
        if let Some(Progress { call, waiting: Some((done, total, message)), .. }) = state.progress.take() {
            events.emit(Event::ToolProgress { agent: agent(), call, done, total, message }).await;
        }
        if state.log_dropped > 0 {
            let message = format!("{} more log entries were dropped", state.log_dropped);
            let (plugin, level) = (Arc::clone(&self.id), LogLevel::Warn);
            events.emit(Event::PluginLog { agent: agent(), plugin, level, message }).await;
        }
        let outcome = match end {
            End::Ok => "ok",
            End::Fault => "error",
            End::Trap => "trap",
            End::Limit => "limit",
            End::Timeout => "timeout",
        };
        let told = Event::PluginCall {
            agent: agent(),
            plugin: Arc::clone(&self.id),
            function: setup.function,
            outcome,
            duration,
            cpu: state.meter.cpu(),
            memory: state.limiter.memory(),
            host_calls: state.meter.host_calls(),
            bytes_in: state.bytes_in,
            bytes_out: state.bytes_out,
            given,
        };
        events.emit(told).await;
    }
}

/// How the engine begins to say that a component has more core instances than it may.
const TOO_MANY_INSTANCES: &str = "instance count too high";

/// Bytes in the largest unit in which they are a whole number.
fn shown(bytes: usize) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}
