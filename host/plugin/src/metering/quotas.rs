//! The quotas that calls of plugins share: permits for calls, turns on the processor, calls of imported functions.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

use super::{
    guest_memory::{MemoryAccount, MemoryShare},
    lane::Lane,
    limits::Limits,
};
use shelly_core::limits;

/// A queue for turns on the processor, each for one poll of a call that computes: one turn per core except one, and at
/// least one. First come, first served.
#[derive(Debug)]
pub struct CpuQueue {
    free: Semaphore,
    /// The number of turns that have ended, by which a waiter knows that the queue moves.
    ended: AtomicU64,
}

/// A turn in one queue; it ends when it is dropped.
struct CpuQueuePermit<'a> {
    ended: &'a AtomicU64,
    _permit: SemaphorePermit<'a>,
}

impl CpuQueue {
    pub fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::of(cores.saturating_sub(1).max(1))
    }

    fn of(count: usize) -> Self {
        Self { free: Semaphore::new(count), ended: AtomicU64::new(0) }
    }

    /// Waits for a turn, however long the queue is. Returns `None` if no turn has ended within
    /// [`limits::PLUGIN_TURN_WAIT`]: the holder of a turn is then not being polled, and that must not block everybody.
    async fn next(&self) -> Option<CpuQueuePermit<'_>> {
        let mut in_line = pin!(self.free.acquire());
        loop {
            let before = self.ended.load(Relaxed);
            match timeout(limits::PLUGIN_TURN_WAIT, &mut in_line).await {
                Ok(permit) => return Some(CpuQueuePermit { ended: &self.ended, _permit: permit.ok()? }),
                Err(_) if self.ended.load(Relaxed) == before => return None,
                Err(_) => {}
            }
        }
    }
}

impl Drop for CpuQueuePermit<'_> {
    fn drop(&mut self) {
        self.ended.fetch_add(1, Relaxed);
    }
}

/// The quotas that all calls of one component share, so that no plugin takes everything, however many agents have it.
#[derive(Debug)]
pub struct ComponentPool {
    steps: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    /// The memory that its instances hold.
    memory: Arc<MemoryAccount>,
    /// The queue among the calls of this component. A call takes a turn here first, so that a plugin with many calls
    /// waits in the queue of all plugins no more often than one with few.
    turns: CpuQueue,
}

impl ComponentPool {
    /// Creates the pool of a component with this many permits per lane.
    pub fn new(steps: u32, streams: u32, kept: u32) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count as usize));
        let memory = Arc::default();
        Self { steps: permits(steps), streams: permits(streams), kept: permits(kept), memory, turns: CpuQueue::new() }
    }

    pub fn memory(&self) -> &Arc<MemoryAccount> {
        &self.memory
    }

    pub fn permits(&self, lane: Lane) -> &Arc<Semaphore> {
        match lane {
            Lane::Step => &self.steps,
            Lane::Stream => &self.streams,
            Lane::Kept => &self.kept,
        }
    }
}

/// The quotas that all calls of one plugin of one agent share.
#[derive(Debug)]
pub struct PluginQuota {
    permits: Semaphore,
    pool: Arc<ComponentPool>,
    memory: Arc<MemoryShare>,
    host_calls_per_second: u32,
    /// The time until which the calls of imported functions made so far have used up the allowed rate.
    host_calls_paid: Mutex<Option<Instant>>,
}

/// A turn on the processor; it ends when it is dropped.
pub struct CpuPermit<'a> {
    _of_plugin: CpuQueuePermit<'a>,
    _of_all: CpuQueuePermit<'a>,
}

impl PluginQuota {
    pub fn new(limits: &Limits, pool: Arc<ComponentPool>, memory: Arc<MemoryShare>) -> Self {
        Self {
            permits: Semaphore::new(limits.concurrency as usize),
            pool,
            memory,
            host_calls_per_second: limits.host_calls_per_second,
            host_calls_paid: Mutex::default(),
        }
    }

