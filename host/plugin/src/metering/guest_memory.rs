//! The budget of guest memory of the process: the bytes that all instances of all plugins hold, memories and tables.
//!
//! A call reserves bytes before its instance gets them, and returns all of them when its store is dropped. Nothing is
//! returned earlier, since linear memory does not shrink. An instance that is kept for a run holds its bytes as long as
//! it is kept.
//!
//! **Shares.** No component and no agent holds more than [`limits::PLUGIN_QUARTERS_OF_ONE`] quarters of the total, so
//! others find some. An instance that is being created leaves [`limits::GUEST_MEMORY_RESERVE_PART`] of the total free:
//! running calls finish with it, and then return what they hold.
//!
//! **Waiting.** A call that finds too little waits. Calls are served in this order: the component that holds least;
//! within it running calls before new ones; among those the call that holds most, since it is likely to finish first;
//! then the one that has waited longest. When a running call finds too little in the whole process, nobody behind it is
//! served, so that freed bytes collect for it.
//!
//! **No deadlock.** Calls that hold memory could wait for each other, so every wait ends: after
//! [`limits::GUEST_MEMORY_WAIT`] for a running call, after [`limits::PLUGIN_PERMIT_WAIT`] for a new one. If all bytes of
//! the total, of a component or of an agent are held by calls that wait, one call is refused at once: of the component
//! that holds most, the call that holds least. A refused call traps. Its `memory.grow` does not return -1, since the
//! call would then keep what it holds.
//!
//! **Cost.** While nobody waits, a reservation adds to three counters and takes no lock.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
};

use tokio::{sync::oneshot, time::timeout};

use shelly_core::limits;

/// The budget of the memory that all guests of the process hold together.
#[derive(Debug)]
pub struct GuestMemoryBudget {
    total: usize,
    held: AtomicUsize,
    /// The number of calls that wait; read without the lock by calls that reserve and return bytes.
    waiting: AtomicUsize,
    queue: Mutex<MemoryQueue>,
}

/// The bytes that guests hold of the budget of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuestMemoryUse {
    /// Bytes that instances hold now.
    pub held: usize,
    /// Bytes that instances may hold together.
    pub total: usize,
}

/// The bytes that one component or one agent holds of the budget.
#[derive(Debug, Default)]
pub struct MemoryAccount(AtomicUsize);

/// The accounts to which the calls of one plugin of one agent are charged.
#[derive(Debug)]
pub struct MemoryShare {
    budget: Arc<GuestMemoryBudget>,
    component: Arc<MemoryAccount>,
    agent: Arc<MemoryAccount>,
}

/// The memory that one instance holds; returned when this is dropped.
#[derive(Debug)]
pub struct MemoryReservation {
    share: Arc<MemoryShare>,
    bytes: usize,
}

/// The bound that a reservation would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryShortage {
    /// The bound on all plugins.
    Process,
    /// The bound on one plugin, over all agents.
    Component,
    /// The bound on all plugins of one agent.
    Agent,
}

/// The refusal of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRefusal {
    /// The bytes that were requested.
    pub bytes: usize,
    /// The bound that would have been exceeded.
    pub shortage: MemoryShortage,
    pub reason: MemoryRefusalReason,
}

/// The reason why a call does not wait any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryRefusalReason {
    /// Too little was returned in time.
    WaitedTooLong,
    /// All calls that hold memory wait for more.
    Deadlock,
    /// The request exceeds what one component or agent may ever hold.
    BeyondShare,
    /// The bytes were not available, and this attempt does not wait.
    CannotWait,
}

#[derive(Debug, Default)]
struct MemoryQueue {
    waiters: Vec<MemoryWaiter>,
    next_id: u64,
}

#[derive(Debug)]
struct MemoryWaiter {
    id: u64,
    share: Arc<MemoryShare>,
    bytes: usize,
    /// The bytes that its instance holds.
    holds: usize,
    is_new: bool,
    decision: oneshot::Sender<Result<(), MemoryRefusal>>,
}

impl GuestMemoryBudget {
    pub fn new(total: usize) -> Self {
        Self { total, held: AtomicUsize::new(0), waiting: AtomicUsize::new(0), queue: Mutex::default() }
    }

    pub fn usage(&self) -> GuestMemoryUse {
        GuestMemoryUse { held: self.held.load(Relaxed), total: self.total }
    }

    /// Returns the most bytes that one component, or the plugins of one agent, may hold.
    pub fn most_of_one(&self) -> usize {
        self.total / 4 * limits::PLUGIN_QUARTERS_OF_ONE as usize
    }

