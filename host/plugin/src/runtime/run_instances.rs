//! Instances that last as long as a run of an agent: for components whose functions take and return handles, or whose
//! manifest asks for it. Each takes a permit of a lane of its own; its calls run one after the other.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit},
    time::{Instant, sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use wasmtime::{Store, component::Instance};

use super::executor::{CallSetup, GuestExecutor, wait_for_growth};
use crate::{
    convert::{GuestPayload, WitError},
    functions::ResourceHandles,
    metering::Lane,
    store::PluginState,
};
use shelly_core::{
    error::Fault,
    event::{PluginCallOutcome, RunCx},
    limits,
};

/// The kept instances of one run of an agent, dropped with the run.
#[derive(Default)]
pub struct RunInstances(Mutex<Vec<PluginSlot>>);

/// A plugin, and the slot of its instance.
type PluginSlot = (Arc<GuestExecutor>, Arc<AsyncMutex<InstanceSlot>>);

/// The slot of the instance of one plugin in one run.
pub struct InstanceSlot {
    /// The handles that the model has been given.
    pub handles: ResourceHandles,
    live: Option<LiveInstance>,
    /// The task that drops an idle instance. It ends with the slot.
    idle: Option<AbortOnDropHandle<()>>,
    me: Weak<AsyncMutex<InstanceSlot>>,
}

/// An instance between two calls.
struct LiveInstance {
    store: Store<PluginState>,
    instance: Instance,
    used: Instant,
    _permits: [OwnedSemaphorePermit; 2],
}

impl RunInstances {
    /// Locks the slot of this plugin; waits while another call uses it.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if other calls use it for longer than [`limits::PLUGIN_PERMIT_WAIT`].
    pub async fn slot(&self, executor: &Arc<GuestExecutor>) -> Result<OwnedMutexGuard<InstanceSlot>, Fault> {
        let slot = {
            let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match slots.iter().find(|(of, _)| Arc::ptr_eq(of, executor)) {
                Some((_, slot)) => Arc::clone(slot),
                None => {
                    let slot = Arc::new_cyclic(|me| AsyncMutex::new(InstanceSlot::new(me.clone())));
                    slots.push((Arc::clone(executor), Arc::clone(&slot)));
                    slot
                }
            }
        };
        let mut slot = timeout(limits::PLUGIN_PERMIT_WAIT, slot.lock_owned()).await.map_err(|_| {
            let (id, waited) = (&executor.id, limits::PLUGIN_PERMIT_WAIT.as_secs());
            let message = format!(
                "the calls of plugin `{id}` in one run are sequential, and none ended within {waited} seconds; retry \
                 later"
            );
            Fault::Unavailable { message, after: None }
        })?;
        if slot.live.is_none() && !slot.handles.is_empty() {
            slot.lose("a call of its plugin was cancelled");
        }
        Ok(slot)
    }
}

impl InstanceSlot {
    fn new(me: Weak<AsyncMutex<Self>>) -> Self {
        Self { handles: ResourceHandles::default(), live: None, idle: None, me }
    }

    /// Drops the instance, and invalidates the model's handles.
    pub fn lose(&mut self, why: &str) {
        self.live = None;
        self.handles.lose(why);
    }

    /// Keeps an instance until the next call, or until it has been idle for too long.
    fn keep(&mut self, live: LiveInstance) {
        self.live = Some(live);
        if self.idle.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            self.idle = Some(AbortOnDropHandle::new(tokio::spawn(drop_when_idle(self.me.clone()))));
        }
    }
}

async fn drop_when_idle(slot: Weak<AsyncMutex<InstanceSlot>>) {
    loop {
        let left = {
            let Some(slot) = slot.upgrade() else { return };
            // While this waits it holds nothing, so that the memory goes with the run. One that is locked is not idle.
            match slot.try_lock() {
                Err(_) => limits::KEPT_IDLE,
                Ok(mut held) => {
                    let Some(live) = &held.live else { return };
                    let left = limits::KEPT_IDLE.saturating_sub(live.used.elapsed());
                    if left.is_zero() {
                        let minutes = limits::KEPT_IDLE.as_secs() / 60;
                        return held.lose(&format!("its plugin had not been called for {minutes} minutes"));
                    }
                    left
                }
            }
        };
        sleep(left).await;
    }
}

impl GuestExecutor {
    /// Calls the instance that is kept in this slot, or creates one and keeps it. An instance that traps, exceeds a
    /// limit or times out is dropped, and so is one whose call is cancelled.
    pub async fn call_kept<R: GuestPayload>(
        &self,
        slot: &mut InstanceSlot,
        cx: &RunCx,
        setup: CallSetup,
        prepare: impl FnOnce(&mut PluginState),
        call: impl AsyncFnOnce(&mut Store<PluginState>, &Instance) -> wasmtime::Result<Result<R, WitError>>,
    ) -> Result<R, Fault> {
        let _permit = match self.own_permit().await {
            Ok(permit) => permit,
            Err(fault) => return self.refuse(cx, &setup, fault).await,
        };
        let (mut store, mut instance, permits) = match slot.live.take() {
            Some(LiveInstance { store, instance, _permits, .. }) => (store, Some(instance), _permits),
            None => match self.shared_permits(Lane::Kept).await {
                Ok(permits) => (self.store(cx), None, permits),
                Err(fault) => return self.refuse(cx, &setup, fault).await,
            },
        };
        store.data_mut().begin(cx);
        prepare(store.data_mut());
        let (end, outcome) = self
            .drive(&mut store, &setup, async |store| {
                let live = match instance {
                    Some(live) => live,
                    None => {
                        let live = *instance.insert(self.pre.instantiate_async(&mut *store).await?);
                        wait_for_growth(store);
                        live
                    }
                };
                call(store, &live).await
            })
            .await;
        store.data_mut().rest();
        match (end, instance) {
            (PluginCallOutcome::Ok | PluginCallOutcome::Error, Some(instance)) => {
                slot.keep(LiveInstance { store, instance, used: Instant::now(), _permits: permits });
            }
            (PluginCallOutcome::Timeout, _) => slot.lose("its plugin timed out"),
            (PluginCallOutcome::Limit, _) => slot.lose("its plugin exceeded a limit"),
            (PluginCallOutcome::Trap | PluginCallOutcome::Ok | PluginCallOutcome::Error, _) => {
                slot.lose("its plugin crashed")
            }
        }
        outcome
    }
}
