//! What calls of plugins share, and how it is shared out: places, turns on the processor, calls of imported functions.

use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout},
};

use super::Limits;
use crate::limits;

/// Turns on the processor, each for one poll of a call that computes: on all cores but one, at least on one. First come,
/// first served.
#[derive(Debug)]
pub struct Turns(Semaphore);

impl Turns {
    pub fn new() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self(Semaphore::new(cores.saturating_sub(1).max(1)))
    }
}

/// What all calls of one plugin of one agent share.
#[derive(Debug)]
pub struct Share {
    places: Semaphore,
    /// Who computes first takes a turn among the calls of its own plugin, so that a plugin with many calls waits in the line
    /// of all plugins no more often than one with few.
    turns: Turns,
    host_calls_per_second: u32,
    /// Until when the calls of imported functions that were made have used up what was allowed.
    host_calls_paid: Mutex<Option<Instant>>,
}

/// A turn on the processor; it ends when it is dropped.
pub struct Turn<'a> {
    _of_plugin: SemaphorePermit<'a>,
    _of_all: SemaphorePermit<'a>,
}

impl Share {
    pub fn new(limits: &Limits) -> Self {
        Self {
            places: Semaphore::new(limits.concurrency as usize),
            turns: Turns::new(),
            host_calls_per_second: limits.host_calls_per_second,
            host_calls_paid: Mutex::default(),
        }
    }

    /// A place among the calls of its plugin.
    pub async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.places.acquire().await.ok()
    }

    /// A turn among the calls of its plugin, and among those of all; none if it does not come in a long time, because one
    /// who has a turn is not driven: that must not stop everybody.
    pub async fn turn<'a>(&'a self, all: &'a Turns) -> Option<Turn<'a>> {
        let both = async {
            let _of_plugin = self.turns.0.acquire().await.ok()?;
            Some(Turn { _of_plugin, _of_all: all.0.acquire().await.ok()? })
        };
        timeout(limits::PLUGIN_TURN_WAIT, both).await.ok().flatten()
    }

    /// Until when a call waits before it begins, because those before it called imported functions too often; none: it
    /// begins now.
    pub fn pause(&self) -> Option<Instant> {
        let paid = *self.host_calls_paid.lock().unwrap_or_else(PoisonError::into_inner);
        paid.and_then(|until| pause_until(until, Instant::now()))
    }

    /// Until when a call waits that has just called imported functions so often; none: it goes on.
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

    fn share(host_calls_per_second: u32) -> Share {
        Share::new(&Limits { host_calls_per_second, ..Limits::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_of_calls_comes_at_once_and_the_rest_in_time() {
        let share = share(10);
        let start = Instant::now();
        let seconds = |calls: u64| share.pay(calls).map(|until| (until - start).as_secs_f64());
        assert_eq!(seconds(0), None);
        assert_eq!(seconds(10), None);
        assert_eq!(seconds(1), Some(0.1));
        assert_eq!(seconds(20), Some(2.1));
        assert_eq!(share.pause().map(|until| (until - start).as_secs_f64()), Some(2.1));
        // What was not used in time is gone, but for a second's worth.
        tokio::time::advance(limits::PLUGIN_PLACE_WAIT).await;
        assert_eq!((share.pause(), share.pay(10), share.pause()), (None, None, None));
        assert!(share.pay(1).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn one_plugin_with_many_calls_waits_in_line_like_one_with_few() {
        let (all, many, few) = (Turns(Semaphore::new(1)), share(1), share(1));
        let order = Mutex::new(Vec::new());
        let first = few.turn(&all).await;
        let take = async |share: &Share, name: &'static str| {
            let turn = share.turn(&all).await;
            order.lock().unwrap().push(name);
            tokio::task::yield_now().await;
            drop(turn);
        };
        let crowd = async { futures_util::future::join_all((0..20).map(|_| take(&many, "many"))).await };
        let single = async {
            tokio::task::yield_now().await;
            take(&few, "few").await;
        };
        let start = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            drop(first);
        };
        tokio::join!(crowd, single, start);
        let order = order.into_inner().unwrap();
        let at = order.iter().position(|name| *name == "few").unwrap();
        let ahead = thread::available_parallelism().map_or(1, usize::from);
        assert!(order.len() == 21 && at <= ahead, "{order:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_is_not_driven_stops_nobody_for_ever() {
        let (all, one, other) = (Turns(Semaphore::new(1)), share(1), share(1));
        let held = one.turn(&all).await;
        let start = Instant::now();
        assert!(held.is_some() && other.turn(&all).await.is_none());
        assert_eq!(start.elapsed(), limits::PLUGIN_TURN_WAIT);
        drop(held);
        assert!(other.turn(&all).await.is_some());
    }
}