    /// Returns the total with which one call can have `bytes` of memory and the tables that it has by default.
    pub fn total_for(bytes: usize) -> usize {
        let tables = limits::PLUGIN_TABLE_ELEMENTS * limits::TABLE_ELEMENT_BYTES;
        bytes
            .saturating_add(tables.next_multiple_of(limits::WASM_PAGE_BYTES))
            .div_ceil(limits::PLUGIN_QUARTERS_OF_ONE as usize)
            .saturating_mul(4)
    }

    /// Returns `true` if a call may soon find too little.
    pub fn is_short(&self) -> bool {
        self.waiting.load(Relaxed) > 0 || self.held.load(Relaxed) > self.total / 2
    }

    /// Returns the most bytes that may be held in all after a reservation.
    fn most(&self, is_new: bool) -> usize {
        if is_new { self.total - self.total / limits::GUEST_MEMORY_RESERVE_PART } else { self.total }
    }

    fn try_take(&self, share: &MemoryShare, bytes: usize, is_new: bool) -> Result<(), MemoryShortage> {
        let of_one = self.most_of_one();
        if !add(&share.component.0, bytes, of_one) {
            return Err(MemoryShortage::Component);
        }
        if !add(&share.agent.0, bytes, of_one) {
            share.component.0.fetch_sub(bytes, SeqCst);
            return Err(MemoryShortage::Agent);
        }
        if !add(&self.held, bytes, self.most(is_new)) {
            share.component.0.fetch_sub(bytes, SeqCst);
            share.agent.0.fetch_sub(bytes, SeqCst);
            return Err(MemoryShortage::Process);
        }
        Ok(())
    }

    /// Takes bytes without the lock of the queue. An attempt that fails has held some of them for an instant, in which
    /// a waiter may have been passed over, so the queue is served again.
    fn try_take_unqueued(&self, share: &MemoryShare, bytes: usize, is_new: bool) -> Result<(), MemoryShortage> {
        let taken = self.try_take(share, bytes, is_new);
        if taken.is_err() {
            self.serve_waiters();
        }
        taken
    }

    fn subtract(&self, share: &MemoryShare, bytes: usize) {
        share.component.0.fetch_sub(bytes, SeqCst);
        share.agent.0.fetch_sub(bytes, SeqCst);
        self.held.fetch_sub(bytes, SeqCst);
    }

    fn give_back(&self, share: &MemoryShare, bytes: usize) {
        self.subtract(share, bytes);
        self.serve_waiters();
    }

    /// Serves the queue if a call waits in it.
    fn serve_waiters(&self) {
        // A call that begins to wait counts itself and then looks again, so one of the two sees the other.
        if self.waiting.load(SeqCst) > 0 {
            self.serve(&mut self.queue());
        }
    }

    /// Grants the waiters what there is, in order, and refuses one if nobody would ever return anything.
    fn serve(&self, queue: &mut MemoryQueue) {
        let waiters = &mut queue.waiters;
        // Cached, since accounts change while the waiters are sorted.
        waiters.sort_by_cached_key(MemoryWaiter::rank);
        self.grant(waiters, true);
        if self.deadlock(waiters).is_some()
            // A waiter behind a request that is too large may finish, and return its bytes.
            && !self.grant(waiters, false)
            && let Some((at, shortage)) = self.deadlock(waiters)
        {
            let MemoryWaiter { bytes, decision, .. } = waiters.remove(at);
            // The receiver may be gone.
            let _ = decision.send(Err(MemoryRefusal { bytes, shortage, reason: MemoryRefusalReason::Deadlock }));
        }
        self.waiting.store(waiters.len(), SeqCst);
    }

    /// Grants waiters what there is, in order; returns `true` if one was served. With `in_order` nobody is served
    /// behind a running call that finds too little in all.
    fn grant(&self, waiters: &mut Vec<MemoryWaiter>, in_order: bool) -> bool {
        let (mut at, before) = (0, waiters.len());
        while let Some(waiter) = waiters.get(at) {
            match self.try_take(&waiter.share, waiter.bytes, waiter.is_new) {
                Ok(()) => {
                    let MemoryWaiter { share, bytes, decision, .. } = waiters.remove(at);
                    if decision.send(Ok(())).is_err() {
                        self.subtract(&share, bytes);
                    }
                }
                Err(MemoryShortage::Process) if in_order && !waiter.is_new => break,
                Err(_) => at += 1,
            }
        }
        waiters.len() < before
    }

