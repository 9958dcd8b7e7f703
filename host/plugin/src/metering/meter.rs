//! Metering of one call, poll by poll, and the delays between its polls.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use tokio::time::{Instant, sleep_until, timeout};

use super::quotas::{CpuQueue, PluginQuota};
use crate::contract::ImportedInterface;
use shelly_core::{event::ImportCalls, limits};

/// The consumption of one call, shared between its store, which counts, and the task that drives it.
#[derive(Debug, Default)]
pub struct CallMeter {
    /// The time that the call has waited for slow readers of its events.
    pub waits: ReaderWaits,
    host_calls: AtomicU64,
    /// The calls of each interface, at the position of its number.
    import_calls: [AtomicU64; ImportedInterface::ALL.len()],
    at_once: AtomicU64,
    cpu_nanos: AtomicU64,
    gave_way: AtomicBool,
    was_slowed: AtomicBool,
}

/// The time limit that a call exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceededTimeLimit {
    /// Wall time.
    Time,
    /// Processor time.
    Cpu,
}

impl CallMeter {
    /// Counts calls of imported functions, or work of the same cost.
    pub fn count_host_calls(&self, calls: u64) {
        self.host_calls.fetch_add(calls, Relaxed);
    }

    /// Counts one call of a function of this interface.
    pub fn count_import_call(&self, interface: ImportedInterface) {
        self.count_host_calls(1);
        self.import_calls[interface as usize].fetch_add(1, Relaxed);
    }

    /// Marks one of these calls as done in the call's own processor time. That time has its own limit, so the call is
    /// not slowed down for it.
    pub fn count_at_once(&self) {
        self.at_once.fetch_add(1, Relaxed);
    }

    /// Records that the guest yielded in the middle of its work.
    pub fn give_way(&self) {
        self.gave_way.store(true, Relaxed);
    }

    /// Returns the number of calls of imported functions, and of what was counted as such.
    pub fn host_calls(&self) -> u64 {
        self.host_calls.load(Relaxed)
    }

    /// Returns the calls of each interface that was called.
    pub fn import_calls(&self) -> Vec<ImportCalls> {
        let calls = ImportedInterface::ALL.into_iter().zip(&self.import_calls);
        let calls =
            calls.map(|(interface, calls)| ImportCalls { interface: interface.name(), calls: calls.load(Relaxed) });
        calls.filter(|one| one.calls > 0).collect()
    }