    /// Takes a permit among the calls of its plugin, if one is free and nobody waits for it.
    pub fn try_acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.try_acquire().ok()
    }

    /// Waits for a permit among the calls of its plugin.
    pub async fn acquire(&self) -> Option<SemaphorePermit<'_>> {
        self.permits.acquire().await.ok()
    }

    /// Returns the memory share from which its instances are charged.
    pub fn memory(&self) -> &Arc<MemoryShare> {
        &self.memory
    }

    /// Returns the pool that it shares with the same plugin of other agents.
    pub fn pool(&self) -> &ComponentPool {
        &self.pool
    }

    /// Waits for a turn among the calls of its component, and then among all calls; `None` if one of the queues does
    /// not move.
    pub async fn turn<'a>(&'a self, all: &'a CpuQueue) -> Option<CpuPermit<'a>> {
        let _of_plugin = self.pool.turns.next().await?;
        Some(CpuPermit { _of_plugin, _of_all: all.next().await? })
    }

    /// Returns the time until which a call waits before it begins, because earlier calls called imported functions too
    /// often; `None` if it begins now.
    pub fn pause(&self) -> Option<Instant> {
        let paid = *self.host_calls_paid.lock().unwrap_or_else(PoisonError::into_inner);
        paid.and_then(|until| pause_until(until, Instant::now()))
    }

    /// Records `calls` calls of imported functions. Returns the time until which the caller waits; `None` if it
    /// continues.
    pub fn pay(&self, calls: u64) -> Option<Instant> {
        if calls == 0 {
            return None;
        }
        let now = Instant::now();
        let cost = Duration::from_secs_f64(calls as f64 / f64::from(self.host_calls_per_second));
        let mut paid = self.host_calls_paid.lock().unwrap_or_else(PoisonError::into_inner);
        let until = paid.map_or(now, |paid| paid.max(now)) + cost;
        *paid = Some(until);
        pause_until(until, now)
    }
}

fn pause_until(paid: Instant, now: Instant) -> Option<Instant> {
    (paid > now + limits::HOST_CALLS_AT_ONCE).then(|| paid - limits::HOST_CALLS_AT_ONCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metering::GuestMemoryBudget;

    fn share(host_calls_per_second: u32) -> PluginQuota {
        let limits = Limits { host_calls_per_second, ..Limits::default() };
        let memory = MemoryShare::new(Arc::new(GuestMemoryBudget::new(0)), Arc::default(), Arc::default());
        PluginQuota::new(&limits, Arc::new(ComponentPool::new(1, 1, 1)), Arc::new(memory))
    }

    #[tokio::test(start_paused = true)]
    async fn host_calls_beyond_one_second_burst_are_delayed() {
        let share = share(10);
        let start = Instant::now();
        let seconds = |calls: u64| share.pay(calls).map(|until| (until - start).as_secs_f64());
        assert_eq!(seconds(0), None);
        assert_eq!(seconds(10), None);
        assert_eq!(seconds(1), Some(0.1));
        assert_eq!(seconds(20), Some(2.1));
        assert_eq!(share.pause().map(|until| (until - start).as_secs_f64()), Some(2.1));
        // Unused allowance expires, except for one second's worth.
        tokio::time::advance(limits::PLUGIN_PERMIT_WAIT).await;
        assert_eq!((share.pause(), share.pay(10), share.pause()), (None, None, None));
        assert!(share.pay(1).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn cpu_queue_is_fair_between_components() {
        let (all, many, few) = (CpuQueue::of(1), share(1), share(1));
        let order = Mutex::new(Vec::new());
        let first = few.turn(&all).await;
        let take = async |share: &PluginQuota, name: &'static str| {
            let turn = share.turn(&all).await;
            order.lock().unwrap().push(name);
            tokio::task::yield_now().await;
            drop(turn);
        };
        let pool = async { futures_util::future::join_all((0..20).map(|_| take(&many, "many"))).await };
        let single = async {
            tokio::task::yield_now().await;
            take(&few, "few").await;
        };
        let start = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            drop(first);
        };
        tokio::join!(pool, single, start);
        let order = order.into_inner().unwrap();
        let at = order.iter().position(|name| *name == "few").unwrap();
        let ahead = thread::available_parallelism().map_or(1, usize::from);
        assert!(order.len() == 21 && at <= ahead, "{order:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn cpu_turn_that_is_not_polled_times_out() {
        let (all, one, other) = (CpuQueue::of(1), share(1), share(1));
        let held = one.turn(&all).await;
        let start = Instant::now();
        assert!(held.is_some() && other.turn(&all).await.is_none());
        assert_eq!(start.elapsed(), limits::PLUGIN_TURN_WAIT);
        drop(held);
        assert!(other.turn(&all).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn cpu_queue_that_moves_never_times_out() {
        let all = CpuQueue::of(1);
        let start = Instant::now();
        // Each turn takes half of the time after which a queue counts as stuck.
        let take = async || {
            let share = share(1);
            let turn = share.turn(&all).await;
            tokio::time::sleep(limits::PLUGIN_TURN_WAIT / 2).await;
            turn.is_some()
        };
        let taken = futures_util::future::join_all((0..300).map(|_| take())).await;
        assert!(taken.iter().all(|had_one| *had_one));
        assert!(start.elapsed() >= 150 * limits::PLUGIN_TURN_WAIT);
    }
}