    /// Returns the waiter to refuse if an account is held by waiters alone, so that nothing is ever returned to it: of
    /// the component that holds most, the call that holds least.
    fn deadlock(&self, waiters: &[MemoryWaiter]) -> Option<(usize, MemoryShortage)> {
        // The bytes that the waiters of each account hold.
        let mut accounts: HashMap<*const MemoryAccount, usize> = HashMap::new();
        let mut held_by_waiters = 0;
        for waiter in waiters {
            for account in [&waiter.share.component, &waiter.share.agent] {
                *accounts.entry(Arc::as_ptr(account)).or_default() += waiter.holds;
            }
            held_by_waiters += waiter.holds;
        }
        let of = |account: &Arc<MemoryAccount>| accounts.get(&Arc::as_ptr(account)).copied().unwrap_or_default();
        let is_stuck = |account: &Arc<MemoryAccount>, bytes: usize| {
            let held = account.held();
            held.saturating_add(bytes) > self.most_of_one() && of(account) >= held
        };
        let refused = |is_one: &dyn Fn(&MemoryWaiter) -> bool| {
            let holders = waiters.iter().enumerate().filter(|(_, waiter)| waiter.holds > 0 && is_one(waiter));
            let first = holders.min_by_key(|(_, waiter)| (Reverse(of(&waiter.share.component)), waiter.holds));
            first.map(|(at, _)| at)
        };
        for waiter in waiters {
            let MemoryShare { component, agent, .. } = &*waiter.share;
            if is_stuck(component, waiter.bytes)
                && let Some(at) = refused(&|other| Arc::ptr_eq(&other.share.component, component))
            {
                return Some((at, MemoryShortage::Component));
            }
            if is_stuck(agent, waiter.bytes)
                && let Some(at) = refused(&|other| Arc::ptr_eq(&other.share.agent, agent))
            {
                return Some((at, MemoryShortage::Agent));
            }
        }
        let is_stuck = held_by_waiters >= self.held.load(SeqCst);
        refused(&|_| is_stuck).map(|at| (at, MemoryShortage::Process))
    }

    fn queue(&self) -> MutexGuard<'_, MemoryQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryWaiter {
    /// Returns the sort key of the waiter; the lowest is served first.
    fn rank(&self) -> (usize, bool, Reverse<usize>, u64) {
        (self.share.component.held(), self.is_new, Reverse(self.holds), self.id)
    }
}

impl MemoryAccount {
    fn held(&self) -> usize {
        self.0.load(SeqCst)
    }
}

/// Adds to a counter unless it would exceed `most`; returns `true` if it was added.
fn add(counter: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let mut held = counter.load(SeqCst);
    loop {
        let Some(sum) = held.checked_add(bytes) else { return false };
        if sum > most {
            return false;
        }
        match counter.compare_exchange_weak(held, sum, SeqCst, SeqCst) {
            Ok(_) => return true,
            Err(now) => held = now,
        }
    }
}

impl MemoryShare {
    pub fn new(budget: Arc<GuestMemoryBudget>, component: Arc<MemoryAccount>, agent: Arc<MemoryAccount>) -> Self {
        Self { budget, component, agent }
    }

    pub fn budget(&self) -> &GuestMemoryBudget {
        &self.budget
    }
}

impl MemoryReservation {
    /// Creates an empty reservation.
    pub fn new(share: Arc<MemoryShare>) -> Self {
        Self { share, bytes: 0 }
    }

    pub fn budget(&self) -> &GuestMemoryBudget {
        &self.share.budget
    }

    /// Returns the bytes that are still to be reserved for an instance that is to hold `bytes`.
    fn lacking(&self, bytes: usize) -> usize {
        // In whole pages, so that small tables cost no step of their own.
        bytes.div_ceil(limits::WASM_PAGE_BYTES).saturating_mul(limits::WASM_PAGE_BYTES).saturating_sub(self.bytes)
    }

    /// Reserves what an instance needs to hold `bytes`, if there is enough and nobody waits.
    ///
    /// # Errors
    ///
    /// [`MemoryRefusal`] if there is too little; [`MemoryReservation::wait`] then waits for it.
    pub fn try_reserve(&mut self, bytes: usize, is_new: bool) -> Result<(), MemoryRefusal> {
        if self.share.budget.waiting.load(SeqCst) > 0 && self.lacking(bytes) > 0 {
            let (bytes, shortage) = (self.lacking(bytes), MemoryShortage::Process);
            return Err(MemoryRefusal { bytes, shortage, reason: MemoryRefusalReason::CannotWait });
        }
        self.reserve_now(bytes, is_new)
    }

