use std::sync::Arc;

use wasmtime::{ResourceLimiter, bail};

use super::{
    guest_memory::{MemoryRefusal, MemoryReservation, MemoryShare},
    limits::Limits,
    meter::CallMeter,
};
use shelly_core::{
    event::{Event, RunCx},
    limits,
};

/// Counts what one instance holds and stops it at its limits: one for all its memories, one for all its tables. Bytes
/// are reserved from the process's guest memory first.
///
/// Used as a [`ResourceLimiter`] it never waits, which costs no allocation. A store's state implements
/// [`ResourceLimiterAsync`](wasmtime::ResourceLimiterAsync) with the same limits through
/// [`grow_memory`](Self::grow_memory) and [`grow_table`](Self::grow_table), which wait if there is too little memory.
#[derive(Debug)]
pub struct InstanceLimiter {
    limits: Arc<Limits>,
    memory: usize,
    tables: usize,
    /// The reservation for memories and tables.
    reserved: MemoryReservation,
    /// `true` while the instance is being created.
    is_new: bool,
    /// `true` once the event about waiting for memory has been emitted.
    is_told: bool,
    /// The limit that the instance hit, if any: reported in place of the trap that follows.
    pub hit: Option<GuestLimit>,
}

/// A limit on what an instance holds, or on the bytes passed to and from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestLimit {
    Memory,
    Tables,
    Input,
    Output,
    /// The limit on what all plugins hold together.
    ProcessMemory(MemoryRefusal),
}

/// The call whose instance grows.
#[derive(Clone, Copy)]
pub struct MemoryRequester<'a> {
    /// The context of the run, whose listeners are told of a wait.
    pub cx: &'a RunCx,
    /// The plugin's id.
    pub plugin: &'a Arc<str>,
    /// The meter of the call.
    pub meter: &'a CallMeter,
}

/// The amounts that an instance would hold after it grows.
#[derive(Debug, Clone, Copy)]
struct InstanceGrowth {
    memory: usize,
    tables: usize,
}

impl InstanceGrowth {
    fn bytes(self) -> usize {
        self.memory.saturating_add(self.tables.saturating_mul(limits::TABLE_ELEMENT_BYTES))
    }
}

impl InstanceLimiter {
    pub fn new(limits: Arc<Limits>, share: Arc<MemoryShare>) -> Self {
        let reserved = MemoryReservation::new(share);
        Self { limits, memory: 0, tables: 0, reserved, is_new: true, is_told: false, hit: None }
    }

    /// Returns the bytes of linear memory that the instance holds. Memory does not shrink, so this is also its maximum.
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Returns `true` if the instance that is created next may have to wait for its memory.
    pub fn may_wait(&self) -> bool {
        self.reserved.budget().is_short()
    }

    /// Records that the instance has been created.
    pub fn end_instantiation(&mut self) {
        self.is_new = false;
    }

    /// Resets what belongs to one call, before the next call of a kept instance.
    pub fn begin(&mut self) {
        (self.hit, self.is_told) = (None, false);
    }

    /// Returns the amounts that the instance would hold with a memory of `desired` bytes; `None` if it may not have it.
    fn with_memory(&mut self, current: usize, desired: usize, most: Option<usize>) -> Option<InstanceGrowth> {
        let memory = self.memory.saturating_add(desired.saturating_sub(current));
        if memory > self.limits.memory_bytes {
            self.hit = Some(GuestLimit::Memory);
            return None;
        }
        (!is_beyond(desired, most)).then_some(InstanceGrowth { memory, tables: self.tables })
    }

    /// Returns the amounts that the instance would hold with a table of `desired` elements; `None` if it may not have
    /// it.
    fn with_table(&mut self, current: usize, desired: usize, most: Option<usize>) -> Option<InstanceGrowth> {
        let tables = self.tables.saturating_add(desired.saturating_sub(current));
        if tables > self.limits.table_elements {
            self.hit = Some(GuestLimit::Tables);
            return None;
        }
        (!is_beyond(desired, most)).then_some(InstanceGrowth { memory: self.memory, tables })
    }

    /// Records growth. An earlier refusal is then not what ends the instance.
    fn set(&mut self, to: InstanceGrowth) {
        (self.memory, self.tables) = (to.memory, to.tables);
        self.hit = self.hit.filter(|bound| !matches!(bound, GuestLimit::Memory | GuestLimit::Tables));
    }

    /// Grows a memory; waits if there is too little memory. The wait is not counted as the guest's time.
    pub async fn grow_memory(
        &mut self,
        (current, desired, most): (usize, usize, Option<usize>),
        call: MemoryRequester<'_>,
    ) -> wasmtime::Result<bool> {
        let growth = self.with_memory(current, desired, most);
        self.grow(growth, call).await
    }

    /// Grows a table, like [`grow_memory`](Self::grow_memory).
    pub async fn grow_table(
        &mut self,
        (current, desired, most): (usize, usize, Option<usize>),
        call: MemoryRequester<'_>,
    ) -> wasmtime::Result<bool> {
        let growth = self.with_table(current, desired, most);
        self.grow(growth, call).await
    }

    async fn grow(&mut self, to: Option<InstanceGrowth>, call: MemoryRequester<'_>) -> wasmtime::Result<bool> {
        let Some(to) = to else { return Ok(false) };
        let MemoryRequester { cx, plugin, meter } = call;
        let Self { reserved, is_new, is_told, .. } = self;
        if reserved.try_reserve(to.bytes(), *is_new).is_ok() {
            self.set(to);
            return Ok(true);
        }
        let _waiting = meter.waits.begin();
        let waited = reserved.wait(to.bytes(), *is_new, async |usage| {
            // At most once per call: a guest that grows in small steps would cause many events.
            if !std::mem::replace(is_told, true) {
                let (agent, plugin) = (Arc::clone(&cx.agent), Arc::clone(plugin));
                let event = Event::PluginWaits { agent, plugin, held: usage.held, total: usage.total };
                cx.events.emit(event).await;
            }
        });
        match waited.await {
            Ok(()) => {
                self.set(to);
                Ok(true)
            }
            Err(refusal) => {
                self.hit = Some(GuestLimit::ProcessMemory(refusal));
                bail!("the memory of all plugins is used up");
            }
        }
    }

    fn grow_now(&mut self, to: Option<InstanceGrowth>) -> wasmtime::Result<bool> {
        let Some(to) = to else { return Ok(false) };
        match self.reserved.reserve_now(to.bytes(), self.is_new) {
            Ok(()) => {
                self.set(to);
                Ok(true)
            }
            Err(refusal) => {
                self.hit = Some(GuestLimit::ProcessMemory(refusal));
                // An error and not `false`: the guest must end, so that its memory is returned.
                bail!("the memory of all plugins is used up");
            }
        }
    }
}

/// Returns `true` if the declared maximum of the memory or table is exceeded; growth then fails in the guest.
fn is_beyond(desired: usize, most: Option<usize>) -> bool {
    most.is_some_and(|most| desired > most)
}

impl ResourceLimiter for InstanceLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let growth = self.with_memory(current, desired, most);
        self.grow_now(growth)
    }

    fn table_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let growth = self.with_table(current, desired, most);
        self.grow_now(growth)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn memories(&self) -> usize {
        limits::PLUGIN_MEMORIES as usize
    }

    fn tables(&self) -> usize {
        limits::PLUGIN_TABLES as usize
    }
}