    /// Returns the processor time, including host work done on the call's own thread, such as reading a file that is in
    /// memory. Work that the host does on other threads is not included.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Relaxed))
    }

    /// Returns `true` if the call was delayed because its plugin called imported functions too often.
    pub fn was_slowed(&self) -> bool {
        self.was_slowed.load(Relaxed)
    }

    /// Drives a call to its end, or until it exceeds a limit: `time` of wall time, without waits for readers, or `cpu`
    /// of processor time.
    pub async fn drive<R>(
        &self,
        share: &PluginQuota,
        turns: &CpuQueue,
        (time, cpu): (Duration, Duration),
        call: impl Future<Output = R>,
    ) -> Result<R, ExceededTimeLimit> {
        let started = Instant::now();
        let mut call = pin!(self.by_turns(share, turns, cpu, call));
        loop {
            let left = (time + self.waits.total()).checked_sub(started.elapsed()).filter(|left| !left.is_zero());
            let left = left.ok_or(ExceededTimeLimit::Time)?;
            // While the call waits for a reader its remaining time does not shrink, so poll again, but not constantly.
            if let Ok(ended) = timeout(left.max(limits::EPOCH_TICK), &mut call).await {
                return ended;
            }
        }
    }

    /// Polls a call, measures each poll, and delays the next one where necessary.
    ///
    /// The first poll, in which most calls end, is measured in wall time, which is never less than the processor time:
    /// reading the thread's processor clock takes a tenth of a small call. A guest yields at the next tick, so little
    /// of that time belongs to others. A call that has computed for longer than a tick takes a turn for each further
    /// poll, so that one core stays free however many calls compute. A call that calls imported functions too often is
    /// delayed, not refused: a guest cannot know the rate that it may have. The delay counts as its own time.
    async fn by_turns<R>(
        &self,
        share: &PluginQuota,
        turns: &CpuQueue,
        cpu: Duration,
        call: impl Future<Output = R>,
    ) -> Result<R, ExceededTimeLimit> {
        let (mut call, mut paid_calls, mut is_first) = (pin!(call), 0, true);
        let mut pause = share.pause();
        loop {
            if let Some(until) = pause {
                self.was_slowed.store(true, Relaxed);
                sleep_until(until).await;
            }
            let turn = if self.cpu() >= limits::EPOCH_TICK { share.turn(turns).await } else { None };
            self.gave_way.store(false, Relaxed);
            let clock = if is_first { PollClock::wall() } else { PollClock::of_this_thread() };
            is_first = false;
            let polled = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
            // A poll stays on one thread, so its clock is consistent.
            self.cpu_nanos.fetch_add(u64::try_from(clock.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
            let calls = self.host_calls() - self.at_once.load(Relaxed);
            pause = share.pay(calls - paid_calls);
            paid_calls = calls;
            if let Poll::Ready(value) = polled {
                return Ok(value);
            }
            if self.cpu() > cpu {
                return Err(ExceededTimeLimit::Cpu);
            }
            // A call that yielded keeps the turn until everything else that is ready, timers included, has run. A call
            // that waits does not compute, so it gives up the turn.
            let turn = turn.filter(|_| self.gave_way.load(Relaxed));
            woken().await;
            drop(turn);
        }
    }
}

/// Waits until the task is woken by whatever the last poll registered.
async fn woken() {
    let mut is_woken = false;
    poll_fn(|_| if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// The clock that measures a poll.
enum PollClock {
    Wall(std::time::Instant),
    #[cfg(unix)]
    Thread(Duration),
}

impl PollClock {
    fn wall() -> Self {
        Self::Wall(std::time::Instant::now())
    }

    /// Returns the processor clock of this thread, or the wall clock where there is no such clock.
    fn of_this_thread() -> Self {
        #[cfg(unix)]
        return Self::Thread(time_on_processor());
        #[cfg(not(unix))]
        return Self::wall();
    }

    fn elapsed(&self) -> Duration {
        match self {
            Self::Wall(started) => started.elapsed(),
            #[cfg(unix)]
            Self::Thread(before) => time_on_processor().saturating_sub(*before),
        }
    }
}

/// Returns the processor time of this thread, from an arbitrary origin.
#[cfg(unix)]
fn time_on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// The time that a call has waited for a slow reader of its events. It is not counted as the guest's: a guest must not
/// fail because somebody reads slowly.
#[derive(Debug, Default)]
pub struct ReaderWaits(Mutex<ReaderWaitTotals>);

#[derive(Debug, Default)]
struct ReaderWaitTotals {
    over: Duration,
    since: Option<Instant>,
}

impl ReaderWaits {
    /// Begins a wait that ends when the result is dropped. A guest does one thing at a time, so there is at most one.
    pub fn begin(&self) -> ReaderWaitGuard<'_> {
        self.change(|waits| waits.since = Some(Instant::now()));
        ReaderWaitGuard(self)
    }

    /// Returns the sum of all waits, the current one included, up to [`limits::READER_WAIT`].
    fn total(&self) -> Duration {
        let total = self.change(|waits| waits.over + waits.since.map_or(Duration::ZERO, |since| since.elapsed()));
        total.min(limits::READER_WAIT)
    }

    fn change<R>(&self, change: impl FnOnce(&mut ReaderWaitTotals) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A wait under way.
pub struct ReaderWaitGuard<'a>(&'a ReaderWaits);

impl Drop for ReaderWaitGuard<'_> {
    fn drop(&mut self) {
        self.0.change(|waits| waits.over += waits.since.take().map_or(Duration::ZERO, |since| since.elapsed()));
    }
}