    /// Reserves like [`MemoryReservation::try_reserve`], but ahead of the waiters, for a call that cannot wait.
    ///
    /// # Errors
    ///
    /// [`MemoryRefusal`] if there is too little.
    pub fn reserve_now(&mut self, bytes: usize, is_new: bool) -> Result<(), MemoryRefusal> {
        let lacking = self.lacking(bytes);
        if lacking > 0 {
            let taken = self.share.budget.try_take_unqueued(&self.share, lacking, is_new);
            let refusal =
                |shortage| MemoryRefusal { bytes: lacking, shortage, reason: MemoryRefusalReason::CannotWait };
            taken.map_err(refusal)?;
            self.bytes += lacking;
        }
        Ok(())
    }

    /// Waits for what [`MemoryReservation::try_reserve`] did not get. `begin` is called if it is not available at once.
    ///
    /// # Errors
    ///
    /// [`MemoryRefusal`], after which the call must end.
    pub async fn wait(
        &mut self,
        bytes: usize,
        is_new: bool,
        begin: impl AsyncFnOnce(GuestMemoryUse),
    ) -> Result<(), MemoryRefusal> {
        let lacking = self.lacking(bytes);
        let refusal = |shortage, reason| Err(MemoryRefusal { bytes: lacking, shortage, reason });
        let budget = Arc::clone(&self.share.budget);
        if self.bytes.saturating_add(lacking) > budget.most_of_one() {
            return refusal(MemoryShortage::Component, MemoryRefusalReason::BeyondShare);
        }
        let mut waiting = PendingReservation::enter(self, lacking, is_new);
        let decision = match waiting.decision.try_recv() {
            Ok(decision) => decision,
            Err(_) => {
                let most = if is_new { limits::PLUGIN_PERMIT_WAIT } else { limits::GUEST_MEMORY_WAIT };
                begin(budget.usage()).await;
                match timeout(most, &mut waiting.decision).await {
                    // The queue answers every waiter before it drops the sender.
                    Ok(decision) => {
                        decision.unwrap_or_else(|_| refusal(MemoryShortage::Process, MemoryRefusalReason::CannotWait))
                    }
                    Err(_) => match waiting.leave() {
                        Some(decision) => decision,
                        None => {
                            // A last attempt, which finds out the bound that is exceeded.
                            let taken = budget.try_take_unqueued(&self.share, lacking, is_new);
                            taken.or_else(|shortage| refusal(shortage, MemoryRefusalReason::WaitedTooLong))
                        }
                    },
                }
            }
        };
        waiting.is_over = true;
        drop(waiting);
        decision.map(|()| self.bytes += lacking)
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.share.budget.give_back(&self.share, self.bytes);
        }
    }
}

/// A call in the queue. Dropping it leaves the queue, and returns what was granted meanwhile.
struct PendingReservation {
    id: u64,
    share: Arc<MemoryShare>,
    bytes: usize,
    decision: oneshot::Receiver<Result<(), MemoryRefusal>>,
    is_over: bool,
}

impl PendingReservation {
    fn enter(reservation: &MemoryReservation, bytes: usize, is_new: bool) -> Self {
        let (share, holds) = (Arc::clone(&reservation.share), reservation.bytes);
        let (sender, decision) = oneshot::channel();
        let budget = &reservation.share.budget;
        let mut queue = budget.queue();
        let id = queue.next_id;
        queue.next_id += 1;
        queue.waiters.push(MemoryWaiter { id, share: Arc::clone(&share), bytes, holds, is_new, decision: sender });
        budget.waiting.store(queue.waiters.len(), SeqCst);
        budget.serve(&mut queue);
        drop(queue);
        Self { id, share, bytes, decision, is_over: false }
    }

    /// Leaves the queue; returns the answer that arrived before that.
    fn leave(&mut self) -> Option<Result<(), MemoryRefusal>> {
        let budget = &self.share.budget;
        let mut queue = budget.queue();
        queue.waiters.retain(|waiter| waiter.id != self.id);
        // The waiters behind it may be served now.
        budget.serve(&mut queue);
        drop(queue);
        self.decision.try_recv().ok()
    }
}

impl Drop for PendingReservation {
    fn drop(&mut self) {
        if !self.is_over
            && let Some(Ok(())) = self.leave()
        {
            self.share.budget.give_back(&self.share, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests;
