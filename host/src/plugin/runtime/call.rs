use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::timeout;
use wasmtime::{
    Store, Trap,
    component::{Instance, InstancePre},
};

use super::{PluginState, Progress, limiter::Bound, state::Waits};
use crate::{
    error::Fault,
    event::{Event, LogLevel, RunCx},
    limits,
    plugin::{
        convert::{self, WitError},
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
}

/// How a call ended, seen from outside.
enum End {
    Ok,
    Fault,
    Trap,
    Limit,
    Timeout,
}

/// The call's value; none if it has taken longer than `time`, its waits left out.
async fn within<R>(time: Duration, waits: &Waits, call: impl Future<Output = R>) -> Option<R> {
    let started = Instant::now();
    let mut call = pin!(call);
    loop {
        let left = (time + waits.total()).checked_sub(started.elapsed()).filter(|left| !left.is_zero())?;
        // While it waits, what is left does not shrink: look again, but not all the time.
        if let Ok(value) = timeout(left.max(limits::EPOCH_TICK), &mut call).await {
            return Some(value);
        }
    }
}

impl Plugin {
    /// Makes a fresh instance, calls it and drops it. Whatever happens in there, this returns: in time, and without
    /// touching any other plugin.
    ///
    /// `prepare` gives the store what this call may see beside the plugin's grant; `call` loads the kind and calls it.
    /// Its value comes back with what is left of the store's data.
    pub(in crate::plugin) async fn call<R>(
        &self,
        cx: &RunCx,
        setup: CallSetup,
        prepare: impl FnOnce(&mut PluginState),
        call: impl AsyncFnOnce(&mut Store<PluginState>, &Instance) -> wasmtime::Result<Result<R, WitError>>,
    ) -> Result<R, Fault> {
        self.call_on(&self.pre, cx, setup, prepare, call).await
    }

    /// The same on another linking of the component: the loader tries it with less.
    pub(in crate::plugin) async fn call_on<R>(
        &self,
        pre: &InstancePre<PluginState>,
        cx: &RunCx,
        setup: CallSetup,
        prepare: impl FnOnce(&mut PluginState),
        call: impl AsyncFnOnce(&mut Store<PluginState>, &Instance) -> wasmtime::Result<Result<R, WitError>>,
    ) -> Result<R, Fault> {
        let places = self.engine.places(setup.lane);
        let _place = places.acquire_many(self.places).await.map_err(|_| Fault::other("the plugin engine is closed"))?;
        let started = Instant::now();
        let mut store = self.store(cx);
        prepare(store.data_mut());

        let waits = Arc::clone(&store.data().waits);
        let called = within(setup.time, &waits, async {
            let instance = pre.instantiate_async(&mut store).await?;
            call(&mut store, &instance).await
        });
        let called = called.await;
        let (end, outcome) = match called {
            Some(Ok(Ok(value))) => (End::Ok, Ok(value)),
            Some(Ok(Err(error))) => (End::Fault, Err(convert::fault(error))),
            Some(Err(error)) => self.crashed(&store, &error),
            None => {
                let message = format!("plugin `{}` took longer than {} seconds", self.id, setup.time.as_secs_f32());
                (End::Timeout, Err(Fault::Timeout { message }))
            }
        };
        self.tell(store.data_mut(), &setup, end, started.elapsed()).await;
        outcome
    }

    fn store(&self, cx: &RunCx) -> Store<PluginState> {
        let state = PluginState::new(
            cx.clone(),
            Arc::clone(&self.id),
            Arc::clone(&self.config),
            self.files.clone(),
            self.engine.limits().memory,
        );
        let mut store = Store::new(self.engine.engine(), state);
        store.limiter(|state| &mut state.limiter);
        // A busy guest yields at every tick, so that the timeout around it is seen.
        store.epoch_deadline_async_yield_and_update(1);
        store.set_hostcall_fuel(limits::HOSTCALL_BYTES);
        store
    }

    fn crashed<R>(&self, store: &Store<PluginState>, error: &wasmtime::Error) -> (End, Result<R, Fault>) {
        let id = &self.id;
        let hit = store.data().limiter.hit;
        let (end, message) = match (hit, error.downcast_ref::<Trap>()) {
            (Some(Bound::Memory { bytes }), _) => {
                (End::Limit, format!("plugin `{id}` needs more than its {} MiB of memory", bytes >> 20))
            }
            (Some(Bound::Tables), _) => {
                let most = limits::PLUGIN_TABLE_ELEMENTS;
                (End::Limit, format!("plugin `{id}` needs tables of more than {most} elements"))
            }
            (None, Some(Trap::StackOverflow)) => {
                let most = limits::PLUGIN_STACK_BYTES >> 10;
                (End::Limit, format!("plugin `{id}` needs more than its {most} KiB of stack"))
            }
            (None, Some(trap)) => (End::Trap, format!("plugin `{id}` crashed: {trap}")),
            (None, None) => {
                let reason = convert::bounded(format!("{:#}", error), limits::ERROR_BYTES);
                (End::Trap, format!("plugin `{id}` crashed: {reason}"))
            }
        };
        let fault = if matches!(end, End::Limit) { Fault::Exhausted { message } } else { Fault::other(message) };
        (end, Err(fault))
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
        if let Some(dropped) = state.log_entries.checked_sub(limits::LOG_ENTRIES).filter(|dropped| *dropped > 0) {
            let message = format!("{dropped} more log entries were dropped");
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
        let (plugin, function, memory) = (Arc::clone(&self.id), setup.function, state.limiter.memory());
        events.emit(Event::PluginCall { agent: agent(), plugin, function, outcome, duration, memory, given }).await;
    }
}
