use std::time::{SystemTime, UNIX_EPOCH};

use crate::{bindings::imports::clock, store::PluginState};

impl clock::Host for PluginState {
    async fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.wall_clock())
    }

    async fn monotonic(&mut self) -> wasmtime::Result<u64> {
        Ok(self.monotonic_clock())
    }
}

impl PluginState {
    /// Returns the milliseconds since 1970.
    pub(super) fn wall_clock(&mut self) -> u64 {
        let millis = match &self.fixed {
            Some(fixed) => fixed.wall_millis().into(),
            None => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis(),
        };
        self.reading(millis)
    }

    /// Returns the nanoseconds since the instance's state was created.
    pub(super) fn monotonic_clock(&mut self) -> u64 {
        let nanos = match &self.fixed {
            Some(fixed) => fixed.clock.read().into(),
            None => self.started.elapsed().as_nanos(),
        };
        self.reading(nanos)
    }

    fn reading(&mut self, reading: u128) -> u64 {
        let reading = u64::try_from(reading).unwrap_or(u64::MAX);
        self.give(|given| given.clock(reading));
        reading
    }
}
