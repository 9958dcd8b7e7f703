//! What a call takes, measured poll by poll, and the waits that are put between its polls.

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

use super::{PluginQuota, quotas::CpuQueue};
use crate::limits;

/// What one call has taken so far: shared between its store, which counts, and whoever drives it.
#[derive(Debug, Default)]
pub struct CallMeter {
    /// How long it has waited for whoever watches.
    pub waits: ReaderWaits,
    host_calls: AtomicU64,
    at_once: AtomicU64,
    cpu_nanos: AtomicU64,
    gave_way: AtomicBool,
    was_slowed: AtomicBool,
}

/// Why a call was not driven to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExceededTimeLimit {
    /// Wall time.
    Time,
    /// Time on the processor.
    Cpu,
}

impl CallMeter {
    /// So many more calls of imported functions, or what takes as much.
    pub fn count_host_calls(&self, calls: u64) {
        self.host_calls.fetch_add(calls, Relaxed);
    }

    /// One of these calls took the call's own time on the processor and nothing else: that is bounded by itself, and nobody is
    /// slowed down for it.
    pub fn count_at_once(&self) {
        self.at_once.fetch_add(1, Relaxed);
    }

    /// The guest was made to give way in the middle of its work.
    pub fn give_way(&self) {
        self.gave_way.store(true, Relaxed);
    }

    /// Calls of imported functions, and what was counted as such.
    pub fn host_calls(&self) -> u64 {
        self.host_calls.load(Relaxed)
    }

    /// Time on the processor, also where the host does something at once for it, as reading a file that is in memory. What the
    /// host does on threads of its own for it is not in it.
    pub fn cpu(&self) -> Duration {
        Duration::from_nanos(self.cpu_nanos.load(Relaxed))
    }

    /// Whether it was held back because its plugin called imported functions too often.
    pub fn was_slowed(&self) -> bool {
        self.was_slowed.load(Relaxed)
    }

    /// Drives a call to its end, or until it has taken more than it may: `time` on the wall, waits for readers left out, or
    /// `cpu` on the processor.
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
            // While it waits, what is left does not shrink: look again, but not all the time.
            if let Ok(ended) = timeout(left.max(limits::EPOCH_TICK), &mut call).await {
                return ended;
            }
        }
    }

    /// Polls a call, each poll measured, and puts waits between them. The first poll, in which most calls end, is measured on
    /// the wall, which is never less than it computed: asking how long a thread has computed takes a tenth of a small call. A
    /// guest gives way at the next tick, so little is counted that was somebody else's. A call that has computed for longer than a tick takes
    /// a turn for each further poll, so that however many compute, a core is left for everything else. One that calls
    /// imported functions too often is delayed, not refused: a guest cannot know how fast it may be, and what it waits is
    /// its own time.
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
            // A poll stays on its thread.
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
            // Who gives way keeps the turn until everything else that can go on, timers too, has gone on. Who waits for
            // something does not compute: it is somebody else's turn.
            let turn = turn.filter(|_| self.gave_way.load(Relaxed));
            woken().await;
            drop(turn);
        }
    }
}

/// Waits until the task is woken, by whatever was polled before in the same turn.
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

    /// The processor's time of this thread; where there is no such clock, as if nobody else used the processor.
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

/// The time that this thread has spent on the processor since some moment.
#[cfg(unix)]
fn time_on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

/// The time that a call has waited for a slow reader. It is not the guest's: a guest must not fail because somebody
/// reads slowly.
#[derive(Debug, Default)]
pub struct ReaderWaits(Mutex<ReaderWaitTotals>);

#[derive(Debug, Default)]
struct ReaderWaitTotals {
    over: Duration,
    since: Option<Instant>,
}

impl ReaderWaits {
    /// A wait that ends when the result is dropped. A guest does one thing at a time, so there is one at most.
    pub fn begin(&self) -> ReaderWaitGuard<'_> {
        self.change(|waits| waits.since = Some(Instant::now()));
        ReaderWaitGuard(self)
    }

    /// All waits together, the one under way included, up to [`limits::READER_WAIT`].
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
