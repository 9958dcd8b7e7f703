//! WASI's clocks: the machine's if `clock` is granted, otherwise ones that reveal nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use wasmtime::component::{HasData, HasSelf, Linker, Resource, ResourceTable};
use wasmtime_wasi::p2::{
    DynPollable, Pollable,
    bindings::clocks::{
        monotonic_clock,
        wall_clock::{self, Datetime},
    },
    subscribe,
};

use crate::{
    contract::ImportedInterface,
    store::{FrozenClock, PluginState},
};

/// The number of milliseconds in a second.
const THOUSAND: u64 = 1_000;
/// The number of nanoseconds in a millisecond.
const NANOS: u32 = 1_000_000;

/// Links the clocks of the machine, or frozen ones.
pub fn link(linker: &mut Linker<PluginState>, is_granted: bool) -> wasmtime::Result<()> {
    if is_granted {
        type Own = HasSelf<PluginState>;
        wall_clock::add_to_linker::<_, Own>(linker, |state| state.called(ImportedInterface::WasiClocks))?;
        monotonic_clock::add_to_linker::<_, Own>(linker, |state| state.called(ImportedInterface::WasiClocks))
    } else {
        wall_clock::add_to_linker::<_, HasFrozenClock>(linker, |state| {
            FrozenClockView(state.called(ImportedInterface::WasiClocks))
        })?;
        monotonic_clock::add_to_linker::<_, HasFrozenClock>(linker, |state| {
            FrozenClockView(state.called(ImportedInterface::WasiClocks))
        })
    }
}

/// The marker of the frozen clocks for the linker.
struct HasFrozenClock;

impl HasData for HasFrozenClock {
    type Data<'a> = FrozenClockView<'a>;
}

/// A view of the frozen clocks of one instance.
struct FrozenClockView<'a>(&'a mut PluginState);

impl FrozenClockView<'_> {
    fn clock(&self) -> &FrozenClock {
        &self.0.base.frozen
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl wall_clock::Host for FrozenClockView<'_> {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: 0, nanoseconds: 0 })
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: 0, nanoseconds: NANOS })
    }
}

impl monotonic_clock::Host for FrozenClockView<'_> {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.clock().read())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(FrozenClock::step())
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let left = self.clock().until(when);
        self.subscribe_duration(left)
    }

    fn subscribe_duration(&mut self, nanos: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let shows = self.clock().after(nanos);
        timer(&mut self.0.table, nanos, Some(shows))
    }
}

impl wall_clock::Host for PluginState {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        let millis = self.wall_clock();
        Ok(Datetime { seconds: millis / THOUSAND, nanoseconds: (millis % THOUSAND) as u32 * NANOS })
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: 0, nanoseconds: NANOS })
    }
}

impl monotonic_clock::Host for PluginState {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.monotonic_clock())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(1)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let left = match &self.fixed {
            Some(fixed) => fixed.clock.until(when),
            None => when.saturating_sub(nanos(self.started.elapsed())),
        };
        self.subscribe_duration(left)
    }

    fn subscribe_duration(&mut self, nanos: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let shows = self.fixed.as_ref().map(|fixed| fixed.clock.after(nanos));
        timer(&mut self.table, nanos, shows)
    }
}

/// Creates a pollable that is ready after `nanos` nanoseconds. It takes two handles.
fn timer(
    table: &mut ResourceTable,
    nanos: u64,
    shows: Option<(Arc<AtomicU64>, u64)>,
) -> wasmtime::Result<Resource<DynPollable>> {
    let wait = match nanos {
        0 => GuestTimerWait::GiveWay,
        // No call lasts until a time that cannot be represented.
        nanos => {
            Instant::now().checked_add(Duration::from_nanos(nanos)).map_or(GuestTimerWait::Never, GuestTimerWait::Until)
        }
    };
    let timer = table.push(GuestTimer { wait, shows })?;
    subscribe(table, timer)
}

/// A wait, and the value that the frozen clock shows after it.
struct GuestTimer {
    wait: GuestTimerWait,
    shows: Option<(Arc<AtomicU64>, u64)>,
}

enum GuestTimerWait {
    /// Ready after one yield to other tasks, so that a guest that polls something in a loop lets it become ready.
    GiveWay,
    /// Ready: the yield has happened.
    Over,
    Until(Instant),
    Never,
}

#[wasmtime_wasi::async_trait]
impl Pollable for GuestTimer {
    async fn ready(&mut self) {
        match self.wait {
            GuestTimerWait::Over => {}
            GuestTimerWait::GiveWay => {
                self.wait = GuestTimerWait::Over;
                tokio::task::yield_now().await;
            }
            GuestTimerWait::Until(then) => sleep_until(then).await,
            GuestTimerWait::Never => std::future::pending().await,
        }
        if let Some((shown, then)) = &self.shows {
            shown.fetch_max(*then, Relaxed);
        }
    }
}
