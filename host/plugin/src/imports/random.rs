use wasmtime::bail;

use crate::{bindings::imports::random, store::PluginState};
use shelly_core::limits;

impl random::Host for PluginState {
    async fn bytes(&mut self, len: u32) -> wasmtime::Result<Vec<u8>> {
        self.chance(len.into())
    }
}

impl PluginState {
    /// Returns `len` random bytes.
    pub(super) fn chance(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        let mut bytes = self.room_for_random(len)?;
        match &mut self.fixed {
            Some(fixed) => fixed.random.fill(&mut bytes),
            None => getrandom::fill(&mut bytes)
                .map_err(|error| wasmtime::format_err!("cannot get random bytes from the system: {error}"))?,
        }
        self.give(|given| given.random(&bytes));
        Ok(bytes)
    }

    /// Returns a buffer of `len` zero bytes, if that is within the bound of one request and of the call.
    pub(super) fn room_for_random(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        if len > limits::RANDOM_BYTES.into() {
            bail!("{len} random bytes were requested, the maximum is {}", limits::RANDOM_BYTES);
        }
        self.hand(len as usize)?;
        Ok(vec![0; len as usize])
    }
}
